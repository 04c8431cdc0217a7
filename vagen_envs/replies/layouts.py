"""Layouts: the sequences of tags of well-formed replies, and which field stands where in them.

Formats: VAGEN (paper), section 2.2 and table 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, get_args

from vagen_envs.replies.parsed import Problem
from vagen_envs.replies.tags import TAGS, Tag, TagNames, Thinking

Strategy = Literal[
    "no_think", "free_think", "grounding", "world_modeling", "grounding_world_modeling"
]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
Layout = Literal["nested", "flat", "untagged"]

FIELDS: dict[Strategy, tuple[str, ...]] = {
    "no_think": (),
    "free_think": ("think",),
    "grounding": ("observation", "reasoning"),
    "world_modeling": ("reasoning", "prediction"),
    "grounding_world_modeling": ("observation", "reasoning", "prediction"),
}
"""The fields of each strategy's replies beside the answer."""


class Format:
    """How a well-formed reply of a configuration looks.

    Args:
        strategy: which fields it has.
        layout: in which order.
        names: what its tags are called.
        reasoning_is_optional: whether its reasoning may be left out.

    Attributes:
        sequences: of tags, as forms of `TAGS` such as `<think>`; the full one first.
        places: for each sequence, in its own tags: which field stands where in a text that is split
            at them: text, tag, text, tag, …, text.
        leaves: the fields by the tags that hold them.
        free_thought: whatever stands before the first field is the thought.
    """

    def __init__(
        self, strategy: Strategy, layout: Layout, names: TagNames, *, reasoning_is_optional: bool
    ) -> None:
        called = [
            "think" if layout == "flat" and name == "reasoning" else name
            for name in FIELDS[strategy]
        ]
        leaves = dict(zip(called, FIELDS[strategy], strict=True))
        self.free_thought = layout == "untagged" and strategy != "no_think"
        self._begins_freely = self.free_thought and strategy == "free_think"
        if layout == "untagged":
            leaves.pop("think", None)
        self.leaves = {**leaves, "answer": "answer"}
        self.sequences = [_tag_forms(leaves, layout)]
        if reasoning_is_optional:
            without = [tag for tag, name in leaves.items() if name != "reasoning"]
            self.sequences.append(_tag_forms(without, layout))
        self._names = dict(zip(TAGS, names, strict=True))
        self.places = {self._written(forms): self._places_in(forms) for forms in self.sequences}

    @property
    def tags(self) -> tuple[str, ...]:
        """The full sequence in its own tags."""
        return next(iter(self.places))

    def fill(self, text_of: Callable[[str], str]) -> str:
        """The full sequence of tags with the text of each field."""
        pieces = [f"{text_of('think')}\n"] if self._begins_freely else []
        tags, places = next(iter(self.places.items()))
        for i, tag in enumerate(tags):
            name = places.get(2 * i)
            pieces += [tag] if name is None else [text_of(name), tag]
        return "".join(pieces)

    def _written(self, forms: Sequence[str]) -> tuple[str, ...]:
        """The tags by their own names, from the forms of `TAGS`."""
        return tuple(form.replace(name := form.strip("</>"), self._names[name]) for form in forms)

    def _places_in(self, tags: Sequence[str]) -> dict[int, str]:
        places: dict[int, str] = {}
        for i, (tag, following) in enumerate(itertools.pairwise(tags), start=1):
            if following == f"</{tag[1:]}":
                places[2 * i] = self.leaves[tag[1:-1]]
        return places


def _tag_forms(leaves: Collection[str], layout: Layout) -> tuple[str, ...]:
    """The well-formed sequence of tags of a layout with texts in these, such as `("<think>",
    "</think>", …)`.
    """
    if layout == "flat":  # the prediction follows the answer
        inner = [name for name in leaves if name != "prediction"]
        last = [name for name in leaves if name == "prediction"]
        return _around([*inner, "answer", *last])
    inner = [name for name in leaves if name != "think"]
    if leaves and layout == "nested":
        return ("<think>", *_around(inner), "</think>", *_around(["answer"]))
    return _around([*inner, "answer"])


def _around(names: Sequence[str]) -> tuple[str, ...]:
    pairs = [(f"<{name}>", f"</{name}>") for name in names]
    return tuple(itertools.chain.from_iterable(pairs))


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
    return 0 if thinking.open_from is None else unclosed


def _is_followed(text: str, thinks: Sequence[Tag], end: int) -> bool:
    """Whether the thought that ends here is a model's own: another kind, or the reply's own follows
    it.
    """
    if not thinks or thinks[0].closes or thinks[0].start >= end:
        return True
    follows = next((tag for tag in thinks if tag.start >= end), None)
    return follows is not None and not follows.closes and not text[end : follows.start].strip()
