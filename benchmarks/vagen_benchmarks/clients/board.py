"""What the processes of one run know of each other: what each has spent and set aside, and whether an endpoint is down.

Numbers in a file that all of them map, and a lock that is free again when its holder has died.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

LOOK = 0.1
"""Seconds between looks at what others do."""
_DOUBLE = 8  # bytes of a number
_GATE = 5  # numbers of a gate; `SharedGate` names them
_WHY = 64
"""Numbers' room for the words of an outage."""


class Spent(NamedTuple):
    """What a process has spent, what its requests may cost at worst, and what its episodes may still take."""

    dollars: float = 0.0
    tokens: float = 0.0
    held_dollars: float = 0.0
    held_tokens: float = 0.0
    expected_dollars: float = 0.0
    expected_tokens: float = 0.0


NOTHING = Spent()


class Board:
    """The figures, as one of the processes sees them.

    Args:
        path: the file, made by `Board.make`.
        row: which process this is. Row 0 is for what was spent before.
    """

    def __init__(self, path: Path, row: int) -> None:
        self.path, self.row = path, row
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), 0)
        self._numbers = memoryview(self._map).cast("d")
        self._rows, self._gates = int(self._numbers[0]), int(self._numbers[1])

    @classmethod
    def make(cls, path: Path, processes: int, gates: int) -> Board:
        """A new one, seen from row 0."""
        numbers = 2 + (1 + processes) * len(NOTHING) + gates * (_GATE + _WHY)
        path.write_bytes(bytes(numbers * _DOUBLE))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as made, memoryview(made).cast("d") as view:
            view[0], view[1] = 1 + processes, gates
        return cls(path, 0)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """While nobody else changes anything."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def others(self) -> Spent:
        """What all others together have spent and set aside."""
        rows = [self._of(row) for row in range(self._rows) if row != self.row]
        return Spent(*map(sum, zip(*rows, strict=True)))

    def say(self, spent: Spent) -> None:
        """What this process has spent and set aside."""
        self._write(self.row, spent)

    def bury(self, row: int) -> None:
        """A process has died: what it had set aside isn't needed, and another may probe. What it spent is spent."""
        with self.locked():
            self._write(row, Spent(*self._of(row)[:2]))
            for gate in range(self._gates):
                state = self.gate(gate)
                if state.prober == row + 1:
                    state.prober = 0

    def gate(self, number: int) -> SharedGate:
        """The state of an agent's gate."""
        return SharedGate(self, 2 + self._rows * len(NOTHING) + number * (_GATE + _WHY))

    def close(self) -> None:
        """Let the file go."""
        self._numbers.release()
        self._map.close()
        self._file.close()

    def _of(self, row: int) -> Spent:
        first = 2 + row * len(NOTHING)
        return Spent(*self._numbers[first : first + len(NOTHING)])

    def _write(self, row: int, spent: Sequence[float]) -> None:
        first = 2 + row * len(NOTHING)
        for i, number in enumerate(spent):
            self._numbers[first + i] = number

    def get(self, place: int) -> float:
        """A number."""
        return self._numbers[place]

    def set(self, place: int, number: float) -> None:
        """Write a number."""
        self._numbers[place] = number

    def words(self, place: int) -> str:
        """A text, empty at first."""
        return self._map[place * _DOUBLE : (place + _WHY) * _DOUBLE].rstrip(b"\0").decode("utf-8", "ignore")

    def set_words(self, place: int, words: str) -> None:
        """Write a text, cut where there is no more room."""
        room = _WHY * _DOUBLE
        self._map[place * _DOUBLE : (place + _WHY) * _DOUBLE] = words.encode()[:room].ljust(room, b"\0")


class GateState:
    """Whether an endpoint is down, as one process knows it. Times are of `time.monotonic`.

    Attributes:
        down_since: 0 while it isn't.
        wait: seconds to the next probe but one, before jitter; 0 for the first.
        next_probe: not before then.
        prober: who is probing, 0 for nobody.
        shut_until: nobody is let through before then.
        why: of the outage: kind, HTTP status and words.
    """

    look = float("inf")
    """Seconds after which to look again, where nobody says that something has changed."""
    me = 1

    def __init__(self) -> None:
        self.down_since = self.wait = self.next_probe = self.prober = self.shut_until = 0.0
        self.why: tuple[str, int | None, str] = ("unreachable", None, "")

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """While nobody else changes anything."""
        return contextlib.nullcontext()


def _number(i: int) -> property:
    return property(
        lambda self: self._board.get(self._place + i), lambda self, number: self._board.set(self._place + i, number)
    )


class SharedGate(GateState):
    """The same for all processes of a run."""

    look = LOOK
    down_since, wait, next_probe, prober, shut_until = map(_number, range(_GATE))

    def __init__(self, board: Board, place: int) -> None:
        self._board, self._place = board, place
        self.me = board.row + 1

    def locked(self) -> contextlib.AbstractContextManager[None]:
        return self._board.locked()

    @property
    def why(self) -> tuple[str, int | None, str]:
        words = self._board.words(self._place + _GATE)
        kind, status, text = json.loads(words) if words else ("unreachable", None, "the endpoint is down")
        return kind, status, text

    @why.setter
    def why(self, said: tuple[str, int | None, str]) -> None:
        self._board.set_words(self._place + _GATE, json.dumps([said[0], said[1], said[2][:60]]))
