"""The environment service, through its client and over plain HTTP: the same as in this process, and its promises."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="needs httpx2")

import httpx2 as httpx
from gymnasium.vector import AutoresetMode
from PIL import Image
from service_fixtures import LAKE, SOKOBAN, Command, Served, kill, random_reply, wait_until
from websockets.sync.client import connect
from websockets.sync.server import serve as websocket_server

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.client import Service
from vagen_adapters.service.local_pool import LocalHost, local_pool
from vagen_adapters.service.places import InPool
from vagen_adapters.service.pool import Pool
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_adapters.service.remote_vector import RemoteVectorEnv
from vagen_adapters.service.server import serve
from vagen_adapters.service.sessions import ServiceConfig
from vagen_benchmarks.commands import serve as serve_cli
from vagen_envs import ENV_IDS, Turn, conformance
from vagen_envs.errors import ConfigError, EpisodeOverError, MissingExtraError, ReplyTypeError, SimulatorError
from vagen_rewards import VisualReasoningReward

ID = "0123456789abcdef"


@pytest.fixture(scope="module")
def served():
    with Served(oracle=True) as one:
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
    "episodes_end_once",
    "a_snapshot_brings_the_moment_back",
    "foreign_snapshots_are_refused",
)
"""They look inside: at the grammar, the plan and what would be, the whole moment."""


@pytest.mark.parametrize("check", [each for each in conformance.CHECKS if each.__name__ not in APART])
def test_the_remote_environment_passes_the_conformance_suite(service, check):
    check(lambda: RemoteEnv(service, SOKOBAN), range(6))


def test_the_oracle_plays_from_afar(service):
    env = RemoteEnv(service, LAKE)
    for seed in range(5):
        env.reset(seed=seed)
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(env.oracle_reply())
            over = terminated or truncated
        assert info["turn"].success
    with Served() as without:
        env = RemoteEnv(Service(without.url), LAKE)
        env.reset(seed=0)
        with pytest.raises(ServiceError, match="--oracle"):
            env.oracle_reply()


def test_reasoning_rewards_wrap_it(service):
    rewards = []
    for env in (gym.make(LAKE), RemoteEnv(service, LAKE)):
        wrapped = VisualReasoningReward(env)
        wrapped.reset(seed=1)
        rewards.append(wrapped.step(env.unwrapped.oracle_reply())[4]["turn"].rewards)
    assert rewards[0] == rewards[1]
    assert {"grounding", "world_modeling"} <= {term.name for term in rewards[1]}


@pytest.mark.parametrize("where", ["service", "pool"])
def test_the_vector_form_is_gymnasiums_over_local_environments(served, where):
    place = Service(served.url) if where == "service" else InPool(local_pool(2))
    theirs = RemoteVectorEnv(place, SOKOBAN, 5, max_turns=2)
    ours = gym.make_vec(SOKOBAN, num_envs=5, vectorization_mode="sync", max_turns=2,
                        vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP})  # fmt: skip
    draw = random.Random(2)
    both = ours.reset(seed=7), theirs.reset(seed=7)
    for _ in range(12):
        assert_equal(*both)
        replies = [random_reply(draw) for _ in range(5)]
        both = ours.step(replies), theirs.step(replies)
    theirs.close()
    place.close()


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
    with pytest.raises(ConfigError, match="Did you mean 'max_turns'"):
        RemoteEnv(service, SOKOBAN, max_turn=2)
    with pytest.raises(ConfigError, match="Did you mean 'vagen/Sokoban-v0'"):
        RemoteEnv(service, "vagen/Sokoban")
    with pytest.raises(ConfigError, match="unknown environment 'os:system'"):
        RemoteEnv(service, "os:system")
    with pytest.raises(ConfigError, match="can't"):
        RemoteEnv(service, SOKOBAN, max_turns=object())
    for option in ({"prompt_pack": "/etc"}, {"prompt_pack": "../x"}, {"render_mode": "human"}):
        with pytest.raises(ConfigError, match="is closed to clients"):
            RemoteEnv(service, SOKOBAN, **option)
    env = RemoteEnv(service, SOKOBAN)
    with pytest.raises(EpisodeOverError):
        env.step("before reset")
    with pytest.raises(ConfigError, match="Did you mean 'split'"):
        env.reset(options={"spit": "val"})
    with pytest.raises(ConfigError, match="unknown split 'dev'"):
        env.reset(seed=1, options={"split": "dev"})
    with pytest.raises(ConfigError, match="seed=-1"):
        env.reset(seed=-1)
    env.reset(seed=1)
    with pytest.raises(ReplyTypeError):
        env.step(7)
    env.step("still goes on")
    env.close()
    env.close()


# -- over plain HTTP -----------------------------------------------------------------------------------


def post(url, do, *items, **more):
    return httpx.post(f"{url}/v1/{do}", json={"items": list(items)}, timeout=60, **more)


def test_http_plays_a_batch_and_pictures_come_once_by_content(served):
    ids = [f"{k:016d}" for k in range(3)]
    opened = post(served.url, "open", *({"session": each, "env_id": SOKOBAN} for each in ids)).json()["items"]
    assert all(each["system_prompt"] and each["lease"] == 300 for each in opened)
    # two sessions play the same level: they name the same picture
    items = post(served.url, "reset", *({"session": each, "move": 1, "seed": seed}
                                        for each, seed in zip(ids, (4, 4, 5), strict=True))).json()["items"]  # fmt: skip
    names = [each["picture"]["sha256"] for each in items]
    assert names[0] == names[1] != names[2]
    local = gym.make(SOKOBAN).unwrapped
    shown, info = local.reset(seed=4)
    assert items[0]["state"] == json.loads(json.dumps(info["state"].to_json()))
    got = httpx.get(f"{served.url}/v1/pictures/{names[0]}")
    assert got.headers["content-type"] == "image/png"
    assert np.array_equal(np.array(Image.open(io.BytesIO(got.content)).convert("RGB")), shown["image"])
    reply = local.oracle_reply()
    answers = post(served.url, "step", *({"session": each, "move": 2, "reply": reply} for each in ids)).json()["items"]
    turn = local.step(reply)[4]["turn"]
    assert Turn.from_json(answers[0]["turn"]) == turn
    assert answers[0]["reward"] == turn.reward
    ended = post(served.url, "close", *({"session": each} for each in ids)).json()["items"]
    assert not any("error" in each for each in ended)


def test_a_connection_gets_each_picture_once(served):
    with connect(served.url.replace("http", "ws") + "/v1/ws") as ws:

        def say(do, **item):
            ws.send(json.dumps({"id": do, "do": do, "items": [{"session": "a" * 16, **item}]}))
            frames = []
            while isinstance(frame := ws.recv(20), bytes):
                frames.append(frame)
            return json.loads(frame)["items"][0], frames

        say("open", env_id=SOKOBAN, options={"max_turns": 9})
        first, frames = say("reset", move=1, seed=3)
        assert [frame[:32].hex() for frame in frames] == [first["picture"]["sha256"]]
        pixels = np.array(Image.open(io.BytesIO(frames[0][32:])).convert("RGB"))
        digest = hashlib.sha256(np.array(pixels.shape[:2], "<u4").tobytes() + pixels.tobytes()).hexdigest()
        assert digest == first["picture"]["sha256"]
        idle, frames = say("step", move=2, reply="no answer")
        assert idle["picture"] == first["picture"]
        assert frames == []
        moved = gym.make(SOKOBAN)
        moved.reset(seed=3)
        _, frames = say("step", move=3, reply=f"<answer>{moved.unwrapped.plan()[0]}</answer>")
        assert len(frames) == 1
        say("close")


def test_a_move_that_is_said_again_is_not_played_again(served):
    session = "b" * 16
    post(served.url, "open", {"session": session, "env_id": LAKE})
    post(served.url, "open", {"session": session, "env_id": LAKE})  # that isn't a second one
    post(served.url, "reset", {"session": session, "move": 1, "seed": 1})
    step = {"session": session, "move": 2, "reply": "<answer>Down</answer>"}
    answers = [post(served.url, "step", step).json() for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["items"][0]["turn"]["index"] == 0
    nxt = post(served.url, "step", {**step, "move": 3}).json()["items"][0]
    assert nxt["turn"]["index"] == 1
    for move, why in ((3, "a repeat must say the same"), (2, "expects 4"), (5, "expects 4")):
        error = post(served.url, "step", {**step, "move": move, "reply": "other"}).json()["items"][0]["error"]
        assert error["code"] == "out_of_order"
        assert why in error["message"]
    twice = post(served.url, "step", {**step, "move": 4}, {**step, "move": 5}).json()["items"]
    assert "turn" in twice[0]
    assert twice[1]["error"]["code"] == "out_of_order"
    other = post(served.url, "open", {"session": session, "env_id": SOKOBAN}).json()["items"][0]
    assert "choose another id" in other["error"]["message"]
    text = httpx.get(f"{served.url}/metrics").text
    assert any(line.startswith("vagen_repeated_moves_total") and float(line.split()[1]) >= 2
               for line in text.splitlines())  # fmt: skip


class CutOnce:
    """A proxy of bytes that swallows the answer to every `n`th request and cuts the connection."""

    def __init__(self, port, every):
        self._every, self._count, self._target = every, 0, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source, sink, answers):
        try:
            while data := source.recv(1 << 16):
                if answers and not data.startswith(b"HTTP"):
                    self._count += 1
                    if self._count % self._every == 0:
                        self.cuts += 1
                        break
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for each in (source, sink):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def close(self):
        self._listener.close()


def test_lost_answers_are_asked_for_again_and_nothing_is_played_twice(served):
    proxy = CutOnce(served.server.port, every=4)
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
    one = Served()
    with one:
        service = Service(one.url, patience=0.5)
        env = RemoteEnv(service, LAKE)
        env.reset(seed=1)
        assert env.step("x")[4]["turn"] == local.step("x")[4]["turn"]
        port = one.server.port
    with pytest.raises(ServiceError, match="gives no answer"):
        env.step("y")
    again = Served()
    again.server.config.port = port
    with again:
        assert again.server.port == port
        reply = local.oracle_reply()  # another reply than the one that nobody heard
        assert env.step(reply)[4]["turn"] == local.step(reply)[4]["turn"]
        assert "vagen_replays_total 1.0" in httpx.get(f"{again.url}/metrics").text


# -- sessions ------------------------------------------------------------------------------------------


def test_leases_expire_and_renewing_keeps_them():
    with Served(lease=3.0, max_sessions=2) as served:
        service = Service(served.url)
        kept, left = RemoteEnv(service, LAKE), RemoteEnv(service, LAKE)
        for env in (kept, left):
            env.reset(seed=1)
        with pytest.raises(ServiceError, match="no room"):
            RemoteEnv(service, LAKE)
        while 'why="expired"' not in httpx.get(f"{served.url}/metrics", timeout=60).text:
            renewed = post(served.url, "renew", {"session": kept._session}).json()["items"][0]
            assert renewed == {"lease": 3.0}
            time.sleep(0.1)
        kept.step("goes on")
        late = post(served.url, "step", {"session": left._session, "move": 2, "reply": "late"}).json()["items"][0]
        assert "expired 3 s after its last request" in late["error"]["message"]
        assert left.step("opened again")[4]["turn"].index == 0
        kept.close()
        text = httpx.get(f"{served.url}/metrics").text
        assert 'vagen_ended_sessions_total{why="expired"} 1.0' in text
        assert "vagen_sessions 1.0" in text


def test_a_vector_that_finds_no_room_leaves_the_room_that_there_was():
    with Served(max_sessions=2) as served:
        service = Service(served.url)
        with pytest.raises(ServiceError, match="no room"):
            RemoteVectorEnv(service, LAKE, 3)
        RemoteVectorEnv(service, LAKE, 2).close()


def test_a_killed_worker_is_replaced_and_its_sessions_go_on_in_another():
    with Served(workers=2) as served:
        service = Service(served.url)
        envs = [RemoteEnv(service, SOKOBAN) for _ in range(4)]
        untouched = [gym.make(SOKOBAN).unwrapped for _ in range(4)]
        for seed, pair in enumerate(zip(envs, untouched, strict=True)):
            for env in pair:
                env.reset(seed=seed)
        for said in ("a", "<answer>Up</answer>"):
            victim = served.pool.hosts[0].pid
            kill(victim)
            for env, local in zip(envs, untouched, strict=True):
                assert env.step(said)[4]["turn"] == local.step(said)[4]["turn"]
            assert victim not in [host.pid for host in served.pool.hosts]
            assert len(served.pool.hosts) == 2
        text = httpx.get(f"{served.url}/metrics").text
        assert float(re.search(r"^vagen_replays_total (\S+)", text, re.M)[1]) >= 2


def test_an_idle_worker_that_dies_is_replaced_before_anybody_asks():
    with Served() as served:
        env = RemoteEnv(Service(served.url), LAKE)
        env.reset(seed=1)
        kill(served.pool.hosts[0].pid)
        wait_until(lambda: "vagen_sessions 0.0" in httpx.get(f"{served.url}/metrics").text)
        assert "vagen_replaced_workers 1.0" in httpx.get(f"{served.url}/metrics").text


def test_a_worker_that_hangs_is_killed_and_replaced():
    with Served(pool=local_pool(1, timeout=1.5)) as served:
        env = RemoteEnv(Service(served.url), LAKE)
        env.reset(seed=1)
        os.kill(served.pool.hosts[0].pid, signal.SIGSTOP)
        assert env.step("x")[4]["turn"].index == 0
        assert served.pool.replaced == 1


def test_the_vector_form_goes_on_when_a_worker_is_killed():
    with Served(workers=2) as served:
        envs = RemoteVectorEnv(Service(served.url), LAKE, 4)
        envs.reset(seed=0)
        kill(served.pool.hosts[1].pid)
        *_, truncated, info = envs.step(["x"] * 4)
        assert not truncated.any()
        assert [turn.index for turn in info["turn"]] == [0] * 4
        envs.close()


def test_workers_are_added_when_they_are_full_and_ended_when_they_are_spare():
    pool = local_pool(1, 3, sessions_each=2, spare_after=1.0)
    place = InPool(pool)
    envs = [RemoteEnv(place, LAKE) for _ in range(7)]
    assert len(pool.hosts) == 3
    for env in envs:
        env.close()
    wait_until(lambda: len(pool.hosts) == 1)
    place.close()


def test_those_that_there_are_take_more_sessions_where_no_further_worker_can_be_started():
    hosts = [LocalHost()]

    def start_host():
        if not hosts:
            raise OSError("no more processes")
        return hosts.pop()

    place = InPool(Pool(start_host, 1, 2, sessions_each=1))
    envs = [RemoteEnv(place, LAKE) for _ in range(3)]
    assert [env.reset(seed=1)[1]["level"]["seed"] for env in envs] == [1, 1, 1]
    assert len(place.pool.hosts) == 1
    place.close()


# -- the server ----------------------------------------------------------------------------------------


def test_turns_in_progress_are_finished_when_the_server_is_told_to_end():
    """A turn is held up in its worker, the command gets SIGTERM, and the turn's answer still comes."""
    with Command("-e", "sokoban", "--workers", 1) as served:
        env = RemoteEnv(Service(served.url), SOKOBAN)
        env.reset(seed=1)
        expected = gym.make(SOKOBAN).unwrapped
        expected.reset(seed=1)
        (worker,) = served.workers
        os.kill(worker, signal.SIGSTOP)
        got = []
        asking = threading.Thread(target=lambda: got.append(env.step("<answer>Up</answer>")))
        asking.start()
        wait_until(lambda: "vagen_running 1.0" in httpx.get(f"{served.url}/metrics").text)
        served.process.terminate()
        wait_until(lambda: httpx.get(f"{served.url}/healthz").status_code == 503)
        refused = post(served.url, "open", {"session": ID, "env_id": SOKOBAN})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "shutting_down"
        assert served.process.poll() is None
        os.kill(worker, signal.SIGCONT)
        asking.join(30)
        assert got[0][4]["turn"] == expected.step("<answer>Up</answer>")[4]["turn"]
        assert served.process.wait(30) == -signal.SIGTERM
        wait_until(lambda: not Path(f"/proc/{worker}").exists())


