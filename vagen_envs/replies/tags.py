"""The tags of a reply: where they stand and what is wrong with them.

Also what chat templates and keyboards add to a text, replaced so that every character keeps its
place.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from vagen_envs.replies.parsed import Problem
from vagen_envs.replies.vocabulary import ANSWER_TAGS, THINKING_TAGS

TagNames = tuple[str, ...]
TAGS: TagNames = ("think", "observation", "reasoning", "prediction", "answer")
"""The fields of a reply. A grammar may name their tags otherwise, in this order: for some models
`<think>` is a token of its own, which they don't write when they are asked to."""
FIELD_NAMES = "|".join([*TAGS[:-1], *THINKING_TAGS])
"""All names of fields beside the answer, as a part of an expression."""
_ALIKE = 0.8  # of a misspelt name to the right one, from 0 to 1
_SHORTEST_MISSPELT = 5  # characters of a name that may be misspelt
TAG_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)


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
    found = []
    for match in _LOOSE.finditer(in_ascii(text)):
        field = _field_of(match[2].lower(), names)
        if field is not None:
            exact = (
                text[match.start() : match.end()]
                == f"<{'/' if match[1] else ''}{names[TAGS.index(field)]}>"
            )
            found.append(Tag(field, bool(match[1]), match.start(), match.end(), exact))
    return found


@functools.lru_cache(maxsize=1024)
def _field_of(written: str, names: TagNames) -> str | None:
    """The field of a tag: by its name, for the answer by a translation or a misspelling of it
    too.
    """
    if written in names:
        return TAGS[names.index(written)]
    misspelt = (
        len(names[-1]) >= _SHORTEST_MISSPELT
        and SequenceMatcher(None, written, names[-1]).ratio() >= _ALIKE
    )
    return "answer" if misspelt or written in ANSWER_TAGS else None


def field_text(text: str, tags: Sequence[Tag], name: str) -> str | None:
    """The text of the first `<name>` up to the `</name>` that follows it."""
    opened: Tag | None = None
    for tag in tags:
        if tag.name == name:
            if opened is None and not tag.closes:
                opened = tag
            elif opened is not None and tag.closes:
                return text[opened.end : tag.start].strip()
    return None


def format_problems(
    text: str,
    tags: list[Tag],
    begin: int,
    sequences: Sequence[tuple[str, ...]],
    template: str,
    names: TagNames = TAGS,
) -> list[Problem]:
    """What keeps `text[begin:]` from being one of the wanted sequences of tags with text in the
    innermost.

    `sequences` are of forms such as `<think>`, whatever the names are.
    """
    called = dict(zip(TAGS, names, strict=True))
    if tuple(tag.form for tag in tags) in sequences:
        return [*_stray_text(text, tags, begin), *_empty_fields(text, tags, called)]
    problems = [
        *_tag_problems(tags, sequences, called),
        *_stray_text(text, tags, begin, only_before=True),
    ]
    if not problems and tags:
        problems.append(
            Problem(
                "tag_order", f"the tags don't stand as in {template}", tags[0].start, tags[-1].end
            )
        )
    return problems


def _tag_problems(
    tags: list[Tag], sequences: Sequence[tuple[str, ...]], called: dict[str, str]
) -> Iterator[Problem]:
    wanted = [tag[1:-1] for tag in sequences[-1] if not tag.startswith("</")]
    known = {tag[1:-1] for tag in sequences[0]}
    for name in dict.fromkeys([*wanted, *(tag.name for tag in tags)]):
        own = [tag for tag in tags if tag.name == name]
        if name not in known:
            message = f"<{called[name]}> doesn't belong to this format"
            yield Problem("unexpected_tag", message, own[0].start, own[0].end)
        elif own:
            yield from _miswritten(own, called[name])
        elif name != "answer":  # its absence has a code of its own
            yield Problem("missing_tag", f"<{called[name]}> is missing", 0, 0)


def _miswritten(own: list[Tag], name: str) -> Iterator[Problem]:
    """What is wrong with the tags of one field, if anything is."""
    opened = [tag for tag in own if not tag.closes]
    closed = [tag for tag in own if tag.closes]
    if len(opened) > len(closed):
        last = opened[-1]
        yield Problem("unclosed_tag", f"<{name}> is not closed", last.start, last.end)
    elif len(opened) < len(closed):
        message = f"</{name}> closes what was never opened"
        yield Problem("missing_tag", message, closed[0].start, closed[0].end)
    elif len(opened) > 1:
        message = f"<{name}> stands {len(opened)} times"
        yield Problem("repeated_tag", message, opened[1].start, opened[1].end)
    elif not all(tag.exact for tag in own):
        message = f"<{name}> must be written in lower case, without anything else in it"
        yield Problem("tag_form", message, opened[0].start, opened[0].end)


def _stray_text(
    text: str, tags: list[Tag], begin: int, *, only_before: bool = False
) -> Iterator[Problem]:
    """Text between tags that isn't the text of a field. Only the first such place is named."""
    edges = [begin, *(edge for tag in tags for edge in (tag.start, tag.end)), len(text)]
    gaps = [(edges[i], edges[i + 1]) for i in range(0, len(edges), 2)]
    for i, (start, end) in enumerate(gaps[:1] if only_before else gaps):
        leaf = i > 0 and not tags[i - 1].closes and tags[i].closes
        if not leaf and not text[start:end].isspace() and start < end:
            yield Problem("text_outside", "text stands outside the tags", start, end)
            return


def _empty_fields(text: str, tags: list[Tag], called: dict[str, str]) -> Iterator[Problem]:
    for left, right in itertools.pairwise(tags):
        if (
            not left.closes
            and right.closes
            and left.name != "answer"
            and not text[left.end : right.start].strip()
        ):
            yield Problem("empty_field", f"<{called[left.name]}> is empty", left.start, right.end)


def check_tags(tags: Sequence[str]) -> None:
    """Raise ValueError unless these are names for all of `TAGS`."""
    if (
        len(tags) != len(TAGS)
        or len(set(tags)) != len(TAGS)
        or not all(map(TAG_NAME.fullmatch, tags))
    ):
        raise ValueError(
            f"tags {tuple(tags)!r} are not valid: give {len(TAGS)} different names, for "
            f"{', '.join(TAGS)}, each of lower-case letters, digits, '_' and '-', beginning with "
            "a letter"
        )


SPECIAL_TOKEN = re.compile(
    # most: <|im_end|>, <|eot_id|>, <|return|>, GLM's <|begin_of_box|>
    r"<\|[A-Za-z0-9_ /]{1,40}\|>"
    r"|<｜[^<>｜]{1,40}｜>"  # DeepSeek's
    r"|</?s>|\[/?INST\]"  # Llama's, Mistral's
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
# mathematical letters, with which some models write bold text: each alphabet is A to Z and a to z
_ASCII |= {
    0x1D400 + alphabet * 52 + letter: chr((65 if letter < 26 else 71) + letter)
    for alphabet in range(13)
    for letter in range(52)
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
