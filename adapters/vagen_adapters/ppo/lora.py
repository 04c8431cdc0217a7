"""LoRA adapters of policy and critic: added for a training, merged where its model is read."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vagen_adapters.errors import TrainingConfigError


def merged(model: Any, folder: str | Path) -> Any:
    """The model with the adapters of a folder merged into its weights."""
    from peft import PeftModel

    return PeftModel.from_pretrained(model, str(folder)).merge_and_unload()


def merged_critic(backbone: Any, folder: str | Path, state: dict[str, Tensor]) -> Any:
    """The critic's backbone with the adapters that `state` has of it; `state` then has its
    weights.
    """
    from peft import LoraConfig, get_peft_model

    adapters = {
        name.removeprefix("critic."): state.pop(name)
        for name in list(state)
        if name.startswith("critic.")
    }
    if not adapters:
        return backbone
    wrapped = get_peft_model(backbone, LoraConfig.from_pretrained(str(folder)))
    wrapped.load_state_dict(adapters, strict=False)
    whole = wrapped.merge_and_unload()
    state |= {f"critic.{name}": weight for name, weight in whole.state_dict().items()}
    return whole


def with_adapters(model: Any, settings: Mapping[str, Any], seed: int) -> Any:
    """A frozen model with adapters drawn from `seed`; raises TrainingConfigError if `settings`
    don't fit it.
    """
    from peft import LoraConfig, get_peft_model

    try:
        # PEFT draws from the global generators; what they give later stays as it was.
        with (
            torch.random.fork_rng([model.device] if model.device.type == "cuda" else []),
            warnings.catch_warnings(),
        ):
            # PEFT reads a property by the name that it had before transformers 5.20.
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            torch.manual_seed(seed)
            return get_peft_model(model, LoraConfig(**settings))
    except (TypeError, ValueError) as error:
        fix = 'set target_modules to "all-linear" or to names of its linear layers'
        raise TrainingConfigError(
            f"lora={settings!r} doesn't fit {type(model).__name__}: {error}; {fix}"
        ) from error
