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
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.usage import Spending

KEY = "OPENAI_API_KEY"
_KEYS_HOME = "openai.com"
_SHORTEST_SECRET = 8
"""Characters. A shorter value is a word such as `none`, which a local server may take as its
key.
"""

_ASKED = 3
"""A model is asked so often, at most, for a reply that can be read. Each costs as much as the
first.
"""

_BYTES_PER_TOKEN = 3
"""Where an endpoint doesn't say what it used. English has four or five: caps are reached too early,
not too late.
"""


def key_for(base_url: str | None, api_key: str | None, key_from: str | None) -> str | None:
    """The key that an address gets; `None` leaves it to the SDK.

    `OPENAI_API_KEY` goes to OpenAI and to what `OPENAI_BASE_URL` names. An address that is given
    otherwise gets it only if `key_from` names it.

    Raises:
        JudgeConfigError: the variable that `key_from` names isn't set.
    """
    if api_key is not None:
        return api_key
    if key_from is not None:
        if not os.environ.get(key_from):
            raise JudgeConfigError(
                f"key_from names {key_from}, which isn't set: set the environment variable to the "
                "key of the judge's endpoint"
            )
        return os.environ[key_from]
    return None if base_url is None or _is_openai(base_url) else "none"


def _is_openai(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == _KEYS_HOME or host.endswith(f".{_KEYS_HOME}")


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
        """Servers quote what they were sent in their answers, which stand in the cache, in logs and
        in reports.
        """
        address = urlsplit(self.address)
        held = [self.options["api_key"], os.environ.get(KEY), address.password]
        held += [value for name, value in parse_qsl(address.query) if "version" not in name]
        for secret in held:
            plain = unquote(secret or "")
            if len(plain) >= _SHORTEST_SECRET:
                for form in (secret or "", plain, json.dumps(plain)[1:-1], quote(plain, safe="")):
                    text = text.replace(form, "[key]")
        return text

    def withheld_key(self) -> str:
        """What to say where a key is set and wasn't sent; empty otherwise."""
        if self.options["api_key"] != "none" or not os.environ.get(KEY):
            return ""
        host = urlsplit(self.address).hostname
        return f"; {KEY} isn't sent to {host}, name it as key_from (--key-from) if it should be"

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
