"""Which answer between the format's tags executes: the last complete one that a reply gives after
its thinking has ended.

Answers within thoughts, within other fields and within code (unless nothing else is there) are
quotes or drafts, and so is an answer that is a part of a sentence. What follows a complete reply as
a made-up next turn isn't read at all.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Sequence

from vagen_envs.replies.tags import (
    TAGS,
    Pair,
    Span,
    Tag,
    TagNames,
    blanked,
    code_spans,
    find_tags,
    find_thinking,
    in_ascii,
    merged,
    pairs_of,
    within,
    without_tokens,
)
from vagen_envs.replies.turns import end_of_reply, template_tokens
from vagen_envs.replies.vocabulary import (
    DENIALS,
    JUDGED,
    MAY_LEAD,
    SECOND_THOUGHTS,
    SPEAKERS,
    words_of,
)

_NEAR = 120  # characters on either side of an answer that are read
_LEADING = 4  # words right before an answer that are read of a heading

_PLACEHOLDER = re.compile(r"[\s.…\[\](){}*_`'\"-]*")
_CONNECTOR = re.compile(r"[\s,;&+*_>→|]*")
_ONE_ACTION = re.compile(r"[\s*_`\"']*\w+\s*(?:\([^()]*\))?[\s*_`\"'.]*")
_CUT_TAG = re.compile(r"<\s?[/\\]?[A-Za-z]{0,20}\s*\Z")  # of a reply that ends at its limit
_BLANK_END = re.compile(r"[\s*_`\"'.)\]$!~]*(?:<[/\\]?[a-z_:]{1,20}>[\s*_`]*)*\Z", re.IGNORECASE)
_SENTENCE_END = re.compile(  # not that of "e.g."
    r"(?<!\.\w)[.!?。！？…](?!\w)|\f|.*[\w\"'/]>(?=\W*\Z)"
)
_FENCE_BEFORE = re.compile(r"(?:```|~~~)\w*\s*\Z")
_LEAD = re.compile(r"[\w \t'’:=,;*_`#\"$(-]*")
_PART_OF_SENTENCE = re.compile(r"[,;]")
_GOES_ON = re.compile(r"[ \t\"'`)(\[*_,;:.…–—-]*(?P<next>[?❌✗✘✖]|[^\W\d_])|[ \t.]*\n[ \t]*[a-z]")
_SENTENCE_AFTER = re.compile(r"[\s\"'`)*_.,;:…–—-]*(?:</\w+>\s*)*([^.!?,;\n<]*)")
_DRESS = " \t\f*_`\"'("
_POINTS_BACK = frozenset(("that", "this", "it", "which", "that's", "it's"))


def find_answer(text: str, names: TagNames, first: str = "") -> Reply:
    """A reply without a made-up next turn after it; `first` is the tag that begins a reply."""
    reply = Reply(text, names)
    answered = reply.told[0].end if reply.told else len(text)
    end = end_of_reply(reply.text, answered, reply.thinking.spans, first)
    return Reply(text[:end], names) if end < len(text) else reply


def last_answer(text: str, names: TagNames = TAGS) -> str | None:
    """The text of the answer that would execute, stripped; `None` if no answer stands between
    tags.
    """
    answer = find_answer(text, names).answer
    return text[slice(*answer[-1])].strip() if answer else None


class Reply:
    """A reply with its tags, thoughts and answers.

    Attributes:
        text: the reply in ASCII.
        tags: all its tags.
        shown: those that aren't quoted in code.
        thinking: its thoughts.
        hidden: its thoughts and its fields beside thought and answer, in order.
        plain: as `text`, without a template's tokens.
        said: as `plain`, with form feeds for what is hidden, for tokens and for other fields' tags.
        pairs: answers that aren't hidden; a stop string may have cut the last one's closing tag.
        told: those with anything in them.
        answer: where the answer that executes stands, in parts to be read one after the other;
            empty where none counts.
    """

    def __init__(self, text: str, names: TagNames) -> None:
        self.text = in_ascii(text)
        self.tags = find_tags(text, names)
        code = code_spans(text)
        answers = [tag for tag in self.tags if tag.name == "answer"]
        all_quoted = answers and all(within(tag.start, code) for tag in answers)
        if all_quoted and find_thinking(text, names, code).open_from is None:
            code = [span for span in code if not text.startswith(("```", "~~~"), span[0])]
        self.shown = [tag for tag in self.tags if not within(tag.start, code)]
        self.thinking = find_thinking(text, names, code)
        self.hidden = merged([*self.thinking.spans, *_fields(self.shown)])
        self.plain = without_tokens(self.text, names)
        marks = [token.span() for token in template_tokens(text)]
        marks += [(tag.start, tag.end) for tag in self.shown if tag.name != "answer"]
        self.said = blanked(self.plain, merged([*self.hidden, *marks]))
        self.pairs = self._pairs([tag for tag in self.shown if tag.name == "answer"])
        self.told = [pair for pair in self.pairs if self._tells(pair)]
        self.answer = self._last_meant()

    @property
    def unclear(self) -> Span | None:
        """An answer that the words beside it take back, where nothing else executes."""
        return self.told[-1].span if self.told and not self.answer else None

    @property
    def empty(self) -> Span | None:
        """An answer without anything in it, where that is all there is."""
        return self.pairs[-1].span if self.pairs and not self.told else None

    @property
    def after(self) -> Span:
        """What follows the answer, up to a thought or a field that isn't closed."""
        start = next(pair.end for pair in self.told if pair.span == self.answer[-1])
        opened = [tag.start for tag in self.shown if tag.name != "answer"]
        if self.thinking.open_from is not None:
            opened.append(self.thinking.open_from)
        ends = [at for at in opened if at >= start and not within(at, self.hidden)]
        return start, min(ends, default=len(self.said))

    @property
    def fields_from(self) -> int:
        """Where the fields that belong to the answer begin: after the one before it."""
        first = self.answer[0][0] if self.answer else 0
        earlier = [pair.closed.start for pair in self.told if pair.closed.start < first]
        return max(earlier, default=0)

    @property
    def answers_differ(self) -> bool:
        """Whether complete answers, drafts included, differ."""
        complete = filter(self._tells, pairs_of(self.tags))
        return len({self._text_of(pair) for pair in complete}) > 1

    def _pairs(self, answers: Sequence[Tag]) -> list[Pair]:
        tags = [tag for tag in answers if not within(tag.start, self.hidden)]
        pairs = pairs_of(tags)
        if tags and not tags[-1].closes:
            opened = tags[-1]
            cut = _CUT_TAG.search(self.plain, opened.end)
            ends = [start for start, _ in self.hidden if start >= opened.end]
            ends.append(cut.start() if cut else len(self.plain))
            pairs.append(Pair(opened, Tag("answer", True, ends[0], len(self.plain), False)))
        return pairs

    def _tells(self, pair: Pair) -> bool:
        """Whether an answer has anything in it."""
        return _PLACEHOLDER.fullmatch(self.plain, *pair.span) is None

    def _text_of(self, pair: Pair) -> str:
        """An answer by which another can be known to differ."""
        return "".join(self.plain[slice(*pair.span)].casefold().split())

    def _last_meant(self) -> list[Span]:
        """The last answer that is meant; none where it isn't clear which of two that differ is."""
        given = [pair for pair in self.told if self._is_given(pair)]
        kept = [pair for pair in given if self.is_led_to(pair.start)]
        if not kept or kept[-1] is not given[-1]:
            return []
        for left, right in itertools.pairwise(kept):
            gap = self.said[left.end : right.start]
            if self._text_of(left) != self._text_of(right) and not _corrects(gap):
                return []
        return [pair.span for pair in self._last_group(kept)]

    def _is_given(self, pair: Pair) -> bool:
        """Whether what follows an answer doesn't take it back, and no thought that may still be
        open holds it.
        """
        if is_taken_back(self.said, pair.end):
            return False
        opened = self.thinking.open_from
        if opened is None or pair.closed.start < opened:
            return True
        return _BLANK_END.match(self.plain, pair.end) is not None

    def is_led_to(self, start: int) -> bool:
        """Whether nothing but whole sentences, and then words that may lead to an action, stand
        before an answer on its line, and no heading above it denies it. What leads to thoughts
        leads to the answer right after them.
        """
        start = self._before_thoughts(start)
        before = _FENCE_BEFORE.sub("", self.said[max(0, start - _NEAR) : start])
        above, _, line = before.rpartition("\n")
        heading = above.rstrip(_DRESS + "\n").rpartition("\n")[2]
        is_headed = not line.strip(_DRESS) and heading.endswith(":")
        if is_headed and not DENIALS.isdisjoint(words_of(heading)[-_LEADING:]):
            return False
        ends = [mark.end() for mark in _SENTENCE_END.finditer(line)]
        lead = line[max(ends, default=0) :]
        parts = [part for part in _PART_OF_SENTENCE.split(lead) if part.strip()]
        words = words_of(parts[-1]) if parts else []
        may_lead = all(word.isdigit() or word in MAY_LEAD for word in words)
        return may_lead and _LEAD.fullmatch(lead) is not None

    def _before_thoughts(self, start: int) -> int:
        """Where the thoughts and fields right before an answer begin. Nothing leads to those in a
        thought that may still be open.
        """
        if self.thinking.open_from is not None:
            return start
        for begin, end in reversed(self.hidden[: bisect.bisect(self.hidden, (start,))]):
            if start - end > _NEAR or self.said[end:start].strip(_DRESS + "\n"):
                break
            start = begin
        return start

    def _last_group(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The last answer, with those before it that it continues: one for each action."""
        group = [pairs[-1]]
        for left in reversed(pairs[:-1]):
            follows = _CONNECTOR.fullmatch(self.plain, left.end, group[-1].start)
            ones = [_ONE_ACTION.fullmatch(self.plain, *pair.span) for pair in (left, group[-1])]
            if not follows or not all(ones):
                break
            group.append(left)
        group.reverse()
        texts = {self._text_of(pair) for pair in group}
        joined = self.plain[group[0].end : group[-1].start]
        is_repeated = len(texts) == 1 and len(group) == 2 and not joined.strip()
        return group[-1:] if is_repeated else group


def _fields(tags: Sequence[Tag]) -> list[Span]:
    """From the opening to the next closing of each field beside thought and answer; none goes on
    beyond a thought's end.
    """
    spans = []
    opened: dict[str, Tag] = {}
    for tag in tags:
        if tag.name == "think":
            opened.clear()
        elif tag.name == "answer":
            continue
        elif not tag.closes:
            opened.setdefault(tag.name, tag)
        elif tag.name in opened:
            spans.append((opened.pop(tag.name).start, tag.end))
    return spans


def is_taken_back(text: str, end: int) -> bool:
    """Whether the sentence goes on after an answer that ends at `end`, or the next one speaks of it
    as of something that isn't meant.
    """
    after = text[end : end + _NEAR]
    goes_on = _GOES_ON.match(after)
    # In a script without capitals nothing shows that a new sentence begins.
    if goes_on and not (goes_on["next"] or "").isupper():
        return True
    sentence = _SENTENCE_AFTER.match(after)
    words = words_of(sentence[1]) if sentence else []
    if not words:
        return False
    return words[0] in DENIALS or (words[0] in _POINTS_BACK and not JUDGED.isdisjoint(words))


def _corrects(gap: str) -> bool:
    """Whether what stands between two answers can only be a second thought, which the last one
    follows, and not another's: nothing, or words that begin with a denial or a second thought.
    """
    words = words_of(re.sub(r"<[^<>]{0,40}>", " ", gap))
    if not words:
        return True
    begins = words[0] in DENIALS or words[0] in SECOND_THOUGHTS
    return begins and SPEAKERS.isdisjoint(words)
