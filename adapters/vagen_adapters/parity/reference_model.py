"""A tiny Qwen3-VL with random weights, with which recorded episodes are sampled and trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vagen_adapters.parity import tiny_model as tiny
from vagen_adapters.ppo.chat_encoder import load_policy

ENV_ID = "vagen/FrozenLake-v0"
OPTIONS: dict[str, Any] = {
    "strategy": "free_think",
    "prompt_pack": tiny.PROMPTS,
    "is_slippery": False,
    "max_actions_per_turn": 1,
    # Words around the picture, other ones in each turn: a turn that is shown again, or a picture
    # elsewhere, is seen.
    "observation": "both",
    "representation": "symbolic",
}
Pixels = NDArray[np.uint8]


class ReferenceModel:
    """A loaded model folder.

    Args:
        folder: folder of the tiny model; it is written if it doesn't exist.
        thinking: whether it thinks before each reply, between the marks of its template.

    Attributes:
        folder: a Qwen3-VL checkpoint that any trainer can load.
        model: in float32 on the CPU, in evaluation mode.
        encoder: tokenizer and image processor.
    """

    def __init__(self, folder: str | Path, *, thinking: bool = False) -> None:
        self.folder = Path(folder)
        if not (self.folder / "config.json").exists():
            texts = tiny.texts_of([ENV_ID], levels=3, **OPTIONS)
            tiny.save_tiny(
                self.folder, texts, vocabulary=384, hidden=64, layers=2, vision_hidden=32
            )
            _make_pictures_matter(self.folder)
        self.model, self.encoder = load_policy(self.folder, thinking=thinking)

    @property
    def image_token(self) -> int:
        """The id of the image token, one per merged patch."""
        return self.encoder.image_token_id

    @property
    def video_token(self) -> int:
        """The id of the video token, which no prompt contains."""
        token: int = self.model.config.video_token_id
        return token

    @property
    def end_token(self) -> int:
        """The id of the token that ends a reply."""
        return self.encoder.end_id

    def features(self, pictures: Sequence[Pixels]) -> dict[str, Tensor]:
        """Return `pixel_values` and `image_grid_thw` of pictures; empty without pictures."""
        if not pictures:
            return {}
        made = self.encoder.image_processor(images=list(pictures), return_tensors="pt")
        return {name: made[name] for name in ("pixel_values", "image_grid_thw")}

    def patches(self, grids: Tensor) -> list[int]:
        """Return the number of image tokens of each picture."""
        merged: list[int] = (grids.prod(1) // self.encoder.image_processor.merge_size**2).tolist()
        return merged

    def collapse(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return `ids` with runs of image tokens reduced to one, and the positions of the kept
        tokens.

        Sampling servers expect one image token per picture, models one per merged patch.
        """
        kept = [
            at
            for at, token in enumerate(ids)
            if token != self.image_token or not at or ids[at - 1] != token
        ]
        return [ids[at] for at in kept], kept

    def expand(self, ids: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """Return `ids` with the n-th run of image tokens set to length `sizes[n]`; further runs
        stay.
        """
        left = iter(sizes)
        collapsed, places = self.collapse(ids)
        whole: list[int] = []
        ends = [*places[1:], len(ids)]
        for token, at, end in zip(collapsed, places, ends, strict=True):
            length = next(left, end - at) if token == self.image_token else 1
            whole += [token] * length
        return whole

    def inputs(self, ids: Sequence[int], pictures: Sequence[Pixels]) -> dict[str, Tensor]:
        """Return the correct inputs of a forward pass."""
        tokens = torch.tensor([list(ids)])
        return {
            "input_ids": tokens,
            "mm_token_type_ids": (tokens == self.image_token).int(),
            **self.features(pictures),
        }

    def positions(self, ids: Sequence[int], grids: Tensor | None) -> Tensor:
        """Return the model's own position ids, (3, L)."""
        tokens = torch.tensor([list(ids)])
        types = (tokens == self.image_token).int()
        found: Tensor = self.model.model.get_rope_index(tokens, types, image_grid_thw=grids)[0][
            :, 0
        ]
        return found

    @torch.no_grad()
    def logprobs(self, inputs: dict[str, Tensor]) -> list[float]:
        """Return the log-probability of each token given those before it, at temperature 1; 0 for
        the first.
        """
        self.model.model.rope_deltas = None
        logits = self.model(**inputs, use_cache=False).logits[0]
        all_scores = logits[:-1].float().log_softmax(1)
        following = inputs["input_ids"][0, 1:, None]
        scores = all_scores.gather(1, following).squeeze(1)
        return [0.0, *scores.tolist()]

    def say(self, ids: Sequence[int]) -> str:
        """Decode tokens for a message; runs of image tokens are shown as one."""
        return " ".join(
            repr(self.encoder.tokenizer.decode([token])) for token in self.collapse(ids)[0]
        )


@torch.no_grad()
def _make_pictures_matter(folder: Path) -> None:
    """Scale the weights, since an untrained tiny model hardly reacts to pictures and missing ones
    would pass.
    """
    model, _ = load_policy(folder)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.mul_(4.0)
    model.save_pretrained(folder)
