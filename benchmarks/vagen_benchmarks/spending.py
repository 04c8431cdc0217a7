"""What a run has cost so far, and whether it may go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vagen_benchmarks.errors import ProtocolError


class Spending:
    """Tokens and dollars of a run.

    Args:
        prices: of each agent that calls a model, US dollars per million tokens of input and of output, or `None`.
    """

    def __init__(self, prices: Mapping[str, tuple[float, float] | None]) -> None:
        self.prices = prices
        self.tokens = 0
        self.dollars = 0.0

    def check(self, max_dollars: float | None) -> None:
        """Raise ProtocolError if there is a limit of dollars and a model without a price."""
        unknown = [name for name, price in self.prices.items() if price is None]
        if max_dollars is not None and unknown:
            raise ProtocolError(
                f"--max-dollars {max_dollars:g} can't be held: no price is known of {', '.join(unknown)}. "
                "Give its price in a file of your own (--models), or limit tokens with --max-total-tokens"
            )

    def add(self, agent: str, calls: Iterable[Mapping[str, Any] | None]) -> None:
        """Count the calls of an episode."""
        each_in, each_out = self.prices.get(agent) or (0.0, 0.0)
        for call in filter(None, calls):
            asked, written = call["prompt_tokens"] or 0, call["completion_tokens"] or 0
            self.tokens += asked + written
            self.dollars += (asked * each_in + written * each_out) / 1e6

    def over(self, max_dollars: float | None, max_tokens: int | None) -> str:
        """Why nothing more may be spent, or empty."""
        if max_dollars is not None and self.dollars >= max_dollars:
            return f"the budget of ${max_dollars:g} is spent (${self.dollars:.4f})"
        if max_tokens is not None and self.tokens >= max_tokens:
            return f"the budget of {max_tokens} tokens is spent ({self.tokens})"
        return ""
