"""Replies from a model: the one interface behind which generation back-ends stand, and the
transformers one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.generation import TopPLogitsWarper
from trl.trainer.utils import pad

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.features import as_taken_by
from vagen_adapters.ppo.shown import Shown
from vagen_adapters.ppo.vision_cache import VisionFeatureCache

ROOM = 64 * 4096
"""Tokens whose keys and values the policy itself holds at a time when it samples."""
TILE = 8
"""What batches that are learned from are as wide as a multiple of: matrix units work in tiles, and
a library that plans products for each shape anew (oneDNN) meets few."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """What the model reads before a reply: all tokens, and the observations whose pictures are
    among them.
    """

    ids: tuple[int, ...]
    shown: tuple[Shown, ...]


@dataclass(frozen=True)
class SampledReply:
    """The tokens that were sampled, with the end token if it came, and their log-probabilities when
    they were.

    Attributes:
        ids: the tokens.
        logprobs: of each; 0 of those that weren't sampled.
        thoughts: how many of the tokens, from the beginning, are the model's own thoughts and what
            closes them.
        forced: begin and end of the tokens that closed thoughts which were cut. They weren't
            sampled.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    thoughts: int = 0
    forced: tuple[int, int] = (0, 0)

    @property
    def answer(self) -> tuple[int, ...]:
        """The tokens after the thoughts, which the environment receives."""
        return self.ids[self.thoughts :]


@dataclass(frozen=True, kw_only=True)
class SampleSettings:
    """How replies are drawn. The defaults are those of VAGEN, table 22.

    Attributes:
        temperature: divides the logits; 0 takes the most likely token.
        top_p: draws from the smallest set of tokens with this probability.
        max_tokens: a reply is cut after so many.
        max_thinking_tokens: thoughts before it are cut after so many; see `thoughts`.
        stop_id: a token that ends a reply, beside the model's own.
    """

    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 200
    max_thinking_tokens: int = 0
    stop_id: int | None = None

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1 or self.max_tokens < 1:
            raise TrainingConfigError(
                f"{self} is not valid: temperature ≥ 0, 0 < top_p ≤ 1 and max_tokens ≥ 1"
            )


class Sampler(Protocol):
    """A generation back-end. One that shares its GPU with updates may have `rest()`, which gives
    memory up for now.
    """

    def sample(
        self, prompts: Sequence[Prompt], sampling: SampleSettings, seeds: Sequence[int]
    ) -> list[SampledReply]:
        """A reply to each prompt, in order.

        A reply depends on the weights, its prompt and its seed, and not on what else is sampled
        beside it: neither the number of environments nor that of processes changes what is played.
        """

    def sync(self) -> None:
        """Take over the policy's weights as they are now. Every process calls it at the same
        time.
        """


def check_pictures(prompts: Sequence[Prompt], encoder: ChatEncoder) -> None:
    """Raise TrainingDataError unless each prompt has as many image tokens as its pictures need."""
    for number, prompt in enumerate(prompts):
        encoder.check_pictures(prompt.ids, prompt.shown, f"prompt {number}")


def model_inputs(
    prompts: Sequence[Prompt],
    encoder: ChatEncoder,
    device: torch.device | str,
    *,
    left: bool = False,
    multiple: int = 1,
    vision_cache: VisionFeatureCache | None = None,
) -> dict[str, Tensor]:
    """The tensors of a forward pass over `prompts`: tokens, mask, token types and picture features.

    They are as wide as the next `multiple`. With `vision_cache` the pictures are given by number.

    Raises:
        TrainingDataError: image tokens and picture features don't match, which would fail deep in
            the model.
    """
    check_pictures(prompts, encoder)
    rows = [torch.tensor(prompt.ids) for prompt in prompts]
    side = "left" if left else "right"
    ids = pad(rows, encoder.pad_id, side, multiple)
    inputs = {
        "input_ids": ids,
        "attention_mask": pad([torch.ones_like(row) for row in rows], 0, side, multiple),
        **encoder.token_types(ids),
    }
    inputs |= (vision_cache.inputs if vision_cache else encoder.pictures.features_of)(
        [shown for prompt in prompts for shown in prompt.shown]
    )
    return {name: tensor.to(device) for name, tensor in inputs.items()}


