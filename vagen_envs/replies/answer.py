"""Which answer of a reply executes: the last complete one it gives after its thinking has ended.

Quotes and drafts don't count: answers within thoughts, within other fields, within code (unless nothing else is there),
placeholders, and answers that the words beside them reject. What follows a complete reply as a made-up next turn of the
conversation isn't read at all.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vagen_envs.replies.rejection import is_taken_back
from vagen_envs.replies.special_tokens import in_ascii, without_tokens
from vagen_envs.replies.tags import TAGS, Tag, TagNames, find_tags
from vagen_envs.replies.thinking import Span, Thinking, code_spans, find_thinking, within
from vagen_envs.replies.untagged import untagged_answers
from vagen_envs.replies.vocabulary import TEMPLATES, THINKING_TAGS

_TURN = re.compile("|".join(TEMPLATES["turns"]), re.IGNORECASE)
"""Where a model goes on to write the other side's next message."""
_MOST_TURNS = 8  # places that are tried, so that time stays linear

_PLACEHOLDER = re.compile(TEMPLATES["placeholder"], re.IGNORECASE)
_CONNECTOR = re.compile(
    r"(?:[\s,;.&+*_>→|–—-]|<br>|\b(?:and|then|next|finally|after that|followed by)\b)*",
    re.IGNORECASE,
)
_CUT_TAG = re.compile(
    r"<\s?[/\\]?[A-Za-z]{0,20}\s*\Z"
)  # of a reply that ends at its limit of tokens
_BLANK_END = re.compile(r"[\s*_`\"'.)\]$!~]*(?:<[/\\]?[a-z_:]{1,20}>[\s*_`]*)*\Z", re.IGNORECASE)


class Found(NamedTuple):
    """The parts of a reply that would execute.

    Attributes:
        choices: groups of spans to be read one after the other; the first group that holds an action executes.
        tagged: the choices stand between the format's own tags.
        tags: the tags of the reply, without those of a made-up next turn.
        thinking: its thoughts.
        end: where the reply ends and a made-up next turn begins.
        fields_from: where the fields that belong to the answer begin.
        differ: complete answers, drafts included, differ.
        empty: an answer between the format's tags without anything in it, where that is all there is.
    """

    choices: Sequence[Sequence[Span]]
    tagged: bool
    tags: list[Tag]
    thinking: Thinking
    end: int
    fields_from: int
    differ: bool
    empty: Span | None


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
        return cls(
            without_tokens(in_ascii(text), names),
            tags,
            find_thinking(text, names, code),
            _fields(tags),
        )

    def pairs(self) -> tuple[list[_Pair], Span | None]:
        """Complete answers outside thoughts and fields, and one that isn't closed after them."""
        tags = [
            tag
            for tag in self.tags
            if not self.thinking.holds(tag.start) and not within(tag.start, self.shields)
        ]
        tags = [tag for tag in tags if tag.name == "answer"]
        if not tags or tags[-1].closes:
            return _pairs(tags), None
        if len(tags) > 1 and not tags[-2].closes and tags[-1].end >= len(self.plain.rstrip()):
            return [*_pairs(tags[:-1]), _Pair(tags[-2], tags[-1])], None  # the slash was forgotten
        start = tags[-1].end
        cut = _CUT_TAG.search(self.plain, start)
        return _pairs(tags), (start, cut.start() if cut else len(self.plain))

    def ends_at(self, at: int) -> bool:
        """Whether nothing of weight follows this place."""
        return _BLANK_END.match(self.plain, at) is not None

    def is_placeholder(self, pair: _Pair) -> bool:
        """Whether an answer is empty or says no more than "your answer here"."""
        return _PLACEHOLDER.fullmatch(self.plain, *pair.span) is not None


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
        loosely: also take answers in other forms: other tags, tool calls, JSON, a label, the bare actions.
    """
    tags = find_tags(text, names)
    end = _end_of_reply(text, names, tags)
    text = text[:end]
    code = code_spans(text)
    view = _View.of(text, names, [*code, *_stray_close(text, names)])
    groups = _tagged(view)
    if not groups and code:
        bare = _View.of(text, names, ())
        if found := _tagged(bare, quoted=True):
            view = bare
            groups = found
    tagged = bool(groups)
    if not groups and loosely:
        thinks = view.thinking.open_from is not None
        blank = [*view.thinking.spans, *view.shields]
        groups = (
            []
            if thinks
            else untagged_answers(
                _blanked(in_ascii(text), blank), _blanked(view.plain, blank), code
            )
        )
    first = groups[0][0][0] if groups else 0
    inside = [tag for tag in tags if tag.end <= end]
    pairs, _ = view.pairs()
    empty = pairs[-1].span if pairs and not tagged and view.is_placeholder(pairs[-1]) else None
    earlier = [pair.closed.start for pair in pairs if pair.closed.start < first]
    complete = [
        view.plain[slice(*pair.span)] for pair in _pairs(inside) if not view.is_placeholder(pair)
    ]
    differ = len({"".join(answer.casefold().split()) for answer in complete}) > 1
    return Found(groups, tagged, inside, view.thinking, end, max(earlier, default=0), differ, empty)


def _stray_close(text: str, names: TagNames) -> list[Span]:
    """A thought's closing tag at the end of the answer that ends the reply: `<answer>Up</think></answer>`."""
    called = "|".join(map(re.escape, [names[0], *THINKING_TAGS]))
    stray = re.search(rf"</(?:{called})>(?=\s*</{re.escape(names[-1])}>\s*\Z)", text, re.IGNORECASE)
    return [stray.span()] if stray else []


