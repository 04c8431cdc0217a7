"""Where environments live, as their players see it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.host import OPENS, Answer, Call
from vagen_adapters.service.journal import Journal, Reply
from vagen_adapters.service.pool import Pool
from vagen_adapters.service.wire import read
from vagen_envs.errors import RecordError
from vagen_envs.pictures import Picture

KEPT_PICTURES = 4096
"""Decoded pictures that a place keeps, so that one that comes back isn't decoded again."""

NOT_FOR_POOLS = frozenset({"session", "move", "after"})


class Place(Protocol):
    """Where environments live: behind a `Service`, or in a pool (`InPool`)."""

    def ask(self, do: str, items: Sequence[dict[str, Any]]) -> list[Reply]:
        """Carry out items of one kind (see `messages.VERBS`; moves are numbered here), beside each other.

        A session that is gone, with its worker or its server, is opened again and goes on.
        """

    def close(self) -> None:
        """Free what the place holds."""


class InPool:
    """Environments in a pool of this program, without a server.

    A pool loses no messages, so the numbers of moves have no use here and are left out. It loses workers:
    their sessions are opened again in others, and go on.

    Args:
        pool: closed with the place.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._pictures = Pictures()
        self._journal = Journal(self._send)

    def ask(self, do: str, items: Sequence[dict[str, Any]]) -> list[Reply]:
        return self._journal.ask(do, items)

    def _send(self, do: str, items: Sequence[dict[str, Any]]) -> list[Reply]:
        own = {"own": True} if do == OPENS else {}  # the options are this program's
        calls = [
            Call(item["session"], do, {name: each for name, each in item.items() if name not in NOT_FOR_POOLS} | own)
            for item in items
        ]
        return [self._reply(result) for result in self.pool.ask(calls)]

    def _reply(self, result: Any) -> Reply:
        if not isinstance(result, Answer):
            return Reply({"error": result._asdict()}, None)
        if result.picture is not None:
            self._pictures.add(*result.picture)
        data = read(result.body)
        return Reply(data, self._pictures.named(data))

    def close(self) -> None:
        self.pool.close()


class Pictures:
    """Pictures by content, the latest `KEPT_PICTURES`. Threads may share them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Picture] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, sha256: str, png: bytes) -> None:
        """Decode a PNG unless its picture is here already. Raises ServiceError if it isn't the picture it claims."""
        with self._lock:
            if sha256 in self._kept:
                self._kept.move_to_end(sha256)
                return
        try:
            picture = Picture.from_png(png)
        except RecordError as error:
            raise ServiceError("bad_answer", f"a picture of the answer is damaged ({error})") from None
        if picture.sha256 != sha256:
            raise ServiceError("bad_answer", f"a picture said to be {sha256} is {picture.sha256}")
        with self._lock:
            self._kept[sha256] = picture
            if len(self._kept) > KEPT_PICTURES:
                self._kept.popitem(last=False)

    def named(self, data: dict[str, Any]) -> Picture | None:
        """The picture that an answer names, if it names one. Raises KeyError if it isn't here."""
        name = data.get("picture")
        if name is None:
            return None
        with self._lock:
            return self._kept[name["sha256"]]
