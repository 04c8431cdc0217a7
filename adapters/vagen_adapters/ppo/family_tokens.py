"""What a family's configuration, model and template say of a picture's tokens and of replies."""

from __future__ import annotations

import inspect
import re

from vagen_adapters.ppo.conversation import Conversation
from vagen_adapters.ppo.processors import Family, refusal, refusing

_OF_PICTURES = re.compile(r"(image|img|video|vision|audio|boi|eoi)\w*_token_(id|index)$")
TOKEN_TYPES = ("mm_token_type_ids", "token_type_ids")
"""By which models tell a picture's tokens from words."""


def image_token_id_of(family: Family) -> int:
    """The token that stands for one feature of a picture. Raises TrainingConfigError if there is
    none.
    """
    names = ("image_token_id", "image_token_index")
    named = [getattr(family.config, name, None) for name in names]
    found = next((token for token in named if isinstance(token, int)), -1)
    words = len(family.processor.tokenizer)
    if not 0 <= found < words:
        raise refusal(
            family.name,
            f"pictures: its image token is {found}, where the tokenizer has {words} tokens; "
            "train a family whose pictures stand among the tokens, with its own tokenizer",
        )
    return found


def picture_token_ids(family: Family) -> set[int]:
    """All tokens that a family's configuration names for pictures, videos and sounds."""
    vocabulary = len(family.processor.tokenizer)
    named = [entry for name, entry in vars(family.config).items() if _OF_PICTURES.search(name)]
    return {token for token in named if isinstance(token, int) and 0 <= token < vocabulary}


def inputs_of_model(family: Family) -> frozenset[str]:
    """The names that the forward pass of a family's model takes."""
    from transformers import AutoModel, AutoModelForImageTextToText

    kind = type(family.config)
    known = AutoModelForImageTextToText._model_mapping
    if kind not in known or kind not in AutoModel._model_mapping:
        raise refusal(
            family.name,
            "its model: transformers has no AutoModelForImageTextToText and AutoModel of it; "
            "train a vision-language model whose family has both, or save its part that has",
        )
    return frozenset(inspect.signature(known[kind].forward).parameters)


def conversation_of(family: Family, *, thinking: bool) -> Conversation:
    """The family's chat template. Raises TrainingConfigError if it lacks what turns need."""
    processor = family.processor
    template = getattr(processor, "chat_template", None) or processor.tokenizer.chat_template
    named = [getattr(owner, "image_token", None) for owner in (processor, processor.tokenizer)]
    token = str(named[0] or named[1] or "")
    with refusing(family.name, "chat template", "give the folder one that writes all of them"):
        if not isinstance(template, str) or not token:
            raise ValueError("there is none, or its processor names no picture's placeholder")
        return Conversation(processor.tokenizer, template, token, thinking=thinking)
