"""The agent `tiny`: it has learned to play from pixels, and says so where it has not."""

import json

import gymnasium as gym
import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

import vagen_envs  # noqa: F401
from vagen_benchmarks.agents import Game
from vagen_benchmarks.agents.scripted import Random
from vagen_benchmarks.agents.tiny import FOLDER, Tiny
from vagen_benchmarks.cli import app
from vagen_benchmarks.errors import ProtocolError
from vagen_envs import Observation
from vagen_envs.errors import MissingExtraError
from vagen_envs.pictures import Picture

LEVELS = range(24)
OPTIONS = {"vagen/FrozenLake-v0": {}, "vagen/Sokoban-v0": {"preset": "released"}}


def solved(agent, env_id):
    """How many of the first levels of the test split the agent solves."""
    env = gym.make(env_id, split="test", **OPTIONS[env_id])
    count = 0
    for seed in LEVELS:
        shown, _ = env.reset(seed=seed)
        game = Game(env.unwrapped, env_id, "test", seed, 0, Observation(shown["text"], Picture(shown["image"])))
        over = False
        while not over:
            _, _, terminated, truncated, info = env.step(agent.reply(game).text)
            game.turns.append(info["turn"])
            game.now = info["turn"].result
            over = terminated or truncated
        count += info["turn"].success
    return count


@pytest.mark.parametrize("env_id", OPTIONS)
def test_it_solves_levels_it_has_never_seen_and_random_play_does_not(env_id):
    pytest.importorskip("trl")
    assert solved(Tiny(), env_id) >= max(3, 2 * solved(Random(), env_id))


def test_its_weights_are_small_and_their_card_names_every_environment():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 10_000_000
    card = (FOLDER / "README.md").read_text()
    for path in FOLDER.glob("*/player.json"):
        assert json.loads(path.read_text())["env"] in card


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "frozenlake", "-o", "size=5"], "size=4, not 5"),
        (["--env", "frozenlake", "--strategy", "no_think"], "strategy='grounding_world_modeling'"),
    ],
)
def test_what_it_has_not_learned_is_said_before_anything_is_played(words, message, tmp_path):
    pytest.importorskip("trl")
    with pytest.raises(ProtocolError, match=message):
        CliRunner().invoke(app, ["bench", "--agent", "tiny", *words, "--out", str(tmp_path / "run")],
                           catch_exceptions=False)  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_an_environment_it_does_not_know_is_refused_with_those_it_does():
    pytest.importorskip("trl")
    with pytest.raises(ProtocolError, match=r"has not learned vagen/Navigation-v0.*--env vagen/FrozenLake-v0"):
        Tiny().check("vagen/Navigation-v0", {})


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"vagen-envs\[ppo\]"):
        Tiny()
