"""Options with ticks and crosses: "1) Up ✗ 2) Down ✓"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from vagen_envs.replies.thinking import Span
from vagen_envs.replies.vocabulary import CROSSES, TICKS, WORDS, is_rejected, words_of

_TEXT, _MARK = rf"[^\0{CROSSES}{TICKS}]*+", rf"(?P<mark>[{CROSSES}{TICKS}])"
_PLAN = rf"(?P<plan>\0(?>[^{CROSSES}{TICKS}]*\0)?)"
_MARKED_BEFORE = re.compile(rf"{_MARK}(?P<lead>{_TEXT}){_PLAN}(?P<why>{_TEXT})")
_MARKED_AFTER = re.compile(
    rf"(?P<lead>{_TEXT}){_PLAN}(?P<what>{_TEXT}){_MARK}(?P<why>(?:{_TEXT[:-1]}(?:[\n,;|)]|\Z))?)"
)
_LABEL = re.compile(r"\A[\s.:#•*_`-]*\(?\w[.):]\s")
_LEADING = (
    (WORDS.neutral | {"options"}) - WORDS.things - WORDS.conclusion
)  # other words may ask what the marks answer: "Walls: Up ✗"


def partly_ticked(piece: str, named: int) -> bool:
    """Whether ticks choose among `named` actions, and don't adorn each of them or a plan in one line."""
    ticks = len(re.findall(f"[{TICKS}]", piece))
    return ticks not in (0, named) and (ticks > 1 or "\n" in piece.strip())


def ticked_option(masked: str, named: Sequence[tuple[str, int, int]], plans: Callable[[int, int], bool]) -> Span | None:
    """The one option with a tick among others with crosses; `None` if there is none or its sense could be another.

    `masked` is an answer with NUL for the letters of the actions `named`; `plans` knows whether a part is only a plan.
    """
    first = re.search(rf"\0|{_MARK}", masked)
    before = first is not None and first["mark"] is not None
    at = first.start() if first and before else 0
    leads, options = [masked[:at]], list[re.Match[str]]()
    while at < len(masked) and (option := (_MARKED_BEFORE if before else _MARKED_AFTER).match(masked, at)):
        options.append(option)
        leads += [] if before else [option["lead"]]
        at = option.end()
    ticked = [option for option in options if option["mark"] in TICKS]
    if at < len(masked) or len(ticked) != 1 or not (WORDS.past | {"but"}).isdisjoint(words_of(masked)):
        return None
    (option,) = ticked
    if any("?" in lead or not _LEADING.issuperset(words_of(_LABEL.sub("", lead))) for lead in leads):
        return None
    if before and not (_LEADING | WORDS.choice).issuperset(words_of(option["lead"])):  # "✅ Correct: Down" is chosen
        return None
    span = option.span("plan")
    chosen = {name for name, start, _ in named if span[0] <= start < span[1]}
    crossed = {name for name, start, _ in named if not span[0] <= start < span[1]}
    clear = crossed and chosen.isdisjoint(crossed) and not is_rejected(masked[span[1] : option.end()])
    return span if clear and plans(*span) else None
