"""`vagen gif`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.completion import complete_env
from vagen_benchmarks.commands.printing import out
from vagen_benchmarks.report.animation import find_episode, write_gif
from vagen_benchmarks.runs.run_folder import RunFolder


def gif(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    path: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    seed: Annotated[int, typer.Option(help="The episode's seed.")] = 0,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Its agent; the run's first by default.")] = None,
    env: Annotated[
        str | None,
        typer.Option("--env", "-e", autocompletion=complete_env, help="Its environment; the run's first by default."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.05, help="How long each picture stays.")] = 1.5,
) -> None:
    """Write an episode as an animated GIF.

    Example: `vagen gif runs/a episode.gif -a oracle -e sokoban --seed 3`
    """
    run_read = RunFolder(run_folder)
    count = write_gif(run_read, find_episode(run_read, agent, env, seed), path, seconds)
    out.print(f"{count} pictures in {path}")
