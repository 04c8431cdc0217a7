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
_MOST_THOUGHTS = 7  # of a thinking model before its reply, so that time stays linear


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
        self.leaves = dict(zip(called, FIELDS[strategy], strict=True))
        self.free_thought = layout == "untagged" and strategy != "no_think"
        if layout == "untagged":
            self.leaves.pop("think", None)
        self._begins_freely = self.free_thought and strategy == "free_think"
        self._called = dict(zip(TAGS, names, strict=True))
        written = {f"<{tag}>": f"<{name}>" for tag, name in self._called.items()}
        written |= {f"</{tag}>": f"</{name}>" for tag, name in self._called.items()}
        held = [list(self.leaves)]
        if reasoning_is_optional:
            held.append([tag for tag, name in self.leaves.items() if name != "reasoning"])
        self.leaves["answer"] = "answer"
        self.sequences = [_tag_forms(tags, layout) for tags in held]
        self.places = {
            tuple(map(written.__getitem__, forms)): self._places_in(forms)
            for forms in self.sequences
        }

    def fill(self, text_of: Callable[[str], str]) -> str:
        """The full sequence in its own tags, with the text of each field."""
        pieces = [f"{text_of('think')}\n"] if self._begins_freely else []
        tags, places = next(iter(self.places.items()))
        for i, tag in enumerate(tags):
            if 2 * i in places:
                pieces.append(text_of(places[2 * i]))
            pieces.append(tag)
        return "".join(pieces)

    def template(self) -> str:
        """The full sequence with `...` for every field."""
        return self.fill(lambda _: "...")

    def _places_in(self, tags: Sequence[str]) -> dict[int, str]:
        places: dict[int, str] = {}
        for i, (tag, following) in enumerate(itertools.pairwise(tags), start=1):
            if following == f"</{tag[1:]}":
                places[2 * i] = self.leaves[tag[1:-1]]
        return places

    def fits(self, tags: Sequence[Tag]) -> bool:
        """Whether these are the tags of a well-formed reply."""
        return tuple(tag.form for tag in tags) in self.sequences

    def problems(self, text: str, tags: Sequence[Tag], begin: int) -> list[Problem]:
        """What keeps `text[begin:]` from being one of the wanted sequences of tags with text in the
        innermost.
        """
        if self.fits(tags):
            return [*_stray_text(text, tags, begin), *self._empty_fields(text, tags)]
        first = tags[0].start if tags else len(text)
        problems = [*self._tag_problems(tags), *_stray_text(text[:first], [], begin)]
        if not problems and tags:
            message = f"the tags don't stand as in {self.template()}"
            problems.append(_problem("tag_order", message, tags[0], tags[-1]))
        return problems

    def _tag_problems(self, tags: Sequence[Tag]) -> Iterator[Problem]:
        wanted = [tag[1:-1] for tag in self.sequences[-1] if not tag.startswith("</")]
        for name in dict.fromkeys([*wanted, *(tag.name for tag in tags)]):
            called = self._called[name]
            own = [tag for tag in tags if tag.name == name]
            if f"<{name}>" not in self.sequences[0]:
                message = f"<{called}> doesn't belong to this format"
                yield _problem("unexpected_tag", message, own[0])
            elif own:
                yield from _miswritten(own, called)
            elif name != "answer":  # its absence has a code of its own
                yield Problem("missing_tag", f"<{called}> is missing", 0, 0)

    def _empty_fields(self, text: str, tags: Sequence[Tag]) -> Iterator[Problem]:
        for left, right in itertools.pairwise(tags):
            is_field = right.closes and not left.closes and left.name != "answer"
            if is_field and not text[left.end : right.start].strip():
                message = f"<{self._called[left.name]}> is empty"
                yield _problem("empty_field", message, left, right)

    def own_begin(self, text: str, tags: Sequence[Tag], thinking: Thinking) -> int:
        """Where a thinking model's own text ends and its reply begins; 0 if there is no such text.

        Chat templates of thinking models open `<think>` themselves, so replies arrive as "thought
        </think> reply"; others write "<think>thought</think> reply" or never close it, and the
        reply may begin with `<think>` too.
        """
        begins = [0]
        for start, end in thinking.spans[:_MOST_THOUGHTS]:
            if text[begins[-1] : start].strip():
                break
            begins.append(end)
        thinks = [tag for tag in tags if tag.name == "think"]
        twice = len(thinks) > 1 and not thinks[0].closes and not thinks[1].closes
        unclosed = thinks[1].start if twice and not text[: thinks[0].start].strip() else 0
        for begin in (*begins, unclosed):
            if self.fits([tag for tag in tags if tag.start >= begin]):
                return begin
        if len(begins) == 1:
            return unclosed
        if (
            thinking.implied
            or self.sequences[0][0] != "<think>"
            or _is_followed(text, thinks, begins[1])
        ):
            return begins[1]
        return 0 if thinking.open_from is None else unclosed


