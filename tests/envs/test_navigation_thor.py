"""AI2-THOR's backend through the real Controller, with a stand-in for the Unity player. Faults included."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from interruption import interrupt
from oracle import reply_of

import vagen_envs  # noqa: F401
from vagen_envs import conformance
from vagen_envs.errors import ConfigError, SimulatorError
from vagen_envs.navigation.config import NavigationConfig
from vagen_envs.navigation.scene import Pose

pytest.importorskip("ai2thor")
pytest.importorskip("mujoco")
pytestmark = pytest.mark.sim

from segmentation import segmented  # noqa: E402

from vagen_envs.navigation.simulator import free_pose  # noqa: E402

PLAYER = Path(__file__).parent / "navigation_player.py"
ID = "vagen/Navigation-v0"


@pytest.fixture(scope="module")
def player():
    spec = importlib.util.spec_from_file_location("navigation_player", PLAYER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def episodes(player, tmp_path_factory):
    """A file in EB-Navigation's format for the stand-in's scenes."""
    tasks = []
    for scene in player.SCENES:
        simulator, task = player.level_of(scene)
        target = next(t for t in simulator.objects if t.kind == task.target_type)
        pose = {
            "position": {"x": task.start.x, "y": 0.9, "z": task.start.z},
            "rotation": float(task.start.rotation),
            "horizon": 0.0,
        }
        tasks.append(
            {
                "targetObjectType": task.target_type,
                "targetObjectIds": target.name,
                "target_position": {"x": target.x, "y": 0.0, "z": target.z},
                "agentPose": pose,
                "scene": scene,
                "object_to_hide": [],
                "instruction": task.instruction,
            }
        )
    path = tmp_path_factory.mktemp("thor") / "base.json"
    path.write_text(json.dumps({"tasks": tasks}))
    return path


@pytest.fixture
def made(episodes, tmp_path, monkeypatch):
    """Make an environment whose player has a fault."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    environments = []

    def make(fault="none", **options):
        executable = tmp_path / f"player-{fault.replace(' ', '-')}"
        executable.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PLAYER}" "{fault}" "$@"\n')
        executable.chmod(0o755)
        chosen = {
            "resolution": 64,
            "level": 0,
            "split": "test",
            "thor_start_timeout": 60.0,
            "thor_step_timeout": 20.0,
            **options,
        }
        env = gym.make(
            ID, backend="thor", episodes=str(episodes), thor_executable=str(executable), **chosen
        ).unwrapped
        environments.append(env)
        return env

    yield make
    from vagen_envs.navigation.players import close_players

    for env in environments:
        env.close()
    close_players()


def no_thread_is_left():
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if not [t for t in threading.enumerate() if t.name.startswith("ai2thor")]:
            return True
        time.sleep(0.05)
    return False


def test_conformance_through_the_controller(made):
    one = made(level=None, split_by="content", split="train")
    one.close()
    conformance.check(lambda: made(level=None, split_by="content", split="train"), seeds=(0,))


def test_a_level_does_not_depend_on_where_the_file_lies(episodes, tmp_path):
    elsewhere = tmp_path / "copy.json"
    elsewhere.write_bytes(episodes.read_bytes())
    here, there = (
        NavigationConfig(backend="thor", episodes=str(path)).level_key()
        for path in (episodes, elsewhere)
    )
    assert here == there
    elsewhere.write_text(json.dumps({"tasks": json.loads(episodes.read_text())["tasks"][1:]}))
    assert NavigationConfig(backend="thor", episodes=str(elsewhere)).level_key() != here


def test_it_agrees_with_the_rooms_behind_it(made, player, episodes):
    env = made(multiview=True)
    observation, _info = env.reset(seed=1)
    assert observation["image"].shape == (64, 128, 3)
    ours, episode = player.level_of(player.SCENES[0])
    assert env.episode.instruction == episode.instruction
    for action in (
        "MoveAhead",
        "MoveLeft",
        "RotateRight",
        "LookDown",
        "LookDown",
        "LookDown",
        "MoveBack",
    ):
        assert env.simulator.step(action) == ours.step(action)
        assert env.simulator.pose == ours.pose
        assert env.simulator.seen() == ours.seen()


def test_an_object_that_is_called_visible_must_be_in_the_picture(made, player):
    env = made("boasts")
    env.reset(seed=0)
    ours, _ = player.level_of(player.SCENES[0])
    ours.teleport(env.simulator.pose)
    seen, picture = env.simulator.seen(), segmented(ours, 64)
    pixels = [np.count_nonzero(picture == index) for index in range(len(ours.objects))]
    shown = [thing for thing, count in zip(ours.objects, pixels, strict=True) if count > 3]
    assert seen == shown != ours.objects


