"""OpenAI's Responses API: stateless, with encrypted reasoning that goes back with the next
request.
"""

from __future__ import annotations

from typing import Any

import openai

from vagen_adapters.context import HIDDEN, Message
from vagen_benchmarks.clients.base import Answer, Sampling, count, ending_of, name_in
from vagen_benchmarks.clients.http import PostingClient
from vagen_benchmarks.clients.responses import error_of
from vagen_benchmarks.errors import ProtocolError


class OpenAIResponsesClient(PostingClient):
    """A model that answers `/responses`. Nothing is stored at the provider; requests hold the whole
    context.
    """

    sdk_class = openai.AsyncOpenAI
    status_errors = openai.APIStatusError
    path = "/responses"
    ends = ("/responses",)

    def check(self, sampling: Sampling) -> None:
        if sampling.seed is not None:
            raise ProtocolError(
                f"the Responses API takes no seed; leave --seed out for {self.model}"
            )

    def _body(self, messages: list[Message], sampling: Sampling) -> dict[str, Any]:
        system, *others = messages
        body: dict[str, Any] = {
            "model": self.model,
            "instructions": system["content"],
            "input": [item for message in others for item in _items(message)],
            "max_output_tokens": sampling.limit,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            **sampling.chosen(),
        }
        if sampling.effort is not None:
            body["reasoning"] = {"effort": sampling.effort}
        return {**body, **(sampling.extra or {})}

    def _read(self, data: Any) -> Answer:
        output = data["output"]
        if data.get("status") in ("failed", "cancelled"):
            raise error_of({"message": f"the reply broke off: its status is {data['status']}"})
        parts = _parts_of_messages(output)
        written = "".join(part["text"] for part in parts if part["type"] == "output_text")
        refusal = "".join(part["refusal"] for part in parts if part["type"] == "refusal")
        reasoning = [item for item in output if item["type"] == "reasoning"]
        thoughts = _thoughts(reasoning)
        text = written or refusal
        usage = data.get("usage")
        cut = (data.get("incomplete_details") or {}).get("reason")
        return Answer(
            text,
            ending_of(text, cut, refused=bool(refusal)),
            count(usage, "input_tokens"),
            count(usage, "output_tokens"),
            "\n".join(thoughts) or None,
            count(usage, "input_tokens_details", "cached_tokens"),
            None,
            count(usage, "output_tokens_details", "reasoning_tokens"),
            output if text and reasoning else None,
            served=name_in(data, "model"),
        )


def _parts_of_messages(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the model has written, item by item."""
    messages = [item["content"] for item in output if item["type"] == "message"]
    return [part for content in messages for part in content]


def _thoughts(reasoning: list[dict[str, Any]]) -> list[str]:
    """The texts of the reasoning, or of its summaries where it is withheld."""
    texts: list[str] = []
    for item in reasoning:
        parts = item.get("content") or item.get("summary") or ()
        texts += [part["text"] for part in parts]
    return texts


def _items(message: Message) -> list[dict[str, Any]]:
    """The input items of a message; a reply with its reasoning is the items that the model gave."""
    content = message["content"]
    if HIDDEN in message:
        items: list[dict[str, Any]] = message[HIDDEN]
        return items
    if isinstance(content, str):
        return [{"role": "assistant", "content": content}]
    parts = [
        {"type": "input_text", "text": part["text"]}
        if part["type"] == "text"
        else {"type": "input_image", "image_url": part["image_url"]["url"]}
        for part in content
    ]
    return [{"role": "user", "content": parts}]
