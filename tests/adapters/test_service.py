"""The environment service, through its client and by hand: the same as in this process, and its promises."""

from __future__ import annotations

import io
import json
import math
import os
import random
import re
import signal
import socket
import threading
from collections.abc import Mapping

import gymnasium as gym
import httpx2 as httpx
import numpy as np
import published
import pytest
from chat_endpoint import Endpoint
from gymnasium.vector import AutoresetMode
from local_proxy import Balancer
from PIL import Image
from service_fixtures import (
    LAKE,
    SOKOBAN,
    Served,
    ask,
    ask_once,
    kill,
    random_reply,
    wait_until,
    ws_url,
)
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import serve as websocket_server

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.client import Service
from vagen_adapters.service.config import ServiceConfig
from vagen_adapters.service.local_pool import local_pool
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_adapters.service.remote_vector import RemoteVectorEnv
from vagen_adapters.service.server import serve
from vagen_envs import ENV_IDS, Turn, conformance
from vagen_envs.errors import (
    ConfigError,
    EnvClosedError,
    EpisodeOverError,
    MissingExtraError,
    ReplyTypeError,
    SimulatorError,
)


@pytest.fixture(scope="module")
def served():
    with Served(workers=2) as one:
        yield one


@pytest.fixture
def service(served):
    made = Service(served.url)
    yield made
    made.close()


def play_both(remote, local, seed, reply, split=None):
    """An episode here and there, compared to the bit; the turns."""
    options = {"split": split} if split else None
    ours, theirs = local.reset(seed=seed, options=options), remote.reset(seed=seed, options=options)
    same(ours[0], theirs[0])
    assert ours[1] == theirs[1]
    turns, over = [], False
    while not over:
        said = reply(local)
        (shown, *ours), (there, *theirs) = local.step(said), remote.step(said)
        same(shown, there)
        assert ours == theirs
        assert type(theirs[0]) is type(ours[0])
        turns.append(theirs[-1]["turn"])
        assert turns[-1].to_json() == ours[-1]["turn"].to_json()
        over = ours[1] or ours[2]
    return turns


def same(one, other):
    assert one.keys() == other.keys()
    assert one["text"] == other["text"]
    if "image" in one:
        assert one["image"].dtype == other["image"].dtype
        assert np.array_equal(one["image"], other["image"])


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        (SOKOBAN, {}),
        (SOKOBAN, {"strategy": "free_think", "observation": "both", "max_turns": 6}),
        (LAKE, {"observation": "text", "representation": "symbolic"}),
        (LAKE, {}),
    ],
)
def test_an_episode_there_is_the_one_here(service, env_id, options):
    local, remote = gym.make(env_id, **options).unwrapped, RemoteEnv(service, env_id, **options)
    assert remote.system_prompt == local.system_prompt
    assert remote.observation_space == local.observation_space
    assert remote.action_space == local.action_space
    draw = random.Random(1)
    for seed in (3, None, None, 2**40, None):
        play_both(remote, local, seed, lambda _: random_reply(draw))
    turns = play_both(remote, local, 5, lambda env: env.oracle_reply(), split="test")
    assert turns[-1].success
    remote.close()


@pytest.mark.sim
@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("vagen/Navigation-v0", {}),
        ("vagen/SVGReconstruction-v0", {"scorer": "classical"}),
        pytest.param("vagen/PrimitiveSkillPlace-v0", {}, marks=pytest.mark.slow),
    ],
)
def test_simulators_are_the_same_there(service, env_id, options):
    try:
        local = gym.make(env_id, **options).unwrapped
        local.reset(seed=0)
    except (MissingExtraError, SimulatorError) as error:
        pytest.skip(str(error))
    remote = RemoteEnv(service, env_id, **options)
    play_both(remote, local, 1, lambda env: env.oracle_reply())
    local.close()
    remote.close()


APART = (
    "is_a_vagen_environment",
    "the_oracle_succeeds",
    "only_changes_are_effective",
    "a_snapshot_brings_the_moment_back",
)
"""They look inside: at the grammar, the plan and what would be, the whole moment."""


class WithOracle(RemoteEnv):
    """The oracle is one here, whose environment is played along."""

    def __init__(self, service, env_id):
        super().__init__(service, env_id)
        self.here = gym.make(env_id).unwrapped

    def reset(self, *, seed=None, options=None):
        self.here.reset(seed=seed, options=options)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        stepped = super().step(action)
        self.here.step(action)
        return stepped

    def oracle_reply(self):
        return self.here.oracle_reply()


@pytest.mark.parametrize(
    "check", [each for each in conformance.CHECKS if each.__name__ not in APART]
)
def test_the_remote_environment_passes_the_conformance_suite(service, check):
    check(lambda: WithOracle(service, SOKOBAN), range(6))


