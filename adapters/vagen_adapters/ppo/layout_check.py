"""Compare a family's layout of a whole conversation with that of its turns, without weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch

from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.conversation import IMAGE_PLACEHOLDER, REPLY
from vagen_adapters.ppo.family_tokens import TOKEN_TYPES
from vagen_adapters.ppo.processors import refusal, refusing
from vagen_adapters.ppo.shown import Shown

SYSTEM = "Play well."
REPLIES = ("Up", "Down")
THOUGHT = "Hm."
TEXTS = (
    f"Look: {IMAGE_PLACEHOLDER}\nNow move.",
    f"{IMAGE_PLACEHOLDER} And now?",
    f"Last.\n{IMAGE_PLACEHOLDER}",
)


def check_layout(encoder: ChatEncoder) -> None:
    """Compare what the encoder lays out with what the family's processor and template say of a
    whole conversation.

    Raises:
        TrainingConfigError: they differ.
    """
    with refusing(
        encoder.family.name,
        "pictures",
        "give the folder the family's own tokenizer and picture settings",
    ):
        shown = [shown_example(encoder, number, text) for number, text in enumerate(TEXTS)]
        if not all(one.image_tokens for one in shown):
            raise ValueError("a picture takes none of the tokens that its model knows pictures by")
        made = encoder.processor(
            text=[_whole_conversation(encoder)],
            images=[one.pictures[0].pil for one in shown],
            add_special_tokens=False,
            return_tensors="pt",
            return_mm_token_type_ids=True,
        )
    whole = [*encoder.beginning, *made["input_ids"][0].tolist()]
    spliced = [*shown[0].first_ids]
    thought = encoder.encode(THOUGHT) if encoder.closing_ids else ()
    for reply, following in zip(REPLIES, shown[1:], strict=True):
        said = [*thought, *encoder.closing_ids, *encoder.encode(reply)]
        spliced += [*said, *following.next_ids]
    # A template that ends a prompt in line breaks may have them cut in another way before a reply:
    # they are read as they are when it is sampled, and say the same.
    if whole != spliced and encoder.tokenizer.decode(whole) != encoder.tokenizer.decode(spliced):
        at = next(
            at
            for at, (one, other) in enumerate(itertools.zip_longest(spliced, whole))
            if one != other
        )
        one, other = (
            encoder.tokenizer.convert_ids_to_tokens(ids[at : at + 4]) for ids in (spliced, whole)
        )
        raise refusal(
            encoder.family.name,
            f"continuation: a whole conversation has {len(whole)} tokens, its turns by "
            f"themselves {len(spliced)}; token {at} on, it has {other} and they {one}; use a "
            "template that ends a reply with a token, and turn off in the folder's "
            "processor_config.json what it adds or numbers",
        )
    types = next((made[name] for name in TOKEN_TYPES if name in made), None)
    ours = next(iter(encoder.token_types(made["input_ids"]).values()), None)
    if types is not None and ours is not None and not torch.equal(types.int(), ours):
        raise refusal(
            encoder.family.name,
            "pictures: its processor gives token types to other tokens than a picture's; "
            "train a family that marks pictures alone",
        )


def _whole_conversation(encoder: ChatEncoder) -> str:
    """The text of a conversation whose parts are written as before the replies to each.

    A template may open a reply in a prompt (with empty thoughts, or a space) and leave that out of
    a reply that it is given, or the other way round: earlier tokens stay unchanged.
    """
    last = [_pieces(encoder, TEXTS[:number])[-1] for number in range(1, len(TEXTS) + 1)]
    for number, (written, opened) in enumerate(
        zip(_pieces(encoder, TEXTS), last, strict=True), start=1
    ):
        one, other = ("".join(text.split()) for text in (written, opened))
        if not (one.startswith(other) or other.startswith(one)):
            raise refusal(
                encoder.family.name,
                f"continuation: what stands before reply {number} is written in another way once "
                f"others follow: {opened[-60:]!r}, then {written[-60:]!r}; use a template that "
                "keeps a conversation as it was",
            )
    marks = encoder.conversation.marks
    thought = f"{THOUGHT}{marks.closing}" if marks.closing else ""
    text = ""
    for piece, reply in zip(last, REPLIES, strict=False):
        text += f"{piece}{marks.opening}{thought}{reply}{encoder.end_text}"
    return f"{text}{last[-1]}{marks.opening}"


def _pieces(encoder: ChatEncoder, texts: Sequence[str]) -> list[str]:
    """A conversation's text cut at its replies."""
    return encoder.conversation.prompt(SYSTEM, texts, [REPLY] * (len(texts) - 1)).split(REPLY)


def shown_example(
    encoder: ChatEncoder,
    number: int,
    text: str = f"Here {IMAGE_PLACEHOLDER} it is.",
    size: int = -1,
) -> Shown:
    """An observation whose picture is checkered: noise would be the same everywhere to a tower that
    averages.
    """
    rows, columns = np.indices(((64, 64), (64, 96))[(number if size < 0 else size) % 2])
    checks = ((rows // 8 + columns // (8 + number)) % 2)[..., None] * np.array(
        [200, 90 + 9 * number, 40]
    )
    return encoder.show(SYSTEM, {"text": text, "image": (checks + 30).astype(np.uint8)})
