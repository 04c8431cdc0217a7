"""What an adapter says where a module is missing, or another version is installed."""

from __future__ import annotations

import importlib
import sys

import pytest

from vagen_adapters.errors import UpstreamError, not_importable
from vagen_envs.errors import MissingExtraError


@pytest.mark.parametrize(
    ("adapter", "hidden", "extra"),
    [
        ("verl", "verl", "verl"),
        ("verifiers", "verifiers", "verifiers"),
        ("openenv", "openenv", "openenv"),
        ("inspect", "inspect_ai", "inspect"),
        ("skyrl", "skyrl_gym", "skyrl"),
        ("trl", "datasets", "ppo"),
        ("pettingzoo", "pettingzoo", "pettingzoo"),
        ("nemo_gym", "nemo_gym", "nemo-gym"),
    ],
)
def test_the_library_itself_is_missing(adapter, hidden, extra, monkeypatch):
    module = f"vagen_adapters.{adapter}_env"
    for name in list(sys.modules):
        if name == module or name.partition(".")[0] == hidden:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, hidden, None)
    with pytest.raises(MissingExtraError, match="needs the Python module") as said:
        importlib.import_module(module)
    assert f'pip install "vagen-envs[{extra}]"' in str(said.value)


def test_what_the_library_needs_is_missing_by_its_own_name():
    error = ModuleNotFoundError(
        "No module named 'cachetools_of_nobody'", name="cachetools_of_nobody"
    )
    said = not_importable("vagen_adapters.verl_env", "verl", "verl", error)
    assert isinstance(said, MissingExtraError)
    assert said.missing == "cachetools_of_nobody"


@pytest.mark.parametrize(
    "error",
    [
        ImportError("cannot import name 'AgentLoopBase' from 'pytest'", name="pytest"),
        ModuleNotFoundError("No module named 'pytest.agent_loop'", name="pytest.agent_loop"),
    ],
)
def test_another_version_is_named_and_not_called_missing(error):
    said = not_importable("vagen_adapters.verl_env", "verl", "pytest", error)
    assert isinstance(said, UpstreamError)
    assert f"the installed pytest {pytest.__version__}" in str(said)
    assert str(error) in str(said)
