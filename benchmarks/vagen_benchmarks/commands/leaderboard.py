"""`vagen leaderboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.printing import out
from vagen_benchmarks.commands.verify import Trusted
from vagen_benchmarks.sharing.leaderboard import write_leaderboard


def leaderboard(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders of one protocol.")],
    page: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path("leaderboard.html"),
    trust: Trusted = False,
) -> None:
    """Verify runs and write one static page of them: scores with intervals, costs, and links to the replays.

    Runs of different protocols, and runs with findings, are refused.
    """
    out.print(f"leaderboard: {write_leaderboard(runs, page, trusted=trust).resolve()}", soft_wrap=True)
