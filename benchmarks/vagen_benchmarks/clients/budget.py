"""The budget of a run: what its agents have spent, and whether another request may begin."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vagen_adapters.context import HIDDEN, Message
from vagen_benchmarks.errors import EndpointError, ProtocolError
from vagen_benchmarks.stop_reasons import Stop
from vagen_rewards.usage import Budget, Price, Usage

BYTES_A_TOKEN = 4
"""Roughly right for English; used where an endpoint doesn't report usage."""
FEWEST_BYTES_A_TOKEN = 2
"""Used for a prompt's worst case."""


class RunBudget(Budget):
    """The dollars and tokens of a run. A request begins only if its worst case stays below both
    caps.

    Args:
        prices: of each agent that calls a model, by name.
        max_dollars, max_tokens: the caps.

    Raises:
        ProtocolError: dollars are capped and a price isn't known.
    """

    def __init__(
        self,
        prices: Mapping[str, Price | None] | None = None,
        max_dollars: float | None = None,
        max_tokens: int | None = None,
    ) -> None:
        super().__init__(max_dollars, max_tokens)
        self.prices = dict(prices or {})
        unknown = [name for name, price in self.prices.items() if price is None]
        if max_dollars is not None and unknown:
            raise ProtocolError(
                f"--max-dollars {max_dollars:g} can't be held: no price is known of "
                f"{', '.join(unknown)}. Give its price in a file of your own (--models), or "
                "limit tokens with --max-total-tokens"
            )
        self.usage: dict[str, Usage] = {name: Usage() for name in self.prices}
        self._reserved_dollars = 0.0
        self._reserved_tokens = 0
        self._freed = asyncio.Event()
        self._expected: dict[int, tuple[float, int]] = {}

    def worst(self, agent: str, prompt: int, completion: int) -> tuple[float, int]:
        """Dollars and tokens that a request may take."""
        price = self.prices.get(agent)
        dollars = (
            price.dearest_input * prompt / 1e6 + price.output * completion / 1e6 if price else 0.0
        )
        return dollars, prompt + completion

    async def admit(self, episode: int, dollars: float, tokens: int) -> None:
        """Wait until an episode that may take so much can begin and probably end, or nothing else
        is in flight.

        Without it many episodes would begin on what is enough for a few, and none would end.
        """
        if not self.is_capped:  # summing what hundreds may take is slow
            return
        while self._expected:
            others = [sum(each) for each in zip(*self._expected.values(), strict=True)]
            if not self.exceeded_by(
                self.dollars + others[0] + dollars, self.tokens + int(others[1]) + tokens
            ):
                break
            await self._freeing()
        self._expected[episode] = dollars, tokens

    def expect(self, episode: int, dollars: float, tokens: int) -> None:
        """Update what an admitted episode may still take."""
        if episode in self._expected:
            self._expected[episode] = dollars, tokens

    def over(self, episode: int) -> None:
        self._expected.pop(episode, None)
        self._freed.set()

    async def reserve(self, agent: str, prompt: int, completion: int) -> tuple[float, int]:
        """Set a request's worst case aside, waiting for others if they have to end first.

        Returns:
            What `release` takes back.

        Raises:
            EndpointError: it would go over a cap even with nothing else in flight.
        """
        dollars, tokens = self.worst(agent, prompt, completion)
        while self.exceeded_by(
            self.dollars + self._reserved_dollars + dollars,
            self.tokens + self._reserved_tokens + tokens,
        ):
            if not self._reserved_tokens:
                raise EndpointError(Stop.SPENT, self._refusal(dollars, tokens), retry=False)
            await self._freeing()
        self._reserved_dollars += dollars
        self._reserved_tokens += tokens
        return dollars, tokens

    def _refusal(self, dollars: float, tokens: int) -> str:
        if self.max_dollars is not None and self.dollars + dollars > self.max_dollars:
            cap = f"${self.max_dollars:g}"
            spent = f"${self.dollars:.4f}"
            more = f"cost ${dollars:.4f}"
        else:
            cap = f"{self.max_tokens} tokens"
            spent = str(self.tokens)
            more = f"take {tokens}"
        return f"the budget of {cap} is spent: {spent} so far, and the next request may {more}"

    def release(self, reserved: tuple[float, int]) -> None:
        self._reserved_dollars = max(0.0, self._reserved_dollars - reserved[0])
        self._reserved_tokens -= reserved[1]
        self._freed.set()

    async def _freeing(self) -> None:
        self._freed.clear()
        await self._freed.wait()

    def add(self, agent: str, calls: Iterable[Mapping[str, Any] | None]) -> None:
        """Count calls, as an episode stores them."""
        for call in filter(None, calls):
            self.usage.setdefault(agent, Usage()).add(call)
            tokens = (call.get("prompt_tokens") or 0) + (call.get("completion_tokens") or 0)
            self.spend(call.get("dollars") or 0.0, tokens)


def picture_tokens(height: int, width: int) -> tuple[int, int]:
    """What a picture may take, about and at worst.

    Providers count by patches of 14 to 32 pixels a side (Qwen, Anthropic about 750 pixels a token)
    or by tiles (OpenAI 85 and 170 for each 512 pixels a side, Gemini 258 for each 768); the worst
    is all of it.
    """
    patches = -(-height // 14) * -(-width // 14)
    of_openai = 85 + 170 * -(-height // 512) * -(-width // 512)
    of_gemini = 258 * -(-height // 384) * -(-width // 384)
    about = max(height * width // 750, 85)
    return about, patches + of_openai + of_gemini


def prompt_tokens(messages: Sequence[Message], picture: tuple[int, int]) -> tuple[int, int]:
    """What a prompt takes, about and at worst; `picture` is what one of its pictures does."""
    size = pictures = 0
    for message in messages:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] == "text":
                text = part["text"]
                size += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
            else:
                pictures += 1
        # 8 for a role and its marks.
        size += 8 + (len(json.dumps(message[HIDDEN])) if HIDDEN in message else 0)
    return size // BYTES_A_TOKEN + pictures * picture[
        0
    ], size // FEWEST_BYTES_A_TOKEN + pictures * picture[1] + 64


def text_tokens(text: str) -> int:
    """What a text takes, about."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN)
