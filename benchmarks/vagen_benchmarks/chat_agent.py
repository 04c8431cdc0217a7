"""A model as an agent: prompts from the history, patience with its endpoint, and what each reply cost."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import tenacity

from vagen_benchmarks.agents import Agent, Call, Game, Reply
from vagen_benchmarks.clients.base import Answer, Sampling
from vagen_benchmarks.errors import EndpointError, Stopped
from vagen_benchmarks.models import Model
from vagen_envs.chat import History, Message, chat_messages

LONGEST_WAIT = 60.0
"""Seconds between two requests, whatever the endpoint asks for."""


class ChatAgent(Agent):
    """A model that answers.

    Args:
        model: which, and where.
        base_url: of the endpoint, if not the provider's.
        attempts: requests for one reply before the episode fails.
        timeout: seconds for one request.
        first_wait: seconds before the second attempt; it doubles, with jitter, up to a minute.

    Raises:
        ProtocolError: the provider's SDK or its key is missing.
    """

    calls_a_model = True

    def __init__(
        self,
        model: Model,
        *,
        base_url: str | None = None,
        sampling: Sampling | None = None,
        history: History | None = None,
        attempts: int = 6,
        timeout: float = 120.0,
        first_wait: float = 1.0,
    ) -> None:
        self.name = model.name
        self.model = model
        self.price = model.price
        self.sampling = sampling or model.sampling(None, None)
        self.history = history or History()
        self._key = model.key()
        self._client = model.client(base_url, timeout)
        self._gate = _Gate()
        self._client.heard = self._gate.heard
        self._stop = threading.Event()
        self._attempts = attempts
        self._backoff = tenacity.wait_random_exponential(multiplier=first_wait, max=LONGEST_WAIT)

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": self.model.id,
            "sampling": asdict(self.sampling),
            "history": asdict(self.history),
        }

    def stop(self) -> None:
        self._stop.set()
        self._client.close()

    def reply(self, game: Game) -> Reply:
        messages = chat_messages(
            game.env.system_prompt, game.turns, game.now, history=self.history, pictures=self._client.pictures
        )
        began = time.perf_counter()
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._attempts),
            wait=self._wait,
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, EndpointError) and error.retry),
            sleep=self._sleep,
            reraise=True,
        )
        answer: Answer = retrying(self._ask, messages)
        seconds = round(time.perf_counter() - began, 4)
        attempts = retrying.statistics.get("attempt_number", 1)
        reasoning = answer.reasoning and self._clean(answer.reasoning, limit=None)
        call = Call(answer.ending, seconds, attempts, answer.prompt_tokens, answer.completion_tokens, reasoning)
        return Reply(self._clean(answer.text, limit=None), call)

    def _ask(self, messages: list[Message]) -> Answer:
        self._sleep(self._gate.seconds())
        try:
            return self._client.ask(messages, self.sampling)
        except EndpointError as error:
            if self._stop.is_set():
                raise Stopped("stopped while asking") from error
            if error.kind == "rate_limited" and error.after is not None:
                self._gate.shut(error.after)
            raise EndpointError(
                error.kind, self._clean(str(error)), retry=error.retry, after=error.after
            ) from error.__cause__
        except RuntimeError as error:  # the client was closed by stop()
            if self._stop.is_set():
                raise Stopped("stopped while asking") from error
            raise

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.after if isinstance(error, EndpointError) else None
        return self._backoff(state) if asked is None else min(max(asked, 0.0), LONGEST_WAIT)

    def _sleep(self, seconds: float) -> None:
        if self._stop.is_set() or (seconds > 0 and self._stop.wait(seconds)):
            raise Stopped("stopped before asking")

    def _clean(self, text: str, limit: int | None = 500) -> str:
        """Without the key, should an endpoint echo it: nothing that is stored ever holds it."""
        clean = text.replace(self._key, f"[{self.model.provider.key}]") if self._key else text
        return clean if limit is None or len(clean) <= limit else clean[:limit] + "…"


class _Gate:
    """Holds all threads back while the endpoint says that its limit is reached."""

    def __init__(self) -> None:
        self._open_at = 0.0

    def seconds(self) -> float:
        """How long to wait before a request."""
        return min(LONGEST_WAIT, self._open_at - time.monotonic())

    def shut(self, seconds: float) -> None:
        """Let nobody through for so long."""
        self._open_at = max(self._open_at, time.monotonic() + min(seconds, LONGEST_WAIT))

    def heard(self, headers: Mapping[str, str]) -> None:
        """Read a response's rate limits: OpenAI's `x-ratelimit-*` or Anthropic's `anthropic-ratelimit-*`."""
        for form in ("x-ratelimit-{1}-{0}", "anthropic-ratelimit-{0}-{1}"):
            for what in ("requests", "tokens"):
                if headers.get(form.format(what, "remaining")) == "0":
                    self.shut(_until(headers.get(form.format(what, "reset"), "")))


def _until(reset: str) -> float:
    """Seconds from `6m0s`, `120ms`, `1.5` or an RFC 3339 time; 0 if it is none of them."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "": 1.0}
    if re.fullmatch(r"\d+(\.\d+)?|(\d+(\.\d+)?(h|ms|m|s))+", reset):
        return sum(float(value) * units[unit] for value, _, unit in re.findall(r"(\d+(\.\d+)?)(h|ms|m|s|)", reset))
    try:
        return max(0.0, (datetime.fromisoformat(reset) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
