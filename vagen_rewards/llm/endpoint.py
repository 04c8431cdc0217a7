"""An OpenAI-compatible endpoint: requests on a thread of their own, with a limit on those in flight
and accounting.

The OpenAI SDK retries broken connections, time-outs, 408, 409, 429 and 5xx, and follows
`Retry-After`.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from typing import Any

from vagen_rewards.usage import Spending

_ASKED = 3
"""A model is asked so often, at most, for a reply that can be read. Each costs as much as the
first.
"""

_BYTES_PER_TOKEN = 3
"""Where an endpoint doesn't say what it used. English has four or five: caps are reached too early,
not too late.
"""


class Endpoint:
    """Asks for replies, all on one thread, so that one connection pool serves callers with and
    without a loop.

    Args:
        options: of the OpenAI SDK's client.
        concurrency: requests in flight at most.
        item_timeout: seconds for a reply with all its retries.
        spending: what is counted, and capped.
    """

    def __init__(
        self,
        options: dict[str, Any],
        concurrency: int,
        item_timeout: float,
        spending: Spending,
    ) -> None:
        self.options = options
        self.spending = spending
        self.concurrency = concurrency
        self.item_timeout = item_timeout
        self._start_lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None
        self._slots: asyncio.Semaphore

    @property
    def address(self) -> str:
        """Its URL, as far as it is known; empty for the SDK's own."""
        return str(self.options["base_url"] or os.environ.get("OPENAI_BASE_URL", "")).rstrip("/")

    def running_loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which everything here runs; started if it doesn't run yet."""
        with self._start_lock:
            if self._loop is None:
                import openai

                loop = asyncio.new_event_loop()
                self._slots = asyncio.Semaphore(self.concurrency)
                self._client = openai.AsyncOpenAI(**self.options)
                threading.Thread(target=loop.run_forever, name="judge", daemon=True).start()
                self._loop = loop
            return self._loop

    def close(self) -> None:
        """Stop the thread."""
        loop = self._loop
        self._loop = None
        if loop is not None:
            if self._client is not None:
                asyncio.run_coroutine_threadsafe(self._client.close(), loop).result(timeout=10)
            loop.call_soon_threadsafe(loop.stop)

    def without_key(self, text: str) -> str:
        """Servers quote keys in what they answer, and reasons stand in logs and reports."""
        key = self.options["api_key"] or os.environ.get("OPENAI_API_KEY", "")
        return text.replace(key, "[key]") if len(key) >= 8 else text

    async def ask(self, request: dict[str, Any], readable: Callable[[str], bool]) -> str:
        """A reply, on the running loop.

        Args:
            request: as the SDK's `chat.completions.create` takes it.
            readable: whether a reply will do; another is asked for while it won't, `_ASKED` times
                in all.

        Raises:
            ValueError: there came none with text. Else whatever a server or a proxy does.
        """
        reply: str | None = None
        async with self._slots:
            try:
                async with asyncio.timeout(self.item_timeout):
                    for _ in range(_ASKED):
                        reply = await self._ask_once(request)
                        if reply is not None and readable(reply):
                            break
            except TimeoutError:
                raise TimeoutError(f"no answer within {self.item_timeout} s") from None
        if reply is None:
            raise ValueError("the endpoint answered without text")
        return reply

    async def _ask_once(self, request: dict[str, Any]) -> str | None:
        self.spending.check()
        try:
            completion = await self._client.chat.completions.create(**request)
        except json.JSONDecodeError:  # a proxy's page under the name of JSON
            return None
        choices = getattr(completion, "choices", None)
        content = choices[0].message.content if choices else None
        content = self.without_key(content) if isinstance(content, str) else None
        usage = getattr(completion, "usage", None)
        asked = "".join([message["content"] for message in request["messages"]])
        self.spending.add(
            getattr(usage, "prompt_tokens", None) or _tokens_in(asked),
            getattr(usage, "completion_tokens", None) or _tokens_in(content or ""),
        )
        return content


def _tokens_in(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)
