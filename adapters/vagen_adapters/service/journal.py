"""What makes a session again: its options, its level and the replies since. Kept where it can't die before its user.

A session of a deterministic environment is a pure function of these. So neither servers nor workers keep
anything of a session in a safe place: who plays keeps the journal, and when a worker, a server or a machine is
gone, opens the session again wherever it is answered, with all replies at once, and goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vagen_adapters.service.host import MOVES, OPENS
from vagen_envs.pictures import Picture

GONE = frozenset({"lost", "expired", "closed", "unknown_session", "out_of_order"})
"""Failures after which a session is opened again: whoever was asked doesn't have it, or not as it is."""
PLAYED = frozenset({"bad_config", "episode_over", "simulator"})
"""Failures of moves that count as moves."""
MOST_LOSSES = 6
"""Workers that may die in a row over one move of a session. It may be this move that they die of."""
BESIDE = 2
"""After so many, what is gone is asked for one by one, with pauses: it may be one move that the others die of, too."""


class Reply(NamedTuple):
    """What came of one item: a JSON object, which has `error` where it failed, and the picture that it names."""

    data: dict[str, Any]
    picture: Picture | None


Send = Callable[[str, Sequence[dict[str, Any]]], list[Reply]]


@dataclass(slots=True)
class Tale:
    """One session's journal.

    Attributes:
        opening: what it was opened with.
        move: the number of its last move.
        level: seed and split of the running episode; None where there is none.
        replies: those of the running episode, in order.
        mark: the last answer's; it says which episode this is, to its last turn.
    """

    opening: dict[str, Any]
    move: int = 0
    level: dict[str, Any] | None = None
    replies: list[str] = field(default_factory=list)
    mark: str = ""

    def again(self, do: str) -> dict[str, Any]:
        """What to ask to have the session again, as it was before a call of this kind."""
        if self.level is None or do == "reset":
            return {**self.opening, "move": self.move}
        return {**self.opening, "move": self.move,
                "replay": {**self.level, "replies": list(self.replies), "mark": self.mark}}  # fmt: skip

    def note(self, do: str, item: dict[str, Any], data: dict[str, Any]) -> None:
        """Take down what a move came to."""
        code = data.get("error", {}).get("code")
        if code is not None and code not in PLAYED:
            return
        self.move = item["move"]
        if code is None:
            self.mark = data["mark"]
            if do == "reset":
                self.level, self.replies = {name: data["level"][name] for name in ("seed", "split")}, []
            else:
                self.replies.append(item["reply"])
        elif code == "simulator" or do == "reset":
            self.level, self.mark = None, ""


class Journal:
    """The tales of many sessions, between who plays and where it is played. Threads may share one.

    Args:
        send: carries out items of one kind, beside each other.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._tales: dict[str, Tale] = {}
        self._lock = threading.Lock()

    def ask(self, do: str, items: Sequence[dict[str, Any]]) -> list[Reply]:
        """Carry out items. Moves are numbered here, and sessions that are gone are opened again meanwhile."""
        if do in MOVES:
            items = [self._numbered(do, item) for item in items]
        replies = self._send(do, items)
        if do in (OPENS, *MOVES, "oracle"):
            self._until_played(do, items, replies)
        for item, reply in zip(items, replies, strict=True):
            self._note(do, item, reply.data)
        return replies

    def _numbered(self, do: str, item: dict[str, Any]) -> dict[str, Any]:
        tale = self._tales.get(item["session"])
        if tale is None:
            return {**item, "move": 1}
        numbered = {**item, "move": tale.move + 1}
        return {**numbered, "after": tale.mark} if do == "step" else numbered

    def _until_played(self, do: str, items: Sequence[dict[str, Any]], replies: list[Reply]) -> None:
        """Open what is gone again and ask again, until each item is answered."""
        losses = [0] * len(items)
        while True:
            gone = [
                i for i, reply in enumerate(replies) if losses[i] < MOST_LOSSES and self._is_gone(do, items[i], reply)
            ]
            if not gone:
                return
            for i in gone:
                losses[i] += _code(replies[i]) in ("lost", "out_of_order")
            most = max(losses[i] for i in gone)
            if most <= BESIDE:
                self._again(do, items, gone, replies)
                continue
            # From 0.4 to 3.2 s, in which a worker that died is replaced.
            time.sleep(0.05 * 2**most)
            for i in gone:
                self._again(do, items, [i], replies)

    def _again(self, do: str, items: Sequence[dict[str, Any]], gone: Sequence[int], replies: list[Reply]) -> None:
        """Open sessions again and ask again, beside each other."""
        if do == OPENS:
            opening = [{**items[i], "move": 0} for i in gone]
        else:
            opening = [self._tales[items[i]["session"]].again(do) for i in gone]
        for i, reply in zip(gone, self._send(OPENS, opening), strict=True):
            replies[i] = reply
        back = [i for i in gone if do != OPENS and "error" not in replies[i].data]
        if back:
            for i, reply in zip(back, self._send(do, [items[i] for i in back]), strict=True):
                replies[i] = reply

    def _is_gone(self, do: str, item: dict[str, Any], reply: Reply) -> bool:
        if do == OPENS:
            return _code(reply) == "lost"
        return _code(reply) in GONE and item["session"] in self._tales

    def _note(self, do: str, item: dict[str, Any], data: dict[str, Any]) -> None:
        session = item["session"]
        with self._lock:
            if do == OPENS and "error" not in data:
                self._tales[session] = Tale(item)
            elif do == "close":
                self._tales.pop(session, None)
            elif do in MOVES and session in self._tales:
                self._tales[session].note(do, item, data)


def _code(reply: Reply) -> str | None:
    code: str | None = reply.data.get("error", {}).get("code")
    return code
