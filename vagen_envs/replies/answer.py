"""Which answer between the format's tags executes: the last complete one that a reply gives after
its thinking has ended.

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

from vagen_envs.replies.tags import (
    TAGS,
    Span,
    Tag,
    TagNames,
    Thinking,
    blanked,
    code_spans,
    find_tags,
    find_thinking,
    in_ascii,
    within,
    without_tokens,
)
from vagen_envs.replies.turns import corrects, end_of_reply, is_taken_back

_PLACEHOLDER = re.compile(
    r"[\s.…\[\](){}*_`'\"-]*"
    r"(?:(?:your |the )?(?:answer|actions?)(?: ?(?:here|1|goes here))?(?:[,|; ]+action ?2)?"
    r"(?:[,|; ]+)?)?"
    r"[\s.…\[\](){}*_`'\"-]*",
    re.IGNORECASE,
)
"""An answer that says no more than "your answer here"."""
_CONNECTOR = re.compile(r"[\s,;&+*_>→|–—-]*")
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


class Found(NamedTuple):
    """The parts of a reply that would execute.

    Attributes:
        answer: where the answer stands between the format's own tags, in parts to be read one after
            the other; empty where none counts.
        tags: the tags of the reply, without those of a made-up next turn.
        thinking: its thoughts.
        hidden: its thoughts and its fields beside the answer.
        end: where the reply ends and a made-up next turn begins.
        fields_from: where the fields that belong to the answer begin.
        differ: complete answers, drafts included, differ.
        empty: an answer without anything in it, where that is all there is.
        unclear: an answer that the words beside it take back, where nothing else executes.
    """

    answer: Sequence[Span]
    tags: list[Tag]
    thinking: Thinking
    hidden: Sequence[Span]
    end: int
    fields_from: int
    differ: bool
    empty: Span | None
    unclear: Span | None


def find_answer(text: str, names: TagNames) -> Found:
    """Find what a reply would execute."""
    view = View.of(text, names, code_spans(text))
    told = view.told()
    end = len(text)
    if told:
        end = end_of_reply(in_ascii(text), told[0].closed.end, view.thinking.spans)
    if end < len(text):
        text = text[:end]
        view = View.of(text, names, code_spans(text))
    answer = view.answer() or view.at_the_end_of_a_thought()
    if not answer and "`" in text:
        bare = View.of(text, names, ())
        if answer := bare.answer():
            view = bare
    return view.found(answer)


class View(NamedTuple):
    """A reply under one assumption about code: whether the tags in it are quoted.

    Attributes:
        plain: the reply in ASCII, without a template's tokens.
        inside: all its tags.
        tags: those that aren't quoted.
        thinking: its thoughts.
        fields: its fields beside thought and answer.
    """

    plain: str
    inside: list[Tag]
    tags: list[Tag]
    thinking: Thinking
    fields: Sequence[Span]

    @classmethod
    def of(cls, text: str, names: TagNames, code: Sequence[Span]) -> View:
        inside = find_tags(text, names)
        tags = [tag for tag in inside if not within(tag.start, code)]
        plain = without_tokens(in_ascii(text), names)
        return cls(plain, inside, tags, find_thinking(text, names, code), _fields(tags))

    def found(self, answer: Sequence[Span]) -> Found:
        """What was found, with what it says of the other answers."""
        told = self.told()
        first = answer[0][0] if answer else 0
        earlier = [pair.closed.start for pair in told if pair.closed.start < first]
        complete = [pair for pair in pairs_of(self.inside) if not self._is_placeholder(pair)]
        unread = [] if answer else self._pairs()
        return Found(
            answer,
            self.inside,
            self.thinking,
            [*self.thinking.spans, *self.fields],
            len(self.plain),
            fields_from=max(earlier, default=0),
            differ=len({self._text_of(pair) for pair in complete}) > 1,
            empty=unread[-1].span if unread and not told else None,
            unclear=told[-1].span if told and not answer else None,
        )

    def _pairs(self) -> list[Pair]:
        """Answers outside thoughts and fields; a stop string may have cut the last one's closing
        tag.
        """
        tags = [tag for tag in self.tags if tag.name == "answer" and not self._is_hidden(tag.start)]
        pairs = pairs_of(tags)
        if tags and not tags[-1].closes:
            cut = _CUT_TAG.search(self.plain, tags[-1].end)
            end = cut.start() if cut else len(self.plain)
            pairs.append(Pair(tags[-1], Tag("answer", True, end, len(self.plain), False)))
        return pairs

    def _is_hidden(self, at: int) -> bool:
        return self.thinking.holds(at) or within(at, self.fields)

    def told(self) -> list[Pair]:
        """Answers that say more than "your answer here"."""
        return [pair for pair in self._pairs() if not self._is_placeholder(pair)]

    def _is_placeholder(self, pair: Pair) -> bool:
        return _PLACEHOLDER.fullmatch(self.plain, *pair.span) is not None

    def _text_of(self, pair: Pair) -> str:
        """An answer by which another can be known to differ."""
        return "".join(self.plain[slice(*pair.span)].casefold().split())

    def _ends_at(self, at: int) -> bool:
        """Whether nothing of weight follows this place."""
        return _BLANK_END.match(self.plain, at) is not None

    def answer(self) -> list[Span]:
        """The last answer that is meant; none where it isn't clear which of two that differ is."""
        said = blanked(self.plain, [*self.thinking.spans, *self.fields])
        told = self.told()
        kept = [pair for pair in told if self._is_meant(pair)]
        if not kept or _is_in_one_sentence(kept[-1], told, said):
            return []
        group = self._last_group(kept)
        before = kept[: -len(group)]
        differs = before and self._text_of(before[-1]) != self._text_of(kept[-1])
        if differs and not corrects(said[before[-1].closed.end : group[0].opened.start]):
            return []
        return [pair.span for pair in group]

    def _is_meant(self, pair: Pair) -> bool:
        """Whether no words beside an answer take it back, and no thought that may still be open
        holds it.
        """
        spans = self.thinking.spans
        before = bisect.bisect_right(spans, pair.opened.start, key=operator.itemgetter(1))
        thought = spans[before - 1][1] if before else 0
        if is_taken_back(self.plain, pair.opened.start, pair.closed.end, thought):
            return False
        opened = self.thinking.open_from
        if opened is None and not self.thinking.in_doubt:
            return True
        return (opened is not None and pair.closed.start < opened) or self._ends_at(pair.closed.end)

    def _last_group(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The last answer, with those before it that it goes on from: "one answer for each
        action".
        """
        group = [pairs[-1]]
        for left in reversed(pairs[:-1]):
            if not _CONNECTOR.fullmatch(self.plain, left.closed.end, group[0].opened.start):
                break
            group.insert(0, left)
        texts = {self._text_of(pair) for pair in group}
        joined = self.plain[group[0].closed.end : group[-1].opened.start]
        is_repeated = len(texts) == 1 and len(group) == 2 and not joined.strip()
        return group[-1:] if is_repeated else group

    def at_the_end_of_a_thought(self) -> list[Span]:
        """The answer that a thought ends with, if the reply ends with that thought."""
        if not self.thinking.spans or not self._ends_at(self.thinking.spans[-1][1]):
            return []
        start, end = self.thinking.spans[-1]
        pairs = pairs_of(tag for tag in self.tags if start <= tag.start < end)
        if not pairs or self._is_placeholder(pairs[-1]) or not self._ends_at(pairs[-1].closed.end):
            return []
        opened, closed = pairs[-1]
        is_draft = is_taken_back(self.plain, opened.start, closed.end)
        return [] if is_draft else [pairs[-1].span]


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


def _is_in_one_sentence(pair: Pair, told: Sequence[Pair], said: str) -> bool:
    """Whether a sentence goes on from another answer to this one: "A is better than B"."""
    at = told.index(pair)
    gap = said[told[at - 1].closed.end : pair.opened.start] if at else ""
    if re.search(r"[.!?:<\n]", gap) or _CONNECTOR.fullmatch(gap):
        return False
    return re.search(r"\w", gap) is not None


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


def last_answer(text: str, names: TagNames = TAGS) -> str | None:
    """The text of the answer that would execute, stripped; `None` if no answer stands between
    tags.
    """
    answer = find_answer(text, names).answer
    return text[slice(*answer[-1])].strip() if answer else None
