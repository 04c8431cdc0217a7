"""OpenAI-compatible endpoints: OpenAI itself, vLLM, SGLang, Ollama, OpenRouter and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from vagen_adapters.context import HIDDEN, Message
from vagen_benchmarks.clients.base import (
    FINISH,
    Answer,
    Sampling,
    count,
    ending_of,
    name_in,
    says_filtered,
)
from vagen_benchmarks.clients.http import PostingClient
from vagen_benchmarks.clients.responses import error_of
from vagen_benchmarks.errors import ProtocolError
from vagen_envs.replies.tool_calls import tool_call_reply

_THOUGHTS = ("thinking", "reasoning", "redacted_thinking")
"""Types of parts of a content that aren't the reply."""
_WANTED = "reasoning_content"
"""The field that some providers want with every reply, as their refusal names it."""


class OpenAIClient(PostingClient):
    """A model that answers chat completions.

    Args:
        token_field: the request's name for the limit of tokens; OpenAI's own API wants
            `max_completion_tokens`.
    """

    sdk_class = openai.AsyncOpenAI
    status_errors = openai.APIStatusError
    path = "/chat/completions"
    ends = ("/chat/completions",)

    def __init__(self, model: str, *, token_field: str = "max_tokens", **options: Any) -> None:  # noqa: S107
        super().__init__(model, **options)
        self._token_field = token_field
        self._returns_reasoning = False
        self._thought_field: str | None = None

    def check_reasoning(self) -> None:
        self._returns_reasoning = True
        host = urlsplit(self._url or "https://api.openai.com").hostname or ""
        if host.endswith((".openai.com", ".azure.com")):
            raise ProtocolError(
                f"{self.model}: OpenAI's chat completions hide the model's reasoning, so it "
                f"can't be sent back; use the Responses API (openai-responses:{self.model}), or "
                "reasoning=drop in --context"
            )

    async def _send(self, sdk: Any, messages: list[Message], sampling: Sampling) -> httpx2.Response:
        response = await super()._send(sdk, messages, sampling)
        missing = response.status_code == 400 and _WANTED in response.text
        if missing and self._returns_reasoning and not self._thought_field:
            self._thought_field = _WANTED  # no reply has had any yet
            response = await super()._send(sdk, messages, sampling)
        return response

    def _body(self, messages: list[Message], sampling: Sampling) -> dict[str, Any]:
        # Replies go back with the fields of their reasoning.
        sent = [{**message, **message.get(HIDDEN, {})} for message in messages]
        for message in sent:
            message.pop(HIDDEN, None)
            field = self._thought_field
            if field and message["role"] == "assistant" and not message.keys() & {*_SHOWN}:
                message[field] = (
                    " "  # some providers want reasoning with every reply, and take a blank
                )
        body: dict[str, Any] = {
            "model": self.model,
            "messages": sent,
            self._token_field: sampling.limit,
        }
        body.update(sampling.chosen())
        if sampling.effort is not None:
            body["reasoning_effort"] = sampling.effort
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        return {**body, **(sampling.extra or {})}

    def _read(self, data: Any) -> Answer:
        choices = data["choices"]
        choice = next((each for each in choices if each.get("index") == 0), choices[0])
        # From a proxy whose provider broke off; it is no empty reply.
        if isinstance(choice.get("error"), Mapping):
            raise error_of(choice["error"])
        finish = str(choice.get("finish_reason")).lower()
        if finish in FINISH["broken"]:
            raise error_of({"message": f"the reply broke off: its finish_reason is {finish}"})
        message = choice["message"]
        content, refusal, thought = _said(message)
        text = content or (refusal if isinstance(refusal, str) else "")
        text = _with_call(message, text)
        ending = ending_of(
            text,
            finish,
            choice.get("native_finish_reason"),  # OpenRouter's, of the provider behind it
            refused=bool(refusal),
            filtered=says_filtered(
                [choice.get("content_filter_results"), data.get("prompt_filter_results")]
            ),
        )
        usage = data.get("usage")
        cached = count(usage, "prompt_cache_hit_tokens")  # DeepSeek's
        hidden = {name: message[name] for name in _SHOWN if message.get(name)}
        if self._returns_reasoning and not self._thought_field:
            texts = (name for name, value in hidden.items() if isinstance(value, str))
            self._thought_field = next(texts, None)
        if isinstance(message.get("content"), list) and thought and not hidden:
            hidden = {"content": message["content"]}
        return Answer(
            text,
            ending,
            count(usage, "prompt_tokens"),
            _written(usage),
            thought or None,
            count(usage, "prompt_tokens_details", "cached_tokens") if cached is None else cached,
            count(usage, "prompt_tokens_details", "cache_write_tokens"),
            count(usage, "completion_tokens_details", "reasoning_tokens"),
            hidden if hidden and text else None,
            served=name_in(data, "model"),
            fingerprint=name_in(data, "system_fingerprint", "provider"),
        )


