"""Of which of many states a fact is true.

To weigh one claim it is held against a thousand states and more, so a fact may have a method `truths(states)` beside
`holds(state)`, which looks at all of them together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from vagen_envs.core import State
from vagen_rewards.rules.readings import Fact

TRUE, FALSE, UNKNOWN = 1, 0, -1

Truths = NDArray[np.int8]
"""For each state `TRUE`, `FALSE`, or `UNKNOWN` where it can't be told."""

_T = TypeVar("_T")


class States(tuple[State, ...]):
    """States, and what was worked out about all of them together."""

    def table(self, make: Callable[[States], _T]) -> _T:
        """What `make` gives of them, worked out once."""
        tables: dict[Any, Any] = self.__dict__.setdefault("tables", {})
        if make not in tables:
            tables[make] = make(self)
        return cast(_T, tables[make])


def code(holds: bool | None) -> int:
    """A truth as a number."""
    return UNKNOWN if holds is None else int(holds is True)


def truths_of(fact: Fact, states: States) -> Truths:
    """Of which states a fact is true."""
    together: Callable[[States], Truths] | None = getattr(fact, "truths", None)
    if together is not None:
        return together(states)
    return np.array([code(fact.holds(each)) for each in states], np.int8)
