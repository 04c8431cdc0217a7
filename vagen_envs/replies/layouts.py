"""Layouts: the sequences of tags of well-formed replies, and which field stands where in them.

Formats: VAGEN (paper), section 2.2 and table 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Literal, get_args

from vagen_envs.replies.tags import TAGS, TagNames

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
