"""Google's models, through Google's SDK."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import httpx2
from google import genai
from google.genai import errors, types
from pydantic import ValidationError

from vagen_adapters.context import HIDDEN, Message
from vagen_benchmarks.clients.base import (
    Answer,
    Sampling,
    count,
    ending_of,
    in_a_line,
    name_in,
    status_error,
)
from vagen_benchmarks.clients.http import SdkClient
from vagen_benchmarks.errors import EndpointError


class GeminiClient(SdkClient):
    """A model of the Gemini API."""

    def _make_sdk(self, http: httpx2.AsyncClient) -> Any:
        # The SDK adds the version by itself.
        version = re.search(r"/(v1(beta|alpha)?)/*$", self._url or "")
        options = types.HttpOptions(
            base_url=self._url[: version.start()] if self._url and version else self._url,
            api_version=version and version[1],
            timeout=int(self._timeout * 1000),
            headers=self._headers or None,
            retry_options=types.HttpRetryOptions(attempts=1),
            httpx_async_client=http,
        )
        return genai.Client(api_key=self._key, vertexai=False, http_options=options).aio

    async def _send(self, sdk: Any, messages: list[Message], sampling: Sampling) -> httpx2.Response:
        contents: Any = [_content(message) for message in messages[1:]]
        config = _config(str(messages[0]["content"]), sampling)
        try:
            made = await sdk.models.generate_content(
                model=self.model, contents=contents, config=config
            )
        except errors.APIError as error:
            if isinstance(error.response, httpx2.Response):
                return error.response
            words = error.message or str(error)
            raise status_error(
                int(error.code or 0), words, {}, body=json.dumps(error.details)
            ) from error
        except (errors.UnknownApiResponseError, ValueError) as error:
            raise EndpointError("nonsense", f"not an answer: {in_a_line(str(error))}") from error
        raw = made.sdk_http_response
        headers = dict((raw and raw.headers) or {})
        return httpx2.Response(200, headers=headers, content=((raw and raw.body) or "").encode())

    def _read(self, data: Any) -> Answer:
        usage = data.get("usageMetadata")
        asked, thought, cached, replied = (
            count(usage, f"{name}TokenCount")
            for name in ("prompt", "thoughts", "cachedContent", "candidates")
        )
        candidates = data.get("candidates")
        if not candidates:
            if (data.get("promptFeedback") or {}).get("blockReason"):
                return Answer("", "filtered", asked, 0, served=name_in(data, "modelVersion"))
            raise KeyError("candidates")
        candidate = candidates[0]
        parts = (candidate.get("content") or {}).get("parts") or []
        text = _joined(part for part in parts if not part.get("thought"))
        thoughts = _joined(part for part in parts if part.get("thought"))
        written = _written(usage, replied, thought, text)
        ending = ending_of(text, candidate.get("finishReason"))
        signed = text and any(part.get("thought") or part.get("thoughtSignature") for part in parts)
        hidden = parts if signed else None
        return Answer(
            text,
            ending,
            asked,
            written,
            thoughts or None,
            cached,
            None,
            thought,
            hidden,
            served=name_in(data, "modelVersion"),
        )


def _joined(parts: Iterable[Mapping[str, Any]]) -> str:
    return "".join(part.get("text") or "" for part in parts)


def _written(usage: Any, replied: int | None, thought: int | None, text: str) -> int | None:
    """Tokens of the reply and its reasoning; None where the client has to count them itself.

    Gemini gives no number for an empty reply.
    """
    if usage is None or (replied is None and text):
        return None
    return (replied or 0) + (thought or 0)


def _config(system: str, sampling: Sampling) -> types.GenerateContentConfig:
    """The settings of a request. Raises EndpointError for those that Google's SDK refuses."""
    thinking: dict[str, Any] = (
        {"thinking_level": sampling.effort.upper()} if sampling.effort else {}
    )
    if (sampling.extra or {}).get("include_thoughts"):
        thinking["include_thoughts"] = True
    extra = {
        name: value for name, value in (sampling.extra or {}).items() if name != "include_thoughts"
    }
    more: dict[str, Any] = {**sampling.chosen(), **extra}
    try:
        if thinking:
            more = {"thinking_config": types.ThinkingConfig(**thinking), **more}
        return types.GenerateContentConfig(
            system_instruction=system,
            max_output_tokens=sampling.limit,
            seed=sampling.seed,
            # the SDK refuses a good reply for a number that is none
            should_return_http_response=True,
            **more,
        )
    except ValidationError as error:
        words = f"Google's SDK refuses {sampling.extra or sampling.effort!r}: {error}"
        raise EndpointError("rejected", words, retry=False) from error


def _content(message: Message) -> types.Content:
    role = "model" if message["role"] == "assistant" else "user"
    content = message["content"]
    if HIDDEN in message:  # JSON mode reads signatures as base64
        return types.Content.model_validate_json(
            json.dumps({"role": role, "parts": message[HIDDEN]})
        )
    if isinstance(content, str):
        return types.Content(role=role, parts=[types.Part.from_text(text=content or "(no reply)")])
    return types.Content(role=role, parts=[_part(part) for part in content])


def _part(part: dict[str, Any]) -> types.Part:
    if part["type"] == "text":
        return types.Part.from_text(text=part["text"])
    data = part["image_url"]["url"].partition(",")[2]
    return types.Part.from_bytes(data=base64.b64decode(data), mime_type="image/png")
