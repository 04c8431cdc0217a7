"""Encode observations as tokens by a family's chat template, and decode replies.

Nothing is tokenised twice: a reply stays the tokens that were sampled, and the chat template's text
around it is encoded on its own. The family's own processor determines the tokens of a picture.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from vagen_adapters.errors import TrainingDataError
from vagen_adapters.ppo.conversation import IMAGE_PLACEHOLDER, REPLY
from vagen_adapters.ppo.family_tokens import (
    TOKEN_TYPES,
    conversation_of,
    image_token_id_of,
    inputs_of_model,
    picture_token_ids,
)
from vagen_adapters.ppo.introspection import read_policy
from vagen_adapters.ppo.picture_features import PictureFeatures
from vagen_adapters.ppo.processors import Family, refusal, refusing
from vagen_adapters.ppo.shown import Shown
from vagen_envs import State


class ChatEncoder:
    """A family's processor and chat template.

    Args:
        family: the family.
        thinking: whether the model thinks before each reply, between marks of its family.

    Attributes:
        accepted: the arguments of the model's forward pass.
        pictures: what the model is given of pictures.
        image_token_id: the token that stands for one feature of a picture.
        end_id: the token that closes a reply; sampling stops there.
        end_text: what is written for it where the template writes none.
        beginning: the token that begins a text, where the template leaves that to the tokenizer.
        forbidden_ids: tokens that a reply must never hold, because the model takes them for
            pictures.
        thought_end_id: the token by which the model ends its thoughts; None if it has none.
        closing_ids: what is written after thoughts that are cut.

    Raises:
        TrainingConfigError: the family's template or processor can't be used; see `family_checks`.
    """

    def __init__(self, family: Family, *, thinking: bool = False) -> None:
        self.family = family
        self.processor = family.processor
        self.tokenizer = self.processor.tokenizer
        self.image_processor = self.processor.image_processor
        pads = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, 0)
        self.pad_id: int = next(token for token in pads if token is not None)
        self.accepted = inputs_of_model(family)
        self.image_token_id = image_token_id_of(family)
        self._typed = self._ids_of_types()
        ids = {self.image_token_id, *picture_token_ids(family), *self._typed}
        # Some models can read pictures' tokens, and have none to say them.
        words = family.config.get_text_config().vocab_size
        self.forbidden_ids = tuple(sorted(token for token in ids if token < words))
        self.conversation = conversation_of(family, thinking=thinking)
        self.end_id, self.end_text = self._closing()
        marks = self.conversation.marks
        self._opening_ids = self.encode(marks.opening)
        self.closing_ids = self.encode(marks.closing)
        self.thought_end_id: int | None = None
        if marks.end:
            self.thought_end_id = self.tokenizer.convert_tokens_to_ids(marks.end)
        special = {
            *self.tokenizer.all_special_tokens,
            self.conversation.image_token,
            *self.tokenizer.convert_ids_to_tokens([self.end_id, *self.forbidden_ids]),
        }
        # An id beyond the tokenizer's has no name.
        named = sorted(filter(None, special), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, named)))
        self.beginning = self._beginning()
        image_token = self.conversation.image_token
        self.pictures = PictureFeatures(family, image_token, self.accepted)
        # Many observations differ in pictures only.
        self._laid_out = functools.lru_cache(maxsize=4096)(self._lay_out)

    @classmethod
    def from_pretrained(cls, path: str, *, thinking: bool = False) -> Self:
        """Read the processor and token ids of a model's folder; `thinking` as for the class.

        Raises:
            TrainingConfigError: the family's template or processor can't be used.
        """
        family = Family.read(path)
        with refusing(
            family.name,
            "its processor",
            "train a family whose processor is as transformers' others",
        ):
            return cls(family, thinking=thinking)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the tokenizer, and the picture settings of the model's folder, into another model's
        folder.
        """
        self.tokenizer.save_pretrained(folder)
        for name, contents in self.family.files.items():
            (Path(folder) / name).write_bytes(contents)

    def show(self, system: str, observation: dict[str, Any], state: State | None = None) -> Shown:
        """Encode `{"text": …, "image": …}`, with `<image>` in the text where the picture (or array)
        belongs.

        `state` isn't encoded: it is kept beside.

        Raises:
            TrainingDataError: text and picture don't go together.
        """
        parts = observation["text"].split(IMAGE_PLACEHOLDER)
        text = IMAGE_PLACEHOLDER.join([self._without_special(part) for part in parts])
        pictures = (self.pictures.hold(observation["image"]),) if "image" in observation else ()
        if text.count(IMAGE_PLACEHOLDER) != len(pictures):
            raise TrainingDataError(
                f"an observation has {len(pictures)} picture(s) but "
                f"{text.count(IMAGE_PLACEHOLDER)} placeholder(s) {IMAGE_PLACEHOLDER} in its "
                "text; there must be one for each"
            )
        sizes: Mapping[str, Tensor] = {}
        placeholder = ""
        if pictures:
            sizes, placeholder = self.pictures.layout_of(pictures[0].shape)
        system_text = self._without_special(system) if system else None
        first_ids, next_ids = self._laid_out(system_text, text, placeholder)
        tokens = first_ids.count(self.image_token_id)
        opens = len(self._opening_ids)
        return Shown(first_ids, next_ids, tokens, pictures, sizes, state, opens)

    def encode(self, text: str, *placeholders: str) -> tuple[int, ...]:
        """Tokens of rendered text, each picture's placeholder replaced by what the processor says
        in its place.
        """
        left = iter(placeholders)
        whole = re.sub(re.escape(self.conversation.image_token), lambda _: next(left), text)
        return tuple(self.tokenizer(whole, add_special_tokens=False)["input_ids"])

    def read(self, reply_ids: Sequence[int]) -> str:
        """The text of a reply, without the token that ends it."""
        spoken = [token for token in reply_ids if token != self.end_id]
        text: str = self.tokenizer.decode(spoken, skip_special_tokens=True)
        return text

    def ends_of(self, stop_id: int | None) -> list[int]:
        """The tokens that end what is sampled: the family's, and another one."""
        return [self.end_id] if stop_id is None else [self.end_id, stop_id]

    def read_thoughts(self, thought_ids: Sequence[int]) -> str:
        """The text of a reply's thoughts, without the mark that ends them."""
        return self.read(thought_ids).strip().removesuffix(self.conversation.marks.end).strip()

    def begins(self, reply_ids: Sequence[int]) -> list[int]:
        """Where in `read`'s text each token begins, in code points; the tokens that end a reply at
        its end.
        """
        whole = self.read(reply_ids)
        lengths = [len(self.read((token,))) for token in reply_ids]
        if sum(lengths) != len(whole):
            # Some tokens are parts of a character, or their spaces depend on others.
            upto = [len(self.read(reply_ids[:end])) for end in range(len(reply_ids))]
            return [min(length, len(whole)) for length in upto]
        return list(itertools.accumulate(lengths, initial=0))[:-1]

    def token_types(self, ids: Tensor) -> dict[str, Tensor]:
        """(B, L) → (B, L) int32. 1 at a picture's tokens, by the name that the model knows it by,
        if it asks.
        """
        types = torch.isin(ids, torch.tensor(self._typed, dtype=ids.dtype, device=ids.device)).int()
        return {name: types for name in TOKEN_TYPES if name in self.accepted}

    def check_pictures(self, ids: Sequence[int], shown: Sequence[Shown], where: str) -> None:
        """Raise TrainingDataError unless `ids` has as many image tokens as the pictures of `shown`
        need.
        """
        needed = sum(one.image_tokens for one in shown)
        found = ids.count(self.image_token_id)
        if found != needed:
            raise TrainingDataError(
                f"{where}: its pictures take {needed} image tokens, but it has {found} of them; "
                "a reply with image tokens or a sequence cut within a picture does that"
            )

    def _lay_out(
        self, system: str | None, text: str, placeholder: str
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tokens of an observation as the beginning of a conversation, and as the continuation
        of one.
        """
        first = self.conversation.prompt(system, [text], [])
        following = self.end_text + self.conversation.after_reply(system, text)
        return (
            self.beginning + self.encode(first, placeholder) + self._opening_ids,
            self.encode(following, placeholder) + self._opening_ids,
        )

    def _ids_of_types(self) -> list[int]:
        """What the processor marks as a picture's, if the model asks: the borders of its rows too,
        in some families.
        """
        if not self.accepted.intersection(TOKEN_TYPES):
            return [self.image_token_id]
        marked = getattr(self.processor, "image_token_ids", None) or []
        tokens = [token for token in marked if isinstance(token, int)]
        return sorted({self.image_token_id, *tokens})

    def _closing(self) -> tuple[int, str]:
        """Read off the template; where it closes turns by words, the tokenizer's end token ends a
        reply.
        """
        following = self.conversation.after_reply(None, ".")
        closing: int = self.tokenizer(following, add_special_tokens=False)["input_ids"][0]
        tokenizer = self.tokenizer
        if closing in tokenizer.all_special_ids or closing in tokenizer.added_tokens_decoder:
            return closing, ""
        if self.tokenizer.eos_token_id is None:
            raise refusal(
                self.family.name,
                "continuation: neither template nor tokenizer say how a reply ends; give the "
                "tokenizer an eos_token",
            )
        return self.tokenizer.eos_token_id, self.tokenizer.eos_token

    def _beginning(self) -> tuple[int, ...]:
        """The token that begins a text, unless the tokenizer has none or the template writes it."""
        begin = self.tokenizer.bos_token_id
        alone = list(self.tokenizer("")["input_ids"])
        if begin is None or begin not in alone:
            return ()
        is_written = self.encode(self.conversation.prompt(None, ["."], []))[0] == begin
        return () if is_written else (begin,)

    def _without_special(self, text: str) -> str:
        """Remove special tokens from an environment's text, also those that a removal would
        create.
        """
        text = text.replace(REPLY, "")
        while (cut := self._special.sub("", text)) != text:
            text = cut
        return text


def load_policy(folder: str | Path, *, thinking: bool = False) -> tuple[Any, ChatEncoder]:
    """Read a model in evaluation mode, and its encoder; `thinking` as for `ChatEncoder`."""
    encoder = ChatEncoder.from_pretrained(str(folder), thinking=thinking)
    return read_policy(folder).eval(), encoder
