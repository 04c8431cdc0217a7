"""What a turn costs the runner, and how near it comes to the ideal: `python -m vagen_benchmarks.perf.runner_load`.

Beside a bare asyncio client that sends the same bytes and reads the answers. Processor time is of this process, the
client, the environment, the pictures and the run folder included; the endpoint is a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.perf.endpoint import endpoint
from vagen_benchmarks.perf.runner_cores import spent
from vagen_benchmarks.runs.protocol import Protocol, make_tasks
from vagen_benchmarks.runs.run_folder import RunWriter
from vagen_benchmarks.runs.runner import Policy, run

DELAY = 0.2
SEATED = 6
"""Episodes of each place in flight at least, so that the run is more than its beginning."""


def play(url: str, episodes: int, concurrency: int) -> int:
    """A run, from nothing to its folder. Returns its turns."""
    agent = ChatAgent(Registry().find("openai:m", url), base_url=url)
    tasks, _ = make_tasks(["sokoban"], episodes=episodes)
    turns: list[int] = []
    with tempfile.TemporaryDirectory() as folder, RunWriter(
        Path(folder) / "run", Protocol(tuple(tasks), (agent.describe(),))
    ) as writer:  # fmt: skip
        outcome = run(
            writer, [agent], policy=Policy(concurrency), told=lambda episode: turns.append(len(episode.turns))
        )
    assert (outcome.played, outcome.failed) == (episodes, 0)
    return sum(turns)


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


def main(episodes: int) -> None:
    """Measure and print. The runner's wall time includes its start and its folder's end."""
    with endpoint(0.0) as url:
        play(url, 32, 8)
        for flight in (16, 64, 512, 16, 64, 512):
            wall, spent = time.perf_counter(), time.process_time()
            turns = play(url, max(episodes, SEATED * flight), flight)
            wall, spent = time.perf_counter() - wall, time.process_time() - spent
            _print(
                f"at once, {flight} in flight: {spent / turns * 1e3:.2f} ms of CPU a turn, {turns / wall:.0f} a second"
            )
    with endpoint(DELAY) as url:
        for flight in (64, 256, 512):
            began = time.perf_counter()
            turns = play(url, 12 * flight, flight)
            ours = time.perf_counter() - began
            began = time.perf_counter()
            asyncio.run(ask(url, turns, flight))
            bare = time.perf_counter() - began
            ideal = turns * DELAY / flight
            _print(f"{DELAY} s, {flight} in flight: {ideal / ours:.0%} of the ideal, a bare client {ideal / bare:.0%}")
        for flight in (64, 256, 512):
            for workers in (1, 2):
                _print(f"under way, {flight} in flight, {workers} process(es): {under_way(url, flight, workers):.0%}")


def under_way(url: str, flight: int, workers: int) -> float:
    """Share of the ideal of a run under way: without its beginning and its end, when not all seats are taken."""
    few, many = (spent(url, each * flight, workers, flight) for each in (6, 18))
    return (many.turns - few.turns) * DELAY / flight / (many.wall - few.wall)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1500)
