"""What one client may cost: whoever passes a bound ends alone, with an error that names it; its neighbours play on."""

from __future__ import annotations

import sys

import httpx2 as httpx
import pytest
from costly import GRABS, HOARDS, SLOW, SPINS, SWALLOWS
from service_fixtures import Served

from perf.processes import resident
from vagen_adapters.errors import ServiceError
from vagen_adapters.service.client import Service
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.local_pool import local_pool
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_envs.errors import ConfigError, EpisodeOverError, SimulatorError

COSTLY = "costly:test/Costly-v0"


@pytest.fixture(scope="module")
def served():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
        pool = local_pool(1, limits=Limits(cpu=0.5, memory=512 << 20), timeout=4)
        with Served(pool, env_ids=[COSTLY, "vagen/FrozenLake-v0", "vagen/Sokoban-v0"]) as one:
            yield one
            assert pool.replaced == 0  # no bound took the worker down


@pytest.mark.parametrize(
    ("seed", "why"),
    [(SPINS, "0.5 s of CPU"), (SWALLOWS, "0.5 s of CPU"), (HOARDS, "512 MiB"), (GRABS, "512 MiB")],
)
def test_a_session_that_costs_too_much_ends_alone(served, seed, why):
    service = Service(served.url)
    neighbour, hog = RemoteEnv(service, "vagen/FrozenLake-v0"), RemoteEnv(service, COSTLY)
    neighbour.reset(seed=1)
    hog.reset(seed=1)
    with pytest.raises(SimulatorError, match=f"{why}.*start the server with a larger --"):
        hog.reset(seed=seed)
    with pytest.raises(EpisodeOverError):
        hog.step("x")
    assert (
        neighbour.step("<answer>Down</answer>")[4]["turn"].index == 0
    )  # the same episode, the same worker
    hog.reset(seed=2)  # another session in its place
    assert hog.step("<answer>Down</answer>")[4]["turn"].index == 0
    hog.close()
    neighbour.close()
    service.close()
    assert 'vagen_ended_sessions_total{why="too_costly"}' in httpx.get(f"{served.url}/metrics").text
    assert resident(served.pool.workers[0].pid) < 300 << 20  # what it had is given back


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("vagen/FrozenLake-v0", {"desc": ["SG" + "F" * 62] + ["F" * 64] * 63, "scale": 4}),
        ("vagen/FrozenLake-v0", {"desc": ["SG" + "F" * 98] + ["F" * 100] * 99}),
        ("vagen/FrozenLake-v0", {"size": 64}),
        ("vagen/FrozenLake-v0", {"scale": 16, "size": 16}),
        ("vagen/Sokoban-v0", {"dim_room": [1000, 1000]}),
        ("vagen/Sokoban-v0", {"scale": 1000}),
        ("vagen/Sokoban-v0", {"num_boxes": 10**18}),
        ("vagen/Sokoban-v0", {"max_actions_per_turn": 10**6}),
    ],
)
def test_sizes_are_checked_before_anything_is_built(served, env_id, options):
    service = Service(served.url)
    before = resident(served.pool.workers[0].pid)
    with pytest.raises(ConfigError, match="must be"):
        RemoteEnv(service, env_id, **options)
    service.close()
    assert resident(served.pool.workers[0].pid) - before < 8 << 20


def test_keys_have_shares_and_see_only_their_own():
    """One takes all that it can; the other one's sessions are there, play on, and are nobody else's."""
    with Served(key="alpha, beta", max_sessions=8) as served:
        alpha, beta = (Service(served.url, key, patience=0.2) for key in ("alpha", "beta"))
        env = RemoteEnv(beta, "vagen/FrozenLake-v0")
        env.reset(seed=1)
        items = [
            {"session": f"greedy-alpha-{i:06}", "env_id": "vagen/FrozenLake-v0"} for i in range(20)
        ]
        said = [reply.data.get("error", {}).get("code") for reply in alpha.ask("open", items)]
        assert said == [None] * 4 + ["full"] * 16
        for do, more in (("close", {}), ("step", {"reply": "x"}), ("reset", {})):
            (reply,) = alpha.ask(do, [{"session": env._session, **more}])
            assert reply.data["error"]["code"] == "forbidden", do
        assert env.step("<answer>Down</answer>")[4]["turn"].index == 0
        alpha.ask("close", [{"session": items[0]["session"]}])
        assert (
            "error" not in alpha.ask("open", [{**items[0], "session": "another-of-alpha"}])[0].data
        )
        assert (
            "error" not in beta.ask("open", [{**items[0], "session": "another-of-beta-"}])[0].data
        )
        with pytest.raises(ServiceError, match="key is missing or wrong"):
            Service(served.url, "alpha, beta").ask("close", [{"session": "another-of-alpha"}])
        alpha.close()
        beta.close()


def test_a_request_whose_calls_take_long_is_answered(served):
    """Together its calls take longer than a worker may be silent for; nothing is lost."""
    service = Service(served.url)
    crowd = [RemoteEnv(service, COSTLY) for _ in range(12)]
    for each in crowd:
        each.reset(seed=1)
    replies = service.ask(
        "reset", [each.reset_item(SLOW + i, None) for i, each in enumerate(crowd)]
    )
    assert [reply.data.get("error") for reply in replies] == [None] * 12
    assert served.pool.replaced == 0
    for each in crowd:
        each.close()
    service.close()