def _said(message: Mapping[str, Any]) -> tuple[str | None, Any, str]:
    """Content, refusal and hidden reasoning of a message. TypeError if its content isn't text."""
    has_content = "content" in message or "tool_calls" in message
    content = message.get("content") if has_content else message.get("refusal")
    refusal = message.get("refusal")
    thought = _thought(message)
    if isinstance(content, list):  # some servers answer in parts, and some of these are thoughts
        kinds = [part.get("type") if isinstance(part, Mapping) else "" for part in content]
        of_kind = list(zip(kinds, content, strict=True))
        thought = thought or _text_of([part for kind, part in of_kind if kind in _THOUGHTS])
        refusal = refusal or _text_of(
            [part.get("refusal") for kind, part in of_kind if kind == "refusal"]
        )
        content = _joined([part for kind, part in of_kind if kind not in (*_THOUGHTS, "refusal")])
    if not isinstance(content, str | None):
        raise TypeError("its content is not text")
    return content, refusal, thought


def _with_call(message: Mapping[str, Any], text: str) -> str:
    """The text with the first tool call, if the message has one, as a reply."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not calls:
        return text
    called = calls[0].get("function")
    if not isinstance(called, Mapping):
        return text
    return tool_call_reply(str(called["name"]), called.get("arguments") or "", text)


def _written(usage: Any) -> int | None:
    """Tokens of the reply and its reasoning: some, as xAI, count what was reasoned in the total
    alone.
    """
    asked, written, total = (
        count(usage, f"{name}_tokens") for name in ("prompt", "completion", "total")
    )
    hidden = count(usage, "completion_tokens_details", "reasoning_tokens")
    if written is None or asked is None or total is None or not hidden:
        return written
    return written + hidden if total == asked + written + hidden else written


def _thought(message: Mapping[str, Any]) -> str:
    """The hidden reasoning that a message shows, in the first of the fields that have any."""
    for name in _SHOWN:
        if name in message and (thought := _text_of(message[name])):
            return thought
    return ""


_SHOWN = (
    "reasoning_content",
    "reasoning",
    "thinking",
    "reasoning_text",
    "thinking_blocks",
    "reasoning_details",
)


def _text_of(value: Any) -> str:
    """The text in a field of a thought, whatever its form; what is no text, as where it is
    encrypted, is left out.
    """
    if isinstance(value, list):
        return "".join(map(_text_of, value))
    if isinstance(value, Mapping):
        names = ("thinking", "text", "summary", "reasoning")
        return next((thought for name in names if (thought := _text_of(value.get(name)))), "")
    return value if isinstance(value, str) else ""


def _joined(parts: Sequence[Any]) -> str:
    """Return the text of parts: strings, objects with `text`, or lists of these. Raises
    TypeError.
    """
    texts = []
    for part in parts:
        text: Any
        if isinstance(part, list):
            text = _joined(part)
        else:
            text = part.get("text") if isinstance(part, Mapping) else part
        if not isinstance(text, str | None):
            raise TypeError("a part of its content is not text")
        texts.append(text or "")
    return "".join(texts)
