"""Options of remote clients: what is permitted."""

from __future__ import annotations

import pytest

import vagen_envs  # noqa: F401 - registers the ids
from vagen_adapters.permission import permitted
from vagen_envs.errors import ConfigError


def test_an_id_keeps_what_makes_it_the_one_it_is():
    assert permitted("vagen/PrimitiveSkillPlace-v0", {"task": "place"}, {}) == {"task": "place"}
    with pytest.raises(ConfigError, match="must be one of 'place'"):
        permitted("vagen/PrimitiveSkillPlace-v0", {"task": "drawer"}, {"task": {}})


def test_an_environment_of_another_contract_has_no_open_options():
    with pytest.raises(ConfigError, match="closed to clients"):
        permitted("CartPole-v1", {"sutton_barto_reward": True}, {"sutton_barto_reward": {"a": "b"}})
