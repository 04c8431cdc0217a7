"""Which answer of a reply executes: the last complete one it gives after its thinking has ended.

Answers within thoughts, within other fields and within code (unless nothing else is there) are
quotes or drafts, and so is an answer that is a part of a sentence. What follows a complete reply as
a made-up next turn isn't read at all.
"""

from __future__ import annotations

import bisect
import operator
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vagen_envs.replies.tags import TAGS, Tag, TagNames, find_tags, in_ascii, without_tokens
from vagen_envs.replies.thinking import Span, Thinking, blanked, code_spans, find_thinking, within
from vagen_envs.replies.turns import Ending, corrects, end_of_reply, is_taken_back
from vagen_envs.replies.untagged import Candidates, untagged_answers
from vagen_envs.replies.vocabulary import THINKING_TAGS

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


class Found(NamedTuple):
    """The parts of a reply that would execute.

    Attributes:
        tagged: groups of answers between the format's own tags, to be read one after the other; the
            first group that holds an action executes.
        untagged: answers in other forms, where none is tagged.
        tags: the tags of the reply, without those of a made-up next turn.
        thinking: its thoughts.
        end: where the reply ends and a made-up next turn begins.
        fields_from: where the fields that belong to the answer begin.
        differ: complete answers, drafts included, differ.
        empty: an answer between the format's tags without anything in it, where that is all there
            is.
        unclear: an answer that the words beside it take back, where nothing else executes.
    """

    tagged: Sequence[Sequence[Span]]
    untagged: Candidates
    tags: list[Tag]
    thinking: Thinking
    end: int
    fields_from: int
    differ: bool
    empty: Span | None
    unclear: Span | None


class _Pair(NamedTuple):
    """The tags of an answer."""

    opened: Tag
    closed: Tag

    @property
    def span(self) -> Span:
        """Where the answer stands between them."""
        return self.opened.end, self.closed.start


class _View(NamedTuple):
    """A reply under one assumption about code spans."""

    plain: str
    tags: list[Tag]
    thinking: Thinking
    shields: Sequence[Span]

    @classmethod
    def of(cls, text: str, names: TagNames, code: Sequence[Span]) -> _View:
        tags = [tag for tag in find_tags(text, names) if not within(tag.start, code)]
        plain = without_tokens(in_ascii(text), names)
        return cls(plain, tags, find_thinking(text, names, code), _fields(tags))

    def pairs(self) -> tuple[list[_Pair], Span | None]:
        """Complete answers outside thoughts and fields, and one that isn't closed after them."""
        tags = [tag for tag in self.tags if tag.name == "answer" and not self._is_hidden(tag.start)]
        if not tags or tags[-1].closes:
            return _pairs(tags), None
        if len(tags) > 1 and not tags[-2].closes and tags[-1].end >= len(self.plain.rstrip()):
            return [*_pairs(tags[:-1]), _Pair(tags[-2], tags[-1])], None  # the slash was forgotten
        start = tags[-1].end
        cut = _CUT_TAG.search(self.plain, start)
        return _pairs(tags), (start, cut.start() if cut else len(self.plain))

    def _is_hidden(self, at: int) -> bool:
        return self.thinking.holds(at) or within(at, self.shields)

    def ends_at(self, at: int) -> bool:
        """Whether nothing of weight follows this place."""
        return _BLANK_END.match(self.plain, at) is not None

    def is_placeholder(self, pair: _Pair) -> bool:
        """Whether an answer is empty or says no more than "your answer here"."""
        return _PLACEHOLDER.fullmatch(self.plain, *pair.span) is not None

    def is_meant(self, pair: _Pair) -> bool:
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
        if before and self.text_of(before[-1]) != self.text_of(kept[-1]):
            gap = self._without_thoughts(before[-1].closed.end, group[0][0])
            if not corrects(gap):
                return []
        return [group]

    def _without_thoughts(self, start: int, end: int) -> str:
        """What stands between two answers, with blanks for the thoughts there."""
        gap = self.plain[start:end]
        for first, last in self.thinking.spans:
            if first >= start:
                gap = gap.replace(self.plain[first:last], " ")
        return gap

    def _in_one_sentence(self, pair: _Pair, told: Sequence[_Pair]) -> bool:
        """Whether a sentence that begins at another answer goes on to this one: "A is better than
        B".
        """
        at = told.index(pair)
        if at == 0:
            return False
        gap = self._without_thoughts(told[at - 1].closed.end, pair.opened.start)
        return re.search(r"\w", gap) is not None and not (
            re.search(r"[.!?:<\n]", gap) or _CONNECTOR.fullmatch(gap)
        )

    def _last_group(self, pairs: Sequence[_Pair]) -> list[Span]:
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

    def text_of(self, pair: _Pair) -> str:
        """An answer by which another can be known to differ."""
        return "".join(self.plain[slice(*pair.span)].casefold().split())

    def told(self) -> list[_Pair]:
        """Complete answers that say more than "your answer here"."""
        return [pair for pair in self.pairs()[0] if not self.is_placeholder(pair)]

    def differ(self, given: Iterable[_Pair], at: int = 0) -> bool:
        """Whether answers differ and at least one begins at `at` or later."""
        pairs = list(given)
        later = any(pair.opened.start >= at for pair in pairs)
        return later and len({self.text_of(pair) for pair in pairs}) > 1

    def at_the_end_of_a_thought(self) -> list[list[Span]]:
        """The answer that a thought ends with, if the reply ends with that thought."""
        if not self.thinking.spans or not self.ends_at(self.thinking.spans[-1][1]):
            return []
        start, end = self.thinking.spans[-1]
        pairs = _pairs(tag for tag in self.tags if start <= tag.start < end)
        if not pairs or self.is_placeholder(pairs[-1]) or not self.ends_at(pairs[-1].closed.end):
            return []
        if is_taken_back(self.plain, pairs[-1].opened.start, pairs[-1].closed.end):
            return []
        return [[pairs[-1].span]]


