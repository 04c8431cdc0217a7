"""The policy's weights as vLLM takes them, with adapters merged in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from trl.generation.vllm_generation import VLLMGeneration

from vagen_adapters.ppo.chat_encoder import ChatEncoder


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

        TRL's walk merges them into the model and takes them out again, which in bfloat16 rounds the
        frozen weights at each sync: after 20 of them a tiny model's had moved by a hundredth of
        what its adapters add.
        """
        layers: dict[str, dict[str, Tensor]] = {}
        for name, parameter in self.model.named_parameters():
            if self.model.prefix in name or "original_module" in name:
                continue
            layer, is_adapted, own = name.partition(".base_layer.")
            if is_adapted and layer not in layers:
                layers = {
                    layer: _merged(self.model.get_submodule(layer))
                }  # its parameters stand side by side
            plain = self._fix_param_name_to_vllm(
                name.removeprefix("base_model.model.").replace(".base_layer", ""),
                ["modules_to_save.default."],
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
