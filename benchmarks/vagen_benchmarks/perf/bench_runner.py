"""What the runner adds to the time of an endpoint. Run by `make perf`."""

from __future__ import annotations

import http.client
import json
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from vagen_benchmarks.chat_agent import ChatAgent
from vagen_benchmarks.models import Registry
from vagen_benchmarks.perf.endpoint import endpoint
from vagen_benchmarks.protocol import Protocol, make_tasks
from vagen_benchmarks.run_folder import RunWriter
from vagen_benchmarks.runner import Policy, run

TURNS = 3
"""Of an episode: the endpoint's reply solves nothing."""
DELAY, IN_FLIGHT = 0.2, 64


def play(url: str, episodes: int, concurrency: int) -> None:
    """A run, from nothing to its folder."""
    agent = ChatAgent(Registry().find("openai:m", url), base_url=url)
    tasks, _ = make_tasks(["sokoban"], episodes=episodes)
    with tempfile.TemporaryDirectory() as folder, RunWriter(
        Path(folder) / "run", Protocol(tuple(tasks), (agent.describe(),))
    ) as writer:  # fmt: skip
        outcome = run(writer, [agent], policy=Policy(concurrency))
    assert (outcome.played, outcome.failed) == (episodes, 0)


def ask(url: str, requests: int, concurrency: int) -> None:
    """The same requests from bare threads that do nothing else."""
    where = urlsplit(url)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 6000}]}).encode()

    def work() -> None:
        connection = http.client.HTTPConnection(where.netloc)
        for _ in range(requests // concurrency):
            connection.request("POST", f"{where.path}/chat/completions", body)
            json.loads(connection.getresponse().read())

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_instant_endpoint_ours(benchmark: Any) -> None:
    episodes = 400
    benchmark.group = f"{episodes * TURNS} turns, endpoint that answers at once"
    benchmark.extra_info["at_most_us"] = episodes * TURNS / 300 * 1e6  # 300 turns a second
    with endpoint(0.0) as url:
        benchmark.pedantic(play, (url, episodes, 8), rounds=3, warmup_rounds=1)


@pytest.mark.parametrize("who", ["ours", "theirs"])
def test_slow_endpoint(benchmark: Any, who: str) -> None:
    """`theirs` are bare threads. The ideal is `turns * DELAY / IN_FLIGHT` seconds."""
    episodes = 10 * IN_FLIGHT
    benchmark.group = f"{episodes * TURNS} turns of {DELAY} s, {IN_FLIGHT} in flight"
    if who == "ours":
        benchmark.extra_info["at_most_us"] = episodes * TURNS * DELAY / IN_FLIGHT / 0.9 * 1e6
    with endpoint(DELAY) as url:
        if who == "ours":
            benchmark.pedantic(play, (url, episodes, IN_FLIGHT), rounds=3)
        else:
            benchmark.pedantic(ask, (url, episodes * TURNS, IN_FLIGHT), rounds=3)
