"""Sentences about MyEnv's state that the rule judge reads: `the target is at (2, 3)`."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from vagen_rewards.reader import Claim, Reading, register_reader

_AT = re.compile(r"\b(player|target)\b(?: is at|:)? *\((\d+), *(\d+)\)", re.IGNORECASE)


class At(NamedTuple):
    """A thing is in a cell."""

    thing: str
    cell: tuple[int, int]

    def holds(self, state: Any) -> bool:
        """Whether it is true of a state."""
        found: tuple[int, int] = getattr(state, self.thing)
        return found == self.cell


def claims_of(text: str, part: str) -> Reading:  # noqa: ARG001  (all readers have it)
    """Return the claims of a text; what isn't read earns and costs nothing."""
    claims = []
    for match in _AT.finditer(text):
        cell = int(match[2]), int(match[3])
        claims.append(Claim(match.span(), At(match[1].lower(), cell)))
    return Reading(tuple(claims))


register_reader("my_env", claims_of)
