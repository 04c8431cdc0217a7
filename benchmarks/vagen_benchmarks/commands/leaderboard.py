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
    """Verify runs of one protocol and write a page that ranks their agents.

    The page shows scores with confidence intervals, costs, resumes, and links to the replays. Runs of different
    protocols, and runs that don't verify, are refused.

    Example: `vagen leaderboard runs/a runs/b --out leaderboard.html`
    """
    out.print(f"leaderboard: {write_leaderboard(runs, page, trusted=trust).resolve()}", soft_wrap=True)
