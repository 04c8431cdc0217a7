"""Backends of remote environments: a server (`client.Service`) or a pool of this program (`PoolBackend`)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from vagen_adapters.service.framing import read
from vagen_adapters.service.host import Answer, Call, Result
from vagen_adapters.service.journal import Journal, Reply
from vagen_adapters.service.pool import Pool
from vagen_envs.pictures import Picture

T = TypeVar("T")


class Backend(Protocol):
    """Where environments live."""

    def ask(self, verb: str, items: Sequence[dict[str, Any]]) -> list[Reply]:
        """Carry out items of one kind (see `messages.VERBS`; moves are numbered here), concurrently.

        A session that is gone, with its worker or its server, is opened again and goes on.
        """

    def close(self) -> None:
        """Free what the backend holds."""


class PoolBackend:
    """Environments in a pool of this program, without a server. Threads may share one.

    The pool is started here, in an event loop and a thread of its own, and closed with the backend.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._journal = Journal(self._send)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="environment-pool", daemon=True)
        self._thread.start()
        self._wait(pool.start())

    def ask(self, verb: str, items: Sequence[dict[str, Any]]) -> list[Reply]:
        return self._journal.ask(verb, items)

    def _send(self, verb: str, items: Sequence[dict[str, Any]]) -> list[Reply]:
        return [self._reply(result) for result in self._wait(self._carry_out(verb, items))]

    async def _carry_out(self, verb: str, items: Sequence[dict[str, Any]]) -> list[Result]:
        if verb == "close":
            for item in items:
                self.pool.close_session(item["session"])
            return [Answer(b"{}")] * len(items)
        pending: list[Awaitable[Result]] = []
        for item in items:
            # No message is lost on the way to a pool, so it has no use for the numbers of moves.
            given = {name: value for name, value in item.items() if name not in ("session", "move", "after", "replay")}
            if verb == "open":
                pending.append(self.pool.open(item["session"], {**given, "trusted": True}, item.get("replay")))
            else:
                pending.append(self.pool.submit(Call(item["session"], verb, given)))
        return list(await asyncio.gather(*pending))

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    @staticmethod
    def _reply(result: Result) -> Reply:
        if not isinstance(result, Answer):
            return Reply({"error": result._asdict()}, None)
        return reply_of(read(result.body), dict([result.picture] if result.picture else []))

    def close(self) -> None:
        if self._thread.is_alive():
            self._wait(self.pool.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def reply_of(data: dict[str, Any], pictures: Mapping[str, bytes]) -> Reply:
    """A reply with the picture that it names, from PNGs by SHA-256. Raises KeyError or RecordError if there is none."""
    name = data.get("picture")
    return Reply(data, None if name is None else Picture.from_png(pictures[name["sha256"]]))
