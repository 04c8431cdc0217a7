"""Every exception of the four packages crosses a process border, and can be built from one message."""

from __future__ import annotations

import ast
import builtins
import importlib
import pickle
from pathlib import Path

import gymnasium as gym
import pytest

from vagen_adapters.errors import ServiceError
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.stop_reasons import Stop
from vagen_envs.errors import MissingExtraError, SimulatorError
from vagen_envs.sokoban.env import SokobanEnv

ROOT = Path(__file__).parent.parent
FOLDERS = ("vagen_envs", "vagen_rewards", "adapters/vagen_adapters", "benchmarks/vagen_benchmarks")
SPECIAL = {
    "MissingExtraError": ("it", "svg", "cairosvg"),
    "SimulatorError": ("vagen/Sokoban-v0", "the bridge is out"),
    "ServiceError": ("busy", "try later"),
    "EndpointError": (Stop.TIMEOUT, "no answer"),
    "Refused": ("busy", "try later"),
    "BadRequestError": (404, "no such page"),
}


def exception_classes():
    """All that are defined in the four packages, found in their text."""
    found, bases = [], {"Exception"}
    classes = [
        (path, node)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    bases |= {name for name in dir(builtins) if name.endswith("Error")}
    while True:
        more = [
            (path, node)
            for path, node in classes
            if (path, node) not in found and any(isinstance(b, ast.Name) and b.id in bases for b in node.bases)
        ]
        if not more:
            return [(path, node.name) for path, node in found]
        found += more
        bases |= {node.name for _, node in more}


FOUND = exception_classes()


@pytest.mark.parametrize(("path", "name"), FOUND, ids=[f"{path.stem}.{name}" for path, name in FOUND])
def test_every_exception_survives_pickle_and_is_built_from_one_message(path, name):
    folder = next(folder for folder in FOLDERS if path.is_relative_to(ROOT / folder))
    module = importlib.import_module(".".join(path.relative_to((ROOT / folder).parent).with_suffix("").parts))
    cls = getattr(module, name)
    arguments = SPECIAL.get(name, ("one message",)) if not path.match("svg/check.py") else ("one message",)
    error = cls(*arguments) if not name.startswith("_Died") else cls(**{_word(cls): True})
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (cls, str(error), vars(error))
    if path.name == "errors.py":
        again = cls(error)  # as AsyncVectorEnv raises it
        assert str(again) == str(error)
        assert vars(again) == vars(error)
        assert str(cls("one message")) == "one message"


def _word(cls):
    return cls.__init__.__code__.co_varnames[1]


def test_there_are_as_many_as_one_would_think():
    assert len(FOUND) > 25
    assert {"SimulatorError", "SnapshotError", "TooManyUnscoredError", "RunFolderError"} <= {name for _, name in FOUND}


def test_what_the_parts_say_is_kept():
    assert str(SimulatorError("x/Y-v0", "it burns")).startswith("the simulator of x/Y-v0 broke: it burns.")
    assert SimulatorError(SimulatorError("x/Y-v0", "it burns")).cause == "it burns"
    assert 'pip install "vagen-envs[svg]"' in str(MissingExtraError("it", "svg", "cairosvg"))
    assert ServiceError("busy", "later").code == "busy"
    assert EndpointError("timeout", "no answer", retry=False).kind is Stop.TIMEOUT


class BreaksDown(SokobanEnv):
    def _execute(self, action):
        raise ZeroDivisionError("the bridge is out")


def test_a_broken_simulator_in_an_async_vector_is_said_as_it_is():
    envs = gym.vector.AsyncVectorEnv([BreaksDown, BreaksDown])
    try:
        envs.reset(seed=1)
        with pytest.raises(SimulatorError, match="vagen/Sokoban-v0 broke: ZeroDivisionError: the bridge is out"):
            envs.step(("<answer>Up</answer>", "<answer>Up</answer>"))
    finally:
        envs.close(terminate=True)
