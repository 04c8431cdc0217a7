"""Google's models, through Google's SDK."""

from __future__ import annotations

import base64
import json
from typing import Any

from google import genai
from google.genai import errors, types

from vagen_benchmarks.clients.base import Answer, Client, Sampling, ending_of, status_error
from vagen_benchmarks.errors import EndpointError
from vagen_envs.chat import Message

FILTERED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR")


class GeminiClient(Client):
    """A model of the Gemini API."""

    def __init__(self, model: str, *, key: str, base_url: str | None, timeout: float) -> None:
        options = types.HttpOptions(
            base_url=base_url,
            timeout=int(timeout * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),
            client_args={"event_hooks": {"response": [lambda response: self.heard(response.headers)]}},
        )
        self._made = genai.Client(api_key=key, vertexai=False, http_options=options)
        self.model = model

    def close(self) -> None:
        self._made.close()

    def ask(self, messages: list[Message], sampling: Sampling) -> Answer:
        system, *others = messages
        config = types.GenerateContentConfig(
            system_instruction=system["content"],
            max_output_tokens=sampling.max_tokens,
            **{**sampling.chosen(), **(sampling.extra or {})},
        )
        contents: Any = [_content(message) for message in others]
        try:
            response = self._made.models.generate_content(model=self.model, contents=contents, config=config)
        except errors.APIError as error:
            headers = getattr(error.response, "headers", None) or {}
            said = error.message or str(error)
            raise status_error(int(error.code or 0), said, headers, body=json.dumps(error.details)) from error
        except (errors.UnknownApiResponseError, ValueError) as error:
            raise EndpointError("nonsense", f"not an answer: {error}") from error
        except Exception as error:
            raise _transport_error(error) from error
        return _read(response)


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


def _read(response: types.GenerateContentResponse) -> Answer:
    usage = response.usage_metadata
    asked = usage.prompt_token_count if usage else None
    written = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0) if usage else None
    if not response.candidates:
        if response.prompt_feedback and response.prompt_feedback.block_reason:
            return Answer("", "filtered", asked, written)
        raise EndpointError("nonsense", f"not an answer: it has no candidates: {response!r:.300}")
    candidate = response.candidates[0]
    parts = (candidate.content and candidate.content.parts) or []
    text = "".join(part.text or "" for part in parts if not part.thought)
    thoughts = "".join(part.text or "" for part in parts if part.thought)
    finish = candidate.finish_reason.value if candidate.finish_reason else None
    ending = ending_of(finish, text, length="MAX_TOKENS", filtered=FILTERED, refused=False)
    return Answer(text, ending, asked, written, thoughts or None)


def _transport_error(error: Exception) -> Exception:
    """The HTTP library's error under our name for it. The SDK passes it through, whichever library it uses."""
    names = {base.__name__ for base in type(error).__mro__}
    if "TimeoutException" in names:
        return EndpointError("timeout", "no answer in time")
    if "TransportError" in names or isinstance(error, OSError):
        return EndpointError("unreachable", f"{type(error).__name__}: {error}")
    return error
