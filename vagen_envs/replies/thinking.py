"""Where a reply thinks: its own tag, and the marks that other models write.

Thoughts may hold tags of their own: quotes of the prompt's example, drafts that are then rejected.
So a thought ends at its matching close. Chat templates open a thought in the prompt; where closings
exceed openings, the missing openings are taken to stand before the text.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vagen_envs.replies.tags import Tag, TagNames, in_ascii
from vagen_envs.replies.vocabulary import THINKING_TAGS

Span = tuple[int, int]

_MARKS = (
    ("brackets", r"\[THINK\]", r"\[/THINK\]"),  # Mistral's
    ("triangles", r"◁think▷", r"◁/think▷"),  # Kimi's
    ("start", r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Cohere's
    ("begin", r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),  # Sky-T1's
    ("gemma", r"<\|channel>thought\b", r"<channel\|>"),
    ("unused", r"<unused94>", r"<unused95>"),
    ("granite", r"\bhere is my thought process:", r"\bhere is my response:"),
    ("ollama", r"^thinking\.\.\.[ \t]*$", r"^\.\.\.done thinking\.?"),
    (
        "channel",  # gpt-oss'
        r"<\|channel\|>analysis\b[^<]{0,80}<\|message\|>",
        r"<\|channel\|>(?:final|commentary)\b",
    ),
)
"""How models open and close a thought, beside tags: a name, the opening and the closing."""
_CODE = re.compile(r"(```|~~~).*?(?:\1|\Z)|`[^`\n]+`", re.DOTALL)


class Thinking(NamedTuple):
    """The thoughts of a reply.

    Attributes:
        spans: closed thoughts, their marks included; in order, apart from each other.
        open_from: where a thought begins that isn't closed, else `None`.
        in_doubt: an earlier opening wasn't closed, so that what follows the last thought may be
            thought too.
        implied: the first thought was opened by the prompt.
    """

    spans: Sequence[Span]
    open_from: int | None
    in_doubt: bool
    implied: bool

    def holds(self, at: int) -> bool:
        """Whether a closed thought holds this place."""
        return within(at, self.spans)


def within(at: int, spans: Sequence[Span]) -> bool:
    """Whether one of the spans, which are in order, holds this place."""
    before = bisect.bisect_right(spans, at, key=operator.itemgetter(0)) - 1
    return before >= 0 and at < spans[before][1]


def blanked(text: str, spans: Sequence[Span]) -> str:
    """The text with blanks in place of the spans."""
    letters = list(text)
    for start, end in spans:
        letters[start:end] = " " * (end - start)
    return "".join(letters)


def code_spans(text: str) -> list[Span]:
    """Fenced and inline code, in which tags are mostly quoted."""
    return [match.span() for match in _CODE.finditer(text)] if "`" in text or "~~~" in text else []


def find_thinking(text: str, names: TagNames, quoted: Sequence[Span] = ()) -> Thinking:
    """The thoughts of a reply, but for marks within `quoted`."""
    kinds: dict[str, list[tuple[int, int, bool]]] = {}
    spots = iter(quoted)
    skip = next(spots, None)
    for mark in _mark_pattern(names).finditer(in_ascii(text)):
        while skip is not None and skip[1] <= mark.start():
            skip = next(spots, None)
        if skip is None or mark.start() < skip[0]:
            kind = str(mark.lastgroup)
            named = mark["tag"] or kind[1:]
            opens = kind[0] == "o" if mark["tag"] is None else not mark["slash"]
            kinds.setdefault(named.lower(), []).append((mark.start(), mark.end(), opens))
    spans: list[Span] = []
    open_from: int | None = None
    in_doubt = implied = False
    for kind, marks in kinds.items():
        closed, opened, doubt, before = _match(marks, nests=kind != "channel")
        spans += closed
        open_from = min((at for at in (open_from, opened) if at is not None), default=None)
        in_doubt = in_doubt or doubt
        implied = implied or before
    return Thinking(_merged(spans), open_from, in_doubt, implied)


def _match(
    marks: Sequence[tuple[int, int, bool]], *, nests: bool
) -> tuple[list[Span], int | None, bool, bool]:
    """Closed spans of one kind of mark, an opening without a close, whether one is in doubt, one
    implied.
    """
    if not nests:  # such a mark is repeated for each message
        runs = itertools.groupby(marks, key=operator.itemgetter(2))
        marks = [next(run) for _, run in runs]
    depth = lowest = 0
    for _, _, opens in marks:
        depth += 1 if opens else -1
        lowest = min(lowest, depth)
    surplus = depth - lowest
    last_close = max((end for _, end, opens in marks if not opens), default=-1)
    opened = next((start for start, _, opens in marks if opens and start >= last_close), None)
    in_doubt = surplus > 0 and opened is None
    spans: list[Span] = []
    depth = -lowest
    begun = 0
    for start, end, opens in marks:
        if opened is not None and start >= opened:
            break
        if opens:
            begun = start if depth == 0 else begun
            depth += 1
        else:
            depth -= 1
            if depth == 0 or end == last_close:
                spans.append((begun, end))
    return spans, opened, in_doubt, lowest < 0


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def count_marks(text: str, names: TagNames) -> int:
    """How many marks open and close thoughts; -1 if code may quote one."""
    quoted = "`" in text or "~~~" in text
    return -1 if quoted else sum(1 for _ in _mark_pattern(names).finditer(text))


@functools.lru_cache(maxsize=64)
def _mark_pattern(names: TagNames) -> re.Pattern[str]:
    """All marks: the kind is the name of a `tag`, or in the name of the group `o…` or `c…`, which
    opens or closes.
    """
    called = "|".join(
        map(re.escape, [names[0], *(name for name in THINKING_TAGS if name not in names)])
    )
    forms = "|".join(
        f"(?P<o{kind}>{opening})|(?P<c{kind}>{closing})" for kind, opening, closing in _MARKS
    )
    tag = rf"<\s?(?P<slash>[/\\]?)\s?(?P<tag>{called})(?:\s[^<>]{{0,200}}(?<!/))?\s?>"
    return re.compile(f"{tag}|{forms}", re.IGNORECASE | re.MULTILINE)


_MOST_THOUGHTS = 8  # of a thinking model before its reply, so that time stays linear


def native_end(
    text: str, tags: list[Tag], thinking: Thinking, sequences: Sequence[tuple[str, ...]]
) -> int:
    """Where a thinking model's own text ends and its reply begins; 0 if there is no such text.

    Chat templates of thinking models open `<think>` themselves, so replies arrive as "thought
    </think> reply"; others write "<think>thought</think> reply" or never close it, and the reply
    may begin with `<think>` too.
    """
    begins = [0]
    for start, end in thinking.spans:
        if text[begins[-1] : start].strip():
            break
        begins.append(end)
    thinks = [tag for tag in tags if tag.name == "think"]
    twice = len(thinks) > 1 and not thinks[0].closes and not thinks[1].closes
    unclosed = thinks[1].start if twice and not text[: thinks[0].start].strip() else 0
    for begin in (*begins[:_MOST_THOUGHTS], unclosed):
        if tuple(tag.form for tag in tags if tag.start >= begin) in sequences:
            return begin
    if len(begins) == 1:
        return unclosed
    if thinking.implied or sequences[0][0] != "<think>":
        return begins[1]
    if _is_followed(text, thinks, begins[1]):
        return begins[1]
    return unclosed if thinking.in_doubt else 0


def _is_followed(text: str, thinks: Sequence[Tag], end: int) -> bool:
    """Whether the thought that ends here is a model's own: another kind, or the reply's own follows
    it.
    """
    if not thinks or thinks[0].closes or thinks[0].start >= end:
        return True
    follows = next((tag for tag in thinks if tag.start >= end), None)
    return follows is not None and not follows.closes and not text[end : follows.start].strip()
