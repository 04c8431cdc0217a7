"""Replies from a model: the one interface behind which generation back-ends stand, and the transformers one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.codec import Codec, Shown


@dataclass(frozen=True, eq=False)
class Prompt:
    """What the model reads before a reply: all tokens, and the observations whose pictures are among them."""

    ids: tuple[int, ...]
    shown: tuple[Shown, ...]


@dataclass(frozen=True)
class Reply:
    """The tokens that were sampled, with the end token if it came, and their log-probabilities when they were."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How replies are drawn. The defaults are those of paper 000, table 22.

    Attributes:
        temperature: divides the logits; 0 takes the most likely token.
        top_p: draws from the smallest set of tokens with this probability.
        max_tokens: a reply is cut after so many.
    """

    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 200

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1 or self.max_tokens < 1:
            raise TrainingConfigError(f"{self} is not valid: temperature ≥ 0, 0 < top_p ≤ 1 and max_tokens ≥ 1")


class Sampler(Protocol):
    """A generation back-end."""

    def sample(self, prompts: Sequence[Prompt], sampling: Sampling, seed: int) -> list[Reply]:
        """A reply to each prompt, in order. The same seed, prompts and weights give the same replies."""


def pad(rows: Sequence[Sequence[int]], value: int, *, left: bool = False) -> Tensor:
    """(rows, longest) int64 with `value` where a row has ended, or not begun."""
    width = max(map(len, rows))
    gaps = [[value] * (width - len(row)) for row in rows]
    return torch.tensor([[*gap, *row] if left else [*row, *gap] for row, gap in zip(rows, gaps, strict=True)])


def model_inputs(
    prompts: Sequence[Prompt], codec: Codec, device: torch.device | str, *, left: bool = False
) -> dict[str, Tensor]:
    """The tensors of a forward pass over `prompts`: tokens, mask, token types and picture features.

    Raises:
        TrainingDataError: image tokens and picture features don't match, which would fail deep in the model.
    """
    for number, prompt in enumerate(prompts):
        codec.check_pictures(prompt.ids, prompt.shown, f"prompt {number}")
    ids = pad([prompt.ids for prompt in prompts], codec.pad_id, left=left)
    inputs = {
        "input_ids": ids,
        "attention_mask": pad([[1] * len(prompt.ids) for prompt in prompts], 0, left=left),
        "mm_token_type_ids": (ids == codec.image_token_id).int(),
    }
    features = [shown for prompt in prompts for shown in prompt.shown if shown.pixel_values is not None]
    if features:
        inputs["pixel_values"] = torch.cat([shown.pixel_values for shown in features])  # type: ignore[misc]
        inputs["image_grid_thw"] = torch.cat([shown.grids for shown in features])
    return {name: tensor.to(device) for name, tensor in inputs.items()}


class TransformersSampler:
    """Sampling with `model.generate`, left-padded, `batch_size` prompts at a time."""

    def __init__(self, model: Any, codec: Codec, batch_size: int = 64) -> None:
        self.model = model
        self.codec = codec
        self.batch_size = batch_size

    @torch.no_grad()
    def sample(self, prompts: Sequence[Prompt], sampling: Sampling, seed: int) -> list[Reply]:
        """See `Sampler.sample`."""
        was_training = self.model.training
        self.model.eval()
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        replies: list[Reply] = []
        with torch.random.fork_rng(devices=devices):  # generate() draws from the global generator only
            torch.manual_seed(seed)
            for start in range(0, len(prompts), self.batch_size):
                replies += self._sample(prompts[start : start + self.batch_size], sampling)
        self.model.train(was_training)
        return replies

    def _sample(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Reply]:
        inputs = model_inputs(prompts, self.codec, self.model.device, left=True)
        drawn = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}
        output = self.model.generate(
            **inputs,
            **(drawn if sampling.temperature > 0 else {"do_sample": False}),
            max_new_tokens=sampling.max_tokens,
            suppress_tokens=list(self.codec.forbidden_ids),
            eos_token_id=self.codec.tokenizer.eos_token_id,
            pad_token_id=self.codec.pad_id,
            return_dict_in_generate=True,
            output_scores=True,
        )
        sampled = output.sequences[:, inputs["input_ids"].shape[1] :]
        logprobs = torch.stack(
            [
                scores.float().log_softmax(-1).gather(1, sampled[:, step, None]).squeeze(1)
                for step, scores in enumerate(output.scores)
            ],
            dim=1,
        )
        ended = (sampled == self.codec.tokenizer.eos_token_id).long()
        lengths = torch.where(ended.any(1), ended.argmax(1) + 1, sampled.shape[1]).tolist()
        return [
            Reply(tuple(ids[:length]), tuple(scores[:length]))
            for ids, scores, length in zip(sampled.tolist(), logprobs.tolist(), lengths, strict=True)
        ]