def last_answer(text: str, names: TagNames = TAGS) -> str | None:
    """The text of the answer that would execute, stripped; `None` if no answer stands between tags."""
    found = find_answers(text, names, loosely=False)
    return text[slice(*found.choices[0][-1])].strip() if found.choices else None


def _end_of_reply(text: str, names: TagNames, tags: Sequence[Tag]) -> int:
    """Where a made-up next turn begins after a complete reply, else the length of the text."""
    closes = [tag.end for tag in tags if tag.name == "answer" and tag.closes]
    turns = [*itertools.islice(_TURN.finditer(text, closes[0]), _MOST_TURNS)] if closes else []
    if not turns:
        return len(text)
    whole = find_thinking(text, names)
    for turn in turns:
        before = find_thinking(text[: turn.start()], names)
        after = find_thinking(text[turn.start() :], names)
        # A quote of the conversation within a thought isn't the end: the thought's own close follows.
        unfinished = before.open_from is not None and any(
            end > turn.start() for _, end in whole.spans
        )
        if unfinished or (after.implied and not before.implied):
            continue
        pairs, _ = _View.of(text[: turn.start()], names, code_spans(text[: turn.start()])).pairs()
        if pairs:
            return turn.start()
    return len(text)


def _tagged(view: _View, *, quoted: bool = False) -> list[list[Span]]:
    """Groups of answers between the format's own tags, the best first; `quoted` ones aren't taken from a thought."""
    pairs, unclosed = view.pairs()
    thinking = view.thinking
    kept = [
        pair
        for pair in pairs
        if not view.is_placeholder(pair)
        and not is_taken_back(view.plain, pair.opened.start, pair.closed.end)
    ]
    if thinking.open_from is not None:
        kept = [
            p for p in kept if p.closed.start < thinking.open_from or view.ends_at(p.closed.end)
        ]
    elif thinking.in_doubt:
        kept = [p for p in kept if view.ends_at(p.closed.end)]
    groups = [_last_group(view, kept)] if kept else []
    if unclosed is not None and not view.plain[slice(*unclosed)].isspace():
        groups.insert(0, [unclosed])
    return groups or ([] if quoted else _at_the_end_of_a_thought(view))


def _last_group(view: _View, pairs: Sequence[_Pair]) -> list[Span]:
    """The last answer, with those before it that it goes on from: "one answer for each action"."""
    group = [pairs[-1]]
    joined = False
    for left in reversed(pairs[:-1]):
        begin = left.closed.end
        end = group[0].opened.start
        if not _CONNECTOR.fullmatch(view.plain, begin, end):
            break
        joined = joined or (not view.plain[begin:end].isspace() and begin < end)
        group.insert(0, left)
    texts = {view.plain[slice(*pair.span)].strip().casefold() for pair in group}
    return [pair.span for pair in (group[-1:] if len(texts) == 1 and not joined else group)]


def _at_the_end_of_a_thought(view: _View) -> list[list[Span]]:
    """The answer that a thought ends with, if the reply ends with that thought."""
    if not view.thinking.spans or not view.ends_at(view.thinking.spans[-1][1]):
        return []
    start, end = view.thinking.spans[-1]
    pairs = _pairs(tag for tag in view.tags if start <= tag.start < end)
    if not pairs or not view.ends_at(pairs[-1].closed.end) or view.is_placeholder(pairs[-1]):
        return []
    return [[pairs[-1].span]]


def _blanked(text: str, spans: Sequence[Span]) -> str:
    letters = list(text)
    for start, end in spans:
        letters[start:end] = " " * (end - start)
    return "".join(letters)


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
