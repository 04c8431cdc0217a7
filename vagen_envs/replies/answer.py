"""Which answer of a reply executes: the last complete one it gives after its thinking has ended.

Quotes and drafts don't count: answers within thoughts, within other fields, within code (unless nothing else is there),
placeholders, and answers that the words beside them reject. What follows a complete reply as a made-up next turn of the
conversation isn't read at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from vagen_envs.replies.rejection import is_taken_back
from vagen_envs.replies.special_tokens import in_ascii, without_tokens
from vagen_envs.replies.tags import TAGS, Tag, TagNames, find_tags
from vagen_envs.replies.thinking import Span, Thinking, code_spans, find_thinking, within
from vagen_envs.replies.untagged import untagged_answers

_TURN = re.compile(
    r"\n[ \t]*(?:#{1,4}[ \t]*|\*\*|\[|<\|start_header_id\|>|<\|start\|>)?(?:user|human|system|environment|observation)"
    r"(?:\*\*|\]|<\|end_header_id\|>|<\|message\|>)?[ \t]*(?::|\n)"
    r"|\[(?:Turn result|Turn \d+|First observation|Initial Observation|(?:Next )?Observation)\]"
    r"|<\|(?:im_start|user|observation)\|>|<｜User｜>|\[INST\]|<start_of_turn>user|</?tool_response>"
    r"|(?<=/answer>)\s*<observation>|<\|eot_id\|>|<\|im_end\|>|\n[ \t]*<image>",
    re.IGNORECASE,
)
"""Where a model goes on to write the other side's next message."""
_MOST_TURNS = 8  # places that are tried, so that time stays linear

_PLACEHOLDER = re.compile(
    r"[\s.…\[\](){}*_`'\"-]*(?:(?:your |the )?(?:answer|actions?)(?: ?(?:here|1|goes here))?"
    r"(?:[,|; ]+action ?2)?(?:[,|; ]+)?)?[\s.…\[\](){}*_`'\"-]*",
    re.IGNORECASE,
)
_CONNECTOR = re.compile(
    r"(?:[\s,;.&+*_>→|–—-]|<br>|\b(?:and|then|next|finally|after that|followed by)\b)*", re.IGNORECASE
)
_CUT_TAG = re.compile(r"<\s?[/\\]?[A-Za-z]{0,20}\s*\Z")  # of a reply that ends at its limit of tokens
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


class _View(NamedTuple):
    """A reply under one assumption about code spans."""

    plain: str
    text: str
    tags: list[Tag]
    thinking: Thinking
    code: Sequence[Span]
    shields: Sequence[Span]

    @classmethod
    def of(cls, text: str, names: TagNames, code: Sequence[Span]) -> _View:
        tags = [tag for tag in find_tags(text, names) if not within(tag.start, code)]
        thinking = find_thinking(text, names, code)
        return cls(without_tokens(in_ascii(text), names), text, tags, thinking, code, _fields(tags))

    def pairs(self) -> tuple[list[Span], Span | None]:
        """Complete answers outside thoughts and fields, and one that isn't closed after them."""
        pairs: list[Span] = []
        opened: Tag | None = None
        last = len(self.plain.rstrip())
        for tag in self.tags:
            if tag.name != "answer" or self.thinking.holds(tag.start) or within(tag.start, self.shields):
                continue
            closes = tag.closes or (opened is not None and tag.end >= last)  # the slash was forgotten
            if not closes:
                opened = tag
            elif opened is not None:
                pairs.append((opened.end, tag.start))
                opened = None
        if opened is None:
            return pairs, None
        cut = _CUT_TAG.search(self.plain, opened.end)
        return pairs, (opened.end, cut.start() if cut else len(self.text))

    def ends_at(self, at: int) -> bool:
        """Whether nothing of weight follows this place."""
        return _BLANK_END.match(self.plain, at) is not None


def find_answers(text: str, names: TagNames, *, loosely: bool) -> Found:
    """Find what a reply would execute.

    Args:
        text: the reply.
        names: what the tags are called.
        loosely: also take answers in other forms: other tags, tool calls, JSON, a label, the bare actions.
    """
    full = text
    tags = find_tags(full, names)
    end = _end_of_reply(full, names, tags)
    text = full[:end]
    code = code_spans(text)
    view = _View.of(text, names, code)
    groups = _tagged(view)
    if not groups and code:
        bare = _View.of(text, names, ())
        if found := _tagged(bare, quoted=True):
            view, groups = bare, found
    tagged = bool(groups)
    if not groups and loosely:
        thinks = view.thinking.open_from is not None
        blank = [*view.thinking.spans, *view.shields]
        groups = [] if thinks else untagged_answers(_blanked(in_ascii(text), blank), _blanked(view.plain, blank), code)
    first = groups[0][0][0] if groups else 0
    inside = [tag for tag in tags if tag.end <= end]
    pairs, _ = view.pairs()
    empty = pairs[-1] if pairs and not tagged and _PLACEHOLDER.fullmatch(view.plain, *pairs[-1]) else None
    earlier = [pair[1] for pair in pairs if pair[1] < first]
    differ = _differ(view.plain, inside)
    return Found(groups, tagged, inside, view.thinking, end, max(earlier, default=0), differ, empty)


