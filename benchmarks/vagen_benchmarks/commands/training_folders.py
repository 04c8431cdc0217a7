"""Checks of the folders that `vagen train` and `vagen warmstart` read and write, before anything
long begins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vagen_adapters.errors import TrainingConfigError, errors_as
from vagen_benchmarks.agents.trained import BEST

EXTRA = ("ppo", "torch", "trl")
FINISHED = "finished"
"""The file of a folder whose training has come to its end."""


def check_model(model: str) -> None:
    """Raise TrainingConfigError unless `model` is a folder with whole weights, or a name that the
    hub knows.
    """
    from safetensors import safe_open
    from transformers import AutoConfig

    folder = Path(model)
    if (folder / "config.json").is_file() and not [
        *folder.glob("*.safetensors"),
        *folder.glob("*.bin"),
    ]:
        raise TrainingConfigError(f"{model} holds a config.json but no weights (*.safetensors)")
    for file in sorted(folder.glob("*.safetensors")):
        with (
            errors_as(
                TrainingConfigError, f"{file} can't be read", "it may be cut off, so copy it anew"
            ),
            safe_open(file, framework="pt"),
        ):
            pass
    if (folder / "adapter_config.json").is_file():
        return
    fault = (
        f"there is no model {model!r}: neither a folder with a config.json nor a name that the "
        "hub knows here"
    )
    with errors_as(TrainingConfigError, fault, "give the folder of a model of transformers"):
        AutoConfig.from_pretrained(model)


def check_out(out: Path) -> None:
    """Raise TrainingConfigError if a model would be written over an earlier one, or into a file."""
    if out.exists() and not out.is_dir():
        raise TrainingConfigError(f"--out {out} is a file; name a folder")
    if _holds_model(out):
        raise TrainingConfigError(
            f"--out {out} holds the model of an earlier run; name another folder, or {go_on(out)}"
        )


def go_on(out: Path) -> str:
    """How to continue what was interrupted in a folder."""
    from vagen_adapters.ppo.checkpoints import last_checkpoint

    if last := last_checkpoint(out):
        return f"go on from {last.name} with the same command and --resume auto"
    return f"remove {out} and begin again" if _holds_model(out) else "the same command begins again"


def finish(out: Path) -> None:
    """Mark a folder whose training has come to its end."""
    (out / FINISHED).touch()


def is_finished(out: Path) -> bool:
    """Whether a training in this folder has come to its end."""
    return (out / FINISHED).is_file()


def check_finished(out: Path, card: Mapping[str, Any]) -> None:
    """Raise TrainingConfigError if the model in a folder was trained otherwise than the card says:
    a command of a sweep that names another's folder.
    """
    from vagen_adapters.ppo.checkpoints import changes

    as_stored = json.loads(json.dumps(card, default=str))
    if changed := changes(out, as_stored):
        told = "; ".join(
            f"{name}={there!r}, not {here!r}" for name, (there, here) in changed.items()
        )
        raise TrainingConfigError(
            f"--out {out} holds a model that was trained with {told:.600}; name another folder"
        )


def _holds_model(out: Path) -> bool:
    return (
        any((out / BEST).glob("*"))
        or any(out.glob("checkpoint-*"))
        or (out / "config.json").exists()
    )