def test_published_levels_are_played_by_number(tmp_path):
    options = published.boards(tmp_path)
    with Served(offers={"boards": {"mine": options["boards"]}}) as served:
        service = Service(served.url)
        env = RemoteEnv(service, SOKOBAN, boards="mine", split="test")
        assert env.level_count == 3
        played = [env.reset(options={"level": i})[1]["level"]["content"] for i in range(3)]
        assert played == published.contents(options)
        kill(served.pool.workers[0].pid)
        assert env.step("<answer>Up</answer>")[4]["level"]["content"] == played[2]  # by replay
        with pytest.raises(ConfigError, match="no level=3"):
            env.reset(options={"level": 3})
        second = RemoteEnv(service, SOKOBAN, boards="mine", split="test", level=1)
        assert second.reset(seed=0)[1]["level"]["content"] == played[1]


def test_the_vector_form_is_gymnasiums_over_local_environments(service):
    theirs = RemoteVectorEnv(service, SOKOBAN, 5, max_turns=2)
    ours = gym.make_vec(
        SOKOBAN,
        num_envs=5,
        vectorization_mode="sync",
        max_turns=2,
        vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP},
    )
    draw = random.Random(2)
    both = ours.reset(seed=7), theirs.reset(seed=7)
    for _ in range(12):
        assert_equal(*both)
        replies = [random_reply(draw) for _ in range(5)]
        both = ours.step(replies), theirs.step(replies)
    theirs.close()


def test_a_named_split_or_level_holds_through_resets_and_lost_workers(served):
    service = Service(served.url)
    vector = RemoteVectorEnv(service, LAKE, 2, max_turns=1)
    _, infos = vector.reset(options={"split": "test"})
    for turn in range(6):
        assert list(infos["level"]["split"]) == ["test", "test"]
        if turn == 2:
            for worker in served.pool.workers:
                kill(worker.pid)
        *_, infos = vector.step(["<answer>Up</answer>"] * 2)
    vector.close()
    remote, local = RemoteEnv(service, LAKE), gym.make(LAKE).unwrapped
    calls = [
        {"seed": 3, "options": {"split": "val"}},
        {},
        {"options": {"level": 4}},
        {},
        {"options": {"level": None}},
        {"options": {"split": "test"}},
        {},
        {"seed": 8},
        {},
    ]
    for call in calls:
        assert remote.reset(**call)[1]["level"] == local.reset(**call)[1]["level"]
    remote.close()
    for move in (remote.reset, lambda: remote.step("")):
        with pytest.raises(EnvClosedError, match="make another"):
            move()


def test_seeds_are_one_for_each_or_one_to_count_from(service):
    envs = RemoteVectorEnv(service, LAKE, 2)
    for good in (7, np.int64(7), [7, 8]):
        assert envs.reset(seed=good)[1]["level"]["seed"].tolist() == [7, 8]
    for wrong in ([7], [7, 8, 9], "78", 1.5):
        with pytest.raises(ConfigError, match="seed="):
            envs.reset(seed=wrong)
    envs.close()


def test_replies_are_one_for_each_and_text_but_for_ended_episodes(service):
    envs = RemoteVectorEnv(service, LAKE, 2, max_turns=1)
    envs.reset(seed=1)
    for wrong in ("UU", ["Up"], ["Up"] * 3, ["Up", None], ["Up", b"Up"], None):
        with pytest.raises(ReplyTypeError, match="2 environments"):
            envs.step(wrong)
    assert [turn.index for turn in envs.step(["Up", "Up"])[4]["turn"]] == [0, 0]
    assert not envs.step([None, None])[3].any()
    envs.close()


def assert_equal(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    elif isinstance(one, Mapping):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, tuple) and not isinstance(one, str):
        assert len(one) == len(other)
        for each, its in zip(one, other, strict=True):
            assert_equal(each, its)
    else:
        assert one == other


