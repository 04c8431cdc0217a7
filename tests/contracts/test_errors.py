"""Errors: one flat module a package; a message names value, reason and fix, and a close name."""

from __future__ import annotations

import ast
import dataclasses
import pickle
from pathlib import Path

import gymnasium as gym
import pytest
from commands import vagen
from hypothesis import given, settings
from hypothesis import strategies as st

import vagen_adapters
import vagen_benchmarks
import vagen_envs
import vagen_rewards
from vagen_envs.errors import ConfigError
from vagen_envs.registration import ENV_IDS, declared

PACKAGES = {
    each.__name__: Path(each.__file__).parent
    for each in (vagen_envs, vagen_rewards, vagen_adapters, vagen_benchmarks)
}
GRIDS = ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")


def error_classes(path):
    """The public classes of a module whose names end in Error."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        named = isinstance(node, ast.ClassDef) and node.name.endswith("Error")
        if named and not node.name.startswith("_"):
            yield node.name


@pytest.mark.parametrize("package", PACKAGES)
def test_the_errors_of_a_package_stand_in_one_module(package):
    """What a user may catch is found in `errors.py`, which defines nothing in classes of classes."""
    folder = PACKAGES[package]
    assert list(error_classes(folder / "errors.py"))
    elsewhere = {
        str(path.relative_to(folder)): found
        for path in folder.rglob("*.py")
        if path != folder / "errors.py" and (found := list(error_classes(path)))
    }
    assert elsewhere == {}


def test_errors_go_through_pickle_and_gymnasiums_workers():
    """Each is built from one message alone, as `AsyncVectorEnv` and pickle do."""
    for name, value in vars(vagen_envs.errors).items():
        if isinstance(value, type) and issubclass(value, vagen_envs.errors.VagenError):
            made = value("the message")
            again = pickle.loads(pickle.dumps(made))
            assert (type(again), str(again)) == (value, "the message"), name
            assert str(value(made)) == "the message"


def misspelt(data, name):
    """A name with one letter left out, doubled, or two exchanged."""
    at = data.draw(st.integers(0, len(name) - 2))
    return data.draw(
        st.sampled_from(
            [
                name[:at] + name[at + 1 :],
                name[:at] + name[at] + name[at:],
                name[:at] + name[at + 1] + name[at] + name[at + 2 :],
            ]
        )
    )


@pytest.mark.parametrize("env_id", ENV_IDS)
@given(st.data())
@settings(max_examples=15)
def test_a_misspelt_option_names_the_one_that_was_meant(env_id, data):
    """For every option of every environment."""
    config_class = declared(env_id)[1].config_class
    names = [field.name for field in dataclasses.fields(config_class)]
    name = data.draw(st.sampled_from([each for each in names if len(each) > 4]))
    wrong = misspelt(data, name)
    if wrong in names:
        return
    with pytest.raises(ConfigError) as caught:
        config_class.create("paper", **{wrong: 1})
    assert wrong in str(caught.value)
    assert "Did you mean" in str(caught.value)


@given(st.data())
@settings(max_examples=20)
def test_a_misspelt_environment_names_the_one_that_was_meant(data):
    """In `check` and wherever an id is said."""
    from vagen_envs.conformance import check

    env_id = data.draw(st.sampled_from(ENV_IDS))
    wrong = f"vagen/{misspelt(data, env_id.removeprefix('vagen/'))}"
    if wrong in ENV_IDS:
        return
    with pytest.raises(
        (ConfigError, vagen_envs.errors.ConformanceError), match="unknown environment"
    ):
        check(wrong)


@pytest.mark.parametrize("env_id", GRIDS)
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_turns", 0),
        ("max_turns", "three"),
        ("strategy", "no_thinkk"),
        ("observation", 3),
        ("format_reward", float("nan")),
        ("split", "tset"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_must_be(env_id, option, value):
    """The option, the value and what is valid stand in one message."""
    with pytest.raises(ConfigError) as caught:
        gym.make(env_id, **{option: value})
    message = str(caught.value)
    assert env_id in message
    assert option in message
    assert repr(value) in message
    assert "must be" in message or "Did you mean" in message or "Known" in message


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("bench", "-e", "sokobann"), "sokoban"),
        (("bench", "-e", "sokoban", "-a", "orcle"), "oracle"),
        (("bench", "-e", "sokoban", "--option", "max_turn=3"), "max_turns"),
        (("bench", "-e", "sokoban", "--split", "tset"), "test"),
        (("bnch",), "bench"),
    ],
)
def test_the_command_names_what_was_meant_without_a_traceback(tmp_path, monkeypatch, words, named):
    """A wrong word of a command is one message."""
    monkeypatch.chdir(tmp_path)
    done = vagen(*words)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert named in said
    assert "Traceback" not in said
