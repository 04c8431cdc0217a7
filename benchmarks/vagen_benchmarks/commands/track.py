"""`vagen track`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.printing import out
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.trackers import track as track_run


def track(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    to: Annotated[str, typer.Option(help="`trackio`, `wandb` or `mlflow`.")],
) -> None:
    """Write a run to an experiment tracker: one tracker run for each agent.

    The same as `--track` of `vagen bench`.

    Example: `vagen track runs/a --to wandb`
    """
    track_run(to, RunFolder(run_folder))
    out.print(f"written to {to}, project vagen")
