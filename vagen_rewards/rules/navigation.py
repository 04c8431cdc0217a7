"""Navigation: where the target is, seen from the agent (VAGEN, appendix D.1)."""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from vagen_envs.core import State
from vagen_rewards.rules.front import Sentence, prepare
from vagen_rewards.rules.lexicon import nouns
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.modality import DENIALS, denies, hedges
from vagen_rewards.rules.readings import Claim, Reading, read
from vagen_rewards.scores import Part, Span

_AGENT = r"(?:i|me|my|agent|robot|player|myself)"
_IMAGE = r"(?:my |the )?(?:current )?(?:field of )?(?:view|image|picture|frame|scene|screen|camera|vision|sight)"
_ROOM = r"(?:the |this )?(?:room|kitchen|bedroom|bathroom|living room|hallway|house)"
_VIEW = (
    r"(?:me|us|(?:the )?(?:agent|robot|player)|where (?:i|the agent|the robot)|my (?:current )?position"
    rf"|{_IMAGE}|{_ROOM})"
)
_TARGET_WORDS = ("target", "target object", "target item", "goal object", "object of interest", "target location")
_ANY_TARGET = "*"
_DISTANCE = re.compile(r"\d+(?:\.\d+)? ?m(?:et(?:er|re)s?)?\b(?: away)?")
_AUXILIARY = re.compile(
    r"\bcan (?=(?:be|see|also|now|still|clearly|easily|only|just|find|spot|observe|notice|reach)\b)"
)
"""No can."""

_DIRECTION_LINE = re.compile(
    r"\n[\s\-*]*(?=[*_]*(?:direction|position|location|where|distance)\b[*_]*\s*[:=-])", re.IGNORECASE
)
"""The line after a thing's that says where it is."""

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
_LISTED = re.compile(
    r"\s*(?:[-*] ?)?(?P<where>(?:to |on |in )?(?:the |my )?(?:straight |directly )?(?:ahead|forward|front|in front|left|right|behind"
    r"|back)(?: of me| me)?(?:[- ]hand)?(?: side)?) ?(?::| -) ?(?P<what>[^:]+)"
)
"""In "ahead: a cup and a plate" what is listed is there."""

_OF_ANOTHER = re.compile(r" (?:the|an?|it|that|this|some)\b(?! (?:agent|robot|player|camera|viewer)\b)")
"""After "behind": what is no direction from the agent."""

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
_FACT = re.compile(r"[\"']?target_direction(?:_to_player)?[\"']?\s*[:=]\s*[\"']?(\w+)", re.IGNORECASE)
_TYPE = re.compile(r"[\"']?target_obj_type[\"']?\s*[:=]\s*[\"']?([^\W_]+(?:[ _]?[^\W_]+)*)", re.IGNORECASE)
_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+")


_VOCABULARY: dict[str, list[tuple[str, bool]]] = {phrase: [(_ANY_TARGET, False)] for phrase in _TARGET_WORDS}
"""Phrases, with the types each may mean, and whether it is only the last word of the type's name ("lamp")."""

_FIRST_WORDS: set[str] = {phrase.split(" ", 1)[0] for phrase in _TARGET_WORDS}
_KNOWN: set[str] = set()
_learning = threading.Lock()


def _learn(kind: str) -> None:
    """Add what an AI2-THOR type goes by in English."""
    with _learning:
        parts = [part.lower() for part in _NAME.findall(kind)] or [kind.lower()]
        names = dict.fromkeys((" ".join(parts), "".join(parts), *nouns("navigation").get(kind, ())))
        for phrase in dict.fromkeys((*names, parts[-1])):
            _VOCABULARY.setdefault(phrase, []).append((kind, phrase not in names))
            _FIRST_WORDS.add(phrase.split(" ", 1)[0])
        for cache in (_clauses, read):
            cache.cache_clear()
        _KNOWN.add(kind)


@dataclass(frozen=True, slots=True)
class Seen:
    """What may be meant by these words is in one of these directions from the agent, or isn't.

    Attributes:
        kinds: AI2-THOR's types that the words may mean, each with whether only by its last word; `*` is the target.
        ways: of `ahead`, `left`, `right`, `back`.
    """

    kinds: tuple[tuple[str, bool], ...]
    ways: frozenset[str]
    negated: bool = False

    def holds(self, state: Any) -> bool | None:
        """Whether it is so; `None` where it is neither the target nor in view."""
        name = _named(self.kinds, _kinds_of(state))
        if not name:
            return None
        if len(self.ways) > 2:
            return False
        where = {direction for each, direction, _ in state.visible_objects if each == name}
        if name == state.target_type:
            where = {state.target_direction}
        return bool(self.ways & where) != self.negated


