"""OpenAI-compatible endpoints: OpenAI itself, vLLM, SGLang, Ollama, OpenRouter and the like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openai

from vagen_benchmarks.clients.base import Answer, Sampling, count, ending_of
from vagen_benchmarks.clients.http_sdk import HttpSdkClient
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
        message = choice["message"]
        content = message["content"] if "content" in message else message.get("refusal")
        if isinstance(content, list):  # some servers answer in parts
            content = "".join(part.get("text") or "" for part in content)
        if not isinstance(content, str | None):
            raise TypeError("its content is not text")
        refusal = message.get("refusal")
        text = content or (refusal if isinstance(refusal, str) else "")
        ending = ending_of(
            choice.get("finish_reason"), text, length="length", filtered=("content_filter",), refused=bool(refusal)
        )
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        usage = data.get("usage")
        return Answer(
            text,
            ending,
            count(usage, "prompt_tokens"),
            count(usage, "completion_tokens"),
            reasoning if isinstance(reasoning, str) else None,
            count(usage, "prompt_tokens_details", "cached_tokens"),
            count(usage, "prompt_tokens_details", "cache_write_tokens"),
            count(usage, "completion_tokens_details", "reasoning_tokens"),
        )
