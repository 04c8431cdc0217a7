"""The marks between which a family's models think before a reply.

Families name them differently (`<think>`, `[THINK]`, `<|channel>thought`), and some templates write
the first one for the model. They are told from the template's own words for thoughts that are
empty, else from a pair of tokens as `<think>` and `</think>`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Marks:
    """What is written around thoughts.

    Attributes:
        opening: before them, with white space.
        closing: after them, where they are cut, with white space.
        end: the token of `closing` by which a model ends them itself.
    """

    opening: str
    closing: str
    end: str


NO_MARKS = Marks("", "", "")
"""The marks of a model that doesn't think, or whose thinking is turned off."""


def marks_of(on: str, off: str, added: Collection[str]) -> Marks:
    """The marks of a family.

    Args:
        on: what its template writes at the beginning of a reply, for a model that thinks.
        off: the same for one that doesn't: maybe thoughts that are empty.
        added: the tokens of its tokenizer that aren't made of others.

    Raises:
        ValueError: there are none.
    """
    if on.strip() and off.startswith(on):
        closing = off.removeprefix(on)
        if end := _last_of(closing, added):
            return Marks(on, closing, end)
    if off != on and (end := _last_of(off, added)):
        return _cut_in_two(off, end)
    for token in sorted(added):
        twin = f"{token[:1]}/{token[1:]}"
        if "think" in token.lower() and twin in added and (token in on or not on.strip()):
            opening = on or token
            space = opening[len(opening.rstrip()) :]
            return Marks(opening, f"{space}{twin}", twin)
    raise ValueError(
        "neither it nor the tokenizer knows marks of thoughts; leave max_thinking_tokens out"
    )


def _last_of(text: str, added: Collection[str]) -> str:
    """The added token that stands last in a text; empty if there is none."""
    within = [token for token in added if token.strip() and token in text]
    return max(within, key=lambda token: (text.rfind(token) + len(token), len(token)), default="")


def _cut_in_two(empty: str, end: str) -> Marks:
    """Empty thoughts, cut in the middle of the white space before the token that ends them."""
    before, _, after = empty.rpartition(end)
    written = before.rstrip()
    space = before[len(written) :]
    middle = (len(space) + 1) // 2
    return Marks(f"{written}{space[:middle]}", f"{space[middle:]}{end}{after}", end)
