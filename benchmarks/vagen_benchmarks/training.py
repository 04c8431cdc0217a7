"""`vagen warmstart` and `vagen train`: the trainer of `vagen_adapters.ppo` from the command line."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.recipes import load_recipe
from vagen_benchmarks.protocol import resolve_id
from vagen_envs.errors import MissingExtraError

OptionParser = Callable[[Sequence[str]], dict[str, Any]]
FIRST_DEMONSTRATION = 1_000_000
"""The first seed of `vagen warmstart`, so that training levels are new to the model."""

Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="An option of the environment, NAME=VALUE; may be repeated."),
]


def register(app: typer.Typer, parse_options: OptionParser) -> None:
    """Add both commands to `app`."""

    @app.command()
    def warmstart(
        env: Annotated[str, typer.Option("--env", "-e", help="The environment.")],
        out: Annotated[Path, typer.Option(help="The folder of the new model.")],
        episodes: Annotated[int, typer.Option(min=1, help="Episodes of noisy play to imitate.")] = 3000,
        oracle_share: Annotated[float, typer.Option(min=0, max=1, help="Share of turns that the oracle plays.")] = 0.5,
        passes: Annotated[int, typer.Option(min=1, help="Over all episodes.")] = 4,
        vocabulary: Annotated[int, typer.Option(min=300, help="Most tokens of its tokenizer.")] = 1024,
        seed: Annotated[int, typer.Option(help="Of weights and shuffling.")] = 0,
        option: Options = None,
    ) -> None:
        """Make a tiny model and teach it the format and some skill, by imitation."""
        _require_extra("vagen warmstart")
        _warmstart(resolve_id(env), out, episodes, oracle_share, passes, vocabulary, seed, parse_options(option or []))

    @app.command()
    def train(
        recipe: Annotated[str, typer.Option(help="Such as `vagen-base`, or `tiny-vagen-base` for a tiny model.")],
        env: Annotated[str, typer.Option("--env", "-e", help="The environment.")],
        out: Annotated[Path, typer.Option(help="Where checkpoints and the trained model go.")],
        model: Annotated[str | None, typer.Option(help="The policy's folder or name; the recipe's by default.")] = None,
        option: Options = None,
        setting: Annotated[
            list[str] | None, typer.Option("--set", "-s", help="A setting of the trainer, NAME=VALUE.")
        ] = None,
        resume: Annotated[Path | None, typer.Option(help="A checkpoint to go on from.")] = None,
        without_reasoning_reward: Annotated[
            bool, typer.Option("--without-reasoning-reward", help="Leave out the judge that a recipe asks for.")
        ] = False,
    ) -> None:
        """Train a vision-language model on an environment, by multi-turn PPO."""
        _require_extra("vagen train")
        chosen = load_recipe(recipe)
        if chosen.reasoning_reward and not without_reasoning_reward:
            raise TrainingConfigError(
                f"{recipe} rewards reasoning, and this command has no judge for it; use MultiTurnPPOTrainer with a "
                "score, or train without that reward: --without-reasoning-reward"
            )
        start = model or chosen.model
        if start is None:
            raise TrainingConfigError(
                f"{recipe} trains a tiny model of yours; make one with vagen warmstart, give --model"
            )
        settings = {"env_options": parse_options(option or []), **parse_options(setting or [])}
        _train(chosen.config(resolve_id(env), str(out), **settings), start, resume)


def _warmstart(
    env_id: str, out: Path, episodes: int, oracle_share: float, passes: int, vocabulary: int, seed: int,
    options: dict[str, Any],
) -> None:  # fmt: skip
    from vagen_adapters.ppo import imitation, tiny
    from vagen_adapters.ppo.episodes import Level

    tiny.save_tiny(out, tiny.texts_of([env_id], **options), seed=seed, vocabulary=vocabulary)
    model, codec = tiny.load(out)
    levels = [Level(FIRST_DEMONSTRATION + number) for number in range(episodes)]
    env = gym.make(env_id, **options)
    sequences = list(imitation.demonstrations(env, codec, levels, oracle_share=oracle_share))
    typer.echo(f"{sum(each.numel() for each in model.parameters()):,} parameters, {episodes} episodes to imitate")
    imitation.imitate(model, codec, sequences, passes=passes, seed=seed, report=_tell)
    model.save_pretrained(out)
    typer.echo(f"{out} holds the model")


def _tell(update: int, loss: float) -> None:
    if update % 50 == 0:
        typer.echo(f"update {update}: loss {loss:.3f}")


def _train(config: Any, model: str, resume: Path | None) -> None:
    from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer

    trainer = MultiTurnPPOTrainer(model, config)
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    trainer.save_model(config.output_dir)
    typer.echo(f"{config.output_dir} holds the trained model")


def _require_extra(command: str) -> None:
    for module in ("torch", "trl"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(command, "ppo", module)