def _pairs(tags: Iterable[Tag]) -> list[_Pair]:
    """The closing tags of answers, each with the last opening tag before it."""
    pairs: list[_Pair] = []
    opened: Tag | None = None
    for tag in tags:
        if tag.name == "answer":
            if tag.closes and opened is not None:
                pairs.append(_Pair(opened, tag))
            opened = None if tag.closes else tag
    return pairs


def find_answers(text: str, names: TagNames, *, loosely: bool) -> Found:
    """Find what a reply would execute.

    Args:
        text: the reply.
        names: what the tags are called.
        loosely: also take answers in other forms: other tags, tool calls, JSON, a label, the bare
            actions.
    """
    tags = find_tags(text, names)
    end, doubtful = _ending(text, names, tags)
    text = text[:end]
    code = code_spans(text)
    view = _View.of(text, names, [*code, *_stray_close(text, names)])
    groups = view.tagged() or view.at_the_end_of_a_thought()
    if not groups and code:
        bare = _View.of(text, names, ())
        if found := bare.tagged():
            view = bare
            groups = found
    pairs = view.told()
    if doubtful is not None and view.differ(filter(view.is_meant, pairs), doubtful):
        groups = []
    others = Candidates()
    if loosely and not groups and not pairs and view.thinking.open_from is None:
        blank = [*view.thinking.spans, *view.shields]  # outside thoughts and fields
        original = blanked(in_ascii(text), blank)
        others = untagged_answers(original, blanked(view.plain, blank), code)
    return _found(view, groups, others, [tag for tag in tags if tag.end <= end], end)


def _found(
    view: _View, tagged: list[list[Span]], others: Candidates, inside: list[Tag], end: int
) -> Found:
    """What was found, with what it says of the other answers."""
    pairs = view.told()
    first = tagged[0][0][0] if tagged else 0
    earlier = [pair.closed.start for pair in pairs if pair.closed.start < first]
    complete = [pair for pair in _pairs(inside) if not view.is_placeholder(pair)]
    unread = view.pairs()[0] if not tagged else []
    return Found(
        tagged,
        others,
        inside,
        view.thinking,
        end,
        fields_from=max(earlier, default=0),
        differ=view.differ(complete),
        empty=unread[-1].span if unread and not pairs else None,
        unclear=pairs[-1].span if pairs and not tagged else None,
    )


def _ending(text: str, names: TagNames, tags: Sequence[Tag]) -> Ending:
    """Where a reply ends, by what follows its first complete answer."""
    closed = next((tag.end for tag in tags if tag.name == "answer" and tag.closes), None)
    if closed is None or end_of_reply(text, closed, ()) == (len(text), None):
        return Ending(len(text), None)
    view = _View.of(text, names, code_spans(text))
    pairs = view.told()
    if not pairs:
        return Ending(len(text), None)
    return end_of_reply(text, pairs[0].closed.end, view.thinking.spans)


def _stray_close(text: str, names: TagNames) -> list[Span]:
    """A thought's closing tag at the end of the answer that ends the reply:
    `<answer>Up</think></answer>`.
    """
    called = "|".join(map(re.escape, [names[0], *THINKING_TAGS]))
    stray = re.search(rf"</(?:{called})>(?=\s*</{re.escape(names[-1])}>\s*\Z)", text, re.IGNORECASE)
    return [stray.span()] if stray else []


def last_answer(text: str, names: TagNames = TAGS) -> str | None:
    """The text of the answer that would execute, stripped; `None` if no answer stands between
    tags.
    """
    found = find_answers(text, names, loosely=False)
    return text[slice(*found.tagged[0][-1])].strip() if found.tagged else None


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
