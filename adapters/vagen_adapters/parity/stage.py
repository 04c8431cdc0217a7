"""The model that recorded episodes are sampled and trained with: Qwen3-VL's architecture, small enough for any CI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vagen_adapters.ppo import tiny

ENV_ID = "vagen/FrozenLake-v0"
OPTIONS: dict[str, Any] = {
    "strategy": "free_think",
    "prompt_pack": tiny.PROMPTS,
    "is_slippery": False,
    "max_actions_per_turn": 1,
}
Pixels = NDArray[np.uint8]


class Stage:
    """A model's folder, loaded.

    Args:
        folder: where the tiny model is, or is written if there is none.

    Attributes:
        folder: of a Qwen3-VL checkpoint, which any trainer's loading code takes.
        model: in float32 on the CPU, in evaluation mode.
        codec: its tokenizer and image processor.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "config.json").exists():
            texts = tiny.texts_of([ENV_ID], levels=3, **OPTIONS)
            tiny.save_tiny(self.folder, texts, vocabulary=384, hidden=64, layers=2, vision_hidden=32)
            _make_pictures_matter(self.folder)
        self.model, self.codec = tiny.load(self.folder)

    @property
    def image_token(self) -> int:
        """The token that stands for a merged patch of a picture."""
        return self.codec.image_token_id

    @property
    def end_token(self) -> int:
        """The token that ends a reply."""
        end: int = self.codec.end_id
        return end

    def features(self, pictures: Sequence[Pixels]) -> dict[str, Tensor]:
        """`pixel_values` and `image_grid_thw` of pictures; nothing without pictures."""
        if not pictures:
            return {}
        made = self.codec.image_processor(images=list(pictures), return_tensors="pt")
        return {name: made[name] for name in ("pixel_values", "image_grid_thw")}

    def patches(self, grids: Tensor) -> list[int]:
        """How many image tokens each picture takes."""
        merged: list[int] = (grids.prod(1) // self.codec.image_processor.merge_size**2).tolist()
        return merged

    def collapse(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """`ids` with one image token for each run of them, and where each of these tokens stands in `ids`.

        Sampling servers take one for a picture, models as many as it has merged patches.
        """
        kept = [at for at, token in enumerate(ids) if token != self.image_token or not at or ids[at - 1] != token]
        return [ids[at] for at in kept], kept

    def expand(self, ids: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """`ids` with as many image tokens for the n-th run of them as `sizes[n]`, as they are where there is none."""
        left = iter(sizes)
        collapsed, places = self.collapse(ids)
        whole: list[int] = []
        for token, at, end in zip(collapsed, places, [*places[1:], len(ids)], strict=True):
            whole += [token] * (next(left, end - at) if token == self.image_token else 1)
        return whole

    def inputs(self, ids: Sequence[int], pictures: Sequence[Pixels]) -> dict[str, Tensor]:
        """A forward pass's tensors, as they should be."""
        tokens = torch.tensor([list(ids)])
        return {"input_ids": tokens, "mm_token_type_ids": (tokens == self.image_token).int(), **self.features(pictures)}

    def positions(self, ids: Sequence[int], grids: Tensor | None) -> Tensor:
        """(3, L) The model's own position ids."""
        tokens = torch.tensor([list(ids)])
        types = (tokens == self.image_token).int()
        found: Tensor = self.model.model.get_rope_index(tokens, types, image_grid_thw=grids)[0][:, 0]
        return found

    @torch.no_grad()
    def logprobs(self, inputs: dict[str, Tensor]) -> list[float]:
        """Of each token given those before it, at temperature 1; 0 for the first. Raises whatever the model raises."""
        self.model.model.rope_deltas = None
        logits = self.model(**inputs, use_cache=False).logits[0]
        scores = logits[:-1].float().log_softmax(1).gather(1, inputs["input_ids"][0, 1:, None])
        return [0.0, *scores.squeeze(1).tolist()]

    def say(self, ids: Sequence[int]) -> str:
        """Tokens in words, each run of image tokens as one."""
        return " ".join(repr(self.codec.tokenizer.decode([token])) for token in self.collapse(ids)[0])


@torch.no_grad()
def _make_pictures_matter(folder: Path) -> None:
    """As drawn, a tiny model's words hardly depend on its pictures: a blind one would pass for one that sees."""
    model, _ = tiny.load(folder)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.mul_(4.0)
    model.save_pretrained(folder)
