"""`default_action`: what a reply without a valid action executes (Verlog)."""

from __future__ import annotations

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.errors import ConfigError

SOKOBAN = "vagen/Sokoban-v0"
ACT = "<think>x</think><answer>{}</answer>"


def turn_of(reply, **options):
    env = gym.make(SOKOBAN, strategy="free_think", **options)
    env.reset(seed=3)
    return env.step(reply)[4]["turn"]


@pytest.mark.parametrize("reply", ["", "I give up", ACT.format("Jump"), ACT.format("")])
def test_it_stands_in_for_a_reply_without_a_valid_action(reply):
    turn = turn_of(reply, default_action="left")
    assert [each.text for each in turn.executed] == ["Left"]
    assert not turn.metrics["action_is_valid"]
    assert "format" not in {term.name for term in turn.rewards}
    assert turn_of(reply).executed == ()


def test_it_is_not_executed_beside_valid_actions():
    for reply in (ACT.format("Up"), ACT.format("Up,Jump")):
        turn = turn_of(reply, default_action="Left")
        assert [each.text for each in turn.executed] == ["Up"]


def test_it_must_be_a_name_of_an_action():
    with pytest.raises(ConfigError, match=r"default_action='Jump'.*Up, Down, Left, Right"):
        gym.make(SOKOBAN, default_action="Jump")
    gym.make(SOKOBAN, default_action="north", action_names=("north", "south", "west", "east"))