def test_the_key_is_asked_for(monkeypatch):
    with Served(key="s3cret") as served:
        assert httpx.get(f"{served.url}/healthz").status_code == 200
        for shown in ("", "Bearer s3cre", "Bearer s3crets", "é"):
            headers = {"Authorization": shown.encode("latin-1")} if shown else {}
            for path in ("/metrics", "/v1/environments", "/openapi.json", "/v1/pictures/" + "0" * 64):
                assert httpx.get(served.url + path, headers=headers).status_code == 401
            assert post(served.url, "open", {}, headers=headers).status_code == 401
        right = {"Authorization": "Bearer s3cret"}
        assert httpx.get(f"{served.url}/v1/environments", headers=right).json()["env_ids"] == list(ENV_IDS)
        monkeypatch.delenv("VAGEN_SERVE_KEY", raising=False)
        with pytest.raises(ServiceError, match="VAGEN_SERVE_KEY"):
            RemoteEnv(Service(served.url), LAKE)
        with pytest.raises(ServiceError, match="VAGEN_SERVE_KEY"):
            RemoteEnv(Service(served.url, key="wrong"), LAKE)
        monkeypatch.setenv("VAGEN_SERVE_KEY", "s3cret")
        RemoteEnv(Service(served.url), LAKE).close()