@dataclass(frozen=True, slots=True)
class Sought:
    """The target is of this type."""

    kind: str

    def holds(self, state: Any) -> bool:
        """Whether it is."""
        return bool(state.target_type.lower() == self.kind)


def claims_of(text: str, part: Part) -> Reading:
    """Directions of things, seen from the agent. Raises nothing."""
    fact = _FACT.search(text) if "target" in text else None
    if fact is not None:
        return _structured(text, fact)
    if "\n" in text:
        text = _DIRECTION_LINE.sub(lambda match: ",".ljust(len(match[0])), text)
    prepared = prepare("navigation", text)
    claims: list[Claim] = []
    unread, matters = set(prepared.left_out), list(prepared.matters)
    for span, candidates, said, denied in _read(prepared.sentences, part):
        claims += [Claim(span, Seen(candidates, each)) for each in said]
        claims += [Claim(span, Seen(candidates, each, True)) for each in denied]
    read_of = {claim.span for claim in claims}
    for words, span in prepared.sentences:
        if span not in read_of:
            unread.add(span)
            _, _, clauses = _clauses(_turns_of(words))
            if any(candidates and any(where) for candidates, where, *_ in clauses):
                matters.append(span)
    return Reading(tuple(claims), tuple(sorted(unread)), tuple(matters))


def _structured(text: str, fact: re.Match[str]) -> Reading:
    whole, kind = (0, len(text)), _TYPE.search(text)
    found: list[Seen | Sought] = [] if kind is None else [Sought(re.sub("[ _]", "", kind[1].lower()))]
    found.append(Seen(((_ANY_TARGET, False),), frozenset({fact[1].lower()})))
    return Reading(tuple([Claim(whole, each) for each in found]))


def compare(state: State, text: str, part: Part) -> Marks:
    """The target must be named with its direction; what is said of other visible objects counts as claims.

    Combined directions ("forward-left") are right if they hold the true one; a slight turn is right for
    what is ahead. A prediction must use a direction word: "in front of" and "closer to" don't do.
    """
    truth: Any = state
    marks = Marks(wanted=1, essential=False)
    kinds = _kinds_of(truth)
    said: list[frozenset[str]] = []
    denied: list[frozenset[str]] = []
    reading = read("navigation", text, part)
    marks.unread, marks.matters = reading.unread, bool(reading.matters)
    for _, fact in reading.claims:
        if isinstance(fact, Sought):
            if not fact.holds(truth):
                marks.fault(f"the target is no {fact.kind}")
            continue
        assert isinstance(fact, Seen)  # noqa: S101 - there are no other facts of this kind
        name = _named(fact.kinds, kinds)
        if name == truth.target_type:
            (denied if fact.negated else said).append(fact.ways)
        elif name and not fact.negated:
            if fact.holds(truth):
                marks.right += 1
            else:
                marks.fault(f"{name} {'-'.join(sorted(fact.ways))}")
    _judge(marks, truth.target_type, said, truth.target_direction, denied)
    marks.essential = marks.found > 0
    return marks


def _kinds_of(truth: Any) -> tuple[str, ...]:
    """The target's type and those in view, learned if they are new."""
    target = truth.target_type
    kinds = (target, *sorted({kind for kind, _, _ in truth.visible_objects if kind != target}))
    for kind in kinds:
        if kind not in _KNOWN:
            _learn(kind)
    return kinds


_WAYS = ("ahead", "left", "right", "back")
_EVERYWHERE = frozenset(_WAYS)
_NOWHERE: frozenset[str] = frozenset()
Where = tuple[frozenset[str], frozenset[str], frozenset[str]]
"""Directions in a description, in a prediction, and denied."""

Clause = tuple[tuple[tuple[str, bool], ...], Where, bool, bool, bool]

Candidates = tuple[tuple[str, bool], ...]