def test_wrong_options_and_calls_are_the_errors_that_they_are_here(service):
    values = object(), math.nan, math.inf, np.int64(2)
    closed = {"prompt_pack": "/etc"}, {"prompt_pack": "../x"}, {"render_mode": "human"}
    for env_id, options, why in (
        (SOKOBAN, {"max_turn": 2}, "Did you mean 'max_turns'"),
        ("vagen/Sokoban", {}, "Did you mean 'vagen/Sokoban-v0'"),
        ("os:system", {}, "unknown environment 'os:system'"),
        *(
            (SOKOBAN, {"max_turns": value}, re.escape(f"max_turns={value!r:.9}"))
            for value in values
        ),
        *((SOKOBAN, options, "is closed to clients") for options in closed),
    ):
        with pytest.raises(ConfigError, match=why):
            RemoteEnv(service, env_id, **options)
    env = RemoteEnv(service, SOKOBAN)
    with pytest.raises(EpisodeOverError):
        env.step("before reset")
    with pytest.raises(ConfigError, match="seed=-1"):
        env.reset(seed=-1)
    local = gym.make(SOKOBAN).unwrapped
    levels = [-1, "3", True, 2**63, [3], math.nan, math.inf, np.array([1]), b"1", object()]
    splits = [5, "x" * 300, "dev", math.nan]
    wrong = [*({"level": level} for level in levels), *({"split": split} for split in splits)]
    for options in (*wrong, {"spit": "val"}, 5, "level"):
        with pytest.raises(ConfigError) as here:
            local.reset(options=options)
        with pytest.raises(ConfigError) as there:
            env.reset(options=options)
        assert str(there.value) == str(here.value)
    assert (
        env.reset(options={"level": np.int64(3)})[1]["level"]
        == local.reset(options={"level": 3})[1]["level"]
    )
    assert env.reset(seed=1)[1]["level"] == local.reset(seed=1)[1]["level"]
    for options in ({"level": 3}, None):  # a level by number draws no seed
        assert env.reset(options=options)[1]["level"] == local.reset(options=options)[1]["level"]
    with pytest.raises(ReplyTypeError):
        env.step(7)
    env.step("still goes on")
    env.close()
    env.close()


def test_a_batch_is_played_and_pictures_come_once_by_content(served):
    ids = [f"{k:016d}" for k in range(3)]
    opened = ask_once(served.url, "open", *({"session": each, "env_id": SOKOBAN} for each in ids))[
        "items"
    ]
    assert all(item["system_prompt"] for item in opened)
    # two sessions play the same level: they name the same picture
    resets = [
        {"session": session, "move": 1, "seed": seed}
        for session, seed in zip(ids, (4, 4, 5), strict=True)
    ]
    with connect(ws_url(served.url)) as ws:
        answer, pictures = ask(ws, {"verb": "reset", "items": resets})
    items = answer["items"]
    names = [each["picture"]["sha256"] for each in items]
    assert names[0] == names[1] != names[2]
    local = gym.make(SOKOBAN).unwrapped
    shown, info = local.reset(seed=4)
    assert items[0]["state"] == json.loads(json.dumps(info["state"].to_json()))
    assert set(pictures) == set(names)
    assert np.array_equal(
        np.array(Image.open(io.BytesIO(pictures[names[0]])).convert("RGB")), shown["image"]
    )
    reply = local.oracle_reply()
    answers = ask_once(
        served.url, "step", *({"session": each, "move": 2, "reply": reply} for each in ids)
    )["items"]
    turn = local.step(reply)[4]["turn"]
    assert Turn.from_json(answers[0]["turn"]) == turn
    assert answers[0]["reward"] == turn.reward
    ended = ask_once(served.url, "close", *({"session": each} for each in ids))["items"]
    assert not any("error" in each for each in ended)