def test_the_task_is_done_where_the_target_can_be_seen(made, player):
    """Within the distance, and with a free line: the judge is the room behind the stand-in."""
    for level in range(2):
        env = made(resolution=128, level=level)
        env.reset()
        ours, episode = player.level_of(player.SCENES[level])
        assert env.episode.instruction == episode.instruction
        target = env._target
        kept = env.simulator.pose
        for x, z in ((0.5, 0.5), (-0.5, 0.5), (1.0, -1.0), (0.0, 0.0)):
            pose = Pose(kept.x + x, kept.z + z, 0)
            if free_pose(ours, pose):
                assert env.simulator.in_sight(pose, target) == ours.in_sight(pose, target)
        assert env.simulator.step("RotateRight")
        assert env.simulator.pose == kept.after("RotateRight", 0.25)


def test_a_player_that_does_not_come_back_from_a_try_is_an_error(made):
    """Else the next action would be carried out where the oracle last tried one."""
    env = made("strands")
    env.reset(seed=0)
    for action in ("MoveAhead", "MoveBack", "MoveLeft", "MoveRight"):
        env.simulator.blocked(env.simulator.pose, action)
    with pytest.raises(SimulatorError, match="no way back"):
        env.step(reply_of(env, "rotateright"))


def test_players_are_used_again(made):
    from vagen_envs.navigation.players import close_players

    first = made()
    first.reset(seed=0)
    process = first._levels_of._player._controller.server.unity_proc.pid
    first.close()
    second = made()
    second.reset(seed=0)
    assert second._levels_of._player._controller.server.unity_proc.pid == process
    second.close()
    close_players()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("dies at start", "exit code 3"),
        ("hangs at start", "no answer within 3 s"),
        ("rubbish at start", "failed at start"),
        ("dies at 3", "exit code 7"),
        ("hangs at 3", "no answer within 3 s"),
        ("blind at 2", "objects"),
    ],
)
def test_a_player_that_fails_at_its_start_is_given_up(made, fault, cause):
    slow = fault.startswith(("dies", "blind"))  # these answer, on a busy machine late
    env = made(fault, **({} if slow else {"thor_start_timeout": 3.0}))
    with pytest.raises(SimulatorError, match=cause):
        env.reset(seed=0)
    assert no_thread_is_left()


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("dies at 9", "exit code 7|RuntimeError"),
        ("crashes at 9", "exit code -6|Error"),
        ("hangs at 9", "no answer within 6 s|TimeoutError"),
        ("rubbish at 9", "RuntimeError"),
        ("none", r"exit code -9|RuntimeError"),
    ],
)
def test_a_player_that_fails_later_is_replaced(made, fault, cause):
    # Also a sound player is slow on a busy machine.
    env = made(fault, **({"thor_step_timeout": 6.0} if "hangs" in fault else {}))
    before, _ = env.reset(seed=0)
    broken = env._levels_of._player
    if fault == "none":
        os.kill(broken._controller.server.unity_proc.pid, signal.SIGKILL)
    turn = "<think><reasoning>b</reasoning></think><answer>rotateleft,lookup,lookdown,rotateleft,rotateleft</answer>"

    def play():
        for _ in range(4):
            env.step(turn)

    with pytest.raises(SimulatorError, match=cause):
        play()
    assert no_thread_is_left()
    assert not broken.alive
    after, _ = env.reset(seed=0)
    assert after["text"] == before["text"]
    assert (after["image"] == before["image"]).all()
    assert env._levels_of._player is not broken
    assert env._levels_of._player.alive


def test_a_player_whose_call_was_interrupted_is_replaced(made):
    """Its call would go on beside the next one."""
    env = made()
    env.reset(seed=0)
    player = env._levels_of._player
    interrupt(player, "_exit_code")
    with pytest.raises(KeyboardInterrupt):
        env.step("<think><reasoning>b</reasoning></think><answer>rotateleft</answer>")
    assert not player.alive
    assert no_thread_is_left()
    env.reset(seed=0)
    assert env._levels_of._player.alive


EPISODE = {
    "scene": "FloorPlan1",
    "targetObjectType": "Mug",
    "instruction": "x",
    "target_position": {"x": 0, "z": 0},
    "agentPose": {"position": {"x": 0, "y": 0, "z": 0}, "rotation": 0, "horizon": 0},
}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("not json", "can't be read"),
        ('{"tasks": []}', "no episodes"),
        ('[{"scene": "FloorPlan1"}]', "episode 0 lacks"),
        (json.dumps([{**EPISODE, "scene": ""}]), "non-empty"),
        (
            json.dumps([{**EPISODE, "target_position": {"x": 0, "z": math.nan}}]),
            "nan is not a finite number",
        ),
        (
            json.dumps([{**EPISODE, "agentPose": {**EPISODE["agentPose"], "rotation": math.inf}}]),
            "inf is not a finite",
        ),
    ],
)
def test_a_bad_file_of_episodes_is_told(tmp_path, content, named):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=named):
        gym.make(ID, backend="thor", episodes=str(path))


def test_options_of_thor_are_checked(episodes):
    with pytest.raises(ConfigError, match="episodes"):
        gym.make(ID, backend="thor")
    with pytest.raises(ConfigError, match="level=99"):
        gym.make(ID, backend="thor", episodes=str(episodes), level=99, split="test").reset()
    with pytest.raises(ConfigError, match="thor_executable"):
        gym.make(ID, backend="thor", episodes=str(episodes), thor_executable="/nowhere")
