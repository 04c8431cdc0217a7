"""Sessions outlive workers and servers: what is lost is played again from what the client has, and nothing twice."""

from __future__ import annotations

import asyncio
import json
import random

import gymnasium as gym
import httpx2 as httpx
import pytest
from service_fixtures import ID, LAKE, SOKOBAN, Served, ask_once, random_reply, wait_until
from websockets.sync.client import connect

from vagen_adapters.service import sessions
from vagen_adapters.service.client import Service
from vagen_adapters.service.framing import unpack
from vagen_adapters.service.host import EnvHost
from vagen_adapters.service.journal import MAX_LOSSES
from vagen_adapters.service.pool import Pool
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_adapters.service.remote_vector import RemoteVectorEnv
from vagen_envs.errors import EpisodeOverError, SimulatorError
from vagen_envs.frozen_lake.env import FrozenLakeEnv
from vagen_envs.workers import WorkerDied

DICE = "vagen/Dice-v0"


class Fragile:
    """A worker in this process, which dies of a reply."""

    deaths = 0

    def __init__(self, costly):
        self._host = EnvHost()
        self._cause, self.where = "", "a fragile worker"

    async def start(self):
        """It is ready at once."""

    def run(self, call):
        answer = asyncio.get_running_loop().create_future()
        if call.arguments.get("reply") == "poison":
            Fragile.deaths += 1
            self._cause = "it was poisoned"
        if self._cause:
            answer.set_exception(WorkerDied(self._cause, during=True))
        else:
            answer.set_result(self._host.run(call))
        return answer

    def die(self):
        self._cause = "it was told to"

    def close(self):
        """It is gone."""


@pytest.fixture
def fragile():
    with Served(Pool(Fragile, 2), env_ids=[LAKE, SOKOBAN, DICE]) as one:
        yield one


def die(fragile):
    for worker in fragile.pool.workers:
        worker.die()


def test_a_turn_that_kills_its_workers_ends_its_episode_and_no_other(fragile):
    envs = RemoteVectorEnv(Service(fragile.url), LAKE, 6, max_turns=9)
    envs.reset(seed=0)
    envs.step(["x"] * 6)
    Fragile.deaths = 0
    _, rewards, _, truncated, info = envs.step(["y", "y", "poison", "y", "y", "y"])
    assert truncated.tolist() == [False, False, True, False, False, False]
    assert rewards[2] == 0.0
    assert "poisoned" in info["simulator_error"][2]
    assert [turn and turn.index for turn in info["turn"]] == [1, 1, None, 1, 1, 1]
    assert MAX_LOSSES <= Fragile.deaths <= MAX_LOSSES + 1
    *_, truncated, info = envs.step(["z"] * 6)  # the third begins anew
    assert not truncated.any()
    assert [turn and turn.index for turn in info["turn"]] == [2, 2, None, 2, 2, 2]


class Dice(FrozenLakeEnv):
    """One that isn't deterministic."""

    def _metrics(self):
        return {**super()._metrics(), "thrown": random.SystemRandom().random()}


def test_an_episode_that_chance_decides_says_why_it_cannot_go_on(fragile):
    gym.register(DICE, Dice)
    try:
        env = RemoteEnv(Service(fragile.url), DICE)
        env.reset(seed=1)
        die(fragile)
        env.step("x")  # the reset alone gave the same again
        die(fragile)
        with pytest.raises(
            SimulatorError,
            match="1 turns played again gave other answers, so it isn't deterministic",
        ):
            env.step("y")
        with pytest.raises(EpisodeOverError):
            env.step("y")
        env.reset(seed=1)
        assert env.step("x")[4]["turn"].index == 0
    finally:
        del gym.registry[DICE]


def test_whatever_move_it_dies_before_the_episode_is_the_same(fragile):
    env, local = (
        RemoteEnv(Service(fragile.url), SOKOBAN, max_turns=5),
        gym.make(SOKOBAN, max_turns=5).unwrapped,
    )
    draw = random.Random(4)
    for seed in (8, None, None, 9, None, None):
        if draw.random() < 0.5:
            die(fragile)
        assert env.reset(seed=seed)[1] == local.reset(seed=seed)[1]
        over = False
        while not over:
            reply = random_reply(draw)
            if draw.random() < 0.5:
                die(fragile)
            *ours, info = env.step(reply)
            *theirs, there = local.step(reply)
            assert (ours[1:], info) == (theirs[1:], there)
            over = ours[2] or ours[3]
    die(fragile)
    with pytest.raises(EpisodeOverError):
        env.step("after its end")


def test_idle_sessions_make_room_and_go_on_when_they_are_used_again(monkeypatch):
    """As after a client was killed and started again: its new sessions find room, its share aside."""
    monkeypatch.setattr(sessions, "IDLE", 0.5)
    with Served(max_sessions=8) as served:
        lost = RemoteVectorEnv(Service(served.url), LAKE, 4)
        lost.reset(seed=0)
        again = RemoteVectorEnv(
            Service(served.url), LAKE, 4
        )  # the share of an address: waits until they are idle
        again.reset(seed=0)
        assert again.step(["x"] * 4)[4]["turn"][3].index == 0
        assert lost.step(["x"] * 4)[4]["turn"][3].index == 0


def test_an_expired_session_goes_on():
    with Served(lease=0.3) as served:
        env, local = RemoteEnv(Service(served.url), LAKE), gym.make(LAKE).unwrapped
        for one in (env, local):
            one.reset(seed=2)
            one.step("x")
        wait_until(lambda: "vagen_sessions 0.0" in httpx.get(f"{served.url}/metrics").text)
        assert env.step("y")[4]["turn"] == local.step("y")[4]["turn"]


def test_an_answer_that_is_too_long_to_be_kept_is_had_again_by_replay(monkeypatch):
    monkeypatch.setattr(sessions, "KEPT", 100)
    with Served() as served:
        items = {"session": ID, "move": 1, "seed": 1}
        post = lambda verb, **item: ask_once(served.url, verb, item)["items"][0]  # noqa: E731
        post("open", session=ID, env_id=LAKE)
        first = post("reset", **items)
        assert post("reset", **items)["error"]["code"] == "lost"
        post("open", session=ID, env_id=LAKE, move=0)
        assert post("reset", **items) == first


def test_it_can_be_done_by_hand():
    with Served() as one, Served() as other:

        def ask(ws, verb, **item):
            ws.send(json.dumps({"verb": verb, "items": [{"session": "h" * 16, **item}]}))
            return json.loads(unpack(ws.recv(20))[0])["items"][0]

        with connect(one.url.replace("http", "ws") + "/v1/ws") as ws:
            ask(ws, "open", env_id=LAKE)
            level = ask(ws, "reset", move=1)["level"]
            first = ask(ws, "step", move=2, reply="one")
            second = ask(ws, "step", move=3, reply="two")
        with connect(other.url.replace("http", "ws") + "/v1/ws") as ws:
            replay = {
                "seed": level["seed"],
                "split": level["split"],
                "replies": ["one"],
                "digest": first["digest"],
            }
            wrong = {**replay, "replies": ["another"]}
            assert ask(ws, "open", env_id=LAKE, move=2, replay=wrong)["error"]["code"] == "diverged"
            assert "error" not in ask(ws, "open", env_id=LAKE, move=2, replay=replay)
            assert "error" not in ask(ws, "open", env_id=LAKE, move=2, replay=replay)
            assert (
                ask(ws, "step", move=3, reply="two", after="other")["error"]["code"]
                == "out_of_order"
            )
            assert ask(ws, "step", move=3, reply="two", after=first["digest"]) == second
