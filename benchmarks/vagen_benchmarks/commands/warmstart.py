"""`vagen warmstart`: supervised fine-tuning on the oracle's replies, before PPO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from vagen_adapters.errors import TrainingConfigError
from vagen_benchmarks.commands.options import OptionPairs, parse_options
from vagen_benchmarks.runs.protocol import resolve_id
from vagen_envs.extras import need

EXTRA = ("ppo", "torch", "trl")


def warmstart(
    env: Annotated[str, typer.Option("--env", "-e", help="The environment.")],
    out: Annotated[Path, typer.Option(help="The folder of the fine-tuned model.")],
    model: Annotated[str, typer.Option(help="The model's folder or name.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of the oracle to imitate, once each.")] = 512,
    noise: Annotated[
        float, typer.Option(min=0, max=0.99, help="Share of turns with random actions, which are not imitated.")
    ] = 0.2,
    lora: Annotated[
        str | None, typer.Option(help="Train adapters with these settings of peft.LoraConfig, as JSON, and merge them.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="By default 1e-5, with --lora 1e-4.")] = None,
    sequences_per_forward: Annotated[int, typer.Option(min=1, help="Fewer need less memory.")] = 2,
    option: OptionPairs = None,
) -> None:
    """Fine-tune a vision-language model on the oracle's replies before PPO.

    Example: `vagen warmstart --model Qwen/Qwen2.5-VL-3B-Instruct -e sokoban --out runs/warm`
    """
    need("vagen warmstart", *EXTRA)
    from transformers import AutoModelForImageTextToText

    from vagen_adapters.ppo.chat_encoder import ChatEncoder
    from vagen_adapters.ppo.warmstart import demonstrations, warm_start

    env_id, options = resolve_id(env), parse_options(option)
    try:
        encoder = ChatEncoder.from_pretrained(model)
        policy: Any = AutoModelForImageTextToText.from_pretrained(model, dtype="auto" if lora else "float32")
    except (OSError, ValueError) as error:
        raise TrainingConfigError(f"--model {model} can't be read: {error}") from error
    if lora:
        policy = _with_adapters(policy, lora)
    rate = learning_rate or (1e-4 if lora else 1e-5)
    loss = warm_start(
        policy,
        encoder,
        demonstrations(env_id, options, encoder, episodes, noise),
        sequences_per_forward=sequences_per_forward,
        learning_rate=rate,
    )
    (policy.merge_and_unload() if lora else policy).save_pretrained(out)
    encoder.save_pretrained(out)
    typer.echo(f"mean loss {loss:.3f}; {out} holds the model. Try it: vagen bench --agent {out} --env {env}")


def _with_adapters(policy: Any, settings: str) -> Any:
    from peft import LoraConfig, get_peft_model

    try:
        return get_peft_model(policy, LoraConfig(**json.loads(settings)))
    except (TypeError, ValueError) as error:
        raise TrainingConfigError(f"--lora {settings!r} is not valid: {error}; see peft.LoraConfig") from error
