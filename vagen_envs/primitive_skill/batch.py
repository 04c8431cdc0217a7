"""Sessions that one GPU simulates together: copies of a scene that move in lockstep."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from vagen_envs.errors import SimulatorError
from vagen_envs.primitive_skill import ENV_ID
from vagen_envs.primitive_skill.levels import Facts, Level
from vagen_envs.primitive_skill.session import Pixels
from vagen_envs.primitive_skill.skills import Call
from vagen_envs.primitive_skill.workers import PooledSession, shared_pool


class Copies(Protocol):
    """What a `Simulator` of several copies does."""

    def load(self, levels: Mapping[int, Level]) -> None:
        """Put these copies back to the start of these levels."""

    def run(self, calls: Mapping[int, Call]) -> dict[int, str]:
        """Carry out one skill in each of these copies."""

    def facts(self, copy: int = 0) -> Facts:
        """What is true in a copy now."""

    def pictures(self) -> Any:
        """One picture of each copy."""

    def close(self) -> None:
        """Free the scene."""


def start(levels: Sequence[Level], picture_size: int) -> Copies:
    """A GPU's simulator with a copy for each level."""
    from vagen_envs.primitive_skill.simulator import Simulator

    return Simulator(levels, picture_size, device="gpu")


class Batch:
    """`count` seats, each a session.

    A seat's call waits until every seat that takes part in this turn (see `begin`) has made one; then all
    loads are done at once, and all skills. When nothing is left to be done but pictures, they are taken at
    once. Between turns, nobody waits.
    """

    def __init__(self, count: int, picture_size: int) -> None:
        self.seats = [Seat(self, i) for i in range(count)]
        self._picture_size = picture_size
        self._copies: Copies | None = None
        self._levels: dict[int, Level] = {}
        self._changed = threading.Condition()
        self._taking_part: set[int] = set()
        self._asked: dict[int, tuple[str, Any]] = {}
        self._answers: dict[int, Any] = {}
        # One thread talks to the GPU, whichever seat asked last.
        self._thread = ThreadPoolExecutor(1, "primitive-skill-gpu")

    def begin(self) -> None:
        """All seats take part in what comes, until each has left."""
        with self._changed:
            self._taking_part = set(range(len(self.seats)))

    def leave(self, seat: int) -> None:
        """A seat's turn is over; the others needn't wait for it."""
        with self._changed:
            self._taking_part.discard(seat)
            self._serve_if_complete()

    def ask(self, seat: int, method: str, argument: Any = None) -> Any:
        """Make a call, wait for the others, and return its answer. Raises SimulatorError if the simulator broke."""
        with self._changed:
            self._asked[seat] = (method, argument)
            self._serve_if_complete()
            self._changed.wait_for(lambda: seat in self._answers)
            answer = self._answers.pop(seat)
        if isinstance(answer, Exception):
            raise SimulatorError(ENV_ID, f"{type(answer).__name__}: {answer}") from answer
        return answer

    def close(self) -> None:
        """Free the scene. May be called twice."""
        if self._copies is not None:
            self._thread.submit(self._copies.close).result()
            self._copies = None

    def _serve_if_complete(self) -> None:
        if not self._asked or not self._asked.keys() >= self._taking_part:
            return
        moving = any(method != "picture" for method, _ in self._asked.values())
        for method in ("load", "run") if moving else ("picture",):  # pictures wait until everything has moved
            arguments = {seat: argument for seat, (name, argument) in sorted(self._asked.items()) if name == method}
            if not arguments:
                continue
            self._asked = {seat: asked for seat, asked in self._asked.items() if seat not in arguments}
            try:
                self._answers |= self._thread.submit(getattr(self, f"_{method}"), arguments).result()
            except Exception as error:
                self._copies = None  # the next load builds everything anew
                self._answers |= dict.fromkeys(arguments, error)
        self._changed.notify_all()

    def _load(self, levels: Mapping[int, Level]) -> dict[int, Facts]:
        self._levels |= levels
        if self._copies is None:
            spare = next(iter(levels.values()))  # for a seat that has no level yet
            every = [self._levels.get(i, spare) for i in range(len(self.seats))]
            self._copies = start(every, self._picture_size)
        else:
            self._copies.load(levels)
        return {seat: self._copies.facts(seat) for seat in levels}

    def _run(self, calls: Mapping[int, Call]) -> dict[int, tuple[str, Facts]]:
        copies = self._running()
        said = copies.run(calls)
        return {seat: (said[seat], copies.facts(seat)) for seat in calls}

    def _picture(self, seats: Mapping[int, None]) -> dict[int, Pixels]:
        pixels = self._running().pictures()
        return {seat: pixels[seat].copy() for seat in seats}

    def _running(self) -> Copies:
        if self._copies is None:
            raise RuntimeError("the simulator broke for all copies")
        return self._copies


class Seat:
    """A session in a batch."""

    def __init__(self, batch: Batch, number: int) -> None:
        self._batch = batch
        self._number = number
        self._level: Level | None = None
        self._past: list[Call] = []
        self._twin: PooledSession | None = None
        self._twin_past: list[Call] | None = None

    def load(self, level: Level) -> Facts:
        self._level, self._past, self._twin_past = level, [], None
        facts: Facts = self._batch.ask(self._number, "load", level)
        return facts

    def run(self, call: Call) -> tuple[str, Facts]:
        self._past.append(call)
        said: tuple[str, Facts] = self._batch.ask(self._number, "run", call)
        return said

    def imagine(self, calls: Sequence[Call]) -> Facts:
        """As in any session, but on a CPU, whose physics is nearly the same."""
        assert self._level is not None, "load comes first"  # noqa: S101
        self._twin = self._twin or PooledSession(shared_pool(1, 0))
        if self._twin_past is None:
            self._twin.load(self._level)
            self._twin_past = []
        for call in self._past[len(self._twin_past) :]:
            self._twin.run(call)
            self._twin_past.append(call)
        return self._twin.imagine(calls)

    def picture(self) -> Pixels:
        pixels: Pixels = self._batch.ask(self._number, "picture")
        return pixels

    def close(self) -> None:
        """The scene is freed once the first of its seats is closed: they come and go together."""
        if self._twin is not None:
            self._twin.close()
            self._twin = None
        self._batch.close()
