"""The best replies that don't look."""

from __future__ import annotations

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_benchmarks.agents import Game, blind_baselines, text_only
from vagen_benchmarks.agents.blind_baselines import Blind, search
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.agents.text_only import TextOnly


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(blind_baselines, "SIZES", {"sokoban": (60, 24), "frozen_lake": (60, 24), "sample": (8, 6)})
    monkeypatch.setattr(blind_baselines, "OTHERS", (4, 2))
    monkeypatch.setattr(text_only, "ROOM", 96)


def made(env_id="vagen/FrozenLake-v0", **options):
    return gym.make(env_id, disable_env_checker=True, **options).unwrapped


def returned(env, replies, seeds):
    """Success of these replies, one after the other, on levels of a split."""
    solved = 0
    for seed in seeds:
        env.reset(seed=seed)
        for actions in replies:
            _, _, terminated, truncated, info = env.step(env.grammar.render(actions, **blind_baselines.WORDS))
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
def test_other_environments(env_id):
    if "SVG" in env_id:
        pytest.importorskip("cairosvg")
    if "Sample" in env_id:
        pytest.importorskip("math_verify")
    options = {"scorer": "classical"} if "SVG" in env_id else {}
    env = made(env_id, **options)
    assert len(search(env)) == env.config.max_turns


# -- what the texts give away ------------------------------------------------------------------------


def test_it_knows_the_levels_of_val():
    """A lake that is always the same, from which a search finds the way."""
    env = made(desc=("SFH", "FFF", "HFG"))
    (agent,) = make_agents(["text-only"], Asked())
    assert isinstance(agent, TextOnly)
    assert played(agent, env, 0)[-1].success


def test_it_is_the_same_whatever_the_picture_shows():
    """Two levels with the same texts get the same replies, however they look."""
    env = made(split="test")
    agent = TextOnly()
    replies = {}
    for seed in range(30):
        for turn in played(agent, env, seed):
            texts = tuple(each for each in turn.observed.text.split("<image>"))
            replies.setdefault((turn.index, texts), set()).add(turn.parsed.actions)
    assert len({index for index, _ in replies}) == 3
    first = [actions for (index, _), actions in replies.items() if index == 0]
    assert [len(each) for each in first] == [1]


def test_the_same_again():
    env = made(split="test")
    one, other = ([turn.reply for turn in played(TextOnly(), env, seed)] for seed in (3, 3))
    assert one == other


def test_a_question_is_answered_as_similar_ones_are(monkeypatch):
    pytest.importorskip("math_verify")
    monkeypatch.setattr(text_only, "ROOM", 40)
    env = made("vagen/Sample-v0", split="test")
    agent = TextOnly()
    kinds = set()
    for seed in range(6):
        (turn,) = played(agent, env, seed)
        boxes = "Detect" in turn.observed.text or "Find" in turn.observed.text
        kinds.add(boxes)
        assert ("bbox_2d" in turn.reply) == boxes
    assert kinds == {False, True}


LISTED = "Human instruction: …\nObject positions:\n[{}]{}\nDecide your next action(s).\n"


@pytest.mark.parametrize(
    ("task", "points", "other", "skills"),
    [
        (
            "drawer",
            "(-284, -190, 45), (-284, -312, 46), (-169, 73, 32)",
            "\nOther information:\n{'drawer_open_value': 145}",
            ["pick(-169, 73, 32)", "place(-284, -312, 100)", "push(-284, -190, 45, -284, -335, 45)"],
        ),
        (
            "place",
            "(80, -100, 0), (80, 100, 0), (-66, -123, 20), (-9, 142, 20)",
            "",
            ["pick(-66, -123, 20)", "place(80, -100, 25)", "pick(-9, 142, 20)", "place(80, 100, 25)"],
        ),
        ("place", "(80, -100, 0), (80, 100, 0), (80, -99, 20), (-9, 142, 20)", "",
         ["pick(-9, 142, 20)", "place(80, 100, 25)"]),
        ("stack", "(24, -107, 20), (125, -117, 20), (18, 111, 20)", "",
         ["pick(125, -117, 20)", "place(24, -107, 65)", "pick(18, 111, 20)", "place(24, -107, 105)"]),
        ("align", "(-1, 10, 20), (82, -91, 20)", "", ["pick(82, -91, 20)", "place(0, -91, 25)"]),
    ],
)  # fmt: skip
def test_positions_that_the_text_lists_are_used(task, points, other, skills):
    class Env:
        class config:  # noqa: N801
            pass

    Env.config.task = task
    assert text_only.read_skills(Env, [LISTED.format(points, other)]) == skills


def test_where_no_positions_are_listed_there_is_nothing_to_read():
    assert text_only.read_skills(None, ["Human instruction: …\nx_workspace_limit: (-100, 150)\n"]) == []


def test_a_walker_turns_where_it_is_stopped():
    env = type("Env", (), {"config": type("Config", (), {"max_actions_per_turn": 3})})
    assert text_only.wander(env, ["[First observation]"]) == ["moveahead"] * 3
    stopped = "[Turn result] Executed: moveahead. The last action was NOT carried out."
    assert text_only.wander(env, ["[First observation]", stopped])[0] == "rotateright"


@pytest.mark.sim
def test_the_drawer_is_solved_from_the_text_alone():
    pytest.importorskip("mani_skill")
    env = made("vagen/PrimitiveSkillDrawer-v0", split="test", observation="text")
    try:
        assert sum(played(TextOnly(), env, seed)[-1].success for seed in range(2))
    finally:
        env.close()
