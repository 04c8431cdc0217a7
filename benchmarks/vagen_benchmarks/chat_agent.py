"""Models behind an OpenAI-compatible endpoint: OpenAI itself, vLLM, SGLang, Ollama, OpenRouter and the like."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import openai
import tenacity

from vagen_benchmarks.agents import Agent, Call, Ending, Game, Reply
from vagen_benchmarks.errors import EndpointError, FailureKind, ProtocolError, Stopped
from vagen_envs.chat import History, Message, chat_messages

KEY = "OPENAI_API_KEY"
LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model is sampled. The defaults are VAGEN's table 21, with the larger of its two token limits.

    Attributes:
        max_tokens: of a reply.
        temperature, top_p, seed: left to the endpoint where `None`.
        token_field: the request's name for `max_tokens`; OpenAI's own API wants `max_completion_tokens`.
        extra: further fields of the request body, as they are.
    """

    max_tokens: int = 400
    temperature: float | None = 0.7
    top_p: float | None = None
    seed: int | None = None
    token_field: str = "max_tokens"  # noqa: S105  (tokens of text)
    extra: Mapping[str, Any] | None = None

    def body(self) -> dict[str, Any]:
        """The fields of a request."""
        wanted = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed}
        named = {name: value for name, value in wanted.items() if value is not None}
        return {self.token_field: self.max_tokens, **named, **(self.extra or {})}


class ChatAgent(Agent):
    """A model that answers chat completions.

    Args:
        model: as the endpoint calls it.
        base_url: of the endpoint, such as `http://localhost:8000/v1`; `OPENAI_BASE_URL`, then OpenAI's own.
        attempts: requests for one reply before the episode fails.
        timeout: seconds for one request.
        first_wait: seconds before the second attempt; it doubles, with jitter, up to a minute.

    Raises:
        ProtocolError: OpenAI's own endpoint is meant and `OPENAI_API_KEY` isn't set.
    """

    calls_a_model = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        sampling: Sampling | None = None,
        history: History | None = None,
        attempts: int = 6,
        timeout: float = 120.0,
        first_wait: float = 1.0,
    ) -> None:
        self.name = f"openai:{model}"
        self.model = model
        self.sampling = sampling or Sampling()
        self.history = history or History()
        base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        self._key = os.environ.get(KEY, "")
        if not self._key and base_url is None:
            raise ProtocolError(
                f"{self.name} needs a key: set the environment variable {KEY}, "
                "or give --base-url for a server of your own"
            )
        # Retries are ours: they are counted, recorded and can be stopped.
        self._client = openai.OpenAI(
            api_key=self._key or "none", base_url=base_url, max_retries=0, timeout=openai.Timeout(timeout, connect=10.0)
        )
        self._stop = threading.Event()
        self._attempts = attempts
        self._backoff = tenacity.wait_random_exponential(multiplier=first_wait, max=LONGEST_WAIT)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "sampling": asdict(self.sampling), "history": asdict(self.history)}

    def stop(self) -> None:
        self._stop.set()
        self._client.close()

    def reply(self, game: Game) -> Reply:
        messages = chat_messages(game.env.system_prompt, game.turns, game.now, history=self.history)
        began = time.perf_counter()
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._attempts),
            wait=self._wait,
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, EndpointError) and error.retry),
            sleep=self._sleep,
            reraise=True,
        )
        data: dict[str, Any] = retrying(self._ask, messages)
        seconds = time.perf_counter() - began
        return self._read(data, seconds, retrying.statistics.get("attempt_number", 1))

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.after if isinstance(error, EndpointError) else None
        return self._backoff(state) if asked is None else min(max(asked, 0.0), LONGEST_WAIT)

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped("stopped while waiting to ask again")

    def _ask(self, messages: list[Message]) -> dict[str, Any]:
        """One request. Raises EndpointError for whatever isn't a chat completion."""
        if self._stop.is_set():
            raise Stopped("stopped before asking")
        body = {"model": self.model, "messages": messages, **self.sampling.body()}
        try:
            # Not `chat.completions.create`: it validates and copies every message, 1.5 ms of CPU a request.
            data = self._client.post("/chat/completions", body=body, cast_to=object)
        except openai.APITimeoutError as error:
            raise EndpointError("timeout", "no answer in time") from error
        except openai.APIStatusError as error:
            raise self._status_error(error) from error
        except openai.APIConnectionError as error:
            if self._stop.is_set():
                raise Stopped("stopped while asking") from error
            raise EndpointError("unreachable", self._clean(f"{error} {error.__cause__ or ''}".strip())) from error
        except (openai.OpenAIError, ValueError) as error:  # a body that says it is JSON and isn't
            raise EndpointError("nonsense", self._clean(f"not a chat completion: {error}")) from error
        except RuntimeError as error:  # the client was closed by stop()
            if self._stop.is_set():
                raise Stopped("stopped while asking") from error
            raise
        try:
            message = data["choices"][0]["message"]  # type: ignore[index]
            if not isinstance(message, dict) or not isinstance(message.get("content"), str | list | None):
                raise TypeError("its message has no content")
        except (TypeError, KeyError, IndexError) as error:
            raise EndpointError("nonsense", self._clean(f"not a chat completion ({error!r}): {data!r:.300}")) from error
        return data  # type: ignore[return-value]

    def _status_error(self, error: openai.APIStatusError) -> EndpointError:
        status = error.status_code
        message = self._clean(f"HTTP {status}: {error.message}")
        kind: FailureKind = "rejected"
        if status in (408, 504):
            kind = "timeout"
        elif status == 429:
            kind = "rate_limited"
        elif status >= 500:
            kind = "server_error"
        out_of_money = error.code == "insufficient_quota"
        return EndpointError(
            kind, message, retry=(kind != "rejected" or status in (409, 425)) and not out_of_money,
            after=_retry_after(error.response.headers),
        )  # fmt: skip

    def _read(self, data: dict[str, Any], seconds: float, attempts: int) -> Reply:
        choice = data["choices"][0]
        message = choice["message"]
        content = message.get("content") or ""
        if isinstance(content, list):  # some servers answer in parts
            content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        refusal = message.get("refusal")
        text = content or (refusal if isinstance(refusal, str) else "")
        finish = choice.get("finish_reason")
        ending: Ending = "stop"
        if refusal:
            ending = "refusal"
        elif finish == "length":
            ending = "length"
        elif finish == "content_filter":
            ending = "filtered"
        elif not text:
            ending = "empty"
        usage = data.get("usage") if isinstance(data.get("usage"), dict) else {}
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        call = Call(
            ending,
            round(seconds, 4),
            attempts,
            _count(usage, "prompt_tokens"),
            _count(usage, "completion_tokens"),
            self._clean(reasoning, limit=None) if isinstance(reasoning, str) and reasoning else None,
        )
        return Reply(self._clean(text, limit=None), call)

    def _clean(self, text: str, limit: int | None = 500) -> str:
        """Without the key, should an endpoint echo it: nothing that is stored ever holds it."""
        clean = text.replace(self._key, f"[{KEY}]") if self._key else text
        return clean if limit is None or len(clean) <= limit else clean[:limit] + "…"


def _count(usage: Mapping[str, Any] | None, name: str) -> int | None:
    value = (usage or {}).get(name)
    return value if isinstance(value, int) else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds an endpoint asks to wait: `retry-after-ms`, or `retry-after` in seconds."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return float(headers[name]) / unit
        except (KeyError, ValueError):
            continue
    return None
