"""`preset="released"` beside what VAGEN's branch `main` of 2025 (commit d2b8b30) gave, turn by turn.

Boards and replies are of our own; its two environments played them with gym-sokoban 0.0.6 and
Gymnasium's FrozenLake. Only what came out is kept: reward, end, success, `action_is_valid`,
`action_is_effective` and where the player stood.
"""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401

RECORDED = json.loads(Path(__file__).with_name("data").joinpath("vagen_outcomes.json").read_text())
STRICT = (
    "<think><observation>o</observation><reasoning>r</reasoning>"
    "<prediction>p</prediction></think><answer>{}</answer>"
)


def replayed(env, turns):
    """What each turn gives here, and what it gave there."""
    env.reset(seed=0)
    for answer, *there in turns:
        reply = answer["reply"] if isinstance(answer, dict) else STRICT.format(answer)
        _, reward, terminated, _, info = env.step(reply)
        turn = info["turn"]
        here = [
            round(reward, 3),
            terminated,
            turn.success,
            bool(turn.metrics["action_is_valid"]),
            bool(turn.metrics["action_is_effective"]),
            list(turn.after.player),
        ]
        yield reply, here, there


@pytest.mark.parametrize("number", range(len(RECORDED["sokoban"])))
def test_sokoban_gives_what_it_gave_there(number, tmp_path):
    episode = RECORDED["sokoban"][number]
    file = tmp_path / "board.xsb"
    file.write_text("\n".join(episode["board"]))
    env = gym.make(
        "vagen/Sokoban-v0", preset="released", boards=str(file), split_by="all", max_turns=60
    ).unwrapped
    for reply, here, there in replayed(env, episode["turns"]):
        assert here == there, reply


@pytest.mark.parametrize("number", range(len(RECORDED["frozen_lake"])))
def test_frozen_lake_gives_what_it_gave_there(number):
    episode = RECORDED["frozen_lake"][number]
    env = gym.make(
        "vagen/FrozenLake-v0", preset="released", desc=tuple(episode["board"]), max_turns=60
    ).unwrapped
    for reply, here, there in replayed(env, episode["turns"]):
        assert here == there, reply
