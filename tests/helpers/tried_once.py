"""A model that has been tried is not tried again: nearly all trainings of the tests start from the same weights.

`check_model` and `can_go_unmasked` say the same of the same weights, and took a quarter of a small training's time. Their
own tests call them where they are; only the trainer asks here.
"""

from __future__ import annotations

import functools
import zlib
from typing import Any


def weights_of(model: Any) -> tuple[Any, ...]:
    """Of all tensors: names, types, shapes, whether they are trained, and a checksum."""
    import torch

    return tuple(
        (name, each.dtype, each.shape, each.requires_grad, zlib.crc32(each.detach().contiguous().flatten().view(torch.uint8).numpy()))
        for name, each in model.state_dict(keep_vars=True).items()
    )  # fmt: skip


def once(check: Any) -> Any:
    """The same function, asked once of a model and a encoder that are the same."""
    known: dict[Any, bool] = {}

    @functools.wraps(check)
    def asked(model: Any, encoder: Any, **options: bool) -> bool:
        settings = (model.packs, model.training, str(model.policy.config), encoder.tokenizer.chat_template,
                    len(encoder.tokenizer), encoder.image_token_id, encoder.forbidden_ids)  # fmt: skip
        key = (weights_of(model), type(model.policy), settings, tuple(sorted(options.items())))
        if key not in known:
            known[key] = check(model, encoder, **options)
        return known[key]

    asked.asks_once = True
    return asked


def install() -> None:
    """Have the trainer of this process ask once."""
    from vagen_adapters.ppo import trainer

    for name in ("check_model",):
        if not hasattr(getattr(trainer, name), "asks_once"):
            setattr(trainer, name, once(getattr(trainer, name)))
