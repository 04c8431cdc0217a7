"""The policy's weights as vLLM takes them: all of them, adapters merged in, or the adapters alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor
from trl.distributed import DistributedBackend
from trl.generation.vllm_generation import VLLMGeneration

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.introspection import vision_parameters

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Largest ranks that vLLM makes room for (`vllm.config.lora`)."""


class Weights(VLLMGeneration):
    """TRL's walk over a model's whole parameters, without an engine."""

    def __init__(self, model: Any, accelerator: Any, encoder: ChatEncoder) -> None:
        super().__init__(model, accelerator, encoder.tokenizer)

    def _init_vllm(self) -> None:
        pass

    def named_params(self) -> Iterator[tuple[str, Any]]:
        """Each parameter by vLLM's name for it. Every process has to walk over all of them."""
        sharded = self._dist.is_fsdp or self._dist.is_zero3
        if hasattr(self.model, "merge_adapter") and not sharded:
            yield from self._merged()
        else:
            yield from self._iter_named_params()

    def _merged(self) -> Iterator[tuple[str, Tensor]]:
        """Adapters in their layers, one layer at a time.

        TRL's walk merges them into the model and takes them out again, which in bfloat16 rounds the frozen weights at
        each sync: after 20 of them a tiny model's had moved by a hundredth of what its adapters add.
        """
        layers: dict[str, dict[str, Tensor]] = {}
        for name, parameter in self.model.named_parameters():
            if self.model.prefix in name or "original_module" in name:
                continue
            layer, is_adapted, own = name.partition(".base_layer.")
            if is_adapted and layer not in layers:
                layers = {layer: _merged(self.model.get_submodule(layer))}  # its parameters stand side by side
            plain = self._fix_param_name_to_vllm(
                name.removeprefix("base_model.model.").replace(".base_layer", ""), ["modules_to_save.default."]
            )
            yield plain, layers[layer][own] if is_adapted else parameter.data


def _merged(layer: Any) -> dict[str, Tensor]:
    """The parameters of an adapted layer with its adapters in them; the layer stays as it is."""
    parameters = dict(layer.get_base_layer().named_parameters())
    before = {name: each.data for name, each in parameters.items()}
    for each in parameters.values():
        each.data = each.data.clone()
    try:
        layer.merge()
        return {name: each.data for name, each in parameters.items()}
    finally:
        for name, each in parameters.items():
            each.data = before[name]
        layer.merged_adapters.clear()


class Adapters:
    """A policy's low-rank adapters, for vLLM to add to the weights that it has read itself.

    Raises:
        TrainingConfigError: there are none, or of a kind that vLLM doesn't add.
    """

    def __init__(self, model: Any, accelerator: Any) -> None:
        self.model, self.accelerator = model, accelerator
        settings: Any = getattr(model, "peft_config", {}).get("default")
        _require(settings is not None, "there are no adapters; set lora, or leave it out")
        spread = DistributedBackend(accelerator)
        _require(not (spread.is_fsdp or spread.is_zero3), "weights are spread over processes; use DDP or ZeRO 2")
        for name, plain in (("use_dora", False), ("modules_to_save", None), ("bias", "none"), ("lora_bias", False)):
            _require(
                getattr(settings, name, plain) in (plain, [], False),
                f"{name}={getattr(settings, name, None)!r} of lora is beyond what vLLM adds; leave one of them out",
            )
        seen = {id(each) for each in vision_parameters(model)}
        beside = next((name for name, each in model.named_parameters() if "lora_" in name and id(each) in seen), None)
        _require(beside is None, f"vLLM adds adapters to the language model alone, and there is {beside}; name the "
                 "language model's layers in lora's target_modules, or exclude_modules the tower's")  # fmt: skip
        ranks = [settings.r, *settings.rank_pattern.values()]
        _require(max(ranks) <= _RANKS[-1], f"rank {max(ranks)} is beyond vLLM's {_RANKS[-1]}")
        self.room = next(rank for rank in _RANKS if rank >= max(ranks))

    @property
    def options(self) -> dict[str, Any]:
        """Of `vllm.LLM`."""
        return {"enable_lora": True, "max_loras": 1, "max_lora_rank": self.room}

    def write(self, folder: Path) -> None:
        """In PEFT's layout; by the process that is asked to."""
        self.model.save_pretrained(folder)
        file = folder / "adapter_config.json"
        settings = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**settings, "base_model_name_or_path": None}), encoding="utf-8")


def _require(fits: bool, problem: str) -> None:
    if not fits:
        raise TrainingConfigError(f"vllm_options adapters=true doesn't fit: {problem}")
