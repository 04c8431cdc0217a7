"""The runner when environments and agents break, and what an oracle and a random agent do."""

from __future__ import annotations

import subprocess
import sys

import gymnasium as gym
import pytest
import runs

from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.runs.tasks import make_tasks
from vagen_envs.errors import MissingExtraError
from vagen_envs.sokoban.env import SokobanEnv

BROKEN = "test/BreakingSokoban-v0"


class BreakingSokoban(SokobanEnv):
    """Breaks in the second turn of odd seeds, as often as `times` says. Counts how often it was made and closed."""

    id = BROKEN
    times = made = closed = 0

    def __init__(self, **options):
        super().__init__(**options)
        type(self).made += 1

    def _execute(self, action):
        if self.level["seed"] % 2 and self._turns == 1 and BreakingSokoban.times:
            BreakingSokoban.times -= 1
            raise OSError("the renderer went away")
        return super()._execute(action)

    def close(self):
        type(self).closed += 1
        super().close()


@pytest.fixture
def breaking():
    gym.register(id=BROKEN, entry_point=BreakingSokoban)
    BreakingSokoban.times = BreakingSokoban.made = BreakingSokoban.closed = 0
    yield BreakingSokoban
    del gym.registry[BROKEN]


def play(path, agents, env=BROKEN, count=6):
    outcome = runs.play(path, agents, [env], episodes=count)
    return outcome, {episode.seed: episode for episode in runs.episodes(path)}


def test_environment_that_breaks_once_costs_nothing(tmp_path, breaking):
    breaking.times = 1
    outcome, episodes = play(tmp_path / "run", [Oracle()])
    assert (outcome.played, outcome.failed) == (6, 0)
    assert all(episode.success for episode in episodes.values())
    assert breaking.closed == breaking.made >= 3  # the probe, the broken one and its replacement


def test_environment_that_stays_broken_costs_its_episodes_only(tmp_path, breaking):
    breaking.times = 1000
    outcome, episodes = play(tmp_path / "run", [Oracle()])
    assert (outcome.played, outcome.failed, outcome.left) == (3, 3, 0)
    for seed, episode in episodes.items():
        assert (episode.failure is not None) == (seed % 2 == 1)
        if episode.failure:
            assert episode.failure.kind == "environment"
            assert "the renderer went away" in episode.failure.message
            assert BROKEN in episode.failure.message
            assert len(episode.turns) == 1  # what was played before is kept
    breaking.times = 0
    outcome, episodes = play(tmp_path / "run", [Oracle()])
    assert (outcome.played, outcome.failed) == (3, 0)
    assert all(episode.success for episode in episodes.values())


def test_missing_environment_is_skipped_unless_asked_for(monkeypatch):
    class Missing:
        def __init__(self, **options):
            raise MissingExtraError("vagen/Moon-v0", "moon", "moonlib")

    gym.register(id="vagen/Moon-v0", entry_point=Missing)
    monkeypatch.setattr("vagen_envs.ENV_IDS", ("vagen/Sokoban-v0", "vagen/Moon-v0"))
    try:
        tasks, skipped = make_tasks([])
        assert [task.env_id for task in tasks] == ["vagen/Sokoban-v0"]
        assert [each.env_id for each in skipped] == ["vagen/Moon-v0"]
        assert 'pip install "vagen-envs[moon]"' in skipped[0].reason
        with pytest.raises(ProtocolError, match="moonlib"):
            make_tasks(["moon"])
    finally:
        del gym.registry["vagen/Moon-v0"]


def test_environment_of_another_kind_is_refused():
    with pytest.raises(ProtocolError, match="isn't an environment of this contract"):
        make_tasks(["CartPole-v1"])


def test_environment_says_how_many_episodes_are_sensible(breaking):
    assert make_tasks([BROKEN])[0][0].episodes == 128
    breaking.test_episodes = 8
    try:
        assert make_tasks([BROKEN])[0][0].episodes == 8
        assert make_tasks([BROKEN], episodes=3)[0][0].episodes == 3
    finally:
        del breaking.test_episodes


@pytest.mark.parametrize("env", ["sokoban", "frozenlake"])
def test_random_is_always_well_formed_and_valid(tmp_path, env):
    strategies = [
        "no_think",
        "free_think",
        "grounding",
        "world_modeling",
        "grounding_world_modeling",
    ]
    runs.play(tmp_path, [Random()], [env], episodes=10, strategies=strategies)
    turns = [turn for episode in runs.episodes(tmp_path) for turn in episode.turns]
    assert len(turns) >= 50
    assert all(
        turn["parsed"]["well_formed"] and turn["metrics"]["action_is_valid"] for turn in turns
    )


def test_bench_imports_no_sdk_for_agents_without_a_model():
    heavy = "{'openai', 'anthropic', 'google.genai', 'torch', 'pyarrow'}"
    code = (
        f"import sys; from vagen_benchmarks.cli import main; assert not {heavy} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
