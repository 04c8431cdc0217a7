"""What a run costs, who spends it, and whether another request may be begun."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vagen_benchmarks.clients.board import LOOK, NOTHING, Board, Spent
from vagen_benchmarks.clients.registry import Price
from vagen_benchmarks.errors import EndpointError, ProtocolError
from vagen_benchmarks.stop_reasons import Stop
from vagen_envs.chat import Message

BYTES_A_TOKEN = 4
"""Of English, about; what is counted where an endpoint doesn't say."""
FEWEST_BYTES_A_TOKEN = 2
"""What a prompt's worst case is counted with."""


@dataclass
class Bill:
    """What an agent has spent.

    Attributes:
        dollars: `None` where no price is known.
        estimated: requests whose tokens were counted by us.
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
        for name in ("prompt_tokens", "cached_tokens", "completion_tokens"):
            setattr(self, name, getattr(self, name) + (call.get(name) or 0))
        dollars = call.get("dollars")
        self.dollars = None if self.dollars is None or dollars is None else self.dollars + dollars
        self.estimated += bool(call.get("estimated"))

    @property
    def tokens(self) -> int:
        """Asked and written."""
        return self.prompt_tokens + self.completion_tokens


class Purse:
    """The dollars and tokens of a run. A request is begun only if its worst case stays below both caps.

    Args:
        prices: of each agent that calls a model, by name.
        max_dollars, max_tokens: the caps.
        board: what other processes of the run have spent and set aside, which counts in these.

    Raises:
        ProtocolError: dollars are capped and a price isn't known.
    """

    def __init__(
        self,
        prices: Mapping[str, Price | None] | None = None,
        max_dollars: float | None = None,
        max_tokens: int | None = None,
        board: Board | None = None,
    ) -> None:
        self.prices = dict(prices or {})
        self.max_dollars, self.max_tokens = max_dollars, max_tokens
        unknown = [name for name, price in self.prices.items() if price is None]
        if max_dollars is not None and unknown:
            raise ProtocolError(
                f"--max-dollars {max_dollars:g} can't be held: no price is known of {', '.join(unknown)}. "
                "Give its price in a file of your own (--models), or limit tokens with --max-total-tokens"
            )
        self.bills: dict[str, Bill] = {name: Bill() for name in self.prices}
        self.dollars, self.tokens = 0.0, 0
        self.earlier = 0.0, 0
        self._held_dollars, self._held_tokens = 0.0, 0
        self._board = board if max_dollars is not None or max_tokens is not None else None
        self._is_to_say = False
        self._freed: asyncio.Event | None = None
        self._expected: dict[int, tuple[float, int]] = {}

    def open(self) -> None:
        """From now on what is added is spent by this call of the run."""
        self.earlier = self.dollars, self.tokens

    def worst(self, agent: str, prompt: int, completion: int) -> tuple[float, int]:
        """Dollars and tokens that a request may take."""
        price = self.prices.get(agent)
        dollars = price.dearest_input * prompt / 1e6 + price.output * completion / 1e6 if price else 0.0
        return dollars, prompt + completion

    async def admit(self, episode: int, dollars: float, tokens: int) -> None:
        """Wait until an episode that may take so much can be begun and probably ended, or nothing else is in flight.

        Without it many episodes would be begun on what is enough for a few, and none ended.
        """
        if self.max_dollars is None and self.max_tokens is None:  # what hundreds may take is a long sum
            return
        while True:
            with self._others() as others:
                mine = self._said()
                alone = not self._expected and not others.expected_tokens
                dollars_then = others.dollars + others.expected_dollars + mine.dollars + mine.expected_dollars + dollars
                tokens_then = others.tokens + others.expected_tokens + mine.tokens + mine.expected_tokens + tokens
                if alone or not self._passes(dollars_then, tokens_then):
                    self._expected[episode] = dollars, tokens
                    return
            await self._freeing()

    def _passes(self, dollars: float, tokens: float) -> bool:
        """Whether that is over a cap."""
        return (self.max_dollars is not None and dollars > self.max_dollars) or (
            self.max_tokens is not None and tokens > self.max_tokens
        )

    @contextlib.contextmanager
    def _others(self) -> Iterator[Spent]:
        """What other processes have spent and set aside, which doesn't change before what is done here is said."""
        if self._board is None:
            yield NOTHING
            return
        with self._board.locked():
            yield self._board.others()
            self._board.say(self._said())

    def _said(self) -> Spent:
        expected = self._expected.values()
        return Spent(
            self.dollars - self.earlier[0], self.tokens - self.earlier[1], self._held_dollars, self._held_tokens,
            sum(each[0] for each in expected), sum(each[1] for each in expected),
        )  # fmt: skip

    def _say_soon(self) -> None:
        """Tell the others, once all that belongs together is done: what is freed is mostly spent a moment later."""
        if self._board is not None and not self._is_to_say:
            self._is_to_say = True
            asyncio.get_running_loop().call_soon(self._say)

    def _say(self) -> None:
        self._is_to_say = False
        with self._others():
            """What is said is said at its end."""

    def expect(self, episode: int, dollars: float, tokens: int) -> None:
        """What an episode that was admitted may still take."""
        if episode not in self._expected:  # nothing is capped
            return
        self._expected[episode] = dollars, tokens
        self._say_soon()

    def over(self, episode: int) -> None:
        """An episode has ended."""
        self._expected.pop(episode, None)
        self._free_all()

    async def hold(self, agent: str, prompt: int, completion: int) -> tuple[float, int]:
        """Set a request's worst case aside, waiting for others if they have to end first.

        Returns:
            What `free` takes back.

        Raises:
            EndpointError: it would go over a cap even with nothing else in flight.
        """
        dollars, tokens = self.worst(agent, prompt, completion)
        if self.max_dollars is None and self.max_tokens is None:
            self._held_dollars += dollars
            self._held_tokens += tokens
            return dollars, tokens
        while True:
            with self._others() as others:
                spent_dollars, spent_tokens = self.dollars + others.dollars, self.tokens + int(others.tokens)
                held_dollars = self._held_dollars + others.held_dollars
                held_tokens = self._held_tokens + others.held_tokens
                if not self._passes(spent_dollars + held_dollars + dollars, spent_tokens + held_tokens + tokens):
                    self._held_dollars += dollars
                    self._held_tokens += tokens
                    return dollars, tokens
            if not held_tokens:
                raise EndpointError(
                    Stop.SPENT, self._refusal(spent_dollars, spent_tokens, dollars, tokens), retry=False
                )
            await self._freeing()

    def _refusal(self, spent_dollars: float, spent_tokens: int, dollars: float, tokens: int) -> str:
        if self.max_dollars is not None and spent_dollars + dollars > self.max_dollars:
            spent, worst = f"${spent_dollars:.4f}", f"${dollars:.4f}"
            return (
                f"the budget of ${self.max_dollars:g} is spent: {spent} so far, and the next request may cost {worst}"
            )
        return (
            f"the budget of {self.max_tokens} tokens is spent: {spent_tokens} so far, and the next request may take "
            f"{tokens}"
        )

    def free(self, held: tuple[float, int]) -> None:
        """Give back what was held."""
        self._held_dollars = max(0.0, self._held_dollars - held[0])
        self._held_tokens -= held[1]
        self._free_all()

    async def _freeing(self) -> None:
        self._freed = self._freed or asyncio.Event()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._freed.wait(), None if self._board is None else LOOK)

    def _free_all(self) -> None:
        self._say_soon()
        if self._freed is not None:
            self._freed.set()
            self._freed = None

    def lose(self, held: tuple[float, int]) -> None:
        """Count a request as spent at its worst: nobody knows what became of it."""
        self.dollars += held[0]
        self.tokens += held[1]
        self._say_soon()

    def add(self, agent: str, calls: Iterable[Mapping[str, Any] | None]) -> None:
        """Count calls, as an episode stores them."""
        for call in filter(None, calls):
            self.bills.setdefault(agent, Bill()).add(call)
            self.dollars += call.get("dollars") or 0.0
            self.tokens += (call.get("prompt_tokens") or 0) + (call.get("completion_tokens") or 0)
        self._say_soon()


def picture_tokens(height: int, width: int) -> tuple[int, int]:
    """What a picture may take, about and at worst.

    Providers count by patches of 14 to 32 pixels a side (Qwen, Anthropic about 750 pixels a token) or by tiles (OpenAI
    85 and 170 for each 512 pixels a side, Gemini 258 for each 768); the worst is all of it.
    """
    patches = -(-height // 14) * -(-width // 14)
    tiles = 85 + 170 * -(-height // 512) * -(-width // 512) + 258 * -(-height // 384) * -(-width // 384)
    return max(height * width // 750, 85), patches + tiles


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
        size += 8  # roles and their marks
    return size // BYTES_A_TOKEN + pictures * picture[0], size // FEWEST_BYTES_A_TOKEN + pictures * picture[1] + 64


def text_tokens(text: str) -> int:
    """What a text takes, about."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN)
