"""What requests to a model cost, and caps on it: shared by LLM judges and the benchmark runner."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from vagen_rewards.errors import BudgetSpentError


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens, as `source` listed them on `date`.

    Attributes:
        input, output: prompt, and completion with its hidden reasoning.
        cached: input read from a cache; as `input` where it isn't known.
        cache_write: input written to a cache; as `input` where it isn't known.
    """

    input: float = 0.0
    output: float = 0.0
    cached: float | None = None
    cache_write: float | None = None
    date: date | None = None
    source: str = ""

    def of(self, prompt: int, completion: int, cached: int = 0, cache_write: int = 0) -> float:
        """Dollars for these tokens; `prompt` includes those of the cache."""
        plain = max(0, prompt - cached - cache_write)
        read = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        return (
            plain * self.input + cached * read + cache_write * written + completion * self.output
        ) / 1e6

    @property
    def dearest_input(self) -> float:
        """The most that a token of input can cost."""
        return max(self.input, self.cached or 0.0, self.cache_write or 0.0)


@dataclass
class Usage:
    """Requests, tokens and dollars of a model.

    Attributes:
        dollars: `None` where no price is known.
        estimated: requests whose tokens were estimated, because the endpoint doesn't report them.
    """

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    dollars: float | None = 0.0
    estimated: int = 0

    def add(self, call: Mapping[str, Any]) -> None:
        """Count a call, as an episode stores it."""
        self.requests += 1
        self.prompt_tokens += call.get("prompt_tokens") or 0
        self.cached_tokens += call.get("cached_tokens") or 0
        self.completion_tokens += call.get("completion_tokens") or 0
        dollars = call.get("dollars")
        self.dollars = None if self.dollars is None or dollars is None else self.dollars + dollars
        self.estimated += bool(call.get("estimated"))

    @property
    def tokens(self) -> int:
        """Prompt and completion."""
        return self.prompt_tokens + self.completion_tokens


class Budget:
    """Dollars and tokens spent, and caps on them.

    Args:
        max_dollars: the cap on dollars; None for no cap.
        max_tokens: the cap on tokens; None for no cap.
    """

    def __init__(self, max_dollars: float | None = None, max_tokens: int | None = None) -> None:
        self.max_dollars = max_dollars
        self.max_tokens = max_tokens
        self.dollars = 0.0
        self.tokens = 0

    @property
    def is_capped(self) -> bool:
        """Whether there is a cap."""
        return self.max_dollars is not None or self.max_tokens is not None

    def exceeded_by(self, dollars: float, tokens: float) -> bool:
        """Whether so much in all is over a cap."""
        return (self.max_dollars is not None and dollars > self.max_dollars) or (
            self.max_tokens is not None and tokens > self.max_tokens
        )

    def spend(self, dollars: float, tokens: int) -> None:
        """Count what was spent."""
        self.dollars += dollars
        self.tokens += tokens


class Spending(Budget):
    """A judge's usage and its cap. Safe across threads.

    Args:
        price: of the model.
        max_dollars: no request starts once it is reached; requests in flight finish.
        max_tokens: the same for tokens.
    """

    def __init__(
        self,
        price: Price | None = None,
        max_dollars: float | None = None,
        max_tokens: int | None = None,
    ) -> None:
        super().__init__(max_dollars, max_tokens)
        self.price = price or Price()
        self.prompt_tokens = self.completion_tokens = 0
        self._lock = threading.Lock()

    def add(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Count an answered request."""
        with self._lock:
            self.prompt_tokens += prompt_tokens
            self.completion_tokens += completion_tokens
            self.dollars = self.price.of(self.prompt_tokens, self.completion_tokens)
            self.tokens = self.prompt_tokens + self.completion_tokens

    def check(self) -> None:
        """Raise BudgetSpentError if a cap is reached."""
        if self.max_dollars is not None and self.dollars >= self.max_dollars:
            raise BudgetSpentError(
                f"${self.dollars:.4f} spent of ${self.max_dollars}; raise max_dollars to go on"
            )
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            raise BudgetSpentError(
                f"{self.tokens} tokens used of {self.max_tokens}; raise max_tokens to go on"
            )