def _read(
    said_in: tuple[Sentence, ...], part: Part
) -> Iterator[tuple[Span, Candidates, list[frozenset[str]], list[frozenset[str]]]]:
    """Where it is said, what is spoken of, where it is, and where it isn't, clause by clause."""
    spoken: Candidates = ()
    below = _NOWHERE  # where the thing is on which others may stand
    for words, span in said_in[:100]:
        listed = _LISTED.fullmatch(words) if ":" in words or " - " in words else None
        if listed is not None:
            ways, _, _ = _directions(listed["where"], True)
            for item in re.split(r",|\band\b", listed["what"]):
                candidates = tuple(_candidates(item))
                if candidates and ways:
                    yield span, candidates, [ways], []
            continue
        begins_with_it, hedged, clauses = _clauses(_turns_of(words))
        named_here, waiting = begins_with_it, _NOWHERE
        for candidates, (seen, foreseen, no), moving, alone, resting in clauses:
            yes = seen if part == "grounding" else foreseen
            if resting and not yes and not no:
                yes = below  # "on my right is a desk, and the lamp is on it"
            elif not candidates and not moving:
                below = yes
            if candidates:
                spoken, named_here = candidates, True
                below = yes
            elif not spoken or not (named_here or moving):
                if moving or alone:  # "going left, I get to the …"
                    waiting |= yes
                continue
            if waiting and not yes and not no:
                yes, waiting = waiting, _NOWHERE
            if yes or no:
                yield span, spoken, [_EVERYWHERE if hedged else yes] if yes else [], [no] if no else []


def _turns_of(text: str) -> str:
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


def _named(candidates: tuple[tuple[str, bool], ...], kinds: tuple[str, ...]) -> str:
    """The type that is meant, the target first; empty if none. "The lamp" is the target where there is but one."""
    target, named = kinds[0], ""
    for kind, loosely in candidates:
        if kind == _ANY_TARGET:
            return target
        if kind == target and (not loosely or _has_own_last_word(kinds)):
            return target
        if not loosely and kind in kinds and (not named or kind < named):
            named = kind
    return named


def _has_own_last_word(kinds: tuple[str, ...]) -> bool:
    last = [_NAME.findall(kind)[-1:] for kind in kinds]
    return last.count(last[0]) == 1


@functools.lru_cache(maxsize=65536)
def _clauses(sentence: str) -> tuple[bool, bool, tuple[Clause, ...]]:
    """Whether it begins with "it", whether there is a doubt in it, and its clauses.

    Of each clause the types that may be meant, where something is and isn't, whether something moves, whether it
    is nothing but a place ("to the left, …"), and whether something is on what was named before.
    """
    clauses = []
    if "can " in sentence:
        sentence = _AUXILIARY.sub("", sentence)
    if (
        " safe" in sentence
        or "left " in sentence
        or "all right" in sentence
        or "right a" in sentence
        or "right one" in sentence
    ):
        sentence = _NO_WAY.sub("", sentence)
    for clause in _CLAUSE.split(sentence):
        if not clause or clause.isspace():
            continue
        alone = _PLACE_ALONE.fullmatch(clause) is not None
        candidates, moving = tuple(_candidates(clause)), _MOVE.search(clause) is not None
        where = _directions(clause, bool(candidates))
        clauses.append((candidates, where, moving, alone, _ON_IT.search(clause) is not None))
    return _IT.match(sentence) is not None, hedges(sentence), tuple(clauses)


def _candidates(clause: str) -> Iterator[tuple[str, bool]]:
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


def _directions(clause: str, named: bool) -> Where:
    """The directions that are said and those that are denied; "in front of me" is one only without a prediction."""
    yes: set[str] = set()
    no: set[str] = set()
    facing = _FACING.search(clause) if named and "fac" in clause and "away" not in clause else None
    in_front = facing is not None and "fac" in facing[0]
    if "the left" in clause or "the right" in clause:
        clause = _ADJECTIVE.sub("the", clause)
    pattern = _DENIED_TOO if denies(clause) else _DIRECTIONS
    for match in () if _SIDE_OF_ME.search(clause) else pattern.finditer(clause):
        way = match.lastgroup if match.lastgroup != "of" else next(name for name in _WAYS if match[name])
        if match["back"] == "behind" and _OF_ANOTHER.match(clause, match.end()):
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


def _judge(
    marks: Marks, name: str, said: Sequence[AbstractSet[str]], truth: str, denied: Sequence[AbstractSet[str]]
) -> None:
    together = set().union(*said) if said else set()
    if len(together) > 2 or together >= {"left", "right"} or together >= {"ahead", "back"}:
        marks.fault(f"{name}: {' and '.join(sorted(together))} exclude one another", max(1, len(together)))
        return
    for directions in said:
        if truth in directions:
            marks.right += 1
            marks.found = 1
        else:
            marks.fault(f"{name} {'-'.join(sorted(directions))}")
    for directions in denied:
        if truth in directions:
            marks.fault(f"{name} not {truth}")


for _kind in nouns("navigation"):
    _learn(_kind)
