"""Sessions outlive workers and servers: what is lost is played again from what the client has, and nothing twice."""

from __future__ import annotations

import json
import random
import time

import gymnasium as gym
import httpx2 as httpx
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from service_fixtures import LAKE, SOKOBAN, Served, random_reply, wait_until
from websockets.sync.client import connect

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.client import Service
from vagen_adapters.service.host import EnvHost
from vagen_adapters.service.journal import MOST_LOSSES
from vagen_adapters.service.places import InPool
from vagen_adapters.service.pool import Pool, WaitingHost
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_adapters.service.remote_vector import RemoteVectorEnv
from vagen_envs.errors import EpisodeOverError, SimulatorError
from vagen_envs.frozen_lake.env import FrozenLakeEnv
from vagen_envs.workers import WorkerDied


class Fragile(WaitingHost):
    """A worker in this process, which dies of a reply."""

    where, deaths = "here", 0

    def __init__(self):
        super().__init__()
        self._host = EnvHost()
        self._cause = ""

    def do(self, calls):
        if any(call.arguments.get("reply") == "poison" for call in calls):
            Fragile.deaths += 1
            self._cause = "it was poisoned"
        if self._cause:
            raise WorkerDied(self._cause, during=True)
        return self._host.timed(calls)

    def die(self):
        self._cause = "it was told to"

    def is_ready(self):
        return True

    def find_death(self):
        return self._cause


@pytest.fixture
def place():
    made = InPool(Pool(Fragile, 2))
    yield made
    made.close()


def die(place):
    for host in place.pool.hosts:
        host.die()


def test_a_turn_that_kills_its_workers_ends_its_episode_and_no_other(place):
    envs = RemoteVectorEnv(place, LAKE, 6, max_turns=9)
    envs.reset(seed=0)
    envs.step(["x"] * 6)
    Fragile.deaths = 0
    _, rewards, _, truncated, info = envs.step(["y", "y", "poison", "y", "y", "y"])
    assert truncated.tolist() == [False, False, True, False, False, False]
    assert rewards[2] == 0.0
    assert "poisoned" in info["simulator_error"][2]
    assert [turn and turn.index for turn in info["turn"]] == [1, 1, None, 1, 1, 1]
    assert MOST_LOSSES <= Fragile.deaths <= MOST_LOSSES + 1
    *_, truncated, info = envs.step(["z"] * 6)  # the third begins anew
    assert not truncated.any()
    assert [turn and turn.index for turn in info["turn"]] == [2, 2, None, 2, 2, 2]


class Dice(FrozenLakeEnv):
    """One that isn't deterministic."""

    def _metrics(self):
        return {**super()._metrics(), "thrown": random.SystemRandom().random()}


def test_an_episode_that_chance_decides_says_why_it_cannot_go_on(place):
    gym.register("vagen/Dice-v0", Dice)
    try:
        env = RemoteEnv(place, "vagen/Dice-v0")
        env.reset(seed=1)
        die(place)
        env.step("x")  # the reset alone gave the same again
        die(place)
        with pytest.raises(SimulatorError, match="1 turns played again gave other answers, so it isn't deterministic"):
            env.step("y")
        with pytest.raises(EpisodeOverError):
            env.step("y")
        env.reset(seed=1)
        assert env.step("x")[4]["turn"].index == 0
    finally:
        del gym.registry["vagen/Dice-v0"]


def test_whatever_move_it_dies_before_the_episode_is_the_same(place):
    env, local = RemoteEnv(place, SOKOBAN, max_turns=5), gym.make(SOKOBAN, max_turns=5).unwrapped
    draw = random.Random(4)
    for seed in (8, None, None, 9, None, None):
        if draw.random() < 0.5:
            die(place)
        assert env.reset(seed=seed)[1] == local.reset(seed=seed)[1]
        over = False
        while not over:
            reply = random_reply(draw)
            if draw.random() < 0.5:
                die(place)
            *ours, info = env.step(reply)
            *theirs, there = local.step(reply)
            assert (ours[1:], info) == (theirs[1:], there)
            over = ours[2] or ours[3]
    die(place)
    with pytest.raises(EpisodeOverError):
        env.step("after its end")


def test_resets_after_a_loss_are_three_requests_however_many(place, monkeypatch):
    envs = RemoteVectorEnv(place, LAKE, 64)
    envs.reset(seed=0)
    die(place)
    asked = []
    submit = place.pool.ask
    monkeypatch.setattr(place.pool, "ask", lambda calls: asked.append([call.do for call in calls]) or submit(calls))
    envs.reset(seed=64)
    assert asked == [["reset"] * 64, ["open"] * 64, ["reset"] * 64]


# -- behind a server -----------------------------------------------------------------------------------


def test_a_client_that_is_started_again_finds_room_at_once():
    with Served(max_sessions=8, linger=60) as served:
        first = Service(served.url)
        lost = RemoteVectorEnv(first, LAKE, 8)
        lost.reset(seed=0)
        with pytest.raises(ServiceError, match="no room"):  # who still holds its connection keeps its sessions
            RemoteEnv(Service(served.url), LAKE)
        for line in first._idle:
            line.connection.socket.close()  # as when its process dies
        again = RemoteVectorEnv(Service(served.url), LAKE, 6)
        again.reset(seed=0)
        assert again.step(["x"] * 6)[4]["turn"][5].index == 0


