"""`vagen play`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console

from vagen_benchmarks.agents.human import Human
from vagen_benchmarks.agents.human import play as play_episode
from vagen_benchmarks.commands.options import OptionPairs, parse_options
from vagen_benchmarks.commands.running import play_job
from vagen_benchmarks.runs.job import make_job
from vagen_benchmarks.runs.tasks import make_task, resolve_id


def play(
    env: Annotated[str, typer.Argument(metavar="ENV", help="An environment, such as `sokoban`.")],
    seed: Annotated[
        int | None, typer.Option(help="The level's seed; a new one each time by default.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="`train`, `val` or `test`; `test` with --out, else `train`.")
    ] = None,
    option: OptionPairs = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Store the episodes in this run folder, new or empty."),
    ] = None,
    episodes: Annotated[
        int, typer.Option("--episodes", "-n", min=1, help="Number of episodes, with --out.")
    ] = 8,
    name: Annotated[str, typer.Option(help="The player's name, with --out.")] = "me",
) -> None:
    """Play an environment yourself, with actions or with whole replies as a model writes them.

    With `--out` the episodes become a run like a model's: `vagen view`, `compare`, `verify` and
    `leaderboard` accept it, and `vagen resume` continues it.

    Example: `vagen play sokoban --out runs/me`
    """
    chosen = parse_options(option)
    if folder is not None:
        task = make_task(resolve_id(env), chosen, split or "test", seed or 0, episodes)
        raise typer.Exit(play_job(make_job(folder, [task], [Human(name)]), new=True))
    options: dict[str, Any] = {"split": split or "train", **chosen}
    made = gym.make(resolve_id(env), disable_env_checker=True, render_mode="ansi", **options)
    try:
        play_episode(made, seed, Console())
    finally:
        made.close()
