"""Ends: an episode terminates where it is won or lost, and is truncated where its budget is spent."""

from __future__ import annotations

import gymnasium as gym
import pytest
import runs
from hypothesis import given, settings
from hypothesis import strategies as st

import vagen_envs
from vagen_benchmarks.agents.custom import custom_agent
from vagen_benchmarks.agents.scripted import Oracle
from vagen_benchmarks.stop_reasons import Stop

GRIDS = ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")
HOLES = ("SFFF", "FHFH", "FFFH", "HFFG")


def to_the_end(env, reply):
    """The last step of an episode; `reply` writes each reply."""
    while True:
        _, _, terminated, truncated, info = env.step(reply(env.unwrapped))
        assert not (terminated and truncated)
        assert (info["turn"].terminated, info["turn"].truncated) == (terminated, truncated)
        if terminated or truncated:
            return terminated, truncated, info["turn"]


@pytest.mark.parametrize("env_id", GRIDS)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_solved_is_terminated(env_id, seed):
    """A solved episode terminates, even with the last turn of its budget."""
    env = gym.make(env_id, disable_env_checker=True)
    env.reset(seed=seed)
    terminated, _, turn = to_the_end(env, lambda env: env.oracle_reply())
    assert terminated
    assert turn.success
    env = gym.make(env_id, max_turns=turn.index + 1, disable_env_checker=True)
    env.reset(seed=seed)
    assert to_the_end(env, lambda env: env.oracle_reply())[0]


@given(st.lists(st.sampled_from(("Up", "Down", "Left", "Right")), min_size=1, max_size=12))
@settings(max_examples=60)
def test_lost_for_good_is_terminated(actions):
    """Into a hole: the walk along Gymnasium's own map says when, and nothing is left to play."""
    env = gym.make("vagen/FrozenLake-v0", desc=HOLES, max_turns=99, disable_env_checker=True)
    env.reset(seed=0)
    row, column, over = 0, 0, False
    steps = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}
    for action in actions:
        down, right = steps[action]
        row, column = min(max(row + down, 0), 3), min(max(column + right, 0), 3)
        _, _, terminated, truncated, info = env.step(f"<answer>{action}</answer>")
        cell = HOLES[row][column]
        assert terminated == (cell in "HG")
        assert info["turn"].success == (cell == "G")
        assert not truncated
        over = terminated
        if over:
            break
    if over:
        with pytest.raises(vagen_envs.errors.EpisodeOverError):
            env.step("<answer>Up</answer>")


@pytest.mark.parametrize("env_id", GRIDS)
@given(budget=st.integers(1, 5), reply=st.sampled_from(("hm", "<answer></answer>", "<answer>x")))
@settings(max_examples=20)
def test_a_spent_budget_is_truncated(env_id, budget, reply):
    """Turns without effect end an episode when the last one is spent, no sooner, as truncated."""
    env = gym.make(env_id, max_turns=budget, disable_env_checker=True)
    env.reset(seed=3)
    terminated, truncated, turn = to_the_end(env, lambda _: reply)
    assert (terminated, truncated, turn.index, turn.success) == (False, True, budget - 1, False)


def test_spent_actions_are_truncated_too():
    """`max_steps` bounds actions as `max_turns` bounds turns."""
    env = gym.make("vagen/Sokoban-v0", max_steps=2, max_turns=99, disable_env_checker=True)
    env.reset(seed=3)
    _, _, terminated, truncated, info = env.step("<answer>Up,Down,Up</answer>")
    assert (terminated, truncated, len(info["turn"].executed)) == (False, True, 2)


def endings():
    """Three episodes of FrozenLake: solved, lost and out of turns, with the flags each ends with."""
    env = gym.make("vagen/FrozenLake-v0", desc=HOLES, max_turns=3)
    env.reset(seed=0)
    solve = [env.unwrapped.oracle_reply()]
    env.step(solve[0])
    solve.append(env.unwrapped.oracle_reply())
    return {
        (True, False): [*solve, "<answer>Right,Down,Right</answer>"],
        (True, False, "lost"): ["<answer>Right,Down</answer>"],
        (False, True): ["hm", "hm", "hm"],
    }


def test_adapters_say_the_same_of_every_end():
    """Through the service, in vectors and in Gymnasium's plain form the flags are the environment's."""
    pytest.importorskip("fastapi")
    from service_fixtures import Served

    from vagen_adapters.service.client import Service
    from vagen_adapters.service.remote_env import RemoteEnv

    options = {"desc": list(HOLES), "max_turns": 3}
    with Served() as served:
        makers = {
            "local": lambda: gym.make("vagen/FrozenLake-v0", **options),
            "remote": lambda: RemoteEnv(Service(served.url), "vagen/FrozenLake-v0", **options),
        }
        seen = {}
        for name, make in makers.items():
            env = make()
            for expected, replies in endings().items():
                env.reset(seed=0)
                for reply in replies:
                    _, _, terminated, truncated, info = env.step(reply)
                    if terminated or truncated:
                        break
                assert (terminated, truncated) == expected[:2], name
                seen.setdefault(expected, set()).add((info["turn"].success, terminated, truncated))
            env.close()
    assert all(len(flags) == 1 for flags in seen.values())


def test_the_runner_stores_each_end_as_what_it_is(tmp_path):
    """Solved, lost and out of budget are three endings in a run's episodes."""
    agents = [Oracle(), custom_agent(lambda game: "hm", name="mute")]
    runs.play(tmp_path / "run", agents, ["frozenlake"], episodes=3)
    kinds = {(each.agent, each.ended.kind) for each in runs.episodes(tmp_path / "run")}
    assert kinds == {("oracle", Stop.SOLVED), ("mute", Stop.BUDGET)}
    falls = custom_agent(lambda game: "<answer>Right,Down</answer>", name="falls")
    runs.play(tmp_path / "lost", [falls], ["frozenlake"], options={"desc": list(HOLES)}, episodes=1)
    (episode,) = runs.episodes(tmp_path / "lost")
    assert episode.ended.kind is Stop.LOST
