"""Anthropic's models, through Anthropic's SDK."""

from __future__ import annotations

from typing import Any

import anthropic

from vagen_adapters.context import HIDDEN, Message
from vagen_benchmarks.clients.base import Answer, Sampling, count, ending_of, name_in
from vagen_benchmarks.clients.http import PostingClient
from vagen_benchmarks.errors import ProtocolError

THINKING = ("thinking", "redacted_thinking")
"""Blocks of hidden reasoning, with a signature or encrypted."""


class AnthropicClient(PostingClient):
    """A model that answers Anthropic's messages."""

    sdk_class = anthropic.AsyncAnthropic
    status_errors = anthropic.APIStatusError
    path = "/v1/messages"
    ends = ("/messages", "/v1")

    def check(self, sampling: Sampling) -> None:
        if sampling.seed is not None:
            raise ProtocolError(f"Anthropic's API takes no seed; leave --seed out for {self.model}")

    def _body(self, messages: list[Message], sampling: Sampling) -> dict[str, Any]:
        system, *others = messages
        asked = [
            {"role": each["role"], "content": each.get(HIDDEN) or _blocks(each["content"])}
            for each in others
        ]
        # The end of each prompt is written to the cache, where the next turn's prompt finds it
        # again: what is read is the longest prefix that was written, among the 20 blocks before a
        # mark (a turn adds at most four).
        asked[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        body: dict[str, Any] = {
            "model": self.model,
            "system": [
                {"type": "text", "text": system["content"], "cache_control": {"type": "ephemeral"}}
            ],
            "messages": asked,
            "max_tokens": sampling.limit,
            **sampling.chosen(),
        }
        if sampling.effort is not None:
            body["output_config"] = {"effort": sampling.effort}
        return {**body, **(sampling.extra or {})}

    def _read(self, data: Any) -> Answer:
        blocks = data["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        thoughts = [block.get("thinking") or "" for block in blocks if block["type"] == "thinking"]
        usage = data.get("usage")
        plain, written, read = (
            count(usage, name)
            for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        )
        return Answer(
            text,
            ending_of(text, data["stop_reason"]),
            None if plain is None else plain + (written or 0) + (read or 0),
            count(usage, "output_tokens"),
            "\n".join(thoughts) or None,
            read,
            written,
            count(usage, "output_tokens_details", "thinking_tokens"),
            blocks if text and any(block["type"] in THINKING for block in blocks) else None,
            served=name_in(data, "model"),
        )


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert content to Anthropic's form. The API rejects empty text, so a placeholder stands for
    it.
    """
    if isinstance(content, str):
        return [{"type": "text", "text": content if content.strip() else "(no reply)"}]
    return [
        dict(part) if part["type"] == "text" else _image(part["image_url"]["url"])
        for part in content
    ]


def _image(url: str) -> dict[str, Any]:
    head, _, data = url.partition(",")
    kind = head.removeprefix("data:").removesuffix(";base64")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
