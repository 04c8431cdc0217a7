"""What every environment's reader asks of English first: plain spelling, doubts and denials."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLACE_WORDS = "above|below|under|underneath|beneath|over|left|right|ahead|behind|to|on|at|in|up|down|anywhere|" + (
    "north|south|east|west"
)

DOUBTS = (
    "either|might|may|could|maybe|perhaps|possible(?= that)|possibly|possibility|probable|probably|presumably"
    "|supposedly|allegedly|potentially|conceivable|conceivably|arguably|likely|unlikely|unsure|unclear|uncertain|unknown|undecided|whether"
    f"|somewhere(?! (?:off |out )?(?:{_PLACE_WORDS})\\b)"
    "|anywhere|everywhere|whichever|wherever|whatever|depending|depends|guess|suppose|suspect|wonder|random"
    "|randomly|sometimes|often|usually|generally|typically|normally|mostly|occasionally|rarely|seldom|frequently|hopefully"
    "|tend|tends|unless|assuming|supposing|imagine|imagining|pretend|hypothetically|alternatively|doubtful|debatable"
    "|(?<=is )elsewhere|(?<=are )elsewhere"
    "|most of the time|at times|in (?:some|most|many) cases|let us say|hard to (?:say|tell)"
    "|chance|chances|theory|theoretically|were it|or (?:else|not)|hope|hopes|wish|supposed to|meant to|rumoured"
    "|(?:some|they|people) say|said to be"
    "|want (?:the|it|this)|let (?:the|it|us)"
    "|(?:goal|aim|plan|task|objective|idea) is to|another (?:level|state|game|board|world|room)"
    f"|can be(?= (?:{_PLACE_WORDS})\\b)|(?:say|tell|know|see|decide|sure|matter|check|ask) if"
    "|not (?:know|sure|certain|clear|obvious|decide|decided)"
    "|if(?= (?:the|a|an|there|it|he|she|they|both|one|another|box|player|target|goal)\\b)"
    "(?! [a-z' ]{1,40} (?:taken|used|seen|viewed|considered|chosen|treated|regarded|the origin|the reference|the cent))"
)
"""Words that hedge, in every environment, conditions among them; "if I move" is none."""

DENIALS = (
    r"not|never|no longer|no more|neither|nor|cannot|nowhere|nothing|none|nobody|no one|hardly|barely|scarcely"
    r"|by no means|in no way|in no sense|anything but|far from(?= (?:being|true)\b)|used to|formerly|previously|earlier"
    r"|yesterday"
    r"|unlike|removed|erased|deleted"
    r"|once was|(?<=was )once|(?<!as )before(?=,)|avoids? being"
    r"|(?<=\ba )lie(?= (?:that|to)\b)"
    r"|(?:mistake|error|myth|fallacy|misconception|falsehood|nonsense|illusion|delusion)(?= (?:that|to)\b)"
    r"|yet to|contrary to (?:the|what)|(?:the )?opposite of"
    r"|(?:rather|other) than|instead of|as opposed to|except|cease|ceases|ceased|stops being|stopped being"
    r"|fail|fails|failed|failing|lack|lacks|lacked|lacking|refuse|refuses|refused|disagree|disagrees|reject|rejects"
    r"|dispute|disputes|rule out|rules out|contradicts|myth|missing|absent|deny|denies|denied|doubt|doubts"
    r"|(?:wrong|false|untrue|incorrect|inaccurate|impossible|mistaken|doubtful|absurd|unthinkable)(?= (?:that|to)\b)"
)
"""Words that deny what follows, in every environment."""

_WORDS = re.compile(r"[a-z]+")
_LETTERS_ONLY = bytes(each if 97 <= each <= 122 else 32 for each in range(256))


def words_of(text: str) -> list[str]:
    """The words of a lower-case text, each of the letters a to z, in half the time of a pattern."""
    return text.encode("ascii", "replace").translate(_LETTERS_ONLY).decode("ascii").split()


_COMMON = frozenset(
    f"a an and another are as at b be being box both by case cent chosen considered far from goal has he i if in is it"
    f" let likely no of one origin other out player reference s seen she some target taken than that the there they"
    f" time to treated us used viewed w way z {_PLACE_WORDS.replace('|', ' ')}".split()
) - {"if", "likely", "let"}
_DOUBTFUL = frozenset(_WORDS.findall(DOUBTS)) - _COMMON
_DENYING = (frozenset(_WORDS.findall(DENIALS)) | {"no", "without", "far", "used"}) - (_COMMON - {"no", "far", "used"})
_HEDGE = re.compile(rf"\b(?:or|{DOUBTS})\b")
_NOT = re.compile(rf"\b(?:no|without|{DENIALS})\b")


def hedges(text: str) -> bool:
    """Whether there is a doubt or an alternative in it."""
    return _hedged(words_of(text), text)


def denies(text: str) -> bool:
    """Whether something is denied in it."""
    return _denied(words_of(text), text)


def hedges_and_denies(text: str) -> tuple[bool, bool]:
    """Both, for the work of one."""
    words = words_of(text)
    return _hedged(words, text), _denied(words, text)


def _hedged(words: list[str], text: str) -> bool:
    return "or" in words or (not _DOUBTFUL.isdisjoint(words) and _HEDGE.search(text) is not None)


def _denied(words: list[str], text: str) -> bool:
    return not _DENYING.isdisjoint(words) and _NOT.search(text) is not None


_ENDS = re.compile(r"[.;!?\n]")
_QUESTION = re.compile(r"([^.!?;\n]{0,300})\?")
_TOPIC = re.compile(r"\s*(?:and |the |my |what about |how about )*[a-z]+(?: [a-z]+)?\s*")
"""In "The goal? It is above" the question names what is spoken of."""

_DENIED_AFTERWARDS = re.compile(
    r"\b(?:is|are|would be|will be|seems|sounds|remains) (?:simply |just |plainly |clearly |quite |actually )?"
    r"(?:(?:not|never) (?:true|right|correct|the case|so|accurate|there|present"
    r"|visible|drawn|shown|to be (?:seen|found)"
    r"|(?:a )?part of (?:it|this|the [a-z]+)|in (?:it|(?:the|this) (?:image|picture|target|drawing|scene)))"
    r"|false|wrong|untrue|incorrect|nonsense"
    r"|mistaken|missing|absent|gone"
    r"|nowhere(?: to be (?:seen|found)| in sight)?|a (?:lie|myth|mistake)|ruled out|excluded|out of the question"
    r"|impossible)\s*(?=[.;!?\n]|$)|[-–—,] ?not(?: so| true)?\s*(?=[.;!?\n]|$)"
)
"""What is said first and then denied: "that the box is above the player is not true"."""

_DENYING_AFTERWARDS = frozenset(
    {
        "not", "never", "true", "correct", "case", "accurate", "false", "wrong", "untrue", "incorrect", "nonsense",
        "mistake", "mistaken", "missing", "absent", "gone", "lie", "myth", "nowhere", "ruled", "excluded", "question",
        "impossible", "opposite",
    }
)  # fmt: skip
TURNING = _DENYING_AFTERWARDS | {"or", "doubt", "doubts", "denied", "hard", "anything"}
"""Words of which one stands in each sentence that `plain` rewrites, but for contractions and questions."""
_CERTAIN = re.compile(
    r"\b(?:there is |i have |there can be )?(?:no|without (?:a|any)|beyond (?:a|any|all))"
    r" doubts?(?: (?:that|about it))?"
    r"|\bit (?:cannot|can not|ca not) be denied(?: that)?|\bit is not hard to (?:see|tell|notice)(?: that)?"
)
"""Denials and doubts that affirm."""

_FALSE = re.compile(
    r"\b(?:false|wrong|untrue|incorrect|not (?:true|so|correct)|the opposite(?: of [a-z]+)? is (?:true|the case)) ?: ?"
)
_NOT_SO = re.compile(r"\b(?:not|never) (?:simply |quite |at all )?(?:right|true|correct|accurate|so|the case) that\b")
_ASIDE = re.compile(
    r",? ?, (?:i (?:think|believe|say|see|know)|in fact|however|of course|though|to be (?:clear|sure|precise|exact)"
    r"|as (?:far as )?i (?:see it|see|can see|can tell|know)|for sure|indeed|actually|in truth|at least),"
)
"""What stands between a "not" and what it denies."""

_NOR = re.compile(r"\b(not|neither|nor|no|never|without|cannot)\b([^.,;:!?]{0,50}?) or\b")
_IS = re.compile(
    r"(?<=\w)'s(?= (?:to|on|at|in|straight|due|diagonally|right (?:above|below|next)"
    r"|above|below|under|underneath|beneath|not|now|still|also|directly|just|up|down|located"
    r"|situated|positioned|placed|standing|sitting|lying|going|being|left of|right of|ahead|behind)\b)"
    r"|(?<=\bit)'s|(?<=\bthat)'s|(?<=\bthere)'s|(?<=\bhere)'s|(?<=\bhe)'s|(?<=\bshe)'s|(?<=\bwhich)'s"
)
_SHORT = re.compile(r"(?<=\w)'(?:re|ll|ve|m|d)\b")
_LONG = {"'re": " are", "'ll": " will", "'ve": " have", "'m": " am", "'d": " would"}


def plain(text: str) -> str:
    """Lower case without contractions and questions; denials stand before what they deny. Linear in the length."""
    text = text.lower().replace("’", "'").replace("\u2212", "-")
    if "'" in text:
        text = _SHORT.sub(lambda match: _LONG[match[0]], text.replace("n't", " not"))
        text = _IS.sub(" is", text)
    if "?" in text:
        text = _QUESTION.sub(lambda match: match[1] if _TOPIC.fullmatch(match[1]) else " ", text)
    if " or " in text:
        text = _NOR.sub(r"\1\2 nor", text)
    if "doubt" in text or "denied" in text or "not hard" in text:
        text = _CERTAIN.sub("", text)
    if "anything but" in text:
        text = text.replace("anything but", "not")
    return text if _DENYING_AFTERWARDS.isdisjoint(words_of(text)) else _turned(text)


def mentions(text: str, parts: Iterable[str]) -> bool:
    """Whether one of these is in the text; much quicker than a pattern that won't be found."""
    for part in parts:  # noqa: SIM110 - `any` takes twice as long
        if part in text:
            return True
    return False


def _turned(text: str) -> str:
    """With "it is false that" before what is denied afterwards."""
    if ":" in text:
        text = _FALSE.sub("it is false that ", text)
    if "not " in text:
        text = _NOT_SO.sub("false that", _ASIDE.sub("", text))
    kept: list[str] = []
    end = 0
    for match in _DENIED_AFTERWARDS.finditer(text):
        before = text[end : match.start()]
        start = max((stop.end() for stop in _ENDS.finditer(before)), default=0)
        kept += [before[:start], " it is false that ", before[start:]]
        end = match.end()
    return "".join([*kept, text[end:]])
