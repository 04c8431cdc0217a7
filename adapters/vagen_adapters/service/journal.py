"""What makes a session again: its options, its level and the replies since, kept by the client.

A session of a deterministic environment is a pure function of these, so neither servers nor workers
store sessions. When a worker, a server or a machine is gone, the client opens the session again
wherever it is answered, with all replies of the episode at once, and goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vagen_adapters.service.host import MOVES
from vagen_envs.pictures import Picture

GONE = frozenset({"lost", "unknown_session", "out_of_order"})
"""Failures after which a session is opened again: the server doesn't have it, or not in this
state.
"""
PLAYED = frozenset({"bad_config", "episode_over", "simulator"})
"""Failures of moves that leave the session open."""
MAX_LOSSES = 6
"""Times in a row that one move may be lost. It may be this move that the workers die of."""


class SessionReply(NamedTuple):
    """The result of one item: a JSON object, which has `error` if it failed, and the picture that
    it names.
    """

    data: dict[str, Any]
    picture: Picture | None

    @property
    def code(self) -> str | None:
        """The code of the failure, if it is one."""
        code: str | None = self.data.get("error", {}).get("code")
        return code

    @classmethod
    def read(cls, data: dict[str, Any], pictures: Mapping[str, bytes]) -> SessionReply:
        """From the object and PNGs by SHA-256. Raises KeyError or RecordError if the picture isn't
        there.
        """
        name = data.get("picture")
        return cls(data, None if name is None else Picture.from_png(pictures[name["sha256"]]))


@dataclass(slots=True)
class History:
    """One session's history."""

    opening: dict[str, Any]  # the item that opened it
    move: int = 0  # the number of its last move
    level: dict[str, Any] | None = None  # seed and split of the running episode
    replies: list[str] = field(default_factory=list)  # of the running episode
    digest: str = ""  # of the latest answer

    def reopening(self, verb: str) -> dict[str, Any]:
        """The item that opens the session again, in the state before a call of this kind."""
        item = {**self.opening, "move": self.move}
        if self.level is not None and verb != "reset":
            item["replay"] = {**self.level, "replies": list(self.replies), "digest": self.digest}
        return item

    def record(self, verb: str, item: dict[str, Any], reply: SessionReply) -> None:
        """Add a move and its result."""
        if reply.code is not None and reply.code not in PLAYED:
            return
        if reply.code != "bad_config":  # a refused move isn't counted
            self.move = item["move"]
        if reply.code is None:
            self.digest = reply.data["digest"]
            if verb == "reset":
                self.level = {name: reply.data["level"][name] for name in ("seed", "split")}
                self.replies = []
            else:
                self.replies.append(item["reply"])
        elif reply.code == "simulator" or verb == "reset":
            self.level = None
            self.digest = ""


class Journal:
    """The histories of many sessions; `send` carries out items of one kind, concurrently. Threads
    may share one.
    """

    def __init__(self, send: Callable[[str, Sequence[dict[str, Any]]], list[SessionReply]]) -> None:
        self._send = send
        self._histories: dict[str, History] = {}
        self._lock = threading.Lock()

    def ask(self, verb: str, items: Sequence[dict[str, Any]]) -> list[SessionReply]:
        """Carry out items. Numbers the moves, and opens sessions that are gone again."""
        if verb in MOVES:
            items = [self._numbered(verb, item) for item in items]
        replies = self._send(verb, items)
        if verb != "close":
            self._recover(verb, items, replies)
        for item, reply in zip(items, replies, strict=True):
            self._record(verb, item, reply)
        return replies

    def _numbered(self, verb: str, item: dict[str, Any]) -> dict[str, Any]:
        history = self._histories.get(item["session"])
        if history is None:
            return {**item, "move": 1}
        numbered = {**item, "move": history.move + 1}
        return {**numbered, "after": history.digest} if verb == "step" else numbered

    def _recover(
        self, verb: str, items: Sequence[dict[str, Any]], replies: list[SessionReply]
    ) -> None:
        """Open sessions that are gone and ask again, until every item is answered or was lost too
        often.

        One by one, for one of them may be what the workers die of.
        """
        for loss in range(MAX_LOSSES):
            gone = [i for i, item in enumerate(items) if self._is_gone(verb, item, replies[i])]
            if gone and loss > 1:
                time.sleep(0.1 * 2**loss)  # 0.4 to 3.2 s, in which a worker is replaced
            for i in gone:
                replies[i] = self._asked_again(verb, items[i])

    def _asked_again(self, verb: str, item: dict[str, Any]) -> SessionReply:
        if verb == "open":
            return self._send("open", [{**item, "move": 0}])[0]
        history = self._histories[item["session"]]
        opened = self._send("open", [history.reopening(verb)])[0]
        if opened.code is not None:
            return opened
        return self._send(verb, [item])[0]

    def _is_gone(self, verb: str, item: dict[str, Any], reply: SessionReply) -> bool:
        if verb == "open":
            return reply.code == "lost"
        return reply.code in GONE and item["session"] in self._histories

    def _record(self, verb: str, item: dict[str, Any], reply: SessionReply) -> None:
        session = item["session"]
        with self._lock:
            if verb == "open" and reply.code is None:
                self._histories[session] = History(item)
            elif verb == "close":
                self._histories.pop(session, None)
            elif verb in MOVES and session in self._histories:
                self._histories[session].record(verb, item, reply)
