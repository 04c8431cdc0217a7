"""`vagen verify` and `vagen leaderboard`: check runs, and show them beside others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.printing import err, out, print_findings, print_served
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.files import count_attempts
from vagen_benchmarks.sharing.leaderboard import write_leaderboard
from vagen_benchmarks.sharing.published_results import add_run
from vagen_benchmarks.sharing.verify import verify as verify_run

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Trusted = Annotated[
    bool,
    typer.Option(
        "--trust", help="Make any environment and option that the run names. For your own runs."
    ),
]


def verify(run_folder: RunArgument, trust: Trusted = False) -> None:
    """Replay a run without its model, and check that everything is as stored.

    Plays each episode from its level with the stored replies. Observations, states, rewards and
    endings must be the same (in the simulators, up to rounding), and no episode, image or journal
    entry may have been changed or removed. This shows consistency, not honesty: it can't tell which
    model wrote the replies, or how often the run was tried. Without `--trust` only environments of
    this package are made, with options that a remote client may set.

    Exit code 1 if something is wrong or an episode can't be replayed.

    Example: `vagen verify runs/a`
    """
    run = RunFolder(run_folder)
    with Meter("replaying episodes", sum(1 for _ in run.index()), console=err) as meter:
        verdict = verify_run(run, trusted=trust, progress=meter.advance)
    failed = f"; {verdict.failed} more failed and have no score" if verdict.failed else ""
    out.print(f"{verdict.episodes} episodes and {verdict.turns} turns are as stored{failed}")
    print_findings("could not be confirmed here", verdict.unknown, "yellow")
    print_findings("wrong", verdict.wrong, "red")
    print_served(summarise(run))
    if attempts := str(count_attempts(run)):
        out.print(f"attempts: {attempts}")
    if verdict.unplayed:
        err.print(f"{verdict.unplayed} episodes could not be replayed here", style="red")
    if verdict.wrong:
        err.print("This run was changed, or can't have been played as stored.", style="red")
    if verdict.ok:
        out.print("A replay can't show which model wrote the replies.")
    raise typer.Exit(0 if verdict.ok else 1)


board = typer.Typer(
    no_args_is_help=True,
    help="Show verified runs beside others: a page of some runs, or a row. "
    "Example: `vagen leaderboard page runs/a --out page.html`",
)


@board.command("page")
def leaderboard_page(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Run folders of one protocol.")
    ],
    page: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path(
        "leaderboard.html"
    ),
    trust: Trusted = False,
) -> None:
    """Verify runs of one protocol and write a page that ranks their agents.

    The page shows scores with confidence intervals, costs, resumes, and links to the replays. Runs
    of different protocols, and runs that don't verify, are refused.

    Example: `vagen leaderboard page runs/a runs/b --out leaderboard.html`
    """
    out.print(
        f"leaderboard: {write_leaderboard(runs, page, trusted=trust).resolve()}", soft_wrap=True
    )


@board.command("add")
def leaderboard_add(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Run folders, each of one protocol.")
    ],
    page: Annotated[
        Path, typer.Option("--to", help="The page of results; its rows stand beside it as JSON.")
    ] = Path("results.md"),
    trust: Trusted = False,
) -> None:
    """Verify runs and add their agents as rows to a page of results.

    A run is refused if it doesn't verify, or follows no protocol of this package. A row names its
    run, date and checksum; a row of the same agent, settings and protocol is replaced.

    Example: `vagen leaderboard add runs/a --to docs/results.md`
    """
    for run in runs:
        for name in add_run(run, page, trusted=trust):
            out.print(f"{page}: {name} of {run.name}", soft_wrap=True)
