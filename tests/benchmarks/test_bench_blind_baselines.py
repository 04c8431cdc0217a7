"""The best replies that don't look."""

from __future__ import annotations

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_benchmarks.agents import Game
from vagen_benchmarks.agents.blind_baselines import Blind, search
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.agents.scripted import WORDS
from vagen_envs.core import VagenEnv
from vagen_envs.frozen_lake.env import FrozenLakeEnv
from vagen_envs.primitive_skill.text_only import read_skills
from vagen_envs.sample.env import SampleEnv
from vagen_envs.sokoban.env import SokobanEnv
from vagen_envs.svg.env import SvgEnv


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(VagenEnv, "blind_search", (4, 2))
    monkeypatch.setattr(FrozenLakeEnv, "blind_search", (60, 24))
    for other in (SokobanEnv, SampleEnv, SvgEnv):
        monkeypatch.setattr(other, "blind_search", (6, 4))


def made(env_id="vagen/FrozenLake-v0", **options):
    return gym.make(env_id, disable_env_checker=True, **options).unwrapped


def returned(env, replies, seeds):
    """Success of these replies, one after the other, on levels of a split."""
    solved = 0
    for seed in seeds:
        env.reset(seed=seed)
        for actions in replies:
            _, _, terminated, truncated, info = env.step(env.grammar.render(actions, **WORDS))
            if terminated or truncated:
                break
        solved += info["turn"].success
    return solved / len(seeds)


def played(agent, env, seed):
    """The turns of one episode."""
    env.reset(seed=seed)
    turns = []
    while not turns or not (turns[-1].terminated or turns[-1].truncated):
        reply = agent.reply(Game(env, "a task", "test", seed, 0, env.observed, turns))
        turns.append(env.step(reply.text)[4]["turn"])
    return turns


def test_on_a_lake_that_is_always_the_same_blindness_suffices():
    """One map for every level: what is found by search solves it, and random replies don't."""
    env = made(desc=("SFH", "FFF", "HFG"))
    assert returned(env, search(env), range(4)) == 1


def test_on_levels_that_differ_it_solves_few():
    env = made(split="test")
    assert returned(env, search(env), range(100)) < 0.12


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


@pytest.mark.parametrize(
    "env_id", ["vagen/Sokoban-v0", "vagen/Sample-v0", "vagen/SVGReconstruction-v0"]
)
def test_other_environments(env_id):
    if "SVG" in env_id:
        pytest.importorskip("cairosvg")
    if "Sample" in env_id:
        pytest.importorskip("math_verify")
    options = {"scorer": "classical"} if "SVG" in env_id else {}
    env = made(env_id, **options)
    assert len(search(env)) == env.config.max_turns


# -- what the texts give away ------------------------------------------------------------------------


LISTED = "Human instruction: …\nObject positions:\n[{}]{}\nDecide your next action(s).\n"


@pytest.mark.parametrize(
    ("task", "points", "other", "skills"),
    [
        (
            "place",
            "(80, -100, 0), (80, 100, 0), (80, -99, 20), (-9, 142, 20)",
            "",
            ["pick(-9, 142, 20)", "place(80, 100, 25)"],
        ),
        (
            "stack",
            "(24, -107, 20), (125, -117, 20), (18, 111, 20)",
            "",
            [
                "pick(125, -117, 20)",
                "place(24, -107, 65)",
                "pick(18, 111, 20)",
                "place(24, -107, 105)",
            ],
        ),
        ("align", "(-1, 10, 20), (82, -91, 20)", "", ["pick(82, -91, 20)", "place(0, -91, 25)"]),
    ],
)
def test_positions_that_the_text_lists_are_used(task, points, other, skills):
    assert read_skills(LISTED.format(points, other), task) == skills


def test_a_walker_turns_where_it_is_stopped():
    pytest.importorskip("mujoco")
    env = made("vagen/Navigation-v0", observation="text", max_turns=6)
    (agent,) = make_agents(["text-only"], Asked(), baselines=["text-only"])
    turns = played(agent, env, 0)
    first = [turn.parsed.actions[0].name for turn in turns]
    stopped = ["NOT carried out" in turn.observed.text for turn in turns]
    assert first == ["rotateright" if each else "moveahead" for each in stopped]
    assert any(stopped)


@pytest.mark.sim
def test_the_drawer_is_solved_from_the_text_alone():
    pytest.importorskip("mani_skill")
    env = made(
        "vagen/PrimitiveSkillDrawer-v0", split="test", observation="text", positions_in_text=True
    )
    try:
        (agent,) = make_agents(["text-only"], Asked(), baselines=["text-only"])
        assert sum(played(agent, env, seed)[-1].success for seed in range(2))
    finally:
        env.close()
