"""Sentences about a home: clause by clause the things that may be meant, and in which directions from the agent they are."""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator

from vagen_rewards.rules.lexicon import nouns
from vagen_rewards.rules.modality import DENIALS, denies, hedges, mentions
from vagen_rewards.rules.readings import read

_AGENT = r"(?:i|me|my|agent|robot|player|myself)"
_IMAGE = r"(?:my |the )?(?:current )?(?:field of )?(?:view|image|picture|frame|scene|screen|camera|vision|sight)"
_ROOM = r"(?:the |this )?(?:room|kitchen|bedroom|bathroom|living room|hallway|house)"
_VIEW = (
    r"(?:me|us|(?:the )?(?:agent|robot|player)|where (?:i|the agent|the robot)|my (?:current )?position"
    rf"|{_IMAGE}|{_ROOM})"
)
_TARGET_WORDS = ("target", "target object", "target item", "goal object", "object of interest", "target location")
ANY_TARGET = "*"
_DISTANCE = re.compile(r"\d+(?:\.\d+)? ?m(?:et(?:er|re)s?)?\b(?: away)?")
_AUXILIARY = re.compile(
    r"\bcan (?=(?:be|see|also|now|still|clearly|easily|only|just|find|spot|observe|notice|reach)\b)"
)
"""No can."""

_NO_WAY = re.compile(
    r"\bleft (?:behind|over|out)\b|\ball right\b|\bright (?:away|one)\b"
    r"|\b(?:is|are|be|seems|looks|feels)(?: quite| very| perfectly)? safe\b"
)
"""Words that only look like directions."""

