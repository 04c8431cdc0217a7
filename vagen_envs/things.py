"""The things in a picture, and what a look at each should tell: for eyes that are taught, and for probes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Thing(NamedTuple):
    """A thing in a picture.

    Attributes:
        name: of its kind. A board may have several things of one name; they are told alike.
        at: (x, y) of its middle, as shares of the picture's width and height from the upper left; `None` where the
            state doesn't know the picture. No two such things of a state have the same name.
        relations: what is true of it, in numbers: how far away what matters is, what is beside it (1.0, else 0.0).
    """

    name: str
    at: tuple[float, float] | None
    relations: Mapping[str, float]
