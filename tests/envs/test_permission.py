"""Options of remote clients: what is permitted, and the bounds."""

from __future__ import annotations

import pytest

import vagen_envs  # noqa: F401 - registers the ids
from vagen_envs.bounds import Number, Several, Whole, Words
from vagen_envs.errors import ConfigError
from vagen_envs.permission import permitted, permitted_reset

SOKOBAN = "vagen/Sokoban-v0"


def test_an_id_keeps_what_makes_it_the_one_it_is():
    assert permitted("vagen/PrimitiveSkillPlace-v0", {"task": "place"}, {}) == {"task": "place"}
    with pytest.raises(ConfigError, match="must be one of 'place'"):
        permitted("vagen/PrimitiveSkillPlace-v0", {"task": "drawer"}, {"task": {}})


def test_an_environment_of_another_contract_has_no_open_options():
    with pytest.raises(ConfigError, match="closed to clients"):
        permitted("CartPole-v1", {"sutton_barto_reward": True}, {"sutton_barto_reward": {"a": "b"}})


def test_bounds_of_resets():
    assert permitted_reset(SOKOBAN, 2**64 - 1, "val") == (2**64 - 1, "val")
    assert permitted_reset(SOKOBAN, None, None) == (None, None)
    for seed, split in ((2**64, None), (-1, None), (True, None), ("1", None), (None, "dev"), (None, {}), (1.0, None)):
        with pytest.raises(ConfigError, match="must be"):
            permitted_reset(SOKOBAN, seed, split)


@pytest.mark.parametrize(
    ("bound", "good", "bad"),
    [
        (Whole(1, 3), [1, 3], [0, 4, True, 1.0, "1", None, 10**5000, [1]]),
        (Number(0, 1), [0, 1, 0.5], [-0.1, float("nan"), float("inf"), True, "0", 10**5000, None]),
        (Words(3), ["a", "é~"], ["", "abcd", "\0", "\n", "\ud800", 1, None, ["a"]]),
        (Several(Whole(1, 3), 2), [[1], (1, 2)], [[], [1, 2, 3], [4], [[1]], "1", {1: 2}, None]),
    ],
)
def test_bounds(bound, good, bad):
    assert all(map(bound.admits, good))
    assert not any(map(bound.admits, bad))
    assert str(bound)
