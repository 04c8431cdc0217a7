"""What PrimitiveSkill's things are to each other, in sentences: on, left of, between, inside; held, open."""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vagen_rewards.rules.modality import denies, mentions
from vagen_rewards.rules.poses import UNIT, point_of
from vagen_rewards.rules.scene_facts import Beside, Fact, Held, Inside, Lies, OffTargets, On, Open, Outermost, Unstacked

Spans = Sequence[tuple[str, int, int]]


class Said(NamedTuple):
    """A fact, and where it begins."""

    fact: Fact
    start: int


_GRIPS = re.compile(
    r"(?<!to )(?<!can )(?<!could )(?<!should )\b(?:hold(?:s|ing)?|grasp(?:s|ing|ed)|grip(?:s|ping|ped)|held"
    r"|in (?:the|its|my) (?:gripper|hand|grip))\b(?: (?:the|a|onto|it|nothing|anything)\b)*"
)
_EMPTY = re.compile(
    r"(?:gripper|hand) (?:is|will be|remains|stays|was) (?:now |still |then |currently )*(?P<full>not )?(?:empty|free|open)"
    r"|hold(?:s|ing)? nothing|(?:nothing|no (?:object|cube|thing)) (?:is|will be)? ?(?:being )?"
    r"(?:held|grasped|in the (?:gripper|hand))"
    r"|not hold(?:ing)? anything"
)
_OF_THE_GRIPPER = ("gri", "gra", "hold", "held", "hand")
"""One of these is in whatever says what is held."""

_VERB = (
    r"(?:(?:is|are|will be|will|be|has been|now|then|currently|already|still|lies|lying|sits?|sitting|rests?|resting|should(?= (?:rest|sit)\b)|stands"
    r"|standing|placed|stacked|put|located|positioned|remains?|stays?|ends? up|directly|just|slightly|far|well|right"
    r"|further|farther|more|a (?:bit|little)|can be|seen|found|the one|(?:appears?|seems?)(?: to be)?|which is|that is|(?:which|that)(?= (?:in turn )?(?:rests?|sits?|lies|stands?)\b)|in turn|:|,|_) ?)*"
)
_SIDES = {
    "left": (None, -1), "right": (None, 1), "front": (1, None), "nearer": (1, None), "behind": (-1, None),
    "further": (-1, None),
}  # fmt: skip
_SIDE = (
    r"(?:(?:to|on|at) )?(?:the )?(?P<left>left)(?:[- ]hand)?(?: side)?(?: of| from| than| compared (?:to|with))?"
    r"|(?:(?:to|on|at) )?(?:the )?(?P<right>right)(?:[- ]hand)?(?: side)?(?: of| from| than| compared (?:to|with))?"
    r"|(?P<front>in front of)|(?P<behind>behind|in back of)"
    r"|(?P<nearer>(?:closer|nearer)(?: to (?:the camera|me|us|the viewer))? than)"
    r"|(?P<further>(?:farther|further|deeper)(?: away| back|(?: in(?:to)?)? (?:the )?scene)?(?: from (?:the camera|me|us|the viewer))? than|beyond)"
)
_RELATION = re.compile(
    rf" ?{_VERB}(?P<no>not |no longer )?{_VERB}(?:on the (?:table|tabletop|desk|surface|ground),? )?"
    r"(?:(?P<on>on top of|onto|on|upon|atop|occupies|covers)|(?P<under>under|underneath|beneath|below)|(?P<carries>supports|supporting|carries|occupied by)"
    r"|(?P<above>above|over|higher than)|(?P<lower>lower than)"
    r"|(?P<inside>inside of|inside|into|within|in|at)|(?P<outside>outside of|outside|out of)"
    rf"|(?P<side>{_SIDE})(?: and (?:(?:slightly|a bit|a little|also) )*(?P<second>"
    rf"{re.sub('P<', 'P<s_', _SIDE)}))?"
    r")"
    r"(?: (?:the|a|an|top|of|that|it|its|both))* ?"
)
_BOUND = re.compile(r"(?:of|from|than|to|with|behind|beyond)$")
"""A side of the thing that comes next; in "…, on the right the …" it is none."""

