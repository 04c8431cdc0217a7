"""The best replies that don't look."""

from __future__ import annotations

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_benchmarks import floors
from vagen_benchmarks.agents import Game
from vagen_benchmarks.floors import Blind, search
from vagen_benchmarks.lineup import Asked, make_agents


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(floors, "QUICK", (60, 24))


def made(env_id="vagen/FrozenLake-v0", **options):
    return gym.make(env_id, disable_env_checker=True, **options).unwrapped


def returned(env, replies, seeds):
    """Success of these replies, one after the other, on levels of a split."""
    solved = 0
    for seed in seeds:
        env.reset(seed=seed)
        for actions in replies:
            _, _, terminated, truncated, info = env.step(env.grammar.render(actions, **floors.WORDS))
            if terminated or truncated:
                break
        solved += info["turn"].success
    return solved / len(seeds)


def test_on_a_lake_that_is_always_the_same_blindness_suffices():
    """One map for every level: what is found by search solves it, and random replies don't."""
    env = made(desc=("SFH", "FFF", "HFG"))
    assert returned(env, search(env), range(4)) == 1


def test_on_levels_that_differ_it_solves_few():
    env = made(split="test")
    assert returned(env, search(env), range(100)) < 0.12


def test_the_search_is_a_function_of_the_options():
    assert search(made()) == search(made(observation="text", split="test"))
    assert search(made()) != search(made(max_actions_per_turn=2))


def test_the_agent_writes_the_same_whatever_it_sees():
    (agent,) = make_agents(["blind"], Asked())
    assert isinstance(agent, Blind)
    env = made(split="test")
    texts = set()
    for seed in range(5):
        env.reset(seed=seed)
        texts.add(agent.reply(Game(env, "a task", "test", seed, 0, env.observed)).text)
    assert len(texts) == 1
    env.reset(seed=9)
    assert env.step(texts.pop())[4]["turn"].executed


@pytest.mark.parametrize("env_id", ["vagen/Sokoban-v0", "vagen/Sample-v0", "vagen/SVGReconstruction-v0"])
def test_other_environments(env_id, monkeypatch):
    if "SVG" in env_id:
        pytest.importorskip("cairosvg")
    if "Sample" in env_id:
        pytest.importorskip("math_verify")
    monkeypatch.setattr(floors, "SLOW", (4, 2))
    options = {"scorer": "classical"} if "SVG" in env_id else {}
    env = made(env_id, **options)
    assert len(search(env)) == env.config.max_turns
