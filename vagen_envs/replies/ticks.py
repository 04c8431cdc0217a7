"""Options with ticks and crosses: "1) Up ✗ 2) Down ✓"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from vagen_envs.replies.thinking import Span
from vagen_envs.replies.vocabulary import CROSSES, TICKS, WORDS, words_of

_TEXT = rf"[^\0{CROSSES}{TICKS}]*+"
_MARK = rf"(?P<mark>[{CROSSES}{TICKS}])"
_PLAN = rf"(?P<plan>\0(?>[^{CROSSES}{TICKS}]*\0)?)"
_MARKED_BEFORE = re.compile(rf"{_MARK}(?P<lead>{_TEXT}){_PLAN}(?P<why>{_TEXT})")
_MARKED_AFTER = re.compile(
    rf"(?P<lead>{_TEXT}){_PLAN}(?P<what>{_TEXT}){_MARK}(?P<why>(?:{_TEXT[:-1]}(?:[\n,;|)]|\Z))?)"
)
_LABEL = re.compile(r"\A[\s.:#•*_`-]*\(?\w[.):]\s")
# Other words may ask what the marks answer: "Walls: Up ✗", "Up: obstacle ✓".
_LEADING = (WORDS.neutral | WORDS.choice | {"options", "moves"}) - WORDS.things - WORDS.conclusion
_FOLLOWING = (WORDS.neutral | WORDS.sound) - {"after", "before"}


def partly_ticked(piece: str, named: Sequence[tuple[str, int, int]]) -> bool:
    """Whether ticks choose among the actions `named`, and don't adorn each of them or a whole plan."""
    ticks = [tick.start() for tick in re.finditer(f"[{TICKS}]+", piece)]
    chooses = len(named) > 1 and len(ticks) not in (0, len(named))
    tried = not WORDS.past.isdisjoint(words_of(piece))
    return chooses and (len(ticks) > 1 or tried or not adorns(piece, ticks[0], named))


def lone_tick(masked: str) -> tuple[str, int | None]:
    """The text and the place of its only mark, if that is a tick, with a stop or a blank for it.

    The tick ends a sentence after an action and beside a stop or a break, as in "Up is a hole, so Right ✓".
    """
    marks = list(re.finditer(f"[{CROSSES}{TICKS}]+", masked))
    if (
        len(marks) != 1
        or not {*marks[0][0]} <= {*TICKS}
        or not WORDS.tried.isdisjoint(words_of(masked))
    ):
        return masked, None
    start, end = marks[0].span()
    before = masked[:start].rstrip(" (")
    after = masked[end:].lstrip(" ")
    ends = before[-1:] in "\0.,:;!\n" or after[:1] in ".,;!)\n"
    stop = "." if ends and not after.lstrip().startswith("\0") else " "
    return masked[:start] + stop.ljust(end - start) + masked[end:], start


def adorns(masked: str, tick: int, named: Sequence[tuple[str, int, int]]) -> bool:
    """Whether a tick stands in the line of all actions `named`, or in a line without any."""
    line = masked.rfind("\n", 0, tick), (masked + "\n").find("\n", tick)
    return sum(line[0] < start < line[1] for _, start, _ in named) in (0, len(named))


def ticked_option(
    masked: str, named: Sequence[tuple[str, int, int]], plans: Callable[[int, int], bool]
) -> Span | None:
    """The one option with a tick among others with crosses; `None` if there is none or its sense could be another.

    `masked` is an answer with NUL for the letters of the actions `named`; `plans` knows whether a part is only a plan.
    """
    masked = re.sub(
        rf"\b(?:not|never)\b(?=\s+\0+\s*[{CROSSES}])", lambda word: " " * len(word[0]), masked
    )
    first = re.search(rf"\0|{_MARK}", masked)
    before = first is not None and first["mark"] is not None
    at = first.start() if first and before else 0
    leads = [masked[:at]]
    options = list[re.Match[str]]()
    while at < len(masked) and (
        option := (_MARKED_BEFORE if before else _MARKED_AFTER).match(masked, at)
    ):
        options.append(option)
        leads += [option["lead"]] if option["mark"] in TICKS or not before else []
        at = option.end()
    ticked = [option for option in options if option["mark"] in TICKS]
    if (
        at < len(masked)
        or len(ticked) != 1
        or not (WORDS.past | WORDS.every | {"but"}).isdisjoint(words_of(masked))
    ):
        return None
    (option,) = ticked
    leading = words_of(" ".join(_LABEL.sub("", lead) for lead in leads))
    if "?" in masked[: option.end()] or not _LEADING.issuperset(leading):
        return None
    span = option.span("plan")
    beside = {word for word in words_of(masked[span[1] : option.end()]) if not word.isdigit()}
    asked = (
        beside.intersection(*(words_of(each[0]) for each in options)) & WORDS.things
    )  # "Up: box ✓, Left: box ✗"
    chosen = {name for name, start, _ in named if span[0] <= start < span[1]}
    crossed = {name for name, start, _ in named if not span[0] <= start < span[1]}
    clear = crossed and chosen.isdisjoint(crossed) and beside <= _FOLLOWING and not asked
    return span if clear and plans(*span) else None
