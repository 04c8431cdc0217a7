"""Whose turn it is in a worker: costly calls of some hold up the calls of others by one of them at most."""

from __future__ import annotations

import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from costly import BURN, SLOW
from service_fixtures import LAKE, Served, kill

from vagen_adapters.service.client import Service
from vagen_adapters.service.fair import FairQueue, Job
from vagen_adapters.service.host import Call, EnvHost
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.local_pool import local_pool
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_envs.errors import SimulatorError

COSTLY = "costly:test/Costly-v0"
SECONDS = 0.6
"""That a reset of a costly level takes there."""


def job(session, do="step", flow="", **arguments):
    return Job(Call(session, do, arguments), lambda _: None, flow)


def known(queue, *sessions, seconds=0.001, do="step"):
    for each in sessions:
        queue.took(Call(each, do, {}), seconds)


def taken(queue, most=64):
    return [each.call.session for each in queue.take(most)]


def test_a_quick_call_waits_for_one_message_of_others_at_most():
    queue = FairQueue()
    known(queue, "quick")
    for i in range(6):
        queue.put(job(f"costly{i}"))
    assert taken(queue, 1) == ["costly0"]
    for i in range(1, 6):
        queue.put(job("quick"))
        assert taken(queue, 1) == ["quick"]
        assert taken(queue, 1) == [f"costly{i}"]  # and they aren't kept waiting for ever by quick ones


def test_who_was_costly_once_has_to_be_quick_for_long():
    queue = FairQueue()
    known(queue, "s", seconds=9.0)
    goes_first = []
    for _ in range(300):
        known(queue, "s")
        queue.put(job("unknown"))
        queue.put(job("s"))
        goes_first.append(taken(queue) == ["s"])
        queue.drain()
    assert not any(goes_first[:150])
    assert any(goes_first[250:])


def test_flows_take_turns_however_much_one_asks_for():
    queue = FairQueue()
    for i in range(100):
        queue.put(job(f"greedy{i}", flow="a"))
    queue.put(job("modest", flow="b"))
    assert taken(queue, 3) == ["greedy0", "modest", "greedy1"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=60), st.lists(st.integers(1, 7)), st.data())
def test_nothing_is_lost_and_a_session_keeps_its_order(puts, sizes, data):
    """Whatever is taken, put back, or quick; a session has the flow that its number says."""
    queue = FairQueue()
    known(queue, "0", "1")
    known(queue, "2", seconds=5.0)
    for number, (session, _) in enumerate(puts):
        queue.put(job(str(session), flow=session % 2, number=number))
    seen = []
    for size in sizes:
        batch = queue.take(size)
        kept = data.draw(st.integers(0, len(batch)))
        seen += batch[:kept]
        queue.put_back(batch[kept:])
    seen += queue.drain()
    assert len(queue) == 0
    assert sorted(each.call.arguments["number"] for each in seen) == list(range(len(puts)))
    for session in range(5):
        mine = [each.call.arguments["number"] for each in seen if each.call.session == str(session)]
        assert mine == sorted(mine)


@pytest.fixture
def served(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    with Served(local_pool(1, limits=Limits(cpu=20.0)), key="one,two", env_ids=[COSTLY, LAKE]) as one:
        yield one


def test_a_neighbour_of_costly_sessions_waits_for_one_of_their_calls(served):
    """Eight sessions of another key ask for costly levels together; a turn beside them waits for one of these."""
    hogs, service = Service(served.url, "one"), Service(served.url, "two")
    crowd = [RemoteEnv(hogs, COSTLY) for _ in range(8)]
    env = RemoteEnv(service, LAKE, max_turns=1000)
    env.reset(seed=1)
    env.step("x")
    items = [each.reset_item(SLOW + i, None) for i, each in enumerate(crowd)]
    asking = threading.Thread(target=hogs.ask, args=("reset", items))
    asking.start()
    waits = []
    while asking.is_alive():
        began = time.monotonic()
        env.step("x")
        waits.append(time.monotonic() - began)
    assert len(waits) >= 5, waits  # it had a turn between most of them
    assert max(waits) < 8 * SECONDS / 2, waits
    for each in (service, hogs):
        each.close()


def test_an_episode_is_played_again_a_slice_at_a_time():
    host = EnvHost()
    host.do(
        [
            Call("first", "open", {"env_id": LAKE, "options": {"max_turns": 100}}),
            Call("first", "reset", {"seed": 3, "split": None}),
        ]
    )
    mark = host.do([Call("first", "step", {"reply": "x"})] * 40)[-1].mark
    replay = {"seed": 3, "split": None, "replies": ["x"] * 40, "mark": mark}
    (done,) = host.timed(
        [Call("again", "open", {"env_id": LAKE, "options": {"max_turns": 100}, "replay": replay})], 0.0
    )
    slices = 1
    while done.result is None:
        (done,) = host.timed([Call("again", "go_on", {})], 0.0)
        slices += 1
    assert slices == 42  # the reset and each turn, and whether it is the same
    assert b"system_prompt" in done.result.body
    assert host.do([Call("again", "step", {"reply": "x"})]) == host.do([Call("first", "step", {"reply": "x"})])
    (none,) = host.do([Call("again", "go_on", {})])
    assert none.code == "unknown_session"


def test_each_turn_that_is_played_again_has_the_whole_bound(monkeypatch):
    """Four turns of 0.3 s of CPU each: together they pass the bound of one call, which is 0.6 s."""
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    with Served(local_pool(1, limits=Limits(cpu=0.6)), env_ids=[COSTLY]) as served:
        service = Service(served.url)
        env = RemoteEnv(service, COSTLY, max_turns=100)
        env.reset(seed=1)
        for _ in range(4):
            env.step(BURN)
        kill(served.pool.hosts[0].pid)
        assert env.step("x")[4]["turn"].index == 4
        assert served.pool.replaced == 1
        with pytest.raises(SimulatorError, match=r"0\.6 s of CPU"):
            env.step(3 * BURN)
        service.close()
