"""No turn is lost or played twice, whatever dies: each is held against the one played in this process."""

from __future__ import annotations

import pytest
from service_fixtures import Command
from service_fleet import Fleet
from service_soak import soak, strike_at

from vagen_adapters.service.client import Service


def test_no_turn_is_lost_or_doubled_while_workers_are_killed():
    with Command("--workers", 2) as command:
        backends = [Service(command.url) for _ in range(2)]
        _, kills = soak(
            backends, strike_at(lambda: command.workers), turns=1_000, envs=16, every=250
        )
        assert kills >= 2


def test_no_turn_is_lost_or_doubled_while_servers_and_workers_are_killed():
    with Fleet(2, "--workers", 1) as fleet:
        backends = [Service(fleet.url) for _ in range(4)]
        soak(backends, fleet.strike, turns=2_000, envs=8, every=500)
        assert min(fleet.killed.values()) >= 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_thousand_sessions_over_three_servers_that_are_killed_fifty_times():
    with Fleet(3, "--workers", 2, "--max-sessions", 2100) as fleet:
        backends = [Service(fleet.url) for _ in range(20)]
        turns, kills = soak(backends, fleet.strike, turns=100_000, envs=50, every=1_800)
        print(f"{turns} turns of 1000 sessions, {fleet.killed} killed")
        assert kills >= 50