_FRONTED = re.compile(
    rf"(?:(?P<on>on top of|on)|(?P<under>under|underneath|beneath|below)|(?P<side>{_SIDE})) (?:the )?"
)
_THEN = re.compile(r",? (?:there )?(?:is|lies|sits|stands|rests|will be|i see|we see|we find|we have) (?:the |a )?")
"""Around the first thing, in "right of the red cube is the green cube"."""

_COMPARED = re.compile(r"(?:compared (?:to|with)|relative to|with respect to|(?:as )?seen from) (?:the )?")
_NEXT = re.compile(r",? (?:the |a )?")
_HAS = re.compile(r" (?:has|with) (?:the |a )?")
_ITS_SIDE = re.compile(
    r" (?:(?:on|to|at) its (?:immediate )?(?P<its>left|right)(?: side)?|(?P<on>on top(?: of it)?|on it)"
    r"|(?P<where>behind|in front of) it|(?P<under>under(?:neath)?|beneath) it)\b"
)
"""After the second, in "the red cube has the green cube on its left"."""

_OWN_SIDE = re.compile(r" s (?:immediate )?(left|right)(?:[- ]hand)?(?: side)?\b")
_AT_OWN = re.compile(rf" ?{_VERB}(?:on|to|at) (?:the )?")
_AND = re.compile(r" (?:and|&) (?:of |the )*")
_BOTH = re.compile(r"\bboth(?: of)?(?: the)? $")
_OPENED = re.compile(
    r"drawer(?:_open_value| is| will be| opens| has been| stays| remains)?(?: now| still| pulled)?[\"']?\s*[:=]?\s*"
    r"(?:(?:open(?:ed)?|pulled out|out) (?:by )?)?"
    rf"(?:about |around |roughly |approximately |~ ?)?(?P<by>-?\d{{1,6}}(?:\.\d+)?\s?{UNIT}?)(?![\d,/]|\s?/|\s?(?:m |[mc]m )?in [xyz]\b)"
    r"|drawer(?: s\b|[,:]|(?: state| status)?:)? (?:which |that )?(?:is|are|will be|will|stays|remains|stands|sits|now|still|fully|completely|wide|slightly|partly"
    r"|partially|already|currently|has been|has|be| )*"
    r"(?P<no>not |no longer )?(?:fully |completely |yet |been |pulled |pushed )*(?P<how>closed|shut|open(?:ed)?|out|pushed in)\b"
    r"|\b(?:an? |the )(?P<adjective>open|closed|shut) drawer"
    r"|which is (?:now |still )?(?P<relative>open|closed|shut)\b"
)
_INSIDE_IT = re.compile(
    rf" ?{_VERB}(?P<no>not )?(?P<in>inside|in it|in there|within|(?P<out>outside|out of it|next to it))(?: of it| it)?(?=\s*(?:[.,;]|$|and\b))"
)
_ORDER = re.compile(
    r"\b(?:(?P<across>left to right|right to left)|(?P<depth>(?:front|nearest|closest|near) to (?:the )?(?:back|farthest|furthest|far)"
    r"|(?:back|farthest|furthest|far) to (?:the )?(?:front|nearest|closest|near)))\b"
)
_COLOUR = re.compile(r"\b(red|green|yellow|blue|purple|orange|white|black)\b")
_MOST = re.compile(
    rf" ?{_VERB}(?:the )?(?:(?P<left>leftmost|(?:farthest|furthest) (?:to the )?left|(?:on|at) the (?:far )?left|to the far left)"
    r"|(?P<right>rightmost|(?:farthest|furthest) (?:to the )?right|(?:on|at) the (?:far )?right|to the far right)"
    r"|(?P<front>(?:closest|nearest)(?: (?:one|cube))?(?: to (?:the camera|me|us|the viewer))?|in (?:the )?front|at the front)"
    r"|(?P<back>(?:farthest|furthest)(?: (?:one|cube))?(?: away)?(?: from (?:the camera|me|us|the viewer))?|(?:at|in) the back))"
    r"(?: side)?(?: (?:of|on) the table)?(?=\s*(?:[.,;]|$|and\b|while\b|with\b))"
)
_AXES = {"left": (1, -1), "right": (1, 1), "front": (0, 1), "back": (0, -1)}
_TABLE = re.compile(
    r"(?P<all>\b(?:all|both|each|every|the)(?: of)?(?: the)?(?: (?:two|three|four))?(?: (?:cubes|blocks|things|objects|of them))?)?"
    r" ?(?:(?:is|are|lies?|sits?|rests?|stands?|remains?|lying|sitting|resting|will be|still|directly|flat|both|all)[ ,]*)+"
    r"on the (?:table|tabletop|table top|surface|ground|desk|workspace)\b"
)
_NOT_STACKED = re.compile(
    r"\b(?:none of the (?:cubes|blocks)|no (?:cube|block)s?|neither (?:cube|block)|nothing)"
    r" (?:is|are|has been) (?:stacked|on top|on another|on the other)"
    r"|\b(?:cubes|blocks) (?:are|have) (?:not|n't) (?:been |yet )?stacked"
)
_OFF_TARGETS = re.compile(
    r"\b(?:none of the|no|neither(?: of the)?) (?:cube|block)s?(?: of (?:the two|them))?"
    r" (?:is|are|has been|have been|sits?|rests?|stands?|lies?)(?: yet| currently| now| already)*(?: placed| positioned)?"
    r" (?:on|at|in|over)(?: top of)? (?P<whose>its|their|an?|the|any|either)(?: (?:own|correct|right|respective|assigned))?"
    r" (?:target|goal|disc|disk|marker)s?\b"
)


