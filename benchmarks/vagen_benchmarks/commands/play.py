"""`vagen play`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console

from vagen_benchmarks.agents.factory import HUMAN, Asked, make_agents
from vagen_benchmarks.agents.human import play as play_episode
from vagen_benchmarks.commands.options import OptionPairs, parse_options
from vagen_benchmarks.commands.running import play_job
from vagen_benchmarks.runs.job import make_job
from vagen_benchmarks.runs.protocol import make_task, resolve_id


def play(
    env: Annotated[str, typer.Argument(metavar="ENV", help="An environment, such as `sokoban`.")],
    seed: Annotated[int | None, typer.Option(help="The level's seed; a new one each time by default.")] = None,
    split: Annotated[
        str | None, typer.Option(help="`train`, `val` or `test`; `test` with --out, else `train`.")
    ] = None,
    option: OptionPairs = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Store the episodes in this run folder, new or empty.")
    ] = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, help="Number of episodes, with --out.")] = 8,
    name: Annotated[str, typer.Option(help="The player's name, with --out.")] = "me",
) -> None:
    """Play an environment yourself, with actions or with whole replies as a model writes them.

    With `--out` the episodes become a run like a model's: `vagen view`, `compare`, `verify` and `leaderboard` accept
    it, and `vagen resume` continues it.

    Example: `vagen play sokoban --out runs/me`
    """
    if folder is not None:
        chosen = parse_options(option)
        raise typer.Exit(_play_into(folder, env, split or "test", seed or 0, episodes, chosen, name))
    options: dict[str, Any] = {"split": split or "train", **parse_options(option)}
    made = gym.make(resolve_id(env), disable_env_checker=True, render_mode="ansi", **options)
    try:
        play_episode(made, seed, Console())
    finally:
        made.close()


def _play_into(folder: Path, env: str, split: str, seed: int, episodes: int, options: dict[str, Any], name: str) -> int:
    (player,) = make_agents([f"{HUMAN}{name}"], Asked())
    task = make_task(resolve_id(env), options, split, seed, episodes)
    return play_job(make_job(folder, [task], [player]), new=True)
