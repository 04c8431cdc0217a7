"""`vagen merge`: adapters that `vagen train` made become a model of their own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from vagen_adapters.errors import TrainingConfigError, errors_as
from vagen_benchmarks.agents.trained import CARD
from vagen_benchmarks.commands.training_folders import EXTRA, check_out
from vagen_benchmarks.runs.run_writer import lock
from vagen_envs.extras import need


def merge(
    folder: Annotated[Path, typer.Argument(help="What `vagen train` wrote with `lora`.")],
    out: Annotated[Path, typer.Option(help="The folder of the merged model.")],
) -> None:
    """Merge the adapters of a training with LoRA into their model, for policy and critic.

    Example: `vagen merge runs/lora --out runs/merged`
    """
    need("vagen merge", *EXTRA)
    from vagen_adapters.ppo.actor_critic import ActorCritic, critic_kind_of
    from vagen_adapters.ppo.chat_encoder import ChatEncoder
    from vagen_adapters.ppo.checkpoints import writing
    from vagen_adapters.ppo.introspection import base_of

    if base_of(folder) is None:
        raise TrainingConfigError(
            f"{folder} holds no adapters (adapter_config.json); nothing to merge"
        )
    check_out(out)
    with errors_as(TrainingConfigError, f"{folder} can't be merged", "give a whole folder"):
        encoder = ChatEncoder.from_pretrained(str(folder))
        model = ActorCritic.from_pretrained(
            str(folder), critic=critic_kind_of(folder), dtype="auto"
        )
    with lock(out), writing(out):
        model.save_pretrained(out)
        encoder.save_pretrained(out)
        if (folder / CARD).is_file():
            shutil.copy(folder / CARD, out / CARD)
    typer.echo(f"{out} holds the merged model")
