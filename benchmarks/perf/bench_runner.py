"""What the runner adds to the time of an endpoint. Run by `make perf`."""

from __future__ import annotations

from typing import Any

import pytest

from perf.endpoint import endpoint
from perf.runner_load import DELAY, bare, play

TURNS = 3
"""Of an episode: the endpoint's reply solves nothing."""
IN_FLIGHT = 64


def test_instant_endpoint_ours(benchmark: Any) -> None:
    episodes = 400
    benchmark.group = f"{episodes * TURNS} turns, endpoint that answers at once"
    with endpoint(0.0) as url:
        benchmark.pedantic(play, (url, episodes, 8), rounds=3, warmup_rounds=1)


@pytest.mark.parametrize("who", ["ours", "theirs"])
def test_slow_endpoint(benchmark: Any, who: str) -> None:
    """`theirs` is the provider SDK alone. The ideal is `turns * DELAY / IN_FLIGHT` seconds."""
    episodes = 10 * IN_FLIGHT
    benchmark.group = f"{episodes * TURNS} turns of {DELAY} s, {IN_FLIGHT} in flight"
    with endpoint(DELAY) as url:
        if who == "ours":
            benchmark.pedantic(play, (url, episodes, IN_FLIGHT), rounds=3)
        else:
            benchmark.pedantic(bare, (url, episodes * TURNS, IN_FLIGHT), rounds=3)
