"""Answers between the format's own tags: which of them are meant."""

from __future__ import annotations

import bisect
import operator
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vagen_envs.replies.tags import Tag, TagNames, in_ascii, without_tokens
from vagen_envs.replies.thinking import Span, Thinking, blanked, find_thinking, within
from vagen_envs.replies.turns import corrects, is_taken_back

_PLACEHOLDER = re.compile(
    r"[\s.…\[\](){}*_`'\"-]*"
    r"(?:(?:your |the )?(?:answer|actions?)(?: ?(?:here|1|goes here))?(?:[,|; ]+action ?2)?"
    r"(?:[,|; ]+)?)?"
    r"[\s.…\[\](){}*_`'\"-]*",
    re.IGNORECASE,
)
"""An answer that says no more than "your answer here"."""
_CONNECTOR = re.compile(
    r"(?:[\s,;&+*_>→|–—-]|<br>|\b(?:and|then|next|finally|after that|followed by)\b)*",
    re.IGNORECASE,
)
_CUT_TAG = re.compile(r"<\s?[/\\]?[A-Za-z]{0,20}\s*\Z")  # of a reply that ends at its limit
_BLANK_END = re.compile(r"[\s*_`\"'.)\]$!~]*(?:<[/\\]?[a-z_:]{1,20}>[\s*_`]*)*\Z", re.IGNORECASE)


class Pair(NamedTuple):
    """The tags of an answer."""

    opened: Tag
    closed: Tag

    @property
    def span(self) -> Span:
        """Where the answer stands between them."""
        return self.opened.end, self.closed.start


