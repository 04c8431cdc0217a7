"""What several commands take, and the codes that they end with."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from vagen_benchmarks.errors import ProtocolError

# 130 is 128 + SIGINT, as shells say it.
EXIT_FAILED_EPISODES, EXIT_BAD_INPUT, EXIT_STOPPED, EXIT_INTERRUPTED = 1, 2, 3, 130

Names = list[str] | None

OptionPairs = Annotated[
    Names, typer.Option("--option", "-o", help="An option of the environments, NAME=VALUE; may be repeated.")
]

TrustModules = Annotated[
    bool, typer.Option("--trust", help="Import the modules of own environments that the run names.")
]


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """`["max_turns=5", "split=val"]` to keyword options; values are JSON where they can be read as such.

    Raises:
        ProtocolError: one has no `=`.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name:
            raise ProtocolError(f"option {pair!r} is not valid: write NAME=VALUE, such as max_turns=5")
        try:
            options[name.strip()] = json.loads(value)
        except ValueError:
            options[name.strip()] = value
    return options


def read_temperature(said: str | None) -> float | str | None:
    """A number, or `none` for leaving it to the endpoint. Raises ProtocolError for anything else."""
    if said is None or said.lower() == "none":
        return said and "none"
    try:
        heat = float(said)
    except ValueError:
        heat = -1.0
    if not 0.0 <= heat < math.inf:
        raise ProtocolError(f"temperature {said!r} is not valid: give a number of at least 0, or none")
    return heat
