"""`vagen verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.files import SHOWN, count_attempts
from vagen_benchmarks.sharing.verify import verify as verify_run

Trusted = Annotated[
    bool, typer.Option("--trust", help="Make whatever environment the run names, with any option: it is yours.")
]


def verify(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")], trust: Trusted = False
) -> None:
    """Play every episode of a run again by its own replies, without its model, and say whether all is as stored.

    Observations, states, rewards and endings have to be the same, byte for byte where the environment is the same on
    every machine; the episodes those that the protocol names; the pictures, the order of the lines and the report's
    table untouched. A run may be a stranger's: no module, path or address that it names is opened without `--trust`.
    Exit code 1 if something is wrong, or an episode couldn't be played again.
    """
    run = RunFolder(run_folder)
    verdict = verify_run(run, trusted=trust)
    out.print(f"{verdict.episodes} episodes and {verdict.turns} turns are as stored"
              + (f"; {verdict.failed} more failed and have no score" if verdict.failed else ""))  # fmt: skip
    for title, lines, style in (
        ("couldn't be confirmed here", verdict.unknown, "yellow"),
        ("wrong", verdict.wrong, "red"),
    ):
        if lines:
            err.print(f"{title}:", style=style)
            for line in lines[:SHOWN]:
                err.print(f"  {line}", soft_wrap=True)
            if len(lines) > SHOWN:
                err.print(f"  and {len(lines) - SHOWN} more")
    if attempts := str(count_attempts(run)):
        out.print(f"attempts: {attempts}")
    if verdict.unplayed:
        err.print(f"{verdict.unplayed} episodes couldn't be played again here", style="red")
    if verdict.wrong:
        err.print("This run isn't what it claims to be.", style="red")
    if verdict.ok:
        out.print("Who wrote the replies, a replay can't show.")
    raise typer.Exit(0 if verdict.ok else 1)