class View(NamedTuple):
    """A reply under one assumption about code spans; `said` has blanks for its thoughts."""

    plain: str
    said: str
    tags: list[Tag]
    thinking: Thinking
    shields: Sequence[Span]

    @classmethod
    def of(cls, text: str, tags: Sequence[Tag], names: TagNames, code: Sequence[Span]) -> View:
        tags = [tag for tag in tags if not within(tag.start, code)]
        plain = without_tokens(in_ascii(text), names)
        thinking = find_thinking(text, names, code)
        return cls(plain, blanked(plain, thinking.spans), tags, thinking, _fields(tags))

    def pairs(self) -> tuple[list[Pair], Span | None]:
        """Complete answers outside thoughts and fields, and one that isn't closed after them."""
        tags = [tag for tag in self.tags if tag.name == "answer" and not self._is_hidden(tag.start)]
        if not tags or tags[-1].closes:
            return pairs_of(tags), None
        *before, last = tags
        start = last.end
        ends_the_reply = start >= len(self.plain.rstrip())
        if ends_the_reply and before and not before[-1].closes:  # the slash was forgotten
            return [*pairs_of(before), Pair(before[-1], last)], None
        cut = _CUT_TAG.search(self.plain, start)
        return pairs_of(tags), (start, cut.start() if cut else len(self.plain))

    def _is_hidden(self, at: int) -> bool:
        return self.thinking.holds(at) or within(at, self.shields)

    def ends_at(self, at: int) -> bool:
        """Whether nothing of weight follows this place."""
        return _BLANK_END.match(self.plain, at) is not None

    def is_placeholder(self, pair: Pair) -> bool:
        """Whether an answer is empty or says no more than "your answer here"."""
        return _PLACEHOLDER.fullmatch(self.plain, *pair.span) is not None

    def is_meant(self, pair: Pair) -> bool:
        """Whether no words beside an answer take it back, and no thought that may still be open
        holds it.
        """
        if self.is_taken_back(pair.opened.start, pair.closed.end):
            return False
        opened = self.thinking.open_from
        if opened is None and not self.thinking.in_doubt:
            return True
        before = opened is not None and pair.closed.start < opened
        return before or self.ends_at(pair.closed.end)

    def is_taken_back(self, start: int, end: int) -> bool:
        """Whether the words beside an answer take it back; those of a thought before it don't."""
        spans = self.thinking.spans
        before = bisect.bisect_right(spans, start, key=operator.itemgetter(1))
        thought = spans[before - 1][1] if before else 0
        return is_taken_back(self.plain, start, end, thought)

    def tagged(self) -> list[list[Span]]:
        """Groups of answers between the format's own tags, the best first."""
        _, unclosed = self.pairs()
        groups = self._kept()
        if unclosed is not None and self.plain[slice(*unclosed)].strip():
            opening = self.plain.rfind("<", 0, unclosed[0])
            groups = [] if self.is_taken_back(opening, unclosed[1]) else [[unclosed], *groups]
        return groups

    def _kept(self) -> list[list[Span]]:
        """The last answers that are meant; none where it isn't clear which of two that differ
        is.
        """
        told = self.told()
        kept = [
            pair for pair in told if self.is_meant(pair) and not self._in_one_sentence(pair, told)
        ]
        if not kept:
            return []
        group = self._last_group(kept)
        before = [pair for pair in kept if pair.closed.end <= group[0][0]]
        if not before or self.text_of(before[-1]) == self.text_of(kept[-1]):
            return [group]
        gap = self.said[before[-1].closed.end : group[0][0]]
        return [group] if corrects(gap) else []

    def _in_one_sentence(self, pair: Pair, told: Sequence[Pair]) -> bool:
        """Whether a sentence that begins at another answer goes on to this one: "A is better than
        B".
        """
        at = told.index(pair)
        if at == 0:
            return False
        gap = self.said[told[at - 1].closed.end : pair.opened.start]
        return re.search(r"\w", gap) is not None and not (
            re.search(r"[.!?:<\n]", gap) or _CONNECTOR.fullmatch(gap)
        )

    def _last_group(self, pairs: Sequence[Pair]) -> list[Span]:
        """The last answer, with those before it that it goes on from: "one answer for each
        action".
        """
        group = [pairs[-1]]
        joined = False
        for left in reversed(pairs[:-1]):
            begin = left.closed.end
            end = group[0].opened.start
            if not _CONNECTOR.fullmatch(self.plain, begin, end):
                break
            joined = joined or bool(self.plain[begin:end].strip())
            group.insert(0, left)
        texts = {self.text_of(pair) for pair in group}
        return [pair.span for pair in (group[-1:] if len(texts) == 1 and not joined else group)]

    def text_of(self, pair: Pair) -> str:
        """An answer by which another can be known to differ."""
        return "".join(self.plain[slice(*pair.span)].casefold().split())

    def told(self) -> list[Pair]:
        """Complete answers that say more than "your answer here"."""
        return [pair for pair in self.pairs()[0] if not self.is_placeholder(pair)]

    def differ(self, given: Iterable[Pair], at: int = 0) -> bool:
        """Whether answers differ and at least one begins at `at` or later."""
        pairs = list(given)
        later = any(pair.opened.start >= at for pair in pairs)
        return later and len({self.text_of(pair) for pair in pairs}) > 1

    def at_the_end_of_a_thought(self) -> list[list[Span]]:
        """The answer that a thought ends with, if the reply ends with that thought."""
        if not self.thinking.spans or not self.ends_at(self.thinking.spans[-1][1]):
            return []
        start, end = self.thinking.spans[-1]
        pairs = pairs_of(tag for tag in self.tags if start <= tag.start < end)
        if not pairs or self.is_placeholder(pairs[-1]) or not self.ends_at(pairs[-1].closed.end):
            return []
        if is_taken_back(self.plain, pairs[-1].opened.start, pairs[-1].closed.end):
            return []
        return [[pairs[-1].span]]


def pairs_of(tags: Iterable[Tag]) -> list[Pair]:
    """The closing tags of answers, each with the last opening tag before it."""
    pairs: list[Pair] = []
    opened: Tag | None = None
    for tag in tags:
        if tag.name == "answer":
            if tag.closes and opened is not None:
                pairs.append(Pair(opened, tag))
            opened = None if tag.closes else tag
    return pairs


def _fields(tags: Sequence[Tag]) -> list[Span]:
    """From the opening to the next closing of each field beside thought and answer."""
    spans = []
    opened: dict[str, Tag] = {}
    for tag in tags:
        if tag.name in ("think", "answer"):
            continue
        if not tag.closes:
            opened.setdefault(tag.name, tag)
        elif tag.name in opened:
            spans.append((opened.pop(tag.name).start, tag.end))
    return sorted(spans)