def last_answer(text: str, names: TagNames = TAGS) -> str | None:
    """The text of the answer that would execute, stripped; `None` if no answer stands between tags."""
    found = find_answers(text, names, loosely=False)
    return text[slice(*found.choices[0][-1])].strip() if found.choices else None


def _end_of_reply(text: str, names: TagNames, tags: Sequence[Tag]) -> int:
    """Where a made-up next turn begins after a complete reply, else the length of the text."""
    closes = [tag.end for tag in tags if tag.name == "answer" and tag.closes]
    if not closes:
        return len(text)
    whole: Thinking | None = None
    for number, turn in enumerate(_TURN.finditer(text, closes[0])):
        if number == _MOST_TURNS:
            break
        whole = whole or find_thinking(text, names)
        before, after = find_thinking(text[: turn.start()], names), find_thinking(text[turn.start() :], names)
        # A quote of the conversation within a thought isn't the end: the thought's own close follows.
        unfinished = before.open_from is not None and any(end > turn.start() for _, end in whole.spans)
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
    kept = [pair for pair in pairs if not _PLACEHOLDER.fullmatch(view.plain, *pair)]
    kept = [pair for pair in kept if not _rejected(view, pair)]
    if thinking.open_from is not None:
        kept = [pair for pair in kept if pair[1] < thinking.open_from or _closes_text(view, pair)]
    elif thinking.in_doubt:
        kept = [pair for pair in kept if _closes_text(view, pair)]
    groups = [_last_group(view, kept)] if kept else []
    if unclosed is not None and not view.plain[slice(*unclosed)].isspace():
        groups.insert(0, [unclosed])
    return groups or ([] if quoted else _at_the_end_of_a_thought(view))


def _closes_text(view: _View, pair: Span) -> bool:
    close = view.plain.find(">", pair[1])
    return close >= 0 and view.ends_at(close + 1)


def _rejected(view: _View, pair: Span) -> bool:
    """Whether the words beside an answer take it back."""
    opened, closed = view.plain.rfind("<", 0, pair[0]), view.plain.find(">", pair[1]) + 1
    return is_taken_back(view.plain, opened, closed)


def _last_group(view: _View, pairs: Sequence[Span]) -> list[Span]:
    """The last answer, with those before it that it goes on from: "one answer for each action"."""
    group = [pairs[-1]]
    first = pairs[-1]
    joined = False
    for left in reversed(pairs[:-1]):
        begin, end = view.plain.find(">", left[1]) + 1, view.plain.rfind("<", 0, first[0])
        if begin > end or not _CONNECTOR.fullmatch(view.plain, begin, end):
            break
        joined = joined or (not view.plain[begin:end].isspace() and begin < end)
        group.append(left)
        first = left
    group.reverse()
    texts = {view.plain[slice(*pair)].strip().casefold() for pair in group}
    return group[-1:] if len(texts) == 1 and not joined else group


def _at_the_end_of_a_thought(view: _View) -> list[list[Span]]:
    """The answer that a thought ends with, if the reply ends with that thought."""
    spans = view.thinking.spans
    if not spans or not view.ends_at(spans[-1][1]):
        return []
    opened: Tag | None = None
    last: Tag | None = None
    span: Span | None = None
    for tag in view.tags:
        if tag.name == "answer" and spans[-1][0] <= tag.start < spans[-1][1]:
            if not tag.closes:
                opened = tag
            elif opened is not None:
                span, last, opened = (opened.end, tag.start), tag, None
    if span is None or last is None or not view.ends_at(last.end) or _PLACEHOLDER.fullmatch(view.plain, *span):
        return []
    return [[span]]


def _blanked(text: str, spans: Sequence[Span]) -> str:
    pieces, at = [], 0
    for start, end in sorted(spans):
        pieces += [text[at:start], " " * (end - max(at, start))]
        at = max(at, end)
    return "".join([*pieces, text[at:]])


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


def _differ(plain: str, tags: Sequence[Tag]) -> bool:
    answers = set()
    opened: Tag | None = None
    for tag in tags:
        if tag.name == "answer":
            if not tag.closes:
                opened = tag
            elif opened is not None:
                if not _PLACEHOLDER.fullmatch(plain, opened.end, tag.start):
                    answers.add("".join(plain[opened.end : tag.start].casefold().split()))
                opened = None
    return len(answers) > 1
