"""Throughput of a run beside the provider SDK alone: `python -m perf.runner_load`.

Both send as many requests of a turn's size to an endpoint that takes 0.2 s, 64 at a time.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import openai

from perf.endpoint import endpoint
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.runs.protocol import Protocol
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.runner import Policy, run
from vagen_benchmarks.runs.tasks import make_tasks

DELAY, IN_FLIGHT = 0.2, 64


def play(url: str, episodes: int, concurrency: int) -> tuple[int, float]:
    """Turns of a run, and their seconds, from the first request to the closed run folder."""
    agents = make_agents(["openai:m"], Asked(base_url=url), None, [])
    tasks, _ = make_tasks(["sokoban"], episodes=episodes)
    protocol = Protocol(tuple(tasks), tuple(agent.describe() for agent in agents))
    turns = 0

    def count(episode: object) -> None:
        nonlocal turns
        turns += len(episode.turns)  # type: ignore[attr-defined]

    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        RunWriter(Path(folder) / "run", protocol) as writer,
    ):
        run(writer, agents, policy=Policy(concurrency), told=count)
    return turns, time.perf_counter() - began


def bare(url: str, requests: int, concurrency: int) -> float:
    """Seconds of the SDK's own `chat.completions.create` for as many requests."""

    async def work(sdk: openai.AsyncOpenAI, count: int) -> None:
        for _ in range(count):
            message = {"role": "user", "content": "x" * 6000}
            await sdk.chat.completions.create(model="m", messages=[message], max_tokens=400)  # type: ignore[list-item]

    async def main() -> None:
        async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as sdk:
            await asyncio.gather(*(work(sdk, requests // concurrency) for _ in range(concurrency)))

    began = time.perf_counter()
    asyncio.run(main())
    return time.perf_counter() - began


def main(rounds: int) -> None:
    """Measure and print, as many times."""
    with endpoint(DELAY) as url:
        play(url, 8, 8)  # imports and first connections aren't a turn's cost
        for _ in range(rounds):
            turns, seconds = play(url, 20 * IN_FLIGHT, IN_FLIGHT)
            alone = bare(url, turns, IN_FLIGHT)
            sys.stdout.write(
                f"{turns / seconds:.0f} turns/s in a run, {turns / alone:.0f} requests/s by the "
                f"SDK alone: {alone / seconds:.1%}\n"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
