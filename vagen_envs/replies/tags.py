"""Tags, thoughts and a chat template's tokens: what stands where in the text of a reply.

Thoughts may hold tags of their own: quotes of the prompt's example, drafts that are then rejected.
So a thought ends at its matching close. Chat templates open a thought in the prompt; where closings
exceed openings, the missing openings are taken to stand before the text.

What chat templates and keyboards add is replaced so that every character keeps its place.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vagen_envs.replies.vocabulary import THINKING_TAGS

Span = tuple[int, int]
TagNames = tuple[str, ...]
TAGS: TagNames = ("think", "observation", "reasoning", "prediction", "answer")
"""The fields of a reply. A grammar may name their tags otherwise, in this order: for some models
`<think>` is a token of its own, which they don't write when they are asked to."""
FIELD_NAMES = "|".join([*TAGS[:-1], *THINKING_TAGS])
"""All names of fields beside the answer, as a part of an expression."""
_TAG_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tag:
    """One tag.

    Attributes:
        name: of its field, one of `TAGS` whatever the grammar calls it.
        exact: whether it is written exactly as the format has it.
        start, end: its place in the reply.
    """

    name: str
    closes: bool
    start: int
    end: int
    exact: bool

    @property
    def form(self) -> str:
        """`<field>` or `</field>`, and nothing that is in any sequence if it isn't exact."""
        return f"<{'/' if self.closes else ''}{self.name}>" if self.exact else ""


@functools.lru_cache(maxsize=64)
def tag_pattern(names: TagNames = TAGS) -> re.Pattern[str]:
    """Any tag of these names, in upper or lower case, as one group."""
    # ASCII: else "ſ" would be an "s" to the pattern, and no name's letter.
    return re.compile(f"(</?(?:{'|'.join(map(re.escape, names))})>)", re.IGNORECASE | re.ASCII)


_LOOSE = re.compile(
    r"<\s{0,4}([/\\]?)\s{0,4}([^\s<>/\\\"'=!]{1,32}+)(?:\s[^<>]{0,200}(?<!/))?\s{0,4}>", re.ASCII
)
"""A tag with blanks, attributes or a backslash in it too: groups are the slash and the name."""


def find_tags(text: str, names: TagNames = TAGS) -> list[Tag]:
    """All tags of any strategy, in order."""
    fields = dict(zip(names, TAGS, strict=True))
    found = []
    for match in _LOOSE.finditer(in_ascii(text)):
        name = match[2].lower()
        if name in fields:
            start, end = match.span()
            exact = text[start:end] == f"<{'/' if match[1] else ''}{name}>"
            found.append(Tag(fields[name], bool(match[1]), start, end, exact))
    return found


class Pair(NamedTuple):
    """The tags of an answer."""

    opened: Tag
    closed: Tag

    @property
    def start(self) -> int:
        """Where the opening tag begins."""
        return self.opened.start

    @property
    def end(self) -> int:
        """Where the closing tag ends."""
        return self.closed.end

    @property
    def span(self) -> Span:
        """Where the answer stands between them."""
        return self.opened.end, self.closed.start


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


def field_text(text: str, tags: Sequence[Tag], name: str) -> str | None:
    """The text of the first `<name>` up to the `</name>` that follows it; of a thought, up to the
    one that matches it.
    """
    opened = closed = None
    depth = 0
    for tag in tags:
        if tag.name == name and not tag.closes:
            opened = opened or tag
            depth += 1
        elif tag.name == name and opened is not None:
            closed = tag
            depth -= 1
            if name != "think" or depth == 0:
                break
    return text[opened.end : closed.start].strip() if opened and closed else None


def check_tags(tags: Sequence[str]) -> None:
    """Raise ValueError unless these are names for all of `TAGS`."""
    if (
        len(tags) != len(TAGS)
        or len(set(tags)) != len(TAGS)
        or not all(map(_TAG_NAME.fullmatch, tags))
    ):
        raise ValueError(
            f"tags {tuple(tags)!r} are not valid: give {len(TAGS)} different names, for "
            f"{', '.join(TAGS)}, each of lower-case letters, digits, '_' and '-', beginning with "
            "a letter"
        )


