"""What a turn costs the runner, and how near it comes to the ideal: `python -m perf.runner_load`.

Prints a table against an endpoint that answers at once and one that takes 0.2 s, with so many requests in flight: of a
bare asyncio client that sends as much and reads the answers, then of runs by one process and by two. Processor time is
of all processes that play or store, environment, pictures, client and run folder included. The endpoint is a process of
its own on the same cores, whose time is told beside it.

The whole run is from nothing to its folder: processes, environments and connections are begun in it, and in the end
seats are empty. Under way it is between the episodes of which each seat has played three and all but three.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from perf.endpoint import endpoint
from perf.processes import children, processor_seconds
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.loops import loop_factory
from vagen_benchmarks.runs.cores import run_job
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.job import Job
from vagen_benchmarks.runs.protocol import Protocol, make_tasks
from vagen_benchmarks.runs.run_folder import RunWriter
from vagen_benchmarks.runs.runner import Policy

DELAY = 0.2
SEATED = 18
"""Episodes of each place in flight, so that the run is more than its beginning."""
LEFT_OUT = 3
"""Of these at its beginning and at its end."""


class Load(NamedTuple):
    """What a run took: turns, seconds, and a second's turns and the seconds of processor time a turn under way."""

    turns: int
    wall: float
    rate: float
    cost: float


class _Stopwatch:
    """Hears of each episode that is stored."""

    def __init__(self, marks: tuple[int, int], others: set[int]) -> None:
        self.turns = self.episodes = 0
        self._marks, self._others = marks, others
        self.read: list[tuple[int, float, float]] = []

    def told(self, episode: Episode) -> None:
        self.turns += len(episode.turns)
        self.episodes += 1
        if self.episodes in self._marks:
            players = [pid for pid in children(os.getpid()) if pid not in self._others]
            spent = time.process_time() + (processor_seconds(*players) if players else 0.0)
            self.read.append((self.turns, time.perf_counter(), spent))


def load(url: str, episodes: int, concurrency: int, workers: int = 1) -> Load:
    """A run, from nothing to its folder."""
    each = episodes // concurrency
    left_out = min(LEFT_OUT, (each - 1) // 2) * concurrency
    watch = _Stopwatch((max(1, left_out), episodes - left_out), set(children(os.getpid())))
    began = time.perf_counter()
    agents = make_agents(["openai:m"], Asked(base_url=url), None, [])
    tasks, _ = make_tasks(["sokoban"], episodes=episodes)
    protocol = Protocol(tuple(tasks), tuple(agent.describe() for agent in agents))
    with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder) / "run", protocol) as writer:
        job = Job(writer.path, protocol, agents, None, [], Policy(concurrency), {"base_url": url})
        outcome = run_job(writer, job, workers, watch.told)
    wall = time.perf_counter() - began
    assert (outcome.played, outcome.failed) == (episodes, 0)
    (few, then, before), (many, now, after) = watch.read
    return Load(watch.turns, wall, (many - few) / (now - then), (after - before) / (many - few))


def play(url: str, episodes: int, concurrency: int) -> int:
    """A run by one process. Returns its turns."""
    return load(url, episodes, concurrency).turns


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.read, self.answered = bytearray(), asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.read += data
        head, found, body = bytes(self.read).partition(b"\r\n\r\n")
        if found and len(body) >= int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            self.read.clear()
            self.answered.set_result(body)


async def ask(url: str, requests: int, concurrency: int) -> None:
    """So many requests of three turns' size, with nothing else done."""
    where, loop = urlsplit(url), asyncio.get_running_loop()
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 6000}]}).encode()
    request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)

    async def work() -> None:
        transport, connection = await loop.create_connection(_Connection, str(where.hostname), where.port or 80)
        for _ in range(requests // concurrency):
            connection.answered = loop.create_future()
            transport.write(request)
            json.loads(await connection.answered)
        transport.close()

    await asyncio.gather(*(work() for _ in range(concurrency)))


def bare(url: str, requests: int, concurrency: int) -> tuple[float, float]:
    """Requests a second by a bare client, and its seconds of processor time for each."""
    wall, spent = time.perf_counter(), time.process_time()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(ask(url, requests, concurrency))
    return requests / (time.perf_counter() - wall), (time.process_time() - spent) / requests


def main(rounds: int) -> None:
    """Measure and print, as many times."""
    for delay, flights in ((0.0, (16, 512)), (DELAY, (64, 256, 512))):
        with endpoint(delay) as url:
            load(url, 96, 8)  # what is imported and remembered isn't a turn's
            for _ in range(rounds):
                for flight in flights:
                    _compare(url, delay, flight)


def _compare(url: str, delay: float, flight: int) -> None:
    """A bare client, one process and two, one after the other."""
    # At once, as many episodes whatever is in flight: a folder that grows costs a turn a little, too.
    episodes = flight * max(SEATED, 1500 // flight) if delay else 512 * SEATED
    rate, cost = bare(url, 18 * max(flight, 256), flight)
    _print(delay, flight, "a bare client", f"{_of(delay, flight, rate)}, {1e3 * cost:.2f} ms of CPU a request")
    for workers in (1, 2):
        ours = children(os.getpid())
        served = processor_seconds(*ours)
        run = load(url, episodes, flight, workers)
        served = processor_seconds(*ours) - served
        whole = _of(delay, flight, run.turns / run.wall)
        said = f"{1e3 * run.cost:.2f} ms of CPU a turn, and {1e3 * served / run.turns:.2f} of the endpoint"
        under_way = _of(delay, flight, run.rate)
        _print(delay, flight, f"{workers} process(es)", f"whole {whole}, under way {under_way}, {said}")


def _of(delay: float, flight: int, rate: float) -> str:
    """Turns a second, and what share of the ideal they are."""
    return f"{rate:.0f}/s, {rate * delay / flight:.1%} of the ideal" if delay else f"{rate:.0f}/s"


def _print(delay: float, flight: int, who: str, said: str) -> None:
    sys.stdout.write(f"{delay} s, {flight} in flight, {who}: {said}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
