"""What a judge has cost, and the cap on it."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from vagen_rewards.errors import BudgetSpentError


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0


class Spending:
    """Counts requests, tokens and dollars. Safe across threads.

    Args:
        price: of the model.
        max_dollars, max_tokens: no request starts once either is reached; requests in flight finish, so
            the overshoot is at most what is in flight.
    """

    def __init__(
        self, price: Price | None = None, max_dollars: float | None = None, max_tokens: int | None = None
    ) -> None:
        self.price = price or Price()
        self.max_dollars, self.max_tokens = max_dollars, max_tokens
        self.requests = self.prompt_tokens = self.completion_tokens = 0
        self._lock = threading.Lock()

    @property
    def dollars(self) -> float:
        """Spent so far."""
        return (self.prompt_tokens * self.price.prompt + self.completion_tokens * self.price.completion) / 1e6

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens so far."""
        return self.prompt_tokens + self.completion_tokens

    def add(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Count an answered request."""
        with self._lock:
            self.requests += 1
            self.prompt_tokens += prompt_tokens
            self.completion_tokens += completion_tokens

    def check(self) -> None:
        """Raise BudgetSpentError if a cap is reached."""
        if self.max_dollars is not None and self.dollars >= self.max_dollars:
            raise BudgetSpentError(f"${self.dollars:.4f} spent of ${self.max_dollars}; raise max_dollars to go on")
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            raise BudgetSpentError(f"{self.tokens} tokens used of {self.max_tokens}; raise max_tokens to go on")