SPECIAL_TOKEN = re.compile(
    r"<\|start\|>assistant|<\|channel\|>(?:final|commentary)\b[^<]{0,80}"  # gpt-oss' headers
    # most: <|im_end|>, <|eot_id|>, <|return|>, GLM's <|begin_of_box|>
    r"|<\|[A-Za-z0-9_ /]{1,40}\|>"
    r"|<｜[^<>｜]{1,40}｜>"  # DeepSeek's
    r"|</s>|\[(?:/?INST|TOOL_CALLS)\]"  # Llama's, Mistral's
    # Gemma's
    r"|<(?:start_of_turn|end_of_turn|bos|eos|pad|unk|unused\d{1,4})>|<\|?(?:channel|turn)\|?>"
    "|[\u200b-\u200f\u202a-\u202e\u2060\ufe0e\ufe0f\ufeff]"  # characters without width
)
"""What servers leave of a chat template in a reply, where they don't know its tokens as special."""
_ESCAPED = re.compile(r"&(?:lt|gt|quot|nbsp|#39);")
_CHARACTERS = {
    "&lt;": "<   ",
    "&gt;": ">   ",
    "&quot;": '"     ',
    "&nbsp;": "      ",
    "&#39;": "'    ",
}
_ASCII = {wide: chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)}
"""Full-width forms, which Chinese and Japanese keyboards write."""
_ASCII |= dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212\ufe63"), "-") | {
    0x3000: " ",
    0xA0: " ",
}


def without_tokens(text: str, keep: tuple[str, ...] = ()) -> str:
    """The text with each token as blanks. A tag of one's own that looks like a token (`keep`) is no
    token.
    """
    return SPECIAL_TOKEN.sub(
        lambda token: token[0] if token[0].strip("</>") in keep else " " * len(token[0]), text
    )


def in_ascii(text: str) -> str:
    """The text with full-width forms, Unicode minus signs and HTML entities in ASCII."""
    if "&" in text:
        text = _ESCAPED.sub(lambda entity: _CHARACTERS[entity[0]], text)
    return text if text.isascii() else text.translate(_ASCII)


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
        open_from: where a thought begins that isn't closed, else `None`; what follows it may be
            thought too.
        implied: a thought was opened by the prompt.
    """

    spans: Sequence[Span]
    open_from: int | None
    implied: bool


def within(at: int, spans: Sequence[Span]) -> bool:
    """Whether one of the spans, which are in order, holds this place."""
    before = bisect.bisect_right(spans, at, key=operator.itemgetter(0)) - 1
    return before >= 0 and at < spans[before][1]


def blanked(text: str, spans: Sequence[Span]) -> str:
    """The text with form feeds in place of the spans: blanks that end a clause before them."""
    letters = list(text)
    for start, end in spans:
        letters[start:end] = "\f" * (end - start)
    return "".join(letters)


def code_spans(text: str) -> list[Span]:
    """Fenced and inline code, in which tags are mostly quoted."""
    if "`" not in text and "~~~" not in text:
        return []
    return [match.span() for match in _CODE.finditer(text)]


def find_thinking(text: str, names: TagNames, quoted: Sequence[Span] = ()) -> Thinking:
    """The thoughts of a reply, each with those within it, but for marks within `quoted`."""
    spans: list[Span] = []
    opened: dict[str, list[int]] = {}
    implied = False
    for mark in _mark_pattern(names).finditer(in_ascii(text)):
        if within(mark.start(), quoted):
            continue
        group = str(mark.lastgroup)
        kind = (mark["tag"] or group[1:]).lower()
        opens = not mark["slash"] if mark["tag"] else group[0] == "o"
        if kind == "channel" and opens == bool(opened.get(kind)):
            continue  # gpt-oss repeats it for each message, and opens each itself
        starts = opened.setdefault(kind, [])
        if opens:
            starts.append(mark.start())
        else:
            implied = implied or not starts
            spans.append((starts.pop() if starts else 0, mark.end()))
    left_open = itertools.chain.from_iterable(opened.values())
    return Thinking(merged(spans), min(left_open, default=None), implied)


def merged(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, those that overlap as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


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
    begins = r"(?=[<\[◁ht.])"  # makes the search three times as fast
    return re.compile(f"{begins}(?:{tag}|{forms})", re.IGNORECASE | re.MULTILINE)
