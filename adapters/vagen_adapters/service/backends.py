"""Backends of remote environments: a server (`client.Service`) or a pool of this program (`PoolBackend`)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.framing import read
from vagen_adapters.service.host import Answer, Call, Result
from vagen_adapters.service.journal import Journal, Reply
from vagen_adapters.service.pool import Pool
from vagen_envs.errors import RecordError
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

    The pool lives in an event loop of its own, in a thread. Workers that die are replaced, and their sessions go on.

    Args:
        pool: started here, and closed with the backend.
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
        if verb == "open":
            openings = [
                self.pool.open(
                    item["session"],
                    {"env_id": item["env_id"], "options": item["options"], "trusted": True},
                    item.get("replay"),
                )
                for item in items
            ]
            return list(await asyncio.gather(*openings))
        if verb == "close":
            for item in items:
                self.pool.close_session(item["session"])
            return [Answer(b"{}")] * len(items)
        # No message is lost on the way to a pool, so it has no use for the numbers of moves.
        unused = ("session", "move", "after")
        arguments = [{name: value for name, value in item.items() if name not in unused} for item in items]
        calls = [Call(item["session"], verb, given) for item, given in zip(items, arguments, strict=True)]
        return list(await asyncio.gather(*map(self.pool.submit, calls)))

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    @staticmethod
    def _reply(result: Result) -> Reply:
        if not isinstance(result, Answer):
            return Reply({"error": result._asdict()}, None)
        return with_picture(read(result.body), decode([result.picture] if result.picture else []))

    def close(self) -> None:
        if self._thread.is_alive():
            self._wait(self.pool.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def decode(pictures: Sequence[tuple[str, bytes]]) -> dict[str, Picture]:
    """Pictures by their SHA-256. Raises ServiceError for a PNG that is damaged or has another content."""
    decoded = {}
    for sha256, png in pictures:
        try:
            decoded[sha256] = Picture.from_png(png)
        except RecordError as error:
            raise ServiceError("bad_answer", f"a picture of the answer is damaged ({error})") from None
        if decoded[sha256].sha256 != sha256:
            raise ServiceError("bad_answer", f"the picture named {sha256} has the content {decoded[sha256].sha256}")
    return decoded


def with_picture(data: dict[str, Any], pictures: Mapping[str, Picture]) -> Reply:
    """A reply with the picture that it names. Raises KeyError if that didn't come."""
    named = data.get("picture")
    return Reply(data, None if named is None else pictures[named["sha256"]])
