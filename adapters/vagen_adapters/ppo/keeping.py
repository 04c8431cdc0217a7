"""Sampling that keeps each conversation's keys and values from turn to turn, so that nothing is read twice."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vagen_adapters.ppo.anatomy import backbone_of
from vagen_adapters.ppo.codec import Shown
from vagen_adapters.ppo.features import as_taken_by
from vagen_adapters.ppo.generation import ROOM, Draw, Prompt, Reads, Reply, Sampling, TransformersSampler, pad

_Layers = Sequence[tuple[Tensor, Tensor]]
"""Of each layer the keys and the values, (tokens, heads, features)."""


@dataclass(frozen=True, eq=False)
class _Kept:
    """What a model has read of a conversation.

    Attributes:
        ids: the tokens.
        shown: the observations among them.
        layers: what the model's layers hold of it.
        place: of the token that comes next.
    """

    ids: tuple[int, ...]
    shown: tuple[Shown, ...]
    layers: _Layers
    place: int

    def begins(self, prompt: Prompt) -> bool:
        read = len(self.ids)
        return (
            len(prompt.ids) > read
            and prompt.ids[:read] == self.ids
            and all(own is other for own, other in zip(self.shown, prompt.shown, strict=False))
        )


_NOTHING = _Kept((), (), (), 0)


class KeepingSampler(TransformersSampler):
    """As `TransformersSampler`, but a prompt that goes on with a conversation of the last call is read from there.

    Conversations are known by their first observation. For models whose layers all attend to everything before, see
    `can_keep`; that such a model says the same either way is found out by `family_checks`.
    """

    def __init__(self, model: Any, codec: Any, room: int = ROOM, sight: Any = None) -> None:
        super().__init__(model, codec, room, sight)
        self._kept: dict[int, _Kept] = {}
        self._next: dict[int, _Kept] = {}

    def sync(self) -> None:
        """What was read with other weights isn't gone on with."""
        self._kept = {}

    def finish(self) -> Reads:
        """The same, and keys and values are let go."""
        self._kept = {}
        return super().finish()

    def sample(self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int]) -> list[Reply]:
        """See `Sampler.sample`."""
        try:
            return super().sample(prompts, sampling, seeds)
        finally:
            self._kept, self._next = self._next, {}

    def _sample(self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int]) -> list[Reply]:
        from vagen_adapters.ppo.kv_cache import joined
        from vagen_adapters.ppo.row_attention import by_row

        known = [self._known(prompt) for prompt in prompts]
        read, positions = self._read(prompts, known)
        mask = read.pop("attention_mask")
        cache = joined([kept.layers for kept in known], [len(kept.ids) for kept in known],
                       mask.shape[1] + sampling.max_tokens)  # fmt: skip
        following = (positions[..., -1].reshape(-1, len(prompts))[0] + 1).tolist()
        known.clear()  # what was kept of a row lives in the cache now
        with by_row(self.model):
            replies, layers = self._write(read, mask, positions, cache, sampling, seeds)
        for prompt, reply, of_row, place in zip(prompts, replies, layers, following, strict=True):
            if prompt.shown:
                ids = (*prompt.ids, *reply.ids[:-1])  # the last one was drawn, and not read
                self._next[id(prompt.shown[0])] = _Kept(ids, prompt.shown, of_row, place + len(reply.ids) - 1)
        return replies

    def _write(
        self, read: dict[str, Any], mask: Tensor, positions: Tensor, cache: Any, sampling: Sampling,
        seeds: Sequence[int],
    ) -> tuple[list[Reply], list[_Layers]]:  # fmt: skip
        """Replies to what is read, and of each row what the model's layers hold of it then."""
        draw, longest, end = Draw(sampling, seeds, self.codec.forbidden_ids), sampling.max_tokens, self.codec.end_id
        rows = torch.arange(len(seeds), device=mask.device)  # that are still computed
        sampled = torch.full((len(seeds), longest), end, device=mask.device)
        logprobs = torch.zeros(sampled.shape, device=mask.device)
        is_over = torch.zeros(len(seeds), dtype=torch.bool, device=mask.device)
        held: dict[int, _Layers] = {}
        for step in range(longest):
            output = self.model(
                **as_taken_by(self.model, read), attention_mask=mask, position_ids=positions, past_key_values=cache,
                use_cache=True, logits_to_keep=1,
            )  # fmt: skip
            tokens = draw.next(output.logits[:, -1])
            sampled[rows, step] = torch.where(is_over, end, tokens.squeeze(1))
            logprobs[rows, step] = draw.logprobs[-1]
            is_over |= tokens.squeeze(1) == end
            left = (~is_over).nonzero().squeeze(1)
            if not len(left) or step == longest - 1:
                break
            positions = positions[..., -1:] + 1
            # Every row that is computed costs as much as the longest one, and to leave some out the rest are copied.
            if 8 * len(left) <= 7 * len(rows):
                for place in is_over.nonzero().squeeze(1).tolist():
                    held[int(rows[place])] = _of_row(cache, place, mask[place])
                tokens, positions, mask, rows = tokens[left], positions[..., left, :], mask[left], rows[left]
                draw.uniforms, is_over = draw.uniforms[left.cpu()], is_over[left]
                for layer in cache.layers:
                    layer.keep_rows(left)
            # Nothing looks at what is read past a reply's end.
            mask = torch.cat([mask, (~is_over[:, None]).long()], 1)
            read = {"input_ids": tokens, **self.codec.token_types(tokens)}
            self.reads.tokens += len(left)
        held |= {row: _of_row(cache, place, mask[place]) for place, row in enumerate(rows.tolist())}
        return self._replies(sampled, logprobs), [held[row] for row in range(len(seeds))]

    def _known(self, prompt: Prompt) -> _Kept:
        kept = self._kept.pop(id(prompt.shown[0]), _NOTHING) if prompt.shown else _NOTHING
        return kept if kept.begins(prompt) else _NOTHING

    def _read(self, prompts: Sequence[Prompt], known: Sequence[_Kept]) -> tuple[dict[str, Any], Tensor]:
        """What is new in the prompts, (B, N) padded on the left, with the mask over all, and its places."""
        for number, prompt in enumerate(prompts):
            self.codec.check_pictures(prompt.ids, prompt.shown, f"prompt {number}")
        news = [prompt.ids[len(kept.ids) :] for prompt, kept in zip(prompts, known, strict=True)]
        ids = pad(news, self.codec.pad_id, left=True)
        mask = pad([[1] * len(each) for each in news], 0, left=True)
        before = pad([[1] * len(kept.ids) for kept in known], 0, left=True).reshape(len(prompts), -1).long()
        shown = [prompt.shown[len(kept.shown) :] for prompt, kept in zip(prompts, known, strict=True)]
        new = [each for of_row in shown for each in of_row]
        inputs = {"input_ids": ids, "attention_mask": torch.cat([before, mask], 1), **self.codec.token_types(ids)}
        inputs |= (self.sight.inputs if self.sight else self.codec.features_of)(new)
        self.reads.tokens += int(mask.sum())
        begins = torch.tensor([[kept.place] for kept in known])
        places = (self._places(news, ids, mask, shown) + begins).to(self.model.device)
        read: dict[str, Any] = {name: tensor.to(self.model.device) for name, tensor in inputs.items()}
        if self.sight:
            return self.sight.given(self.model, read), places
        self.reads.pictures += sum(bool(each.features) for each in new)
        return read, places

    def _places(
        self, news: Sequence[Sequence[int]], ids: Tensor, mask: Tensor, shown: Sequence[Sequence[Shown]]
    ) -> Tensor:
        """(B, N) or (3, B, N) The position ids of what is new, from 0 on.

        Rows that differ in what their pictures show, and not in size, stand in the same places, which are found once.
        """
        own = rope_index_of(self.model)
        if own is None:
            return (mask.cumsum(1) - 1).clamp(min=0)
        first: dict[Any, int] = {}
        sizes = [tuple(picture.shape for each in of_row for picture in each.pictures) for of_row in shown]
        like = [first.setdefault(row, len(first)) for row in zip(map(tuple, news), sizes, strict=True)]
        rows = [like.index(number) for number in range(len(first))]
        features = self.codec.features_of(
            [each for row in rows for each in shown[row]], inspect.signature(own).parameters
        )
        inputs = {"input_ids": ids[rows], "attention_mask": mask[rows], **self.codec.token_types(ids[rows]), **features}
        return places_by(own, inputs)[:, like]


def can_keep(config: Any) -> bool:
    """Whether each layer attends to all that was read.

    Rows of different lengths have gaps in the cache, which a window would count, and a running state would read.
    """
    text = config.get_text_config(decoder=True)
    kinds = getattr(text, "layer_types", None) or ["full_attention"]
    return set(kinds) == {"full_attention"} and getattr(text, "sliding_window", None) in (None, 0)


def rope_index_of(model: Any) -> Any | None:
    """What gives the place of each token in text and pictures, of a model that tells more than its number."""
    return getattr(backbone_of(model), "get_rope_index", None)


def places_by(own: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """(3, B, L) The position ids that `rope_index_of` a model gives."""
    taken = inspect.signature(own).parameters
    found: Tensor = own(**{name: each for name, each in inputs.items() if name in taken})[0]
    return found


def _of_row(cache: Any, row: int, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
    places = mask.nonzero().squeeze(1)
    return [(layer.keys[row].transpose(0, 1)[places], layer.values[row].transpose(0, 1)[places])
            for layer in cache.layers]  # fmt: skip
