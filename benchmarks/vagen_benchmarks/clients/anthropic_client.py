"""Anthropic's models, through Anthropic's SDK."""

from __future__ import annotations

from typing import Any

import anthropic

from vagen_benchmarks.clients.base import Answer, Sampling, ending_of
from vagen_benchmarks.clients.http_sdk import HttpSdkClient
from vagen_envs.chat import Message


class AnthropicClient(HttpSdkClient):
    """A model that answers Anthropic's messages."""

    def __init__(self, model: str, *, key: str, base_url: str | None, timeout: float) -> None:
        super().__init__(anthropic.Anthropic(api_key=key, base_url=base_url), "/v1/messages", timeout)
        self.model = model

    def _body(self, messages: list[Message], sampling: Sampling) -> dict[str, Any]:
        system, *others = messages
        return {
            "model": self.model,
            "system": system["content"],
            "messages": [{"role": each["role"], "content": _blocks(each["content"])} for each in others],
            "max_tokens": sampling.max_tokens,
            **sampling.chosen(),
            **(sampling.extra or {}),
        }

    def _read(self, data: Any) -> Answer:
        blocks = data["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        thoughts = [block.get("thinking") or "" for block in blocks if block["type"] == "thinking"]
        stop, usage = data["stop_reason"], data.get("usage") or {}
        cached = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        return Answer(
            text,
            ending_of(stop, text, length="max_tokens", filtered=(), refused=stop == "refusal"),
            sum(usage.get(name) or 0 for name in cached) if usage else None,
            usage.get("output_tokens"),
            "\n".join(thoughts) or None,
        )


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Content in Anthropic's form. An empty reply can't be sent back, so it is said to have been empty."""
    if isinstance(content, str):
        return [{"type": "text", "text": content if content.strip() else "(no reply)"}]
    return [part if part["type"] == "text" else _image(part["image_url"]["url"]) for part in content]


def _image(url: str) -> dict[str, Any]:
    head, _, data = url.partition(",")
    kind = head.removeprefix("data:").removesuffix(";base64")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
