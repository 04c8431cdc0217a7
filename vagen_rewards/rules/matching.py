"""Giving each of many one of its choices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

K = TypeVar("K")


def matched(choices: Iterable[tuple[K, Sequence[int]]]) -> dict[int, K]:
    """Give as many as possible one of their choices each, those named first before the others.

    Augmenting paths (Kuhn, 1955): who has been given one keeps one.

    Args:
        choices: who, and which are suitable.

    Returns:
        To whom each is given.
    """
    suitable: dict[K, Sequence[int]] = {}
    owner: dict[int, K] = {}

    def place(who: K, tried: set[int]) -> bool:
        for i in suitable[who]:
            if i not in tried:
                tried.add(i)
                if i not in owner or place(owner[i], tried):
                    owner[i] = who
                    return True
        return False

    for who, own in choices:
        suitable[who] = own
        place(who, set())
    return owner
