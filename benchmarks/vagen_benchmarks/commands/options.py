"""What several commands take, and the codes that they end with."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from vagen_benchmarks.errors import ProtocolError, StorageError

# 130 is 128 + SIGINT, as shells say it.
EXIT_FAILED_EPISODES, EXIT_BAD_INPUT, EXIT_STOPPED, EXIT_INTERRUPTED = 1, 2, 3, 130

Names = list[str] | None

OptionPairs = Annotated[
    Names,
    typer.Option(
        "--option", "-o", help="An option of the environments, NAME=VALUE; may be repeated."
    ),
]
TrustModules = Annotated[
    bool, typer.Option("--trust", help="Import the modules of own environments that the run names.")
]
Split = Annotated[str, typer.Option(help="`train`, `val` or `test`.")]
FirstSeed = Annotated[int, typer.Option(min=0, help="The first of the seeds.")]

# How a run is played, which may change from one call to the next (`vagen_benchmarks.runs.job.HOW`).
BaseUrl = Annotated[str | None, typer.Option(help="Of an OpenAI-compatible endpoint.")]
KeyFrom = Annotated[
    str | None,
    typer.Option(
        help="The environment variable of the key. OPENAI_API_KEY goes to other hosts than "
        "OpenAI's only by this."
    ),
]
MaxTokens = Annotated[
    int | None, typer.Option(min=1, help="Of a reply; 400 unless the registry says.")
]
Models = Annotated[Path | None, typer.Option("--models", help="A TOML file of your own models.")]
Header = Annotated[
    Names,
    typer.Option(help="A further header, NAME=VALUE; `$VARIABLE` is filled in when it is sent."),
]
Extra = Annotated[
    Names,
    typer.Option(
        help="A further field of each request, NAME=JSON; may be repeated. `$VARIABLE` in secret "
        "ones is filled in."
    ),
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, help="Episodes in flight of an agent that calls a model.")
]
Timeout = Annotated[
    float | None, typer.Option(min=0.1, help="Seconds for one request and its whole answer.")
]
Attempts = Annotated[
    int | None, typer.Option(min=1, help="Requests for one reply before its episode fails.")
]
Patience = Annotated[
    float | None, typer.Option(min=0.0, help="Seconds that an outage is waited for.")
]
GiveUpAfter = Annotated[
    int | None, typer.Option(min=1, help="Stop when so many episodes in a row have failed.")
]
MaxDollars = Annotated[
    float | None, typer.Option(min=0.0, help="Begin no request that could cost more.")
]
MaxTotalTokens = Annotated[
    int | None, typer.Option(min=1, help="Begin no request that could take more.")
]

# How reasoning is judged.
Gate = Annotated[
    bool | None,
    typer.Option(
        "--gate/--no-gate", help="Judge only turns of correct format with an executed action."
    ),
]
Weighting = Annotated[
    str | None,
    typer.Option(
        help="`plain`: the judge's own score. `contrast`: claims are paid in contrast to peer "
        "states."
    ),
]
Penalty = Annotated[
    str | None, typer.Option(help="`paper`: fine frequent sentences with a low score.")
]


def parse_options(
    pairs: Sequence[str] | None, what: str = "option", example: str = "max_turns=5"
) -> dict[str, Any]:
    """`["max_turns=5", "split=val"]` to keyword options; values are JSON, None, True or False where
    they can be. `what` and `example` are the error's.

    Raises:
        ProtocolError: one has no `=`.
    """
    options: dict[str, Any] = {}
    for pair in pairs or ():
        name, found, value = pair.partition("=")
        if not found or not name:
            raise ProtocolError(
                f"{what} {pair.partition(':')[0]!r} is not valid: write NAME=VALUE, such as "
                f"{example}"
            )
        try:
            options[name.strip()] = json.loads(
                {"None": "null", "True": "true", "False": "false"}.get(value, value)
            )
        except ValueError:
            options[name.strip()] = value
    return options


@contextlib.contextmanager
def writing_out(path: Path) -> Iterator[None]:
    """Name `--out` in an error of the file system."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"--out {path} can't be written: {error.strerror or error}") from error


def parse_extra(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Fields of a request, as `parse_options` reads them."""
    return parse_options(pairs, "field", "top_k=20")


def read_temperature(text: str | None) -> float | str | None:
    """A number, or `none` for leaving it to the endpoint. Raises ProtocolError for anything
    else.
    """
    if text is None or text.lower() == "none":
        return text and "none"
    try:
        heat = float(text)
    except ValueError:
        heat = -1.0
    if not 0.0 <= heat < math.inf:
        raise ProtocolError(
            f"temperature {text!r} is not valid: give a number of at least 0, or none"
        )
    return heat