def _tag_forms(leaves: Collection[str], layout: Layout) -> tuple[str, ...]:
    """The well-formed sequence of tags of a layout with texts in these, such as `("<think>",
    "</think>", …)`.
    """
    inner = [name for name in leaves if name != ("prediction" if layout == "flat" else "think")]
    if layout == "flat":  # the prediction follows the answer
        last = [name for name in leaves if name == "prediction"]
        return _around([*inner, "answer", *last])
    if leaves and layout == "nested":
        return ("<think>", *_around(inner), "</think>", *_around(["answer"]))
    return _around([*inner, "answer"])


def _around(names: Sequence[str]) -> tuple[str, ...]:
    pairs = [(f"<{name}>", f"</{name}>") for name in names]
    return tuple(itertools.chain.from_iterable(pairs))


def _problem(code: str, message: str, first: Tag, last: Tag | None = None) -> Problem:
    """A problem of one tag, or of the text from one to another."""
    end = first.end if last is None else last.end
    return Problem(code, message, first.start, end)


def _miswritten(own: Sequence[Tag], name: str) -> Iterator[Problem]:
    """What is wrong with the tags of one field, if anything is."""
    opened = [tag for tag in own if not tag.closes]
    closed = [tag for tag in own if tag.closes]
    if len(opened) > len(closed):
        yield _problem("unclosed_tag", f"<{name}> is not closed", opened[-1])
    elif len(opened) < len(closed):
        message = f"</{name}> closes what was never opened"
        yield _problem("missing_tag", message, closed[0])
    elif len(opened) > 1:
        message = f"<{name}> stands {len(opened)} times"
        yield _problem("repeated_tag", message, opened[1])
    elif not all(tag.exact for tag in own):
        message = f"<{name}> must be written in lower case, without anything else in it"
        yield _problem("tag_form", message, opened[0])


def _stray_text(text: str, tags: Sequence[Tag], begin: int) -> Iterator[Problem]:
    """Text between tags that isn't the text of a field. Only the first such place is named."""
    edges = [begin, *(edge for tag in tags for edge in (tag.start, tag.end)), len(text)]
    for i in range(0, len(edges), 2):
        start, end = edges[i], edges[i + 1]
        after = i // 2
        is_field = 0 < after < len(tags) and tags[after].closes and not tags[after - 1].closes
        if text[start:end].strip() and not is_field:
            yield Problem("text_outside", "text stands outside the tags", start, end)
            return


def _is_followed(text: str, thinks: Sequence[Tag], end: int) -> bool:
    """Whether the thought that ends here is a model's own: another kind, or the reply's own follows
    it.
    """
    if not thinks or thinks[0].closes or thinks[0].start >= end:
        return True
    follows = next((tag for tag in thinks if tag.start >= end), None)
    return follows is not None and not follows.closes and not text[end : follows.start].strip()
