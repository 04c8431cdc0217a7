"""What a request to vLLM says of a prompt and of sampling, in this process and to a server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from PIL import Image

from vagen_adapters.ppo.generation import Prompt, SampleSettings

WORKER_EXTENSION = "vagen_adapters.ppo.vllm_worker.PolicyReload"
"""The class by which vLLM's workers reload weights."""
_FORBIDDEN = -100.0  # the lowest bias that vLLM takes


def sampling_settings(sampling: SampleSettings, forbidden_ids: Sequence[int]) -> dict[str, Any]:
    """The keywords of `vllm.SamplingParams`, without the seed."""
    settings: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "logit_bias": dict.fromkeys(forbidden_ids, _FORBIDDEN),
    }
    if sampling.stop_id is not None:
        settings["stop_token_ids"] = [sampling.stop_id]
    return settings


def pictures_of(prompt: Prompt) -> list[Image.Image]:
    """The prompt's pictures, in order."""
    return [picture.pil for shown in prompt.shown for picture in shown.pictures]


def with_single_image_tokens(ids: Sequence[int], image_token_id: int) -> list[int]:
    """The tokens with one image token for each picture: vLLM repeats it by itself."""
    kept: list[int] = []
    before = None
    for token in ids:
        is_repeated = token == image_token_id and before == image_token_id
        if not is_repeated:
            kept.append(token)
        before = token
    return kept


def image_runs(ids: Sequence[int], image_token_id: int) -> Iterator[dict[str, int]]:
    """`offset` and `length` of each picture's tokens."""
    for is_image, run in itertools.groupby(
        enumerate(ids), key=lambda pair: pair[1] == image_token_id
    ):
        if is_image:
            places = [position for position, _ in run]
            yield {"offset": places[0], "length": len(places)}
