"""The parts of a vision-language model, by transformers' own accessors: families name and nest them
differently.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from vagen_adapters.errors import TrainingConfigError


def read_policy(path: str | Path, **options: Any) -> Any:
    """Read a policy; raise TrainingConfigError if its folder lacks a weight, which transformers
    would draw.
    """
    from transformers import AutoModelForImageTextToText

    policy, found = AutoModelForImageTextToText.from_pretrained(
        path, output_loading_info=True, **options
    )
    if missing := sorted(found["missing_keys"]):
        raise TrainingConfigError(
            f"{path} lacks {len(missing)} weights, such as {missing[0]}; copy it anew"
        )
    return policy


def base_of(path: str | Path) -> str | None:
    """The model that a folder's adapters are of; None if the folder holds no adapters."""
    file = Path(path) / "adapter_config.json"
    if not file.is_file():
        return None
    return str(json.loads(file.read_bytes())["base_model_name_or_path"])


def whole_of(policy: Any) -> Any:
    """A model of transformers, out of the PEFT wrapper that it may be in."""
    return policy.get_base_model() if hasattr(policy, "get_base_model") else policy


def backbone_of(policy: Any) -> Any:
    """The model without its language head, with its adapters."""
    return whole_of(policy).base_model


def decoder_of(model: Any) -> Any:
    """The language model, without its head.

    Raises:
        TrainingConfigError: the model has no accessor for it.
    """
    backbone = backbone_of(model)
    decoder = backbone.get_decoder()
    if decoder is None or decoder is backbone:
        raise TrainingConfigError(
            f"{type(backbone).__name__} doesn't tell its vision tower from its language model"
        )
    return decoder


def vision_parameters(model: Any) -> list[nn.Parameter]:
    """The parameters of a vision-language model outside its language model.

    Raises:
        TrainingConfigError: the model has no accessor for its language model.
    """
    parts = [decoder_of(model), whole_of(model).get_output_embeddings()]
    spoken: set[int] = set()
    for part in parts:
        if part is not None:
            spoken.update(id(parameter) for parameter in part.parameters())
    return [parameter for parameter in model.parameters() if id(parameter) not in spoken]


def logits_of(policy: Any, hidden: Tensor) -> Tensor:
    """(N, H) → (N, V). The policy's logits from its backbone's last hidden states, by its own
    forward pass.

    Families scale logits, cap them, or cut off what fills up a vocabulary, each by settings of its
    own names.
    """
    model = whole_of(policy)
    with _fixed_backbone(model, hidden[None]):
        # Not called as a module: what wraps it, and its hooks, are for whole passes.
        found = type(model).forward(
            model, input_ids=hidden.new_zeros(1, len(hidden)).long(), use_cache=False
        )
    logits: Tensor = found.logits[0]
    return logits


class _FixedBackbone(nn.Module):
    """Replaces a model's backbone and returns given hidden states."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self._states = states

    def forward(self, *_: Any, **__: Any) -> _Output:
        return _Output(self._states)


class _Output:
    """A backbone's output that holds hidden states; every other attribute is None."""

    def __init__(self, states: Tensor) -> None:
        self.last_hidden_state = states

    def __getitem__(self, place: Any) -> Tensor | None:
        return self.last_hidden_state if place in (0, "last_hidden_state") else None

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


@contextlib.contextmanager
def _fixed_backbone(model: Any, states: Tensor) -> Iterator[None]:
    """Let a model's backbone return `states` in the block."""
    name, backbone = next(pair for pair in model.named_children() if pair[1] is model.base_model)
    model._modules[name] = _FixedBackbone(states)
    try:
        yield
    finally:
        model._modules[name] = backbone
