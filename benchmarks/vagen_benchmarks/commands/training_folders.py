"""Checks of the folders that `vagen train` and `vagen warmstart` read and write, before anything long begins."""

from __future__ import annotations

from pathlib import Path

from vagen_adapters.errors import TrainingConfigError, in_short
from vagen_benchmarks.agents.trained import BEST

EXTRA = ("ppo", "torch", "trl")


def check_model(model: str) -> None:
    """Raise TrainingConfigError unless `model` is a folder with whole weights, or a name that the hub knows."""
    from safetensors import SafetensorError, safe_open
    from transformers import AutoConfig

    folder = Path(model)
    if (folder / "config.json").is_file() and not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        raise TrainingConfigError(f"{model} holds a config.json but no weights (*.safetensors)")
    if (folder / "adapter_config.json").is_file():
        raise TrainingConfigError(
            f"{model} holds adapters (lora), whose training goes on with --resume and a checkpoint of it; "
            "to begin another, merge them into their model with PEFT's merge_and_unload"
        )
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt"):
                pass
        except SafetensorError as error:
            raise TrainingConfigError(f"{file} can't be read ({error}); it may be cut off, so copy it anew") from error
    try:
        AutoConfig.from_pretrained(model)
    except Exception as error:  # from a config.json that is none it raises anything
        raise TrainingConfigError(
            f"there is no model {model!r}: neither a folder with a config.json nor a name that the hub knows here "
            f"({in_short(error)})"
        ) from error


def check_out(out: Path) -> None:
    """Raise TrainingConfigError if a model would be written over an earlier one, or into a file."""
    if out.exists() and not out.is_dir():
        raise TrainingConfigError(f"--out {out} is a file; name a folder")
    if any((out / BEST).glob("*")) or any(out.glob("checkpoint-*")) or (out / "config.json").exists():
        raise TrainingConfigError(
            f"--out {out} holds the model of an earlier run; name another folder, remove that one, or go on from a "
            "checkpoint with vagen train --resume"
        )
