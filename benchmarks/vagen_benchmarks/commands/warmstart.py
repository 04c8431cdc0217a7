"""`vagen warmstart`: a tiny model that has learned the format and some skill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.completion import complete_env
from vagen_benchmarks.commands.options import OptionPairs, parse_options
from vagen_benchmarks.proofs import measuring
from vagen_benchmarks.proofs.imitating import imitate_play
from vagen_benchmarks.proofs.proof import Start
from vagen_benchmarks.runs.protocol import resolve_id
from vagen_envs.extras import need

EXTRA = ("ppo", "torch", "trl")

Environment = Annotated[str, typer.Option("--env", "-e", autocompletion=complete_env, help="The environment.")]


def warmstart(
    env: Environment,
    out: Annotated[Path, typer.Option(help="The folder of the new model.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of noisy play to imitate.")] = 14_000,
    oracle_share: Annotated[float, typer.Option(min=0, max=1, help="Share of turns that the oracle plays.")] = 0.7,
    sight: Annotated[
        int, typer.Option(min=0, help="Updates in which its vision tower learns relations before it imitates.")
    ] = 0,
    levels: Annotated[int, typer.Option(min=0, help="Held-out levels (`val`) that it is tried on afterwards.")] = 64,
    vocabulary: Annotated[int, typer.Option(min=300, help="Most tokens of its tokenizer.")] = 1024,
    seed: Annotated[int, typer.Option(help="Of the weights.")] = 0,
    option: OptionPairs = None,
) -> None:
    """Make a tiny model, teach it to see, the format and some skill, and say how well it does."""
    need("vagen warmstart", *EXTRA)
    start = Start(
        episodes=episodes,
        critic_episodes=episodes // 4,
        oracle_share=oracle_share,
        tower_updates=sight,
        vocabulary=vocabulary,
        seed=seed,
    )
    env_id, options = resolve_id(env), parse_options(option or [])
    imitate_play(env_id, out, start, options, typer.echo)
    if levels:
        found = measuring.measure(out, env_id, options, split="val", episodes=levels, max_tokens=200, num_envs=32)
        for line in measuring.play_lines(found):
            typer.echo(line)
    typer.echo(f"{out} holds the model")
