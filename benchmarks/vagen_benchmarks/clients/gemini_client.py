"""Google's models, through Google's SDK."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from google import genai
from google.genai import errors, types
from pydantic import ValidationError

from vagen_benchmarks.clients.base import Answer, Client, Sampling, count, ending_of, in_a_line, status_error
from vagen_benchmarks.clients.http_exchange import Response
from vagen_benchmarks.clients.http_sdk import answered
from vagen_benchmarks.errors import EndpointError
from vagen_envs.chat import Message

MOST_AT_ONCE = 512
"""Requests in flight, each in a thread."""
FILTERED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR")


class GeminiClient(Client):
    """A model of the Gemini API. The SDK is called in threads: a request takes it milliseconds of CPU either way."""

    def __init__(
        self, model: str, *, key: str, base_url: str | None, timeout: float, headers: Mapping[str, str] | None = None
    ) -> None:
        version = re.search(r"/(v1(beta|alpha)?)/*$", base_url or "")  # which the SDK adds by itself
        options = types.HttpOptions(
            base_url=base_url[: version.start()] if base_url and version else base_url,
            api_version=version and version[1],
            timeout=int(timeout * 1000),
            headers=dict(headers or {}) or None,
            retry_options=types.HttpRetryOptions(attempts=1),
            # A redirect would send the key to an address that nobody named.
            client_args={
                "event_hooks": {"response": [lambda response: self.heard(response.headers)]},
                "follow_redirects": False,
            },
        )
        self._made = genai.Client(api_key=key, vertexai=False, http_options=options)
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="gemini")
        self._timeout = timeout
        self.model = model

    async def close(self) -> None:
        self._made.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def ask(self, messages: list[Message], sampling: Sampling) -> Answer:
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._threads, self._ask, messages, sampling)
        try:  # the SDK's own timeout begins anew with each byte
            return await asyncio.wait_for(asked, self._timeout)
        except TimeoutError as error:
            raise EndpointError("timeout", "no whole answer in time") from error

    def _ask(self, messages: list[Message], sampling: Sampling) -> Answer:
        system, *others = messages
        thinking: dict[str, Any] = {"thinking_level": sampling.effort.upper()} if sampling.effort else {}
        if (sampling.extra or {}).get("include_thoughts"):
            thinking["include_thoughts"] = True
        extra = {name: value for name, value in (sampling.extra or {}).items() if name != "include_thoughts"}
        contents: Any = [_content(message) for message in others]
        more: dict[str, Any] = {**sampling.chosen(), **extra}
        try:
            if thinking:
                more = {"thinking_config": types.ThinkingConfig(**thinking), **more}
            config = types.GenerateContentConfig(
                system_instruction=system["content"],
                max_output_tokens=sampling.limit,
                seed=sampling.seed,
                should_return_http_response=True,  # the SDK refuses a good reply for a number that is none
                **more,
            )
        except ValidationError as error:
            said = f"Google's SDK refuses {sampling.extra or sampling.effort!r}: {error}"
            raise EndpointError("rejected", said, retry=False) from error
        try:
            made = self._made.models.generate_content(model=self.model, contents=contents, config=config)
        except errors.APIError as error:
            whole = _response_of(error)
            if whole is not None and whole.status >= 300:
                return answered(whole, _read)
            said = error.message or str(error)
            raise status_error(int(error.code or 0), said, {}, body=json.dumps(error.details)) from error
        except (errors.UnknownApiResponseError, ValueError) as error:
            raise EndpointError("nonsense", f"not an answer: {in_a_line(str(error))}") from error
        except Exception as error:
            raise _transport_error(error) from error
        raw = made.sdk_http_response
        headers = {name.lower(): value for name, value in ((raw and raw.headers) or {}).items()}
        return answered(Response(200, "", headers, ((raw and raw.body) or "").encode()), _read)


def _response_of(error: errors.APIError) -> Response | None:
    """The response that the SDK has made an error of, if it kept it."""
    kept = error.response
    body = getattr(kept, "content", None)
    if not isinstance(body, bytes):
        return None
    headers = {name.lower(): value for name, value in kept.headers.items()}
    return Response(kept.status_code, str(getattr(kept, "reason_phrase", "")), headers, body)


def _content(message: Message) -> types.Content:
    role = "model" if message["role"] == "assistant" else "user"
    content = message["content"]
    if isinstance(content, str):
        return types.Content(role=role, parts=[types.Part.from_text(text=content or "(no reply)")])
    return types.Content(role=role, parts=[_part(part) for part in content])


def _part(part: dict[str, Any]) -> types.Part:
    if part["type"] == "text":
        return types.Part.from_text(text=part["text"])
    data = part["image_url"]["url"].partition(",")[2]
    return types.Part.from_bytes(data=base64.b64decode(data), mime_type="image/png")


def _read(data: Any) -> Answer:
    usage = data.get("usageMetadata")
    asked, thought, cached, replied = (
        count(usage, f"{name}TokenCount") for name in ("prompt", "thoughts", "cachedContent", "candidates")
    )
    candidates = data.get("candidates")
    if not candidates:
        if (data.get("promptFeedback") or {}).get("blockReason"):
            return Answer("", "filtered", asked, 0)
        raise KeyError("candidates")
    candidate = candidates[0]
    parts = (candidate.get("content") or {}).get("parts") or []
    text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
    thoughts = "".join(part.get("text") or "" for part in parts if part.get("thought"))
    # A reply that is empty isn't counted; one that isn't, and for which there is no number, is counted by us.
    written = None if usage is None or (replied is None and text) else (replied or 0) + (thought or 0)
    ending = ending_of(candidate.get("finishReason"), text, length=("MAX_TOKENS",), filtered=FILTERED, refused=False)
    return Answer(text, ending, asked, written, thoughts or None, cached, None, thought)


def _transport_error(error: Exception) -> Exception:
    """The HTTP library's error under our name for it. The SDK passes it through, whichever library it uses."""
    names = {base.__name__ for base in type(error).__mro__}
    if "TimeoutException" in names:
        return EndpointError("timeout", "no answer in time")
    if "TransportError" in names or isinstance(error, OSError):
        return EndpointError("unreachable", f"{type(error).__name__}: {error}")
    return error
