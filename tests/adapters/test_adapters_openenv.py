"""OpenEnv's real server and client over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import published
import pytest

pytest.importorskip("openenv.core")
pytest.importorskip("uvicorn")

import uvicorn
from openenv.cli._validation import validate_running_environment
from openenv.validation.graders.runtime.basic import (
    ObservationSchemaGrader,
    RewardWellFormedGrader,
    StateContractGrader,
)
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import load_runtime_plan
from oracle import oracle_episode
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from vagen_adapters.openenv_env import VagenAction, VagenClient, create_app
from vagen_adapters.rows import levels
from vagen_envs import ENV_IDS, Turn
from vagen_envs.errors import ConfigError
from vagen_rewards import ReasoningReward

GRIDS = [env_id for env_id in ENV_IDS if env_id in ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")]


class Served:
    """A server in a thread of this process."""

    def __init__(self, env_id, **options):
        app = create_app(env_id, **options)
        self.server = uvicorn.Server(
            uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error")
        )
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        deadline = time.monotonic() + 60
        while not self.server.started:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(20)


@pytest.mark.parametrize("env_id", GRIDS)
def test_an_episode_is_the_same_as_in_this_process(env_id):
    replies, turns = oracle_episode(gym.make(env_id), 3, "test")
    with Served(env_id) as url, VagenClient(base_url=url).sync() as env:
        result = env.reset(seed=3, split="test", episode_id="mine")
        assert (result.reward, result.done) == (None, False)
        pictures = [result.observation.picture]
        for reply, turn in zip(replies, turns, strict=True):
            result = env.step(VagenAction(text=reply))
            pictures.append(result.observation.picture)
            assert (
                Turn.from_json(result.observation.turn, {each.sha256: each for each in pictures})
                == turn
            )
            assert result.reward == pytest.approx(turn.reward)
            assert result.done == (turn.terminated or turn.truncated)
        state = env.state()
        assert (state.episode_id, state.step_count, state.env_id) == ("mine", len(turns), env_id)
        assert state.level == turns[-1].level
        assert state.system_prompt == gym.make(env_id).unwrapped.system_prompt


def test_published_levels_are_played_by_number(tmp_path):
    options = published.boards(tmp_path)
    with Served(published.SOKOBAN, **options) as url, VagenClient(base_url=url).sync() as env:
        played = []
        for level in range(3):
            env.reset(split="test", level=level)
            played.append(env.state().level["content"])
        assert played == published.contents(options)
        with pytest.raises(Exception, match="'test' has 3, counted from 0"):
            env.reset(split="test", level=3)


def test_reasoning_is_paid_as_the_reward_alone_pays_it():
    options = {"weighting": "plain", "judge": "rule", "penalty": "paper"}
    replies, turns = oracle_episode(gym.make("vagen/Sokoban-v0"), 3, "test")
    with (
        Served("vagen/Sokoban-v0", reasoning=options) as url,
        VagenClient(base_url=url).sync() as env,
    ):
        env.reset(seed=3, split="test")
        paid = env.step(VagenAction(text=replies[0])).reward
    owed = sum(term.value for term in ReasoningReward.from_options(options)(turns[0]))
    assert owed > 0
    assert paid == pytest.approx(turns[0].reward + owed)


def test_many_sessions_do_not_mix():
    episodes = [oracle_episode(gym.make("vagen/Sokoban-v0"), seed, "test") for seed in range(8)]

    async def play(url, seed):
        replies, turns = episodes[seed]
        async with VagenClient(base_url=url) as env:
            await env.reset(seed=seed, split="test")
            seen = [(await env.step(VagenAction(text=reply))).observation for reply in replies]
            assert [Turn.from_json(each.turn).after for each in seen] == [
                turn.after for turn in turns
            ]

    async def all_at_once(url):
        await asyncio.gather(*(play(url, seed) for seed in range(8)))

    with Served("vagen/Sokoban-v0", max_sessions=8) as url:
        asyncio.run(all_at_once(url))


def test_one_session_too_many_is_refused_and_the_others_go_on():
    async def crowd(url):
        async with VagenClient(base_url=url) as one, VagenClient(base_url=url) as other:
            await one.reset(seed=0)
            await other.reset(seed=1)
            # Read as it comes: OpenEnv's client sends first, and may find the connection closed already.
            async with connect(url.replace("http", "ws") + "/ws") as third:
                assert json.loads(await third.recv())["data"]["code"] == "CAPACITY_REACHED"
            assert (await one.step(VagenAction(text=""))).observation.turn is not None

    with Served("vagen/Sokoban-v0", max_sessions=2) as url:
        asyncio.run(crowd(url))


VANISHING = """
import os, signal, sys
from vagen_adapters.openenv_env import VagenClient
client = VagenClient(base_url=sys.argv[1]).sync()
client.connect()
client.reset(seed=0)
print("playing", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)  # its connection stays open, as that of a machine without power does
"""


def test_the_place_of_a_client_that_vanished_behind_an_open_connection_is_freed():
    with Served("vagen/Sokoban-v0", max_sessions=1, session_timeout=1.0) as url:
        command = [sys.executable, "-c", VANISHING, url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as vanished:
            try:
                assert vanished.stdout.readline() == "playing\n"
                deadline = time.monotonic() + 60
                while not asyncio.run(finds_room(url)):
                    assert time.monotonic() < deadline
                    time.sleep(0.5)
            finally:
                vanished.kill()


def test_a_client_whose_session_was_reaped_plays_no_further():
    """OpenEnv frees the place of an idle session, but leaves its socket open."""
    served = Served("vagen/Sokoban-v0", max_sessions=1, session_timeout=1.0)
    with served as url, VagenClient(base_url=url).sync() as idle:
        idle.reset(seed=1)
        deadline = time.monotonic() + 60
        while not asyncio.run(finds_room(url)):
            assert time.monotonic() < deadline, "the place wasn't freed"
            time.sleep(0.5)
        with pytest.raises(RuntimeError, match="was closed; make another"):
            idle.step(VagenAction(text="<answer>Up</answer>"))
        with pytest.raises(RuntimeError, match="was closed; make another"):
            idle.reset(seed=2)


OTHERS = [("vagen/Sokoban-v0", {}), ("vagen/FrozenLake-v0", {"strategy": "grounding"})]


@pytest.mark.parametrize(("env_id", "options"), OTHERS)
def test_a_row_of_another_environment_is_refused(env_id, options):
    ((_, row),) = levels("vagen/FrozenLake-v0", num_levels=1)
    asked = {name: row[name] for name in ("seed", "split", "env_id", "prompt_hash")}
    with Served("vagen/FrozenLake-v0") as url, VagenClient(base_url=url).sync() as env:
        assert env.reset(**asked).observation.text
    with Served(env_id, **options) as url, VagenClient(base_url=url).sync() as env:  # noqa: SIM117
        with pytest.raises(RuntimeError, match=f"FrozenLake-v0.*environment is {env_id}"):
            env.reset(**asked)


@pytest.mark.parametrize("form", [dict, json.dumps])
def test_a_row_of_options_that_the_prompt_does_not_say_is_refused(form):
    ((_, row),) = levels("vagen/FrozenLake-v0", num_levels=1, size=4)
    asked = {**row, "options": form(row["options"])}
    with Served("vagen/FrozenLake-v0", size=4) as url, VagenClient(base_url=url).sync() as env:
        assert env.reset(**asked).observation.text
    with Served("vagen/FrozenLake-v0", size=6) as url, VagenClient(base_url=url).sync() as env:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"size=4 \(here 6\)"):
                env.reset(**asked)
        assert env.reset(seed=1).observation.text


@pytest.mark.parametrize("options", ["{", "3", 3, [1], {"size": float("nan")}])
def test_options_that_are_none_are_refused(options):
    with Served("vagen/FrozenLake-v0") as url, VagenClient(base_url=url).sync() as env:
        with pytest.raises(RuntimeError, match="options"):
            env.reset(seed=1, options=options)
        assert env.reset(seed=1).observation.text


def test_a_limit_of_steps_truncates_and_does_not_terminate():
    options = {"max_episode_steps": 2}
    ((_, row),) = levels("vagen/FrozenLake-v0", num_levels=1, **options)
    with Served("vagen/FrozenLake-v0", **options) as url, VagenClient(base_url=url).sync() as env:
        env.reset(**row)
        played = [env.step(VagenAction(text="no answer")).observation for _ in range(2)]
        assert [(each.terminated, each.truncated) for each in played] == [
            (False, False),
            (False, True),
        ]
    with Served("vagen/FrozenLake-v0") as url, VagenClient(base_url=url).sync() as env:  # noqa: SIM117
        with pytest.raises(RuntimeError, match=r"max_episode_steps=2 \(here None\)"):
            env.reset(**row)


async def finds_room(url):
    with contextlib.suppress(ConnectionClosed):  # a full server says so and closes
        async with connect(url.replace("http", "ws") + "/ws") as ws:
            await ws.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
            return json.loads(await ws.recv())["type"] == "observation"
    return False


def test_what_is_wrong_is_said_and_the_session_goes_on():
    with Served("vagen/Sokoban-v0") as url, VagenClient(base_url=url).sync() as env:
        with pytest.raises(RuntimeError, match="no running episode"):
            env.step(VagenAction(text="too early"))
        for wrong in ({"split": "tset"}, {"split": ["test"]}, {"seed": 2**64}):
            with pytest.raises(RuntimeError, match="must be"):
                env.reset(**wrong)
        assert env.reset(seed=0).observation.picture is not None
        assert env.step(VagenAction(text="\0 no tags " * 5_000)).observation.turn["parsed"][
            "problems"
        ]
    with pytest.raises(ConfigError, match="num_boxes"):
        create_app("vagen/Sokoban-v0", num_box=2)
    with pytest.raises(ConfigError, match="'max_sessions'"):
        create_app("vagen/Sokoban-v0", max_session=2)
    command = [sys.executable, "-m", "vagen_adapters.openenv_env", "--env-id", "vagen/Sokobn-v0"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert "Did you mean 'vagen/Sokoban-v0'" in " ".join(said.split())
    assert "Traceback" not in said


PACKAGE = Path(__file__).parents[2] / "deploy" / "openenv"


def test_the_package_passes_openenv_validate():
    """OpenEnv's RFC 008, as its own command grades it; what needs an image is not run here."""
    command = [
        str(Path(sys.executable).with_name("openenv")),
        "validate",
        str(PACKAGE),
        "--skip-build",
        "--json",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    found = {each["check_id"]: each["status"].lower() for each in report["results"]}
    assert found.pop("static.manifest") == "pass"
    assert set(found.values()) <= {"skip"}, found


def test_a_running_server_passes_openenv_validate():
    with Served("vagen/Sokoban-v0") as url:
        report = validate_running_environment(url, timeout_s=30)
    assert report["passed"]
    assert not report["summary"]["failed_criteria"]


def test_an_episode_passes_the_graders_of_a_running_package():
    manifest = OpenEnvYamlParser().parse(PACKAGE)
    plan = load_runtime_plan(PACKAGE, manifest.execution)
    with Served("vagen/Sokoban-v0") as url:
        evidence = collect_runtime_evidence(url, plan, episode_timeout_s=60)
    assert evidence.failure_reason is None
    assert json.loads(evidence.exchanges[-2].response_json)["data"]["done"]
    subject = SimpleNamespace(manifest=manifest, runtime_evidence=evidence)
    for grader in (RewardWellFormedGrader, ObservationSchemaGrader, StateContractGrader):
        found = grader().run(subject)
        assert found.status.value == "pass", found
