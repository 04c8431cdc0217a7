"""Many sessions at once against `vagen serve`, and what a turn costs: `python -m
perf.service_load`.

Each session has a connection of its own and plays Sokoban with pictures as fast as it is answered,
or, with `--think`, after a pause like a model's. The client decodes nothing, so that the server is
what is measured; processor time is read from the processes and doesn't suffer from what else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import re
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import uvloop
from websockets.asyncio.client import ClientConnection, connect

from perf.bench_grids import REPLY
from perf.processes import children, processor_seconds, resident
from vagen_adapters.service.framing import unpack

ACTIONS = ("Up", "Down", "Left", "Right")


@dataclass
class Load:
    """What was measured.

    Attributes:
        waits: seconds from each step's sending to its answer.
        opened: sessions opened and reset in a second.
        seconds: of playing.
        received: bytes.
        front: processor seconds of the server while playing.
        workers: those of its workers.
        session_bytes: by which server and workers together grew for each session that was opened.
    """

    waits: list[float] = field(default_factory=list)
    opened: float = 0.0
    seconds: float = 0.0
    received: int = 0
    front: float = 0.0
    workers: float = 0.0
    session_bytes: float = 0.0

    def summary(self) -> dict[str, float]:
        """The figures that are quoted."""
        turns = len(self.waits)
        cuts = statistics.quantiles(self.waits, n=100)
        return {
            "turns": turns,
            "turns_per_s": turns / self.seconds,
            "sessions_opened_per_s": self.opened,
            "p50_ms": 1e3 * cuts[49],
            "p99_ms": 1e3 * cuts[98],
            "front_us_per_turn": 1e6 * self.front / turns,
            "worker_us_per_turn": 1e6 * self.workers / turns,
            "bytes_per_turn": self.received / turns,
            "kib_per_session": self.session_bytes / 1024,
        }


class Player:
    """One session on one connection."""

    path = "/v1/ws"

    def __init__(self, number: int, load: Load) -> None:
        self._load, self._move = load, 0
        self._session = secrets.token_urlsafe(16)
        self._draw = random.Random(number)  # noqa: S311 - not for secrets
        self._seed = number

    async def open(self, url: str) -> None:
        """Connect, open and reset."""
        self._ws: ClientConnection = await connect(
            url + self.path, compression=None, max_size=None, open_timeout=120, proxy=None
        )
        await self._open()
        await self._begin()

    async def leave(self) -> None:
        """End the session and disconnect."""
        await self._end()
        await self._ws.close()

    async def play(self, until: float, think: float) -> None:
        """Play until a time of `time.perf_counter`."""
        while time.perf_counter() < until:
            if think:
                await asyncio.sleep(self._draw.expovariate(1 / think))
            reply = REPLY.format(",".join(self._draw.choices(ACTIONS, k=3)))
            began = time.perf_counter()
            over = await self._turn(reply)
            self._load.waits.append(time.perf_counter() - began)
            if over:
                await self._begin()

    async def _end(self) -> None:
        await self._ask("close")

    async def _open(self) -> None:
        await self._ask("open", env_id="vagen/Sokoban-v0", options={})

    async def _turn(self, reply: str) -> bool:
        turn = (await self._ask("step", move=self._next(), reply=reply))["turn"]
        return bool(turn["terminated"] or turn["truncated"])

    async def _begin(self) -> None:
        self._seed += 1_000_000
        await self._ask("reset", move=self._next(), seed=self._seed)

    def _next(self) -> int:
        self._move += 1
        return self._move

    async def _ask(self, verb: str, **item: Any) -> Any:
        await self._ws.send(
            orjson.dumps({"verb": verb, "items": [{"session": self._session, **item}]})
        )
        frame = await self._ws.recv()
        self._load.received += len(frame)
        answer = orjson.loads(unpack(frame)[0])["items"][0]
        if "error" in answer:
            raise RuntimeError(f"{verb}: {answer['error']}")
        return answer


async def drive(port: int, pid: int, sessions: int, seconds: float, think: float) -> Load:
    """Open sessions and play in all of them."""
    load = Load()
    players = [Player(number, load) for number in range(sessions)]
    warm = Player(sessions, load)
    await warm.open(f"ws://127.0.0.1:{port}")
    size_before = resident(pid, *children(pid))
    began = time.perf_counter()
    for first in range(0, sessions, 50):
        await asyncio.gather(
            *(each.open(f"ws://127.0.0.1:{port}") for each in players[first : first + 50])
        )
    load.opened = sessions / (time.perf_counter() - began)
    load.session_bytes = (resident(pid, *children(pid)) - size_before) / sessions
    load.received = 0
    before, workers = processor_seconds(pid), children(pid)
    workers_before = processor_seconds(*workers)
    began = time.perf_counter()
    await asyncio.gather(*(each.play(began + seconds, think) for each in players))
    load.seconds = time.perf_counter() - began
    load.front = processor_seconds(pid) - before
    load.workers = processor_seconds(*workers) - workers_before
    return load


@contextlib.contextmanager
def serving(*options: str) -> Iterator[tuple[int, int]]:
    """`vagen serve` with these options, in a process of its own: its port and the process."""
    command = [sys.executable, "-m", "vagen_benchmarks.cli", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
        try:
            assert server.stdout is not None
            found = re.search(r"serving on http://[\d.]+:(\d+)", server.stdout.readline())
            assert found, "the server did not start"
            yield int(found[1]), server.pid
        finally:
            server.terminate()
            server.wait(60)


def measure(sessions: int, seconds: float, think: float = 0.0, workers: int = 2) -> Load:
    """Start the command, drive it, and end it."""
    with serving("--workers", str(workers), "--max-sessions", str(2 * sessions + 10)) as (
        port,
        pid,
    ):
        return uvloop.run(drive(port, pid, sessions, seconds, think))


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--think", type=float, default=0.0, help="mean seconds before each reply")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    summary = measure(args.sessions, args.seconds, args.think, args.workers).summary()
    print(
        orjson.dumps(
            {name: round(value, 1) for name, value in summary.items()}, option=orjson.OPT_INDENT_2
        ).decode()
    )


if __name__ == "__main__":
    main()
