"""`vagen play`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console

from vagen_benchmarks.agents.human import Human
from vagen_benchmarks.agents.human import play as play_episode
from vagen_benchmarks.commands.completion import complete_env
from vagen_benchmarks.commands.options import OptionPairs, parse_options
from vagen_benchmarks.commands.printing import err, out, print_table
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.report import write_report
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.protocol import Protocol, make_task, resolve_id
from vagen_benchmarks.runs.run_folder import RunWriter
from vagen_benchmarks.runs.runner import run


def play(
    env: Annotated[
        str, typer.Argument(metavar="ENV", autocompletion=complete_env, help="An environment, such as `sokoban`.")
    ],
    seed: Annotated[int | None, typer.Option(help="The level's seed; a new one each time by default.")] = None,
    split: Annotated[
        str | None, typer.Option(help="`train`, `val` or `test`; `test` with --out, else `train`.")
    ] = None,
    option: OptionPairs = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="A run folder to play into, as models do; a run there goes on.")
    ] = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, help="How many, with --out.")] = 8,
    name: Annotated[str, typer.Option(help="Who plays, with --out.")] = "me",
    oracle: Annotated[bool, typer.Option("--oracle", help="Look on while the oracle plays.")] = False,
) -> None:
    """Play an episode yourself: by actions, or by whole replies as a model would write them.

    With `--out` the episodes become a run like a model's: `vagen view`, `compare`, `verify` and `leaderboard` take it.
    """
    if folder is not None:
        if oracle:
            raise ProtocolError("--oracle only shows an episode; vagen bench -a oracle --out RUN stores its play")
        _play_into(folder, env, split or "test", seed or 0, episodes, parse_options(option or []), name)
        return
    options: dict[str, Any] = {"split": split or "train", **parse_options(option or [])}
    made = gym.make(resolve_id(env), disable_env_checker=True, render_mode="ansi", **options)
    try:
        play_episode(made, seed, Console(), watch=oracle)
    finally:
        made.close()


def _play_into(
    folder: Path, env: str, split: str, seed: int, episodes: int, options: dict[str, Any], name: str
) -> None:
    player = Human(name, Console())
    task = make_task(resolve_id(env), options, split, seed, episodes)
    with RunWriter(folder, Protocol((task,), (player.describe(),))) as writer:
        try:
            run(writer, [player])
        except KeyboardInterrupt:
            err.print("\nstopped; the same command goes on")
        report = write_report(writer)
        print_table(summarise(writer))
    out.print(f"report: {report.resolve()}", soft_wrap=True)
