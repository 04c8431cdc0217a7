"""What a encoder lays out, against what the family's processor and template say of a whole conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.chat_encoder import TOKEN_TYPES, ChatEncoder, Shown, as_features
from vagen_adapters.ppo.conversation import IMAGE_PLACEHOLDER, REPLY
from vagen_adapters.ppo.processors import refusal

SIZES = ((64, 64), (64, 96))
SYSTEM, REPLIES = "Play well.", ("Up", "Down")


def check_layout(encoder: ChatEncoder) -> None:
    """Compare what the encoder lays out with what the family's processor and template say of a whole conversation.

    Raises:
        TrainingConfigError: they differ.
    """
    texts = [f"Look: {IMAGE_PLACEHOLDER}\nNow move.", f"{IMAGE_PLACEHOLDER} And now?", f"Last.\n{IMAGE_PLACEHOLDER}"]
    pictures = [checkered(number, SIZES[number % 2]) for number in range(len(texts))]
    try:
        shown = [
            encoder.show(SYSTEM, {"text": text, "image": each}) for text, each in zip(texts, pictures, strict=True)
        ]
    except Exception as error:  # a processor raises whatever it likes
        raise failed(encoder, "pictures", f"its processor refuses one: {shortened(error)}",
                      "give the folder the family's own picture settings") from error  # fmt: skip
    for text, each in zip(texts, shown, strict=True):
        _check_picture(encoder, text, each)
    _check_continuation(encoder, texts, shown)


def _check_picture(encoder: ChatEncoder, text: str, shown: Shown) -> None:
    """Placeholders, features and token types, against the processor's own call."""
    if not shown.image_tokens:
        raise failed(encoder, "pictures", "a picture takes none of the tokens that its model knows pictures by",
                      "train a family whose pictures stand among the tokens")  # fmt: skip
    rendered = encoder.conversation.prompt(SYSTEM, [text], [])
    images = [picture.pil for picture in shown.pictures]
    try:
        made = encoder.processor(text=[rendered], images=images, add_special_tokens=False, return_tensors="pt",
                               return_mm_token_type_ids=True)  # fmt: skip
    except Exception as error:  # a processor raises whatever it likes
        raise failed(encoder, "pictures", f"its processor refuses one: {shortened(error)}",
                      "give the folder the family's own tokenizer and picture settings") from error  # fmt: skip
    ids = made["input_ids"]
    own = list(shown.first_ids)
    if own[len(own) - ids.shape[1] :] != ids[0].tolist() or len(own) - ids.shape[1] > 1:
        theirs = ids[0].tolist()
        at = next((at for at, pair in enumerate(zip(own, theirs, strict=False)) if len({*pair}) > 1),
                  min(len(own), len(theirs)))  # fmt: skip
        parted = [encoder.tokenizer.convert_ids_to_tokens(each[at : at + 3]) for each in (own, theirs)]
        raise failed(encoder, "pictures", f"its processor lays out an observation in {len(theirs)} tokens, "
                      f"{_count(theirs, encoder.image_token_id)} of them a picture's, and ours in {len(own)} and "
                      f"{shown.image_tokens}; token {at} on, the encoder has {parted[0]} and it {parted[1]}",
                      "turn off in the folder's processor_config.json what it adds or numbers")  # fmt: skip
    for name, feature in encoder.features_of([shown]).items():
        if name in made and not torch.equal(as_features(made[name]), feature):
            raise failed(encoder, "pictures", f"its processor gives other {name} than its parts do",
                          "use the family's own processor_config.json")  # fmt: skip
    types = next((made[name] for name in TOKEN_TYPES if name in made), None)
    ours = next(iter(encoder.token_types(ids).values()), None)
    if types is not None and ours is not None and not torch.equal(types.int(), ours):
        raise failed(encoder, "pictures", "its processor gives token types to other tokens than a picture's",
                      "train a family that marks pictures alone")  # fmt: skip


def _check_continuation(encoder: ChatEncoder, texts: Sequence[str], shown: Sequence[Shown]) -> None:
    """A longer conversation must extend the shorter one, in text and in tokens, and its splices be what is rendered.

    A template may open a reply in a prompt (with empty thoughts, or a space) and leave that out of a reply that it is
    given, or the other way round: what a policy has read or said stays as it was.
    """
    last = [_pieces(encoder, texts[:number])[-1] for number in range(1, len(texts) + 1)]
    for number, (written, opened) in enumerate(zip(_pieces(encoder, texts), last, strict=True), start=1):
        one, other = ("".join(each.split()) for each in (written, opened))
        if not (one.startswith(other) or other.startswith(one)):
            raise failed(encoder, "continuation", f"what stands before reply {number} is written in another way once "
                          f"others follow: {opened[-60:]!r}, then {written[-60:]!r}",
                          "use a template that keeps a conversation as it was")  # fmt: skip
    said = [each for one in shown for each in encoder.look([picture.pixels for picture in one.pictures])[1]]
    ends = [f"{reply}{encoder.end_text}" for reply in REPLIES]
    text = "".join(piece for pair in zip(last, [*ends, ""], strict=True) for piece in pair)
    whole = [*encoder.beginning, *encoder.encode(text, said)]
    spliced = list(shown[0].first_ids)
    for reply, each in zip(REPLIES, shown[1:], strict=True):
        spliced += [*encoder.encode(reply), *each.next_ids]
    # A template that ends a prompt in line breaks may have them cut in another way before a reply: they are read as
    # they are when it is sampled, and say the same.
    if whole != spliced and encoder.tokenizer.decode(whole) != encoder.tokenizer.decode(spliced):
        at = next((at for at, (one, other) in enumerate(zip(whole, spliced, strict=False)) if one != other), 0)
        tokens = encoder.tokenizer.convert_ids_to_tokens([*whole[at : at + 4]])
        raise failed(encoder, "continuation", f"token {at} of a whole conversation, {tokens}, is another than where "
                      "its turns are tokenised one by one, and reads differently",
                      "use a template that ends a reply with a token")  # fmt: skip


def _pieces(encoder: ChatEncoder, texts: Sequence[str]) -> list[str]:
    """A conversation's text cut at its replies."""
    return encoder.conversation.prompt(SYSTEM, texts, [REPLY] * (len(texts) - 1)).split(REPLY)


def checkered(number: int, size: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A checkered one: noise would be the same everywhere to a tower that averages."""
    rows, columns = np.indices(size)
    checks = ((rows // 8 + columns // (8 + number)) % 2)[..., None] * np.array([200, 90 + 9 * number, 40])
    return (checks + 30).astype(np.uint8)


def _count(ids: Sequence[int], token: int) -> int:
    return sum(each == token for each in ids)


def shortened(error: Exception) -> str:
    """In one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def failed(encoder: ChatEncoder, check: str, found: str, fix: str) -> TrainingConfigError:
    """See `refusal`."""
    return refusal(encoder.family.name, check, found, fix)
