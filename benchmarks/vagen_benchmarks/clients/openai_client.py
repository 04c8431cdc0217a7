"""OpenAI-compatible endpoints: OpenAI itself, vLLM, SGLang, Ollama, OpenRouter and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import openai

from vagen_benchmarks.clients.base import Answer, Sampling, count, ending_of
from vagen_benchmarks.clients.http_sdk import HttpSdkClient, told_error
from vagen_envs.chat import Message


class OpenAIClient(HttpSdkClient):
    """A model that answers chat completions.

    Args:
        token_field: the request's name for the limit of tokens; OpenAI's own API wants `max_completion_tokens`.
    """

    def __init__(
        self,
        model: str,
        *,
        key: str,
        base_url: str | None,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        token_field: str = "max_tokens",  # noqa: S107
    ) -> None:
        made = openai.OpenAI(api_key=key or "none", base_url=base_url)
        super().__init__(made, base_url, "/chat/completions", timeout, headers)
        self.model, self._token_field = model, token_field

    def _body(self, messages: list[Message], sampling: Sampling) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": messages, self._token_field: sampling.limit}
        body.update(sampling.chosen())
        if sampling.effort is not None:
            body["reasoning_effort"] = sampling.effort
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        return {**body, **(sampling.extra or {})}

    def _read(self, data: Any) -> Answer:
        choice = data["choices"][0]
        if isinstance(choice.get("error"), Mapping):  # a proxy's, whose provider broke off; it is no empty reply
            raise told_error(choice["error"])
        message = choice["message"]
        content = message["content"] if "content" in message else message.get("refusal")
        thought = _first_text(message, "reasoning_content", "reasoning", "thinking")
        if isinstance(content, list):  # some servers answer in parts, and some of these are thoughts
            thoughts = [part for part in content if isinstance(part, Mapping) and part.get("type") == "thinking"]
            thought = thought or _joined([part.get("thinking") for part in thoughts]) or None
            content = _joined([part for part in content if part not in thoughts])
        if not isinstance(content, str | None):
            raise TypeError("its content is not text")
        refusal = message.get("refusal")
        text = content or (refusal if isinstance(refusal, str) else "")
        ending = ending_of(
            choice.get("finish_reason"), text, length="length", filtered=("content_filter",), refused=bool(refusal)
        )
        usage = data.get("usage")
        return Answer(
            text,
            ending,
            count(usage, "prompt_tokens"),
            count(usage, "completion_tokens"),
            thought,
            count(usage, "prompt_tokens_details", "cached_tokens"),
            count(usage, "prompt_tokens_details", "cache_write_tokens"),
            count(usage, "completion_tokens_details", "reasoning_tokens"),
        )


def _first_text(message: Mapping[str, Any], *names: str) -> str | None:
    """The first of these fields that holds text."""
    return next((text for name in names if isinstance(text := message.get(name), str) and text), None)


def _joined(parts: Sequence[Any]) -> str:
    """The text of parts, of which each is a string, an object with `text`, or a list of such. Raises TypeError."""
    texts = []
    for part in parts:
        text = _joined(part) if isinstance(part, list) else part.get("text") if isinstance(part, Mapping) else part
        if not isinstance(text, str | None):
            raise TypeError("a part of its content is not text")
        texts.append(text or "")
    return "".join(texts)
