"""No turn is lost or played twice, whatever dies."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from service_fixtures import Command
from service_soak import soak

from vagen_adapters.service.client import Service


def test_no_turn_is_lost_or_doubled_while_workers_are_killed():
    with Command("--workers", 2) as command:
        places = [Service(command.url) for _ in range(2)]
        soak(places, lambda: command.workers, turns=1_500, envs=16, every=250)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_turn_is_lost_or_doubled_in_a_hundred_thousand():
    with Command("--workers", 2) as command:
        places = [Service(command.url) for _ in range(2)]
        counts, kills = soak(places, lambda: command.workers, turns=100_000, envs=32, every=700)
    print(f"{counts['turns']} turns, {kills} workers killed")