def relations_of(text: str, spans: Spans) -> Iterator[Said]:
    """All that is said of what things are to each other, in lower-case English."""
    if len(spans) > 1:
        yield from _related(text, spans)
    yield from _alone(text, spans)
    if " to " in text:
        yield from _ordered(text)
    if mentions(text, _OF_THE_GRIPPER):
        yield from _held(text, spans)
    if "drawer" in text:
        yield from _opened(text)
    if mentions(text, (" on the ", "stacked", "on top", "neither", "no cube", "no block", "none of the")):
        yield from _lying(text, spans)


def _related(text: str, spans: Spans) -> Iterator[Said]:
    for i, ((first, at, end), (second, start, second_end)) in enumerate(itertools.pairwise(spans)):
        if first == second or start - end > 90:
            continue
        own = _OWN_SIDE.match(text, second_end)
        if own is not None:  # "on the red cube's right"
            if _AT_OWN.fullmatch(text, end, start):
                yield Said(Beside(first, second, *_SIDES[own[1]]), at)
            continue
        match = _RELATION.fullmatch(text, end, start)
        if match is not None and _BOUND.search(match["second"] or match["side"] or "of"):
            others = [second]
            if (
                i + 2 < len(spans)
                and _BOTH.search(text, end, start)
                and _AND.fullmatch(text, second_end, spans[i + 2][1])
            ):
                others.append(spans[i + 2][0])
            yield from (Said(fact, at) for other in others for fact in _facts(match, first, other))
        else:
            yield from (Said(fact, at) for fact in _turned_round(text, spans[i], spans[i + 1]))


def _turned_round(text: str, first: tuple[str, int, int], second: tuple[str, int, int]) -> Iterator[Fact]:
    """Of two things what is said of the second, or by a verb of having."""
    (one, at, end), (other, start, other_end) = first, second
    before = text[max(0, text.rfind(". ", 0, at) + 1) : at].lstrip(" -,:")
    if _HAS.fullmatch(text, end, start):
        has = _ITS_SIDE.match(text, other_end)
        if has is not None and has["on"]:
            yield On(other, one, False)
        elif has is not None and has["under"]:
            yield On(one, other, False)
        elif has is not None:
            side = has["its"] or ("behind" if has["where"] == "behind" else "front")
            yield Beside(other, one, *_SIDES[side], False)
    elif (fronted := _FRONTED.fullmatch(before)) is not None and _THEN.fullmatch(text, end, start):
        if fronted["on"]:
            yield On(other, one, False)
        elif fronted["under"]:
            yield On(one, other, False)
        else:
            yield from (Beside(other, one, *_SIDES[name], False) for name in _SIDES if fronted[name])
    elif _COMPARED.fullmatch(before) and _NEXT.fullmatch(text, end, start):
        compared = _COMPARISON.match(text, other_end)
        if compared is not None:
            yield from (Beside(other, one, *_SIDES[name], False) for name in _SIDES if compared[name])


