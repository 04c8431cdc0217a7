"""Every public exception crosses a process border, and can be built from one message."""

from __future__ import annotations

import inspect
import pickle

import gymnasium as gym
import pytest

import vagen_adapters.errors
import vagen_benchmarks.errors
import vagen_envs.errors
import vagen_rewards.errors
from vagen_adapters.errors import ServiceError
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.stop_reasons import Stop
from vagen_envs.errors import MissingExtraError, SimulatorError
from vagen_envs.sokoban.env import SokobanEnv

MODULES = (vagen_envs.errors, vagen_rewards.errors, vagen_adapters.errors, vagen_benchmarks.errors)
PARTS = {
    MissingExtraError: ("it", "svg", "cairosvg"),
    SimulatorError: ("vagen/Sokoban-v0", "the bridge is out"),
    ServiceError: ("busy", "try later"),
    EndpointError: (Stop.TIMEOUT, "no answer"),
}
PUBLIC = {
    each
    for module in MODULES
    for _, each in inspect.getmembers(module, inspect.isclass)
    if issubclass(each, Exception) and each.__module__ == module.__name__
}


@pytest.mark.parametrize("cls", sorted(PUBLIC, key=lambda cls: cls.__name__))
def test_every_exception_survives_pickle_and_is_built_from_one_message(cls):
    error = cls(*PARTS.get(cls, ("one message",)))
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (cls, str(error), vars(error))
    again = cls(error)  # as AsyncVectorEnv raises it
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert str(cls("one message")) == "one message"


class BreaksDown(SokobanEnv):
    def _execute(self, action):
        raise ZeroDivisionError("the bridge is out")


def test_a_broken_simulator_in_an_async_vector_is_said_as_it_is():
    envs = gym.vector.AsyncVectorEnv([BreaksDown, BreaksDown])
    try:
        envs.reset(seed=1)
        with pytest.raises(
            SimulatorError, match="vagen/Sokoban-v0 broke: ZeroDivisionError: the bridge is out"
        ):
            envs.step(("<answer>Up</answer>", "<answer>Up</answer>"))
    finally:
        envs.close(terminate=True)
