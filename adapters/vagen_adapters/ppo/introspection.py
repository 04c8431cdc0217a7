"""The parts of a vision-language model, found by what they do: families name and nest them differently."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from vagen_adapters.errors import TrainingConfigError


def whole_of(policy: Any) -> Any:
    """A model of transformers, out of the PEFT wrapper that it may be in."""
    return policy.get_base_model() if hasattr(policy, "get_base_model") else policy


def backbone_of(policy: Any) -> Any:
    """What of a policy looks and reads, with whatever adapters it has; the whole where that holds its own head."""
    return whole_of(policy).base_model


def speaker_of(model: Any) -> Any | None:
    """The model, or that within it, that has a language head; None where there is none."""
    whole = whole_of(model)
    decoder = whole.get_decoder()
    heads = (each for each in (whole, decoder) if hasattr(each, "get_output_embeddings"))
    return next((each for each in heads if each.get_output_embeddings() is not None), None)


def decoder_of(model: Any) -> Any:
    """Its language model, without a head; None where it doesn't tell that from the rest."""
    whole = backbone_of(model)
    decoder = whole.get_decoder()
    while decoder is not None and (inner := _within(decoder)) is not decoder:
        decoder = inner
    return None if decoder is whole else decoder


def vision_parameters(model: Any) -> list[nn.Parameter]:
    """The parameters of a vision-language model outside its language model, by its structure: families name them apart.

    Raises:
        TrainingConfigError: it doesn't say which part is its language model.
    """
    decoder = decoder_of(model)
    if decoder is None:
        name = type(backbone_of(model)).__name__
        raise TrainingConfigError(f"{name} doesn't tell its vision tower from its language model")
    speaker = speaker_of(model)
    parts = [decoder] if speaker is None else [decoder, speaker.get_output_embeddings()]
    spoken = {id(each) for part in parts for each in part.parameters()}
    return [each for each in model.parameters() if id(each) not in spoken]


def states_of(model: Any, inputs: Mapping[str, Any]) -> Tensor:
    """(B, L, H) What a model's language head is given, or would be if it had one."""
    backbone = backbone_of(model)
    speaker = speaker_of(backbone)
    if speaker is None:
        states: Tensor = backbone(**inputs, use_cache=False).last_hidden_state
        return states
    with _Heard(speaker.get_output_embeddings()) as heard:
        backbone(**inputs, use_cache=False)
    assert heard.states is not None  # noqa: S101 - for the type checker
    return heard.states


def logits_of(policy: Any, hidden: Tensor) -> Tensor:
    """(N, H) → (N, V). The policy's logits from its backbone's last hidden states, by its own forward pass.

    Families scale logits, cap them, or cut off what fills up a vocabulary, each by settings of its own names.
    """
    head = _speaking(policy).get_output_embeddings()
    speaker = next(each for each in whole_of(policy).modules() if head in each.children())
    logits: Tensor = head(hidden) if _is_plain(speaker, head, hidden) else _by_its_own(speaker, head, hidden)
    return logits


def _by_its_own(speaker: Any, head: nn.Module, hidden: Tensor) -> Tensor:
    with _answering(speaker, head, hidden[None]):
        # Not called as a module: what wraps it, and its hooks, are for whole passes.
        found = type(speaker).forward(speaker, input_ids=hidden.new_zeros(1, len(hidden)).long(), use_cache=False)
    logits: Tensor = found.logits[0]
    return logits


_PLAIN: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()


@torch.no_grad()
def _is_plain(speaker: Any, head: nn.Module, hidden: Tensor) -> bool:
    """Whether a forward pass leaves what its head says as it is, found out once with numbers in the head's place."""
    if speaker not in _PLAIN:
        words = speaker.config.get_text_config().vocab_size
        said = torch.linspace(-1e3, 1e3, words, device=hidden.device)[None]
        head.forward = lambda _: said[None]  # type: ignore[method-assign]
        try:
            found = _by_its_own(speaker, head, hidden.new_zeros(1, hidden.shape[-1]))
        finally:
            del head.forward
        _PLAIN[speaker] = found.shape == said.shape and torch.equal(found.float(), said)
    return _PLAIN[speaker]


def without_head(model: Any) -> Any:
    """The same model, whose head, if it has one, gives the states that it is given."""
    speaker = speaker_of(model)
    if speaker is not None and speaker.get_output_embeddings().weight is not speaker.get_input_embeddings().weight:
        speaker.set_output_embeddings(nn.Identity())
    return model


def _speaking(policy: Any) -> Any:
    speaker = speaker_of(policy)
    if speaker is None:
        raise TrainingConfigError(f"{type(whole_of(policy)).__name__} has no language head; train a model that speaks")
    return speaker


class _Heard:
    """What a head is given, while it passes that on: `with _Heard(head) as heard: …` and then `heard.states`."""

    def __init__(self, head: nn.Module) -> None:
        self._head, self.states = head, None

    def __enter__(self) -> Self:
        self._head.forward = self._hear  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        del self._head.forward

    def _hear(self, states: Tensor) -> Tensor:
        self.states = states  # type: ignore[assignment]
        return states


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
def _answering(speaker: Any, head: nn.Module, states: Tensor) -> Iterator[None]:
    """While a model's forward pass runs, every model within it gives `states`."""
    parts = {name: part for name, part in speaker.named_children() if part is not head and hasattr(part, "config")}
    try:
        for name in parts:
            speaker._modules[name] = _Said(states)
        yield
    finally:
        speaker._modules.update(parts)


def _within(model: Any) -> Any:
    """The backbone of a model with a head; of any other, itself."""
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if head is None:
        return model
    return next((each for each in model.children() if each is not head and hasattr(each, "config")), model)