_COMPARISON = re.compile(
    rf" {_VERB}(?:(?:to|on) the )?(?:(?P<left>left)|(?P<right>right)|(?P<front>in front)|(?P<behind>behind)"
    r"|(?P<nearer>(?:closer|nearer)(?: to (?:the camera|me|us))?)|(?P<further>(?:farther|further) (?:away|back)"
    r"(?: from (?:the camera|me|us))?))\b(?! (?:of|target|than))"
)


def _facts(match: re.Match[str], first: str, second: str) -> Iterator[Fact]:
    no = bool(match["no"])
    if match["side"]:
        names = [name for name in _SIDES if match[name]] + [name for name in _SIDES if match[f"s_{name}"]]
        for name in names:
            yield Beside(first, second, _SIDES[name][0], _SIDES[name][1], no)
    elif match["inside"] or match["outside"]:
        if second.endswith("_target") and not match["outside"]:
            yield On(first, second, no)
        elif second in ("drawer", "handle") and match["inside"] != "at":
            yield Inside(first, second, no != bool(match["outside"]))
    elif match["on"] or match["above"]:
        yield On(first, second, no)
    elif match["lower"] is None:
        yield On(second, first, no)


def _alone(text: str, spans: Spans) -> Iterator[Said]:
    """What is said of one thing: that it is the leftmost, or inside."""
    for name, start, end in spans:
        most = _MOST.match(text, end)
        if most is not None:
            yield Said(Outermost(name, *_AXES[next(side for side in _AXES if most[side])]), start)
        inside = _INSIDE_IT.match(text, end) if name != "drawer" and "drawer" in text else None
        if inside is not None:
            yield Said(Inside(name, "drawer", bool(inside["no"]) != bool(inside["out"])), start)


def _ordered(text: str) -> Iterator[Said]:
    """Cubes in a row: "from left to right: yellow, green, red"."""
    for match in list(_ORDER.finditer(text))[:5]:
        stop = text.find(". ", match.end())
        named = _COLOUR.findall(text, match.end(), stop if stop >= 0 else len(text))
        if match["across"]:
            depth, across = None, -1 if match["across"].startswith("left") else 1
        else:
            depth, across = (1 if match["depth"].startswith(("front", "near", "close")) else -1), None
        for one, other in itertools.pairwise(named):
            yield Said(Beside(f"{one}_cube", f"{other}_cube", depth, across), match.start())


def _held(text: str, spans: Spans) -> Iterator[Said]:
    """The gripper holds the thing after the verb, or else the one before it."""
    for match in list(_EMPTY.finditer(text))[:20]:
        yield Said(Held("", bool(match["full"])), match.start())
    for match in list(_GRIPS.finditer(text))[:20]:
        start = max(text.rfind(mark, 0, match.start()) for mark in (".", ";", "\n")) + 1
        before = text[start : match.start()]
        if "nothing" in match[0] or "anything" in match[0] or "nothing" in before[-20:]:
            continue
        after = [name for name, at, _ in spans if 0 <= at - match.end() <= 1]
        earlier = [name for name, at, _ in spans if start <= at < match.start()]
        name = after[:1] or earlier[-1:]
        if name:
            yield Said(Held(name[0], denies(before[-30:])), match.start())


def _opened(text: str) -> Iterator[Said]:
    for match in list(_OPENED.finditer(text))[:20]:
        if match["by"]:
            yield Said(Open(point_of(match["by"])[0]), match.start())
        else:
            how = match["how"] or match["adjective"] or match["relative"]
            yield Said(Open(None, (not how.startswith(("open", "out"))) != bool(match["no"])), match.start())


def _lying(text: str, spans: Spans) -> Iterator[Said]:
    for match in _TABLE.finditer(text):
        if denies(text[max(0, match.start() - 25) : match.end()]) and not match["all"]:
            continue
        before = [name for name, _, end in spans if 0 <= match.start() - end <= 3]
        if before:
            yield Said(Lies(before[-1]), match.start())
        elif match["all"] and not match["all"].startswith("the"):
            yield Said(Lies(""), match.start())
    for match in _NOT_STACKED.finditer(text):
        yield Said(Unstacked(), match.start())
    for match in _OFF_TARGETS.finditer(text):
        yield Said(OffTargets(match["whose"] in ("its", "their", "the")), match.start())
