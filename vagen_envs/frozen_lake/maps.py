"""Lakes that are given as rows of letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vagen_envs.errors import ConfigError
from vagen_envs.frozen_lake.levels import FROZEN, GOAL, HOLE, Lake, distances
from vagen_envs.seeding import HashStream


def rows_of(desc: Any) -> tuple[str, ...] | None:
    """A map as rows of letters, in any form that Gymnasium takes: texts, lists of letters, an array
    of bytes.

    `None` for anything else.
    """
    rows = desc.tolist() if hasattr(desc, "tolist") else desc
    if not isinstance(rows, list | tuple):
        return None
    letters = [[row] if isinstance(row, str | bytes) else row for row in rows]
    try:
        return tuple([_joined(row) for row in letters])
    except TypeError:
        return None


def _joined(letters: Iterable[str | bytes]) -> str:
    return "".join(at.decode("latin-1") if isinstance(at, bytes) else at for at in letters)


def read_lake(desc: Sequence[str], stream: HashStream | None = None) -> Lake:
    """A lake from Gymnasium's letters: `S` start, `F` frozen, `H` hole, `G` goal.

    Args:
        desc: the rows.
        stream: draws one of several starts, as Gymnasium does; the first is taken without.

    Raises:
        ConfigError: it isn't a rectangle of these letters with a start and a goal that every start
            can reach.
    """
    text = "".join(desc)
    letters = {"S": FROZEN, "F": FROZEN, "H": HOLE, "G": GOAL}
    if (
        len({len(row) for row in desc}) != 1
        or set(text) - set(letters)
        or not {"S", "G"} <= set(text)
    ):
        raise ConfigError(
            f"desc={list(desc)!r} is not a lake: it must be a rectangle of the letters S, F, H, "
            "G with an S and a G"
        )
    starts = [at for at, letter in enumerate(text) if letter == "S"]
    start = starts[0] if stream is None or len(starts) == 1 else stream.choice(starts)
    lake = Lake(len(desc[0]), bytes(letters[letter] for letter in text), start)
    far = distances(lake.size, lake.cells)
    if any(far[at] is None for at in starts):
        raise ConfigError(f"desc={list(desc)!r} has no way from S to G; open one through F")
    return lake