_CLOCK = re.compile(
    r"\b(?:my |the |about |around |roughly )*(\d{1,2}|[a-z]{3,6})[ -]?o ?'? ?clock(?: (?:position|direction))?"
)
_HOURS = ("twelve", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven")
_AT_HOUR = ("ahead", "ahead", *["on the right"] * 3, *["behind me"] * 3, *["on the left"] * 3, "ahead")
_DEGREES = re.compile(r"(\d{1,3}) ?(?:degrees?|°)((?: [a-z]+){0,3}? (?:to |on )?(?:the |my )?(?:left|right))\b")
_PLACE_ALONE = re.compile(
    r"\s*(?:(?:to|on|at|in|from|the|my|me|of|agent|agent's|robot|player|view|image|picture|frame|side|hand|far|directly"
    r"|straight|slightly|right|left|ahead|forwards?|front|behind|back|off|just|over|there|-)[ -]*)+"
)
_CLAUSE = re.compile(
    r",(?! ?(?:(?:and|but|to|on|the|my|a|at|slightly|directly|just|bit|little|also|off|somewhat) )*"
    r"(?:left|right|ahead|forward)\b(?!,? (?:i|there|we|is|are|stands|lies)\b))"
    r"|\b(?:and|while|whereas|but|with|then|since|because)\b(?! ?(?:to the |slightly |a (?:little|bit) |somewhat |also |directly |just )*(?:left|right|ahead|forward|back))"
)
_DIRECTION = (
    r"\b(?P<slightly>(?:slightly|a bit|a little|somewhat|diagonally) (?:(?:to|on) (?:the|my) )?)?"
    rf"(?:(?P<ahead>ahead|forwards?|straight|front|before(?= me\b)|(?:cent(?:er|re)|middle)(?= of {_IMAGE}\b))"
    r"|(?P<left>left(?:ward|wards)?)"
    r"|(?P<right>(?:(?<=\bthe )|(?<=\bmy ))right"
    r"|right(?:ward|wards)?(?! (?:ahead|in front|behind|here|there|next|now)\b))"
    rf"|(?P<back>behind|rear|back(?:ward|wards)?))\b(?P<of>(?:[ -]?hand)?(?: side)? of (?!{_VIEW}\b))?"
)
_DIRECTIONS = re.compile(rf"\b(?=[abcdflmrs])(?P<not>(?!))?{_DIRECTION}")
_DENIED_TOO = re.compile(rf"(?P<not>\b(?:no|without|{DENIALS})\b[a-z ']{{0,60}}?)?{_DIRECTION}")
_OF_ANOTHER = re.compile(r" (?:the|an?|it|that|this|some)\b(?! (?:agent|robot|player|camera|viewer)\b)")
"""After "behind": what is no direction from the agent."""

_FAR_END = re.compile(rf" of (?:{_ROOM}|{_IMAGE})\b")
"""After "back": the far end of what is seen, which is in front."""

_ADJECTIVE = re.compile(
    r"\bthe (?:left|right)(?= (?!side|hand|part|half|edge|corner|of|and|end)[a-z])"
    + "".join(
        f"(?<!{before} the {way})" for before in ("to", "on", "at", "in", "from", "off") for way in ("left", "right")
    )
)
"""Neither in "the right lamp"."""

_FACING = re.compile(rf"\b{_AGENT} (?:am|is|will be|face)(?: (?:now|currently|directly|already))*(?: facing)?\b")
_ON_IT = re.compile(r"\bon (?:it|top|which)\b")
_SIDE_OF_ME = re.compile(rf"\b{_AGENT} (?:am|is|will be) (?:now )?(?:to|on|at) the (?:left|right)")
_WORD = re.compile(r"[^\W_]+")
_IT = re.compile(r"\s*(?:it|which)\b")
_MOVE = re.compile(r"\b(?:mov\w*|go|going|head\w*|turn\w*|rotat\w*|walk\w*|step\w*|approach\w*)\b")
NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+")


_VOCABULARY: dict[str, list[tuple[str, bool]]] = {phrase: [(ANY_TARGET, False)] for phrase in _TARGET_WORDS}
"""Phrases, with the types each may mean, and whether it is only the last word of the type's name ("lamp")."""

_FIRST_WORDS: set[str] = {phrase.split(" ", 1)[0] for phrase in _TARGET_WORDS}
KNOWN: set[str] = set()
_learning = threading.Lock()


def learn(kind: str) -> None:
    """Add what an AI2-THOR type goes by in English."""
    with _learning:
        parts = [part.lower() for part in NAME.findall(kind)] or [kind.lower()]
        names = dict.fromkeys((" ".join(parts), "".join(parts), *nouns("navigation").get(kind, ())))
        for phrase in dict.fromkeys((*names, parts[-1])):
            _VOCABULARY.setdefault(phrase, []).append((kind, phrase not in names))
            _FIRST_WORDS.add(phrase.split(" ", 1)[0])
        for cache in (clauses_of, read):
            cache.cache_clear()
        KNOWN.add(kind)


WAYS = ("ahead", "left", "right", "back")
EVERYWHERE = frozenset(WAYS)
NOWHERE: frozenset[str] = frozenset()
Where = tuple[frozenset[str], frozenset[str], frozenset[str]]
"""Directions in a description, in a prediction, and denied."""

Clause = tuple[tuple[tuple[str, bool], ...], Where, bool, bool, bool]

Candidates = tuple[tuple[str, bool], ...]


def turns_of(text: str) -> str:
    """With hours and angles as directions, and without distances."""
    if " m" in text or "m " in text:
        text = _DISTANCE.sub("", text)
    if "clock" in text:
        text = _CLOCK.sub(lambda match: _at_hour(match[1]) or match[0], text)
    if "degree" in text or "°" in text:
        text = _DEGREES.sub(
            lambda match: "ahead" if int(match[1]) < 45 else "behind me" if int(match[1]) > 135 else match[2], text
        )
    return text


def _at_hour(hour: str) -> str:
    number = int(hour) if hour.isdecimal() else _HOURS.index(hour) if hour in _HOURS else 99
    return _AT_HOUR[number % 12] if number <= 12 else ""


@functools.lru_cache(maxsize=65536)
def clauses_of(sentence: str) -> tuple[bool, bool, tuple[Clause, ...]]:
    """Whether it begins with "it", whether there is a doubt in it, and its clauses.

    Of each clause the types that may be meant, where something is and isn't, whether something moves, whether it
    is nothing but a place ("to the left, …"), and whether something is on what was named before.
    """
    clauses = []
    if "can " in sentence:
        sentence = _AUXILIARY.sub("", sentence)
    if mentions(sentence, (" safe", "left ", "all right", "right a", "right one")):
        sentence = _NO_WAY.sub("", sentence)
    for clause in _CLAUSE.split(sentence):
        if not clause or clause.isspace():
            continue
        alone = _PLACE_ALONE.fullmatch(clause) is not None
        candidates, moving = tuple(candidates_of(clause)), _MOVE.search(clause) is not None
        where = directions_of(clause, bool(candidates))
        clauses.append((candidates, where, moving, alone, _ON_IT.search(clause) is not None))
    return _IT.match(sentence) is not None, hedges(sentence), tuple(clauses)


def candidates_of(clause: str) -> Iterator[tuple[str, bool]]:
    """The types that one to three words in a row are names of, the longest first, also without a plural's ending."""
    words = _WORD.findall(clause)
    end = 0
    for i, word in enumerate(words):
        if i < end or (
            word not in _FIRST_WORDS and word.rstrip("s") not in _FIRST_WORDS and word[:-2] not in _FIRST_WORDS
        ):
            continue
        for j in range(min(i + 3, len(words)), i, -1):
            phrase = " ".join(words[i:j])
            meant = [*_VOCABULARY.get(phrase, ())]
            for ending in ("s", "es"):
                if phrase.endswith(ending):
                    meant += _VOCABULARY.get(phrase.removesuffix(ending), ())
            if meant:
                yield from meant
                end = j  # a floor lamp is no lamp of another kind
                break


def directions_of(clause: str, named: bool) -> Where:
    """The directions that are said and those that are denied; "in front of me" is one only without a prediction."""
    yes: set[str] = set()
    no: set[str] = set()
    facing = _FACING.search(clause) if named and "fac" in clause and "away" not in clause else None
    in_front = facing is not None and "fac" in facing[0]
    if "the left" in clause or "the right" in clause:
        clause = _ADJECTIVE.sub("the", clause)
    pattern = _DENIED_TOO if denies(clause) else _DIRECTIONS
    for match in () if _SIDE_OF_ME.search(clause) else pattern.finditer(clause):
        way = match.lastgroup if match.lastgroup != "of" else next(name for name in WAYS if match[name])
        if match["back"] == "behind" and _OF_ANOTHER.match(clause, match.end()):
            continue
        if match["back"] and _FAR_END.match(clause, match.end("back")):
            continue
        if match["ahead"] in ("front", "before", "center", "centre", "middle"):
            rest = clause[match.end("ahead") :]
            if (match["of"] or rest.startswith(" of ")) and not re.match(rf" of {_VIEW}\b", rest):
                continue
            if match["not"]:
                no.add("ahead")
            else:
                in_front = True
            continue
        if match["of"]:
            continue  # "left of the table" is no direction from the agent
        (no if match["not"] else yes).add(way or "")
        if match["slightly"] and way in ("left", "right") and not match["not"]:
            yes.add("ahead")
    said = frozenset(yes)
    return (said | {"ahead"} if in_front else said), said, frozenset(no)


for _kind in nouns("navigation"):
    learn(_kind)
