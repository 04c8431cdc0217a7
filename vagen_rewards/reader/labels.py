"""Numbers that tell things of a kind apart, as in "box0" and "target 1"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

from vagen_envs.grid import Position
from vagen_rewards.reader.words import Mention

NUMBERED = ("box", "target")
"""Kinds whose labels are the state's: a text numbers holes in an order of its own."""

Cells = dict[str, tuple[Position, ...]]
Labelled = tuple[str, int]
"""A kind and a number."""


class Labels(NamedTuple):
    """Which things of their kinds a fact is about.

    Attributes:
        numbers: the numbers in the fact.
        among: all numbers in the text, which are counted alike: from 0 as the state does, or
            from 1.
    """

    numbers: tuple[Labelled, ...] = ()
    among: tuple[Labelled, ...] = ()

    @classmethod
    def of(cls, *mentions: Mention) -> Self:
        """The labels in a fact; a thing without a name, such as "a hole", has none."""
        numbers = tuple(
            [
                (mention.kind, int(mention.label))
                for mention in mentions
                if mention.kind in NUMBERED and mention.label.isdecimal()
            ]
        )
        return cls(numbers, numbers)

    def agreed(self, state: Any, holds: Callable[[Cells], bool | None]) -> bool | None:
        """Whether a fact holds of its things; `None` if that depends on how the text counts.

        Args:
            state: a board.
            holds: whether the fact holds of things in these cells.
        """
        if not self.numbers:
            return holds(state.cells)
        verdicts = {holds(cells) for cells in self._meant(state.cells)}
        return verdicts.pop() if len(verdicts) == 1 else None

    def _meant(self, cells: Cells) -> list[Cells]:
        """The cells with the numbered things alone, for each way to count that fits the text."""
        found = [self._only(cells, base) for base in (0, 1) if self._fits(cells, base)]
        if found and all(number for _, number in self.among):
            found.append(cells)  # without a 0 the numbers may follow an order of the text's own
        return found

    def _fits(self, cells: Cells, base: int) -> bool:
        return all(base <= number < base + len(cells.get(kind, ())) for kind, number in self.among)

    def _only(self, cells: Cells, base: int) -> Cells:
        return cells | {kind: (cells[kind][number - base],) for kind, number in self.numbers}

    def called(self, kind: str) -> str:
        """The kind with its number, if it has one."""
        return kind + "".join([str(number) for each, number in self.numbers if each == kind])


NO_LABELS = Labels()
