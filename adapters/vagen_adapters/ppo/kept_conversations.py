"""Sampling that keeps each conversation's keys and values from turn to turn, so that a turn costs
the same however many came before it.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from trl.trainer.utils import pad

from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.features import RecentlyUsed, as_taken_by, joined_features
from vagen_adapters.ppo.generation import (
    ROOM,
    Draw,
    Prompt,
    SampledReply,
    SampleSettings,
    TransformersSampler,
    check_pictures,
)
from vagen_adapters.ppo.introspection import backbone_of
from vagen_adapters.ppo.kept_cache import NOTHING, Kept, joined_cache, layers_of_row
from vagen_adapters.ppo.shown import Shown
from vagen_adapters.ppo.vision_cache import VisionFeatureCache

PADDING = 1.25
"""How many times its tokens a batch of prompts may hold, padding included."""
LEFT_OUT = 8
"""Rows that have ended are left out once they are one in so many: the others are copied."""


class KeepingSampler(TransformersSampler):
    """As `TransformersSampler`, but a prompt that goes on with a conversation is read from there.

    Conversations are known by their first observation, and forgotten when weights change. At most
    `room` tokens are kept beside those of the batch that is sampled. For models whose layers all
    attend to everything before, see `can_keep`; whether such a model says the same either way is
    found out by `family_checks`.
    """

    def __init__(
        self,
        model: Any,
        encoder: ChatEncoder,
        room: int = ROOM,
        vision_cache: VisionFeatureCache | None = None,
    ) -> None:
        super().__init__(model, encoder, room, vision_cache)
        self.kept: RecentlyUsed[Kept] = RecentlyUsed(room)

    def sync(self) -> None:
        """What was read with other weights isn't gone on with."""
        self.kept.clear()

    def rest(self) -> None:
        """Give up the memory of all conversations."""
        self.kept.clear()

    def _sample(
        self, prompts: Sequence[Prompt], sampling: SampleSettings, seeds: Sequence[int]
    ) -> list[SampledReply]:
        check_pictures(prompts, self.encoder)
        known = [self._known(prompt) for prompt in prompts]
        new = [len(prompt.ids) - len(kept.ids) for prompt, kept in zip(prompts, known, strict=True)]
        read: list[Any] = [None] * len(prompts)
        for group in _groups(new):
            found = self._read([prompts[row] for row in group], [known[row] for row in group])
            for row, found_row in zip(group, found, strict=True):
                read[row] = found_row
                known[row] = NOTHING  # its memory goes
        states, logits = zip(*read, strict=True)
        read.clear()
        replies, layers = self._write(states, torch.stack(logits), sampling, seeds)
        for prompt, state, reply, of_row in zip(prompts, states, replies, layers, strict=True):
            if prompt.shown:
                ids = (*prompt.ids, *reply.ids[:-1])  # the last one was drawn, and not read
                following = torch.arange(1, len(reply.ids)) + state.places[-1]
                places = torch.cat([state.places, following])
                kept = Kept(ids, prompt.shown, of_row, places)
                self.kept.put(id(prompt.shown[0]), kept, len(ids))
        return replies

    def _known(self, prompt: Prompt) -> Kept:
        kept = self.kept.get(id(prompt.shown[0])) if prompt.shown else None
        if kept is None:
            return NOTHING
        pairs = zip(kept.shown, prompt.shown, strict=False)
        if any(own is not other for own, other in pairs):
            return NOTHING
        shared = kept.shared_with(prompt)
        needed = sum(shown.image_tokens for shown in kept.shown)
        has_all_pictures = shared.ids.count(self.encoder.image_token_id) == needed
        return shared if has_all_pictures else NOTHING

    # -- reading -----------------------------------------------------------------------------------

    def _read(
        self, prompts: Sequence[Prompt], known: Sequence[Kept]
    ) -> Iterator[tuple[Kept, Tensor]]:
        """Each prompt as the model has read it then, and the logits, (V,), of what comes next."""
        device = self.model.device
        new_ids: list[Tensor] = []
        shown: list[Sequence[Shown]] = []
        for prompt, kept in zip(prompts, known, strict=True):
            new_ids.append(torch.tensor(prompt.ids[len(kept.ids) :]))
            shown.append(prompt.shown[len(kept.shown) :])
        ids = pad(new_ids, self.encoder.pad_id, "left")
        mask = _left_mask([len(new) for new in new_ids])
        places = self._places(ids, mask, shown)
        places = places + torch.stack([kept.places[-1] for kept in known])[:, None]
        inputs: dict[str, Any] = {"input_ids": ids, **self.encoder.token_types(ids)}
        new_shown = list(itertools.chain.from_iterable(shown))
        if self.vision_cache:
            inputs |= self.vision_cache.inputs(new_shown)
        else:
            inputs |= self.encoder.pictures.features_of(new_shown)
        inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
        if self.vision_cache:
            inputs = self.vision_cache.given(self.model, inputs)
        kept_mask = _left_mask([len(kept.ids) for kept in known])
        whole = torch.cat([kept_mask, mask], 1).to(device)
        cache = joined_cache(known, ids.shape[1])
        logits = self._forward(as_taken_by(self.model, inputs), whole, places.to(device), cache)
        text_places = places.reshape(-1, *ids.shape)[0]  # of words: all coordinates are equal
        for row, (prompt, kept) in enumerate(zip(prompts, known, strict=True)):
            own = text_places[row][mask[row].bool()]
            following = torch.cat([kept.places[:-1], own, own[-1:] + 1])
            layers = layers_of_row(cache, row, whole[row])
            yield Kept(prompt.ids, prompt.shown, layers, following), logits[row]

    def _places(self, ids: Tensor, mask: Tensor, shown: Sequence[Sequence[Shown]]) -> Tensor:
        """(B, N) or (3, B, N) The position ids of what is new, from 0 on."""
        own = rope_index_of(self.model)
        if own is None:
            return (mask.cumsum(1) - 1).clamp(min=0)
        taken = inspect.signature(own).parameters
        new = list(itertools.chain.from_iterable(shown))
        inputs = {
            "input_ids": ids,
            "attention_mask": mask,
            **self.encoder.token_types(ids),
            **joined_features([one.sizes for one in new], taken),
        }
        found: Tensor = own(**{name: each for name, each in inputs.items() if name in taken})[0]
        return found

    def _forward(self, inputs: dict[str, Any], mask: Tensor, places: Tensor, cache: Any) -> Tensor:
        """(B, V) The logits after the last token."""
        output = self.model(
            **inputs,
            attention_mask=mask,
            position_ids=places,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    # -- writing -----------------------------------------------------------------------------------

    def _write(
        self,
        states: Sequence[Kept],
        logits: Tensor,
        sampling: SampleSettings,
        seeds: Sequence[int],
    ) -> tuple[list[SampledReply], list[Any]]:
        """Replies, and of each row the layers of all that was read for it."""
        device = logits.device
        many = len(states)
        ends = self.encoder.ends_of(sampling.stop_id)
        draw = Draw(sampling, seeds, self.encoder.forbidden_ids)
        sampled = torch.full((many, sampling.max_tokens), self.encoder.end_id, device=device)
        logprobs = torch.zeros(sampled.shape, device=device)
        mask = _left_mask([len(state.ids) for state in states]).to(device)
        places = torch.stack([state.places[-1] for state in states]).to(device)[:, None]
        cache = joined_cache(states, sampling.max_tokens)
        rows = torch.arange(many, device=device)  # those that are still computed
        is_over = torch.zeros(many, dtype=torch.bool, device=device)
        held: dict[int, Any] = {}
        for step in range(sampling.max_tokens):
            tokens = draw.next(logits)
            sampled[rows, step] = torch.where(is_over, self.encoder.end_id, tokens[:, 0])
            logprobs[rows, step] = draw.logprobs[-1]
            is_over = is_over | torch.isin(tokens[:, 0], torch.tensor(ends, device=device))
            left = (~is_over).nonzero()[:, 0]
            if not len(left) or step == sampling.max_tokens - 1:
                break
            if LEFT_OUT * (len(rows) - len(left)) >= len(rows):
                for place in is_over.nonzero()[:, 0].tolist():
                    held[int(rows[place])] = layers_of_row(cache, place, mask[place])
                tokens = tokens[left]
                places = places[left]
                mask = mask[left]
                rows = rows[left]
                is_over = is_over[left]
                draw.keep_rows(left)
                cache.batch_select_indices(left)
            # Nothing looks at what is read past a reply's end.
            mask = torch.cat([mask, (~is_over[:, None]).long()], 1)
            inputs = {"input_ids": tokens, **self.encoder.token_types(tokens)}
            logits = self._forward(inputs, mask, self._as_taken(places), cache)
            places = places + 1
        for place, row in enumerate(rows.tolist()):
            held[row] = layers_of_row(cache, place, mask[place])
        return self._replies(sampled, logprobs, ends), [held[row] for row in range(many)]

    def _as_taken(self, places: Tensor) -> Tensor:
        """(B, 1) positions of words as the model takes them."""
        return places if rope_index_of(self.model) is None else places.expand(3, -1, -1)


def can_keep(config: Any) -> bool:
    """Whether each layer attends to all that was read.

    Rows of different lengths have gaps in the cache, which a window would count, and a running
    state would read.
    """
    text = config.get_text_config(decoder=True)
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    return kinds == {"full_attention"} and not getattr(text, "sliding_window", None)


def rope_index_of(model: Any) -> Any | None:
    """What gives the place of each token in text and pictures, of a model that tells more than its
    number.
    """
    return getattr(backbone_of(model), "get_rope_index", None)


def _groups(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows that are read together: in all of them those that are alike in length."""
    group: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        tokens = sum(lengths[other] for other in group) + lengths[row]
        if group and lengths[row] * (len(group) + 1) > PADDING * tokens:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _left_mask(lengths: Sequence[int]) -> Tensor:
    """(B, longest) 1 at the last so many places of each row."""
    longest = max(lengths)
    return (torch.arange(longest) >= longest - torch.tensor(lengths)[:, None]).long()