def test_a_move_that_is_said_again_is_not_played_again(served):
    session = "b" * 16
    ask_once(served.url, "open", {"session": session, "env_id": LAKE})
    ask_once(served.url, "reset", {"session": session, "move": 1, "seed": 1})
    step = {"session": session, "move": 2, "reply": "<answer>Down</answer>"}
    answers = [ask_once(served.url, "step", step) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["items"][0]["turn"]["index"] == 0
    nxt = ask_once(served.url, "step", {**step, "move": 3})["items"][0]
    assert nxt["turn"]["index"] == 1
    for move, why in ((3, "a repeat must be the same"), (2, "expects 4"), (5, "expects 4")):
        error = ask_once(served.url, "step", {**step, "move": move, "reply": "other"})["items"][0][
            "error"
        ]
        assert error["code"] == "out_of_order"
        assert why in error["message"]
    twice = ask_once(served.url, "step", {**step, "move": 4}, {**step, "move": 5})["items"]
    assert "turn" in twice[0]
    assert twice[1]["error"]["code"] == "out_of_order"
    text = httpx.get(f"{served.url}/metrics").text
    assert any(
        line.startswith("vagen_repeated_moves_total") and float(line.split()[1]) >= 2
        for line in text.splitlines()
    )


def test_a_refused_reset_uses_up_no_move(served):
    session = "c" * 16
    ask_once(served.url, "open", {"session": session, "env_id": LAKE})
    wrong, other, right = {"seed": -1}, {"level": "x"}, {"seed": 3}
    for move, asked in ((1, wrong), (1, other), (1, wrong), (1, right), (2, wrong), (2, right)):
        answer = ask_once(served.url, "reset", {"session": session, "move": move, **asked})[
            "items"
        ][0]
        assert answer.get("error", {}).get("code") == (None if asked is right else "bad_config")


def test_lost_answers_are_asked_for_again_and_nothing_is_played_twice(served):
    proxy = Balancer(served.port, cut_every=4)
    remote = RemoteEnv(Service(f"http://127.0.0.1:{proxy.port}"), SOKOBAN)
    local = gym.make(SOKOBAN).unwrapped
    draw = random.Random(3)
    for seed in range(15):
        play_both(remote, local, seed, lambda _: random_reply(draw))
    assert proxy.cuts > 10
    proxy.close()


def test_a_server_that_is_gone_is_one_error_and_the_episode_goes_on_when_one_is_back():
    local = gym.make(LAKE).unwrapped
    local.reset(seed=1)
    with Served() as one:
        service = Service(one.url, patience=0.5)
        env = RemoteEnv(service, LAKE)
        env.reset(seed=1)
        assert env.step("x")[4]["turn"] == local.step("x")[4]["turn"]
    with pytest.raises(ServiceError, match="gives no answer"):
        env.step("y")
    with Served(port=one.port) as again:
        reply = local.oracle_reply()  # another reply than the one that nobody heard
        assert env.step(reply)[4]["turn"] == local.step(reply)[4]["turn"]
        assert "vagen_replays_total 1.0" in httpx.get(f"{again.url}/metrics").text


def test_a_vector_that_finds_no_room_leaves_the_room_that_there_was():
    with Served(max_sessions=4) as served:
        service = Service(served.url, patience=0.2)
        with pytest.raises(ServiceError, match="as many as it may"):
            RemoteVectorEnv(service, LAKE, 3)
        RemoteVectorEnv(service, LAKE, 2).close()


def test_an_idle_worker_that_dies_is_replaced_before_anybody_asks():
    with Served() as served:
        env = RemoteEnv(Service(served.url), LAKE)
        env.reset(seed=1)
        kill(served.pool.workers[0].pid)
        wait_until(lambda: "vagen_sessions 0.0" in httpx.get(f"{served.url}/metrics").text)
        assert "vagen_replaced_workers 1.0" in httpx.get(f"{served.url}/metrics").text


def test_a_worker_that_hangs_is_killed_and_replaced():
    with Served(pool=local_pool(1, timeout=1.5)) as served:
        env = RemoteEnv(Service(served.url), LAKE)
        env.reset(seed=1)
        os.kill(served.pool.workers[0].pid, signal.SIGSTOP)
        assert env.step("x")[4]["turn"].index == 0
        assert served.pool.replaced == 1


def test_the_key_is_asked_for(monkeypatch):
    with Served(key="s3cret") as served:
        assert httpx.get(f"{served.url}/healthz").status_code == 200
        for shown in ("", "Bearer s3cre", "Bearer s3crets", "é"):
            headers = {"Authorization": shown.encode("latin-1")} if shown else {}
            for path in ("/metrics", "/v1/environments"):
                assert httpx.get(served.url + path, headers=headers).status_code == 401
            assert httpx.get(f"{served.url}/openapi.json", headers=headers).status_code == 404
            with pytest.raises(InvalidStatus, match="401"):
                ask_once(served.url, "close", {}, **headers)
        right = {"Authorization": "Bearer s3cret"}
        assert httpx.get(f"{served.url}/v1/environments", headers=right).json()["env_ids"] == list(
            ENV_IDS
        )
        monkeypatch.delenv("VAGEN_SERVE_KEY", raising=False)
        for key in (None, "wrong"):
            with pytest.raises(ServiceError, match="VAGEN_SERVE_KEY"):
                RemoteEnv(Service(served.url, key), LAKE)
        monkeypatch.setenv("VAGEN_SERVE_KEY", "s3cret")
        RemoteEnv(Service(served.url), LAKE).close()


def test_what_a_proxy_says_is_not_taken_for_the_services_own_words():
    proxy = Endpoint()
    proxy.script = lambda number, body: (502, {}, {"error": "bad gateway"})
    with pytest.raises(ServiceError, match="gives no answer"):
        RemoteEnv(Service(proxy.root, patience=0.1), LAKE)
    proxy.close()


def test_a_server_of_another_kind_is_one_error():
    def answer(ws):
        for _ in ws:
            ws.send("hello")

    with websocket_server(answer, "127.0.0.1", 0) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(ServiceError, match="no environment service"):
            RemoteEnv(Service(f"http://127.0.0.1:{other.socket.getsockname()[1]}"), LAKE)
        other.shutdown()


def test_it_is_open_to_other_machines_only_with_a_key():
    with pytest.raises(ServiceError, match=r"0\.0\.0\.0.*VAGEN_SERVE_KEY"):
        serve(local_pool(1), ServiceConfig(), "", "0.0.0.0", 0)  # noqa: S104


def test_a_port_in_use_is_one_error():
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ServiceError, match="name another with --port"),
    ):
        serve(local_pool(1), ServiceConfig(), "", "127.0.0.1", taken.getsockname()[1])