class Proxy(BaseHTTPRequestHandler):
    """One whose server behind it is gone."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        said = b'{"error": "bad gateway"}'
        self.send_response(502)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *args):
        pass


def test_what_a_proxy_says_is_not_taken_for_the_services_own_words():
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        with pytest.raises(ServiceError, match="gives no answer"):
            RemoteEnv(Service(f"http://127.0.0.1:{proxy.server_port}", patience=0.1), LAKE)
        proxy.shutdown()


def test_a_server_of_another_kind_is_one_error():
    def answer(ws):
        for _ in ws:
            ws.send("hello")

    with websocket_server(answer, "127.0.0.1", 0) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(ServiceError, match="no environment service"):
            RemoteEnv(Service(f"http://127.0.0.1:{other.socket.getsockname()[1]}"), LAKE)
        other.shutdown()


def test_pages_of_other_sites_are_refused(served):
    got = httpx.post(f"{served.url}/v1/open", json={}, headers={"Origin": "https://example.org"})
    assert got.status_code == 403
    with pytest.raises(Exception, match="403"):
        connect(served.url.replace("http", "ws") + "/v1/ws", origin="https://example.org")


def test_a_cluster_without_ray_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "vagen_adapters.service.ray_pool", raising=False)
    with pytest.raises(MissingExtraError, match=r"vagen-envs\[ray\]"):
        serve_cli._make_pool("ray", "auto", {})


def test_it_is_open_to_other_machines_only_with_a_key():
    with pytest.raises(ServiceError, match=r"0\.0\.0\.0.*VAGEN_SERVE_KEY"):
        serve(local_pool(1), ServiceConfig(), host="0.0.0.0", port=0)  # noqa: S104


def test_busy_is_said_and_clients_try_again(served):
    with Served(max_running=2) as small:
        envs = RemoteVectorEnv(Service(small.url), LAKE, 12)
        envs.reset(seed=0)
        whole = RemoteVectorEnv(Service(served.url), LAKE, 12)
        whole.reset(seed=0)
        for _ in range(5):
            assert_equal(envs.step(["<answer>Down</answer>"] * 12), whole.step(["<answer>Down</answer>"] * 12))
        lines = httpx.get(f"{small.url}/metrics").text.splitlines()
        counted = [line for line in lines if 'failures_total{code="busy"}' in line]
        assert counted
        assert float(counted[0].split()[1]) > 10
