"""OpenAI-compatible endpoints: OpenAI itself, vLLM, SGLang, Ollama, OpenRouter and the like."""

from __future__ import annotations

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
        token_field: str = "max_tokens",  # noqa: S107
    ) -> None:
        super().__init__(openai.OpenAI(api_key=key or "none", base_url=base_url), "/chat/completions", timeout)
        self.model, self._token_field = model, token_field

    def _body(self, messages: list[Message], sampling: Sampling) -> dict[str, Any]:
        limit = {self._token_field: sampling.max_tokens}
        return {"model": self.model, "messages": messages, **limit, **sampling.chosen(), **(sampling.extra or {})}

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
        )
