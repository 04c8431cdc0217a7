"""No environment plays on after `close`, whenever it comes."""

from __future__ import annotations

import gymnasium as gym
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vagen_envs.errors import EnvClosedError, MissingExtraError
from vagen_envs.registration import ENV_IDS

OPTIONS = {"observation": "text"}


def made(env_id):
    options = {**OPTIONS, **({"workers": 0} if "PrimitiveSkill" in env_id else {})}
    try:
        return gym.make(env_id, **options).unwrapped
    except MissingExtraError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("env_id", ENV_IDS)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 3), st.integers(0, 5), st.integers(1, 2))
def test_a_closed_environment_refuses_every_move(env_id, turns, seed, times):
    env = made(env_id)
    env.reset(seed=seed)
    snapshot = env.snapshot()
    for _ in range(turns):
        *_, terminated, truncated, _ = env.step("nothing")
        if terminated or truncated:
            break
    for _ in range(times):
        env.close()
    for move in (
        lambda: env.step("<answer>Up</answer>"),
        env.reset,
        lambda: env.reset(seed=seed),
        lambda: env.restore(snapshot),
    ):
        with pytest.raises(EnvClosedError, match="was closed; make another"):
            move()
