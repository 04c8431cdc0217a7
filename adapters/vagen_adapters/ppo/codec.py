"""Between what an environment shows and the tokens that a model reads.

Nothing is ever tokenised twice: a reply stays the tokens that were sampled, and what the chat template puts
around it is encoded on its own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vagen_adapters.errors import TrainingConfigError, TrainingDataError

IMAGE_PLACEHOLDER = "<image>"
_REPLY = "\x02"
"""Stands for the reply while a template is rendered; no text of an environment holds it."""


@dataclass(frozen=True, eq=False)
class Shown:
    """An observation as tokens and picture features.

    Attributes:
        first_ids: with the system prompt before it, as the beginning of a conversation.
        next_ids: as the continuation of one, beginning with the token that closes the reply before it.
        pixel_values: (patches, features) float32, or None without pictures.
        grids: (pictures, 3) int64, the patches of each picture over time, height and width.
        pictures: as the environment drew them, for back-ends that make their own features.
    """

    first_ids: tuple[int, ...]
    next_ids: tuple[int, ...]
    pixel_values: Tensor | None
    grids: Tensor
    pictures: tuple[NDArray[np.uint8], ...] = ()


class Codec:
    """A tokenizer, its chat template and an image processor of the Qwen-VL family, used without torchvision.

    Args:
        tokenizer: with a chat template.
        image_processor: with `patch_size` and `merge_size`, giving `pixel_values` and `image_grid_thw`.
        image_token_id: the token that stands for one merged patch of a picture.
        forbidden_ids: tokens that a reply must never hold, because the model takes them for pictures.
    """

    def __init__(self, tokenizer: Any, image_processor: Any, image_token_id: int, forbidden_ids: Sequence[int]) -> None:
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.image_token_id = image_token_id
        self.forbidden_ids = tuple(sorted({image_token_id, *forbidden_ids}))
        self.pad_id: int = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        self._special = sorted(tokenizer.all_special_tokens, key=len, reverse=True)
        self._merged = image_processor.merge_size**2
        self._laid_out = functools.lru_cache(maxsize=4096)(self._lay_out)  # many observations differ in pictures only

    @classmethod
    def from_pretrained(cls, path: str) -> Self:
        """Read the tokenizer, image processor and token ids of a model's folder.

        Raises:
            TrainingConfigError: the model is of a family whose pictures this package can't lay out.
        """
        from transformers import AutoConfig, AutoTokenizer
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        config = AutoConfig.from_pretrained(path)
        names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
        if not config.model_type.startswith(("qwen2_vl", "qwen2_5_vl", "qwen3_vl")):
            raise TrainingConfigError(
                f"{path} is of type {config.model_type!r}, whose way of laying out pictures is not known here; "
                "use a Qwen2-VL, Qwen2.5-VL or Qwen3-VL model"
            )
        image_processor = Qwen2VLImageProcessorPil.from_pretrained(path)
        ids = [getattr(config, name) for name in names]
        return cls(AutoTokenizer.from_pretrained(path), image_processor, ids[0], ids)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the tokenizer and image processor into a model's folder."""
        self.tokenizer.save_pretrained(folder)
        self.image_processor.save_pretrained(folder)

    def show(self, system: str, observation: dict[str, Any]) -> Shown:
        """Encode `{"text": …, "image": …}`, with `<image>` in the text where the picture belongs.

        Raises:
            TrainingDataError: text and picture don't go together, or the chat template can't be continued.
        """
        text = self._without_special(observation["text"])
        pictures: list[NDArray[np.uint8]] = [observation["image"]] if "image" in observation else []
        if text.count(IMAGE_PLACEHOLDER) != len(pictures):
            raise TrainingDataError(
                f"an observation has {len(pictures)} picture(s) but {text.count(IMAGE_PLACEHOLDER)} placeholder(s) "
                f"{IMAGE_PLACEHOLDER} in its text; there must be one for each"
            )
        pixel_values, grids = self._features(pictures)
        sizes = tuple((grids.prod(1) // self._merged).tolist())
        first_ids, next_ids = self._laid_out(self._without_special(system) if system else None, text, sizes)
        return Shown(first_ids, next_ids, pixel_values, grids, tuple(pictures))

    def _lay_out(
        self, system: str | None, text: str, sizes: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tokens of an observation as the beginning of a conversation, and as the continuation of one."""
        opening = [{"role": "system", "content": system}] if system is not None else []
        user = {"role": "user", "content": _content(text)}
        first = self._render([*opening, user])
        earlier: list[dict[str, Any]] = [
            {"role": "user", "content": _content("")},
            {"role": "assistant", "content": _REPLY},
        ]
        _, found, following = self._render([*opening, *earlier, user]).partition(_REPLY)
        next_ids = self._encode(following, sizes)
        if not found or next_ids[:1] != (self.tokenizer.eos_token_id,):
            raise TrainingDataError(
                "the chat template does not close a reply with the tokenizer's end token "
                f"{self.tokenizer.eos_token!r}, so that an episode can't be continued token by token; use one that does"
            )
        return self._encode(first, sizes), next_ids

    def read(self, reply_ids: Sequence[int]) -> str:
        """The text of a reply, without the token that ends it."""
        text: str = self.tokenizer.decode(reply_ids, skip_special_tokens=True)
        return text

    def check_pictures(self, ids: Sequence[int], shown: Sequence[Shown], where: str) -> None:
        """Raise TrainingDataError unless `ids` has as many image tokens as the pictures of `shown` need."""
        needed = sum(int(each.grids.prod(1).sum()) for each in shown) // self._merged
        found = ids.count(self.image_token_id)
        if found != needed:
            raise TrainingDataError(
                f"{where}: its pictures take {needed} image tokens, but it has {found} of them; "
                "a reply with image tokens or a sequence cut within a picture does that"
            )

    def _features(self, pictures: Sequence[NDArray[np.uint8]]) -> tuple[Tensor | None, Tensor]:
        if not pictures:
            return None, torch.zeros((0, 3), dtype=torch.int64)
        features = self.image_processor(images=list(pictures), return_tensors="pt")
        return features["pixel_values"], features["image_grid_thw"]

    def _render(self, messages: list[dict[str, Any]]) -> str:
        text: str = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return text

    def _encode(self, text: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Tokens of rendered text, each picture's single image token repeated as often as it has merged patches."""
        left = iter(sizes)
        ids: list[int] = []
        for token in self.tokenizer(text, add_special_tokens=False)["input_ids"]:
            ids += [token] * next(left) if token == self.image_token_id else [token]
        return tuple(ids)

    def _without_special(self, text: str) -> str:
        """An environment's text can't forge the end of a message or a picture."""
        for token in self._special:
            text = text.replace(token, "")
        return text.replace(_REPLY, "")


def _content(text: str) -> list[dict[str, str]]:
    """A message's text cut at its pictures, as chat templates take it."""
    parts: list[dict[str, str]] = []
    for position, piece in enumerate(text.split(IMAGE_PLACEHOLDER)):
        if position:
            parts.append({"type": "image"})
        if piece:
            parts.append({"type": "text", "text": piece})
    return parts or [{"type": "text", "text": ""}]
