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
    """Write a run to an experiment tracker, as `--track` of `vagen bench` does: a tracker's run for each agent."""
    track_run(to, RunFolder(run_folder))
    out.print(f"written to {to}, project vagen")