class TransformersSampler:
    """Sampling with `model.generate`, left-padded.

    A batch has at most `room` tokens, padding and replies included, but at least one prompt. With
    `vision_cache` the model's frozen tower encodes each picture once.
    """

    def __init__(
        self,
        model: Any,
        encoder: ChatEncoder,
        room: int = ROOM,
        vision_cache: VisionFeatureCache | None = None,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.room = room
        self.vision_cache = vision_cache

    def sync(self) -> None:
        """Nothing to do: it samples from the policy itself."""

    @torch.no_grad()
    def sample(
        self, prompts: Sequence[Prompt], sampling: SampleSettings, seeds: Sequence[int]
    ) -> list[SampledReply]:
        """See `Sampler.sample`."""
        was_training = self.model.training
        self.model.eval()
        longest = max((len(prompt.ids) for prompt in prompts), default=0) + sampling.max_tokens
        size = max(1, self.room // longest)
        batches = [slice(start, start + size) for start in range(0, len(prompts), size)]
        replies = [
            reply
            for batch in batches
            for reply in self._sample(prompts[batch], sampling, seeds[batch])
        ]
        self.model.train(was_training)
        return replies

    def _sample(
        self, prompts: Sequence[Prompt], sampling: SampleSettings, seeds: Sequence[int]
    ) -> list[SampledReply]:
        from transformers import GenerationConfig, LogitsProcessorList

        inputs: dict[str, Any] = model_inputs(
            prompts, self.encoder, self.model.device, left=True, vision_cache=self.vision_cache
        )
        if self.vision_cache:
            inputs = self.vision_cache.given(self.model, inputs)
        draw = Draw(sampling, seeds, self.encoder.forbidden_ids)
        ends = self.encoder.ends_of(sampling.stop_id)
        # Every setting is given: a checkpoint's own, such as a repetition penalty, would go unseen
        # by the trainer.
        settings = GenerationConfig(
            do_sample=False,
            temperature=1.0,
            top_p=1.0,
            top_k=50,
            repetition_penalty=1.0,
            num_beams=1,
            no_repeat_ngram_size=0,
            max_new_tokens=sampling.max_tokens,
            eos_token_id=ends,
            pad_token_id=self.encoder.pad_id,
        )
        output = self.model.generate(
            **as_taken_by(self.model, inputs),
            generation_config=settings,
            logits_processor=LogitsProcessorList([draw]),
        )
        sampled = output[:, inputs["input_ids"].shape[1] :]
        return self._replies(sampled, torch.stack(draw.logprobs, 1), ends)

    @staticmethod
    def _replies(sampled: Tensor, logprobs: Tensor, ends: Sequence[int]) -> list[SampledReply]:
        """Replies from tokens and log-probabilities, (B, T) each; those after the first of the
        `ends` don't count.
        """
        ended = torch.isin(sampled, torch.tensor(ends, device=sampled.device)).long()
        lengths = torch.where(ended.any(1), ended.argmax(1) + 1, sampled.shape[1]).tolist()
        rows = zip(sampled.tolist(), logprobs.tolist(), lengths, strict=True)
        return [
            SampledReply(tuple(ids[:length]), tuple(scores[:length]))
            for ids, scores, length in rows
        ]


class Draw:
    """A logits processor that draws each row's next token with that row's own random numbers.

    `generate` draws from one generator for all rows, so that a reply would depend on those beside
    it.

    Attributes:
        uniforms: (B, T) in [0, 1), one for each token that a row may come to.
        logprobs: (B,) of each step's tokens.
    """

    def __init__(
        self, sampling: SampleSettings, seeds: Sequence[int], forbidden_ids: Sequence[int]
    ) -> None:
        self.sampling = sampling
        self.forbidden_ids = forbidden_ids
        self.uniforms = torch.stack(
            [
                torch.rand(sampling.max_tokens, generator=torch.Generator().manual_seed(seed))
                for seed in seeds
            ]
        )
        self.logprobs: list[Tensor] = []
        self._keep_top_p = TopPLogitsWarper(sampling.top_p)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """(B, V) logits in which only the drawn token is possible."""
        return torch.full_like(scores, -torch.inf).scatter_(1, self.next(scores), 0.0)

    def keep_rows(self, rows: Tensor) -> None:
        """Go on with these rows alone."""
        self.uniforms = self.uniforms[rows.cpu()]

    def next(self, scores: Tensor) -> Tensor:
        """(B, V) logits → (B, 1) the tokens that are drawn."""
        forbidden = torch.tensor(self.forbidden_ids, device=scores.device)
        logits = scores.float().index_fill(1, forbidden, -torch.inf)
        if self.sampling.temperature > 0:
            logits = logits / self.sampling.temperature
            if self.sampling.top_p < 1:  # it sorts the vocabulary
                logits = self._keep_top_p(None, logits)
        logprobs = logits.log_softmax(1)
        if self.sampling.temperature > 0:
            below = logprobs.exp().cumsum(1)
            drawn = self.uniforms[:, len(self.logprobs), None].to(below.device) * below[:, -1:]
            # Right of the drawn number, so that a token of probability 0 is never met.
            tokens = torch.searchsorted(below, drawn, right=True).clamp(max=logits.shape[1] - 1)
            tokens = torch.where(
                logprobs.gather(1, tokens).isfinite(), tokens, logprobs.argmax(1, keepdim=True)
            )
        else:
            tokens = logprobs.argmax(1, keepdim=True)
        self.logprobs.append(logprobs.gather(1, tokens).squeeze(1))
        return tokens
