"""One player, asked through a server that holds every history, and through one whose context is full after four pictures."""

from __future__ import annotations

import gymnasium as gym
import pytest
import runs

import vagen_envs  # noqa: F401
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.results.compare import compare, read_side
from vagen_benchmarks.sharing.verify import verify
from vagen_benchmarks.stop_reasons import Stop
from vagen_envs.seeding import HashStream

LEVELS = 32
OPTIONS = {"strategy": "free_think", "max_turns": 10, "max_actions_per_turn": 2}
FULL = {"error": {"message": "This model's maximum context length is 4096 tokens.", "code": "context_length_exceeded"}}


def player(levels):
    """Knows the way on most levels and goes two steps a turn; on the others it goes left for ever.

    By the first picture of an episode, which is all that a server knows a level by.
    """
    env = gym.make("vagen/FrozenLake-v0", disable_env_checker=True, split="test", **OPTIONS).unwrapped
    plans = {}
    for seed in range(levels):
        env.reset(seed=seed)
        knows = HashStream("a player", seed).below(100) < 70
        plans[env.observed.picture.data_url] = list(env.plan()) if knows else []
    return plans


def server(plans, holds=None):
    """What the endpoint does: play, or refuse what shows more pictures than it holds."""

    def script(number, body):
        asked = [each["content"] for each in body["messages"] if each["role"] == "user"]
        shown = [part["image_url"]["url"] for parts in asked for part in parts if part["type"] == "image_url"]
        if holds is not None and len(shown) > holds:
            return (400, {}, FULL)
        plan, turn = plans[shown[0]], len(shown) - 1
        return f"<think>t</think><answer>{','.join(plan[2 * turn : 2 * turn + 2]) or 'Left'}</answer>"

    return script


def play(path, url, levels):
    agent = ChatAgent(Registry().find("openai:m", url), base_url=url, attempts=2, first_wait=0.01, patience=0.0)
    return runs.play(path, [agent], ["frozenlake"], episodes=levels, options=OPTIONS)


def measure(path, endpoint, levels):
    """Both runs, into two folders: their outcomes and rows."""
    plans = player(levels)
    found = []
    for name, holds in (("whole", None), ("four", 4)):
        endpoint.script = server(plans, holds)
        found.append((play(path / name, endpoint.url, levels), *runs.rows(path / name)))
    return found


def test_a_full_context_is_a_loss_and_no_gap(tmp_path, endpoint):
    (_, whole), (outcome, four) = measure(tmp_path, endpoint, LEVELS)
    ended = [each.ended.kind for each in runs.episodes(tmp_path / "four")]
    full = ended.count(Stop.CONTEXT)
    assert full > LEVELS / 5
    assert four["success"] > 0
    assert all(len(each.turns) == 4 for each in runs.episodes(tmp_path / "four") if each.ended.kind is Stop.CONTEXT)
    # The table: all were played, and what the context took is lost.
    assert (outcome.played, outcome.failed, outcome.left) == (LEVELS, 0, 0)
    assert (four["played"], four["failed"], four["flagged"]) == (LEVELS, 0, False)
    within = sum(each.success and len(each.turns) <= 4 for each in runs.episodes(tmp_path / "whole"))
    assert four["success"] == within / LEVELS < whole["success"]
    assert four["errors"]["context full"] == full / LEVELS
    # The comparison.
    (pairs,) = compare(read_side(str(tmp_path / "whole")), read_side(str(tmp_path / "four")))
    assert (pairs.count, pairs.lost) == (LEVELS, 0)
    assert pairs.solved.value == pytest.approx(four["success"] - whole["success"])
    assert pairs.solved.high < 0
    # Resuming asks for nothing more.
    asked = len(endpoint.requests)
    assert play(tmp_path / "four", endpoint.url, LEVELS).played == 0
    assert len(endpoint.requests) == asked
    assert verify(runs.RunFolder(tmp_path / "four")).ok