def test_a_session_whose_connection_is_lost_lingers_and_can_be_had_again():
    with Served(linger=0.3, lease=300) as served:
        service = Service(served.url)
        env, local = RemoteEnv(service, LAKE), gym.make(LAKE).unwrapped
        for each in (env, local):
            each.reset(seed=2)
            each.step("x")
        for line in service._idle:
            line.connection.socket.close()
        wait_until(lambda: "vagen_sessions 0.0" in httpx.get(f"{served.url}/metrics").text)
        assert env.step("y")[4]["turn"] == local.step("y")[4]["turn"]


def test_a_session_that_goes_on_without_a_connection_of_its_own_lingers_no_more():
    asked = {"items": [{"session": "0123456789abcdef"}]}
    with Served(linger=0.5, lease=300, max_sessions=1) as served:
        with connect(served.url.replace("http", "ws") + "/v1/ws") as ws:
            ws.send(json.dumps({"id": 1, "do": "open", "items": [{**asked["items"][0], "env_id": LAKE}]}).encode())
            ws.recv(20)
        wait_until(lambda: served.app.state.sessions._left)
        httpx.post(f"{served.url}/v1/renew", json=asked)
        time.sleep(2)
        other = {"items": [{"session": "fedcba9876543210", "env_id": LAKE}]}
        assert httpx.post(f"{served.url}/v1/open", json=other).json()["items"][0]["error"]["code"] == "full"
        assert httpx.post(f"{served.url}/v1/renew", json=asked).json()["items"] == [{"lease": 300}]


def test_who_comes_back_late_hears_that_the_connection_was_lost():
    with Served(linger=0.3, lease=300) as served:
        with connect(served.url.replace("http", "ws") + "/v1/ws") as ws:
            ws.send(json.dumps({"id": 1, "do": "open", "items": [{"session": "0" * 20, "env_id": LAKE}]}).encode())
            ws.recv(20)
        wait_until(lambda: "vagen_sessions 0.0" in httpx.get(f"{served.url}/metrics").text)
        said = httpx.post(f"{served.url}/v1/renew", json={"items": [{"session": "0" * 20}]}).json()["items"][0]["error"]
        assert (said["code"], "0.3 s after its connection was lost" in said["message"]) == ("expired", True), said


def test_two_clients_with_one_session_play_one_episode_each():
    """As after a fork: each gets the answers to its own replies, whoever asked last."""
    with Served() as served:
        envs = [RemoteEnv(Service(served.url), LAKE) for _ in range(2)]
        envs[1]._session = envs[0]._session
        envs[1]._place._journal._tales[envs[0]._session] = envs[1]._place._journal._tales.popitem()[1]
        envs[1]._place._journal._tales[envs[0]._session].opening["session"] = envs[0]._session
        locals_ = [gym.make(LAKE).unwrapped for _ in envs]
        for seed, pair in enumerate(zip(envs, locals_, strict=True)):
            for each in pair:
                each.reset(seed=seed)
        draw = random.Random(5)
        for _ in range(12):
            i = draw.randrange(2)
            reply = random_reply(draw)
            if locals_[i]._running:
                assert envs[i].step(reply)[4]["turn"] == locals_[i].step(reply)[4]["turn"]


def test_a_server_that_was_left_behind_is_not_believed():
    """A client plays a turn at another server, and comes back to the first, which has the session as it was before."""
    with Served() as one, Served() as other:
        services = [Service(one.url), Service(other.url)]
        services[1]._journal = services[0]._journal
        env, local = RemoteEnv(services[0], SOKOBAN), gym.make(SOKOBAN).unwrapped
        env.reset(seed=3), local.reset(seed=3)
        draw = random.Random(6)
        for k in range(8):
            services[0]._journal._send = services[k // 2 % 2]._send
            reply = random_reply(draw)
            if local._running:
                assert env.step(reply)[4]["turn"] == local.step(reply)[4]["turn"]


def test_it_can_be_done_by_hand():
    with Served() as one, Served() as other:

        def ask(ws, do, **item):
            ws.send(json.dumps({"id": 1, "do": do, "items": [{"session": "h" * 16, **item}]}))
            while isinstance(frame := ws.recv(20), bytes):
                pass
            return json.loads(frame)["items"][0]

        with connect(one.url.replace("http", "ws") + "/v1/ws") as ws:
            ask(ws, "open", env_id=LAKE)
            level = ask(ws, "reset", move=1)["level"]
            first = ask(ws, "step", move=2, reply="one")
            second = ask(ws, "step", move=3, reply="two")
        with connect(other.url.replace("http", "ws") + "/v1/ws") as ws:
            replay = {"seed": level["seed"], "split": level["split"], "replies": ["one"], "mark": first["mark"]}
            wrong = {**replay, "replies": ["another"]}
            assert ask(ws, "open", env_id=LAKE, move=2, replay=wrong)["error"]["code"] == "diverged"
            assert "error" not in ask(ws, "open", env_id=LAKE, move=2, replay=replay)
            assert "error" not in ask(ws, "open", env_id=LAKE, move=2, replay=replay)
            assert ask(ws, "step", move=3, reply="two", after="other")["error"]["code"] == "out_of_order"
            assert ask(ws, "step", move=3, reply="two", after=first["mark"]) == second
