"""`vagen warmstart`: a tiny model that has learned the format and some skill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.options import OptionPairs, parse_options
from vagen_benchmarks.proofs import proving
from vagen_benchmarks.runs.protocol import resolve_id
from vagen_envs.extras import need

EXTRA = ("ppo", "torch", "trl")

Environment = Annotated[str, typer.Option("--env", "-e", help="The environment.")]


def warmstart(
    env: Environment,
    out: Annotated[Path, typer.Option(help="The folder of the new model.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of noisy play to imitate.")] = 14_000,
    oracle_share: Annotated[float, typer.Option(min=0, max=1, help="Share of turns that the oracle plays.")] = 0.7,
    vocabulary: Annotated[int, typer.Option(min=300, help="Most tokens of its tokenizer.")] = 1024,
    seed: Annotated[int, typer.Option(help="Of the weights.")] = 0,
    option: OptionPairs = None,
) -> None:
    """Make a tiny model and teach it the format and some skill, by imitation."""
    need("vagen warmstart", *EXTRA)
    start = proving.Start(
        episodes=episodes,
        critic_episodes=episodes // 4,
        oracle_share=oracle_share,
        vocabulary=vocabulary,
        seed=seed,
    )
    proving.imitate_play(resolve_id(env), out, start, parse_options(option or []), typer.echo)
    typer.echo(f"{out} holds the model")
