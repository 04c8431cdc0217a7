"""Messages, pictures and replies in the form of NeMo Gym's Responses API."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from vagen_adapters.context import HIDDEN, Message
from vagen_adapters.errors import not_importable
from vagen_envs.pictures import Picture

try:
    from nemo_gym.openai_utils import NeMoGymEasyInputMessage, NeMoGymResponse
    from resources_servers.gymnasium import EnvResetResponse, EnvStepResponse, extract_text
except ImportError as error:
    raise not_importable(
        "vagen_adapters.nemo_gym_messages", "nemo-gym", "nemo_gym", error
    ) from error


def content_of(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Convert the parts of a message to those of OpenAI's Responses API."""
    return [
        {"type": "input_text", "text": part["text"]}
        if part["type"] == "text"
        else {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
        for part in parts
    ]


def items_of(messages: Sequence[Message]) -> list[Any]:
    """Convert messages to items of the Responses API; replies that the policy keeps are the model's
    own items.
    """
    items: list[Any] = []
    for message in messages:
        content = message["content"]
        if HIDDEN in message:
            items += message[HIDDEN]
        else:
            content = content if isinstance(content, str) else content_of(content)
            items.append(NeMoGymEasyInputMessage(role=message["role"], content=content))
    return items


def pictures_of(answer: EnvResetResponse | EnvStepResponse) -> list[Picture]:
    """Return the pictures of a server's answer: one, or none for text observations and at the
    end.
    """
    urls = (
        part["image_url"]
        for part in answer.info.get("content", ())
        if part["type"] == "input_image"
    )
    return [Picture.from_png(base64.b64decode(url.partition(",")[2])) for url in urls]


def reply_of(response: NeMoGymResponse, with_reasoning: bool) -> str:
    """Return the text to play. `with_reasoning` puts removed `<think>…</think>` back in front."""
    text: str = extract_text(response)
    if not with_reasoning or "<think>" in text:
        return text
    summaries = [item.summary for item in response.output if item.type == "reasoning"]
    thought = "".join([part.text for summary in summaries for part in summary])
    return f"<think>{thought}</think>{text}" if thought else text
