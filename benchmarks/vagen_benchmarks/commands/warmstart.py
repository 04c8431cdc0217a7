"""`vagen warmstart`: supervised fine-tuning on the oracle's replies, before PPO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from vagen_adapters.errors import TrainingConfigError, errors_as
from vagen_benchmarks.commands.options import OptionPairs, parse_options
from vagen_benchmarks.commands.training_folders import EXTRA, check_model, check_out
from vagen_benchmarks.runs.run_writer import lock
from vagen_benchmarks.runs.tasks import resolve_id
from vagen_envs.extras import need


def warmstart(
    env: Annotated[str, typer.Option("--env", "-e", help="The environment.")],
    out: Annotated[Path, typer.Option(help="The folder of the fine-tuned model.")],
    model: Annotated[str, typer.Option(help="The model's folder or name.")],
    episodes: Annotated[
        int, typer.Option(min=1, help="Episodes of the oracle to imitate, once each.")
    ] = 512,
    noise: Annotated[
        float,
        typer.Option(
            min=0, max=0.99, help="Share of turns with random actions, which are not imitated."
        ),
    ] = 0.2,
    lora: Annotated[
        dict[str, Any] | None,
        typer.Option(
            parser=json.loads,
            help="Train adapters with these settings of peft.LoraConfig, as JSON, and merge them.",
        ),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(min=0, help="By default 1e-5, with --lora 1e-4.")
    ] = None,
    sequences_per_forward: Annotated[int, typer.Option(min=1, help="Fewer need less memory.")] = 2,
    option: OptionPairs = None,
) -> None:
    """Fine-tune a vision-language model on the oracle's replies before PPO.

    Example: `vagen warmstart --model Qwen/Qwen2.5-VL-3B-Instruct -e sokoban --out runs/warm`
    """
    need("vagen warmstart", *EXTRA)
    from vagen_adapters.ppo.actor_critic import check_finite
    from vagen_adapters.ppo.chat_encoder import ChatEncoder
    from vagen_adapters.ppo.checkpoints import writing
    from vagen_adapters.ppo.config import check_setting
    from vagen_adapters.ppo.introspection import read_policy
    from vagen_adapters.ppo.lora import with_adapters
    from vagen_adapters.ppo.warmstart import demonstrations, warm_start

    env_id = resolve_id(env)
    options = parse_options(option)
    check_setting("lora", lora or {})
    check_out(out)
    check_model(model)
    with errors_as(
        TrainingConfigError, f"--model {model} can't be read", "give the folder of a whole model"
    ):
        encoder = ChatEncoder.from_pretrained(model)
        policy = read_policy(model, dtype="auto" if lora else "float32")
    check_finite(policy, model)
    if lora:
        # As transformers' Trainer, which shuffles by it.
        policy = with_adapters(policy, lora, seed=42)
    rate = learning_rate or (1e-4 if lora else 1e-5)
    with lock(out):
        loss = warm_start(
            policy,
            encoder,
            demonstrations(env_id, options, encoder, episodes, noise),
            sequences_per_forward=sequences_per_forward,
            learning_rate=rate,
        )
        check_finite(policy, "the fine-tuned model", f"lower --learning-rate, which was {rate}")
        with writing(out):
            (policy.merge_and_unload() if lora else policy).save_pretrained(out)
            encoder.save_pretrained(out)
    typer.echo(
        f"mean loss {loss:.3f}; {out} holds the model. Try it: vagen bench --agent {out} --env "
        f"{env}"
    )
