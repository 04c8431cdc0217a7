"""The parts of a vision-language model, by transformers' own accessors: families name and nest them differently."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from vagen_adapters.errors import TrainingConfigError


def whole_of(policy: Any) -> Any:
    """A model of transformers, out of the PEFT wrapper that it may be in."""
    return policy.get_base_model() if hasattr(policy, "get_base_model") else policy


def backbone_of(policy: Any) -> Any:
    """What of a policy looks and reads, with whatever adapters it has; a model without a language head is its own."""
    return whole_of(policy).base_model


def decoder_of(model: Any) -> Any:
    """Its language model, without a head.

    Raises:
        TrainingConfigError: it doesn't tell that from the rest.
    """
    backbone = backbone_of(model)
    decoder = backbone.get_decoder()
    if decoder is None or decoder is backbone:
        raise TrainingConfigError(f"{type(backbone).__name__} doesn't tell its vision tower from its language model")
    return decoder


def vision_parameters(model: Any) -> list[nn.Parameter]:
    """The parameters of a vision-language model outside its language model.

    Raises:
        TrainingConfigError: it doesn't say which part is its language model.
    """
    parts = [decoder_of(model), whole_of(model).get_output_embeddings()]
    spoken = {id(parameter) for part in parts if part is not None for parameter in part.parameters()}
    return [parameter for parameter in model.parameters() if id(parameter) not in spoken]


def logits_of(policy: Any, hidden: Tensor) -> Tensor:
    """(N, H) → (N, V). The policy's logits from its backbone's last hidden states, by its own forward pass.

    Families scale logits, cap them, or cut off what fills up a vocabulary, each by settings of its own names.
    """
    speaker = whole_of(policy)
    with _answering(speaker, hidden[None]):
        # Not called as a module: what wraps it, and its hooks, are for whole passes.
        found = type(speaker).forward(speaker, input_ids=hidden.new_zeros(1, len(hidden)).long(), use_cache=False)
    logits: Tensor = found.logits[0]
    return logits


class _Said(nn.Module):
    """Takes the place of a model's backbone, and gives states that are known already."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self._states = states

    def forward(self, *_: Any, **__: Any) -> _Output:
        return _Output(self._states)


class _Output:
    """Of a backbone: states, and nothing else that it is asked for."""

    def __init__(self, states: Tensor) -> None:
        self.last_hidden_state = states

    def __getitem__(self, place: Any) -> Tensor | None:
        return self.last_hidden_state if place in (0, "last_hidden_state") else None

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


@contextlib.contextmanager
def _answering(speaker: Any, states: Tensor) -> Iterator[None]:
    """While a model's forward pass runs, its backbone gives `states`."""
    name, backbone = next(pair for pair in speaker.named_children() if pair[1] is speaker.base_model)
    speaker._modules[name] = _Said(states)
    try:
        yield
    finally:
        speaker._modules[name] = backbone
