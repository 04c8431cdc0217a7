"""Untrusted input: what comes from outside is accepted by permission, not by exclusion."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import gymnasium as gym
import pytest
import runs
from hypothesis import given, settings
from hypothesis import strategies as st

import vagen_envs
from vagen_adapters.permission import permitted, remote_bounds
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.scripted import Oracle
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.errors import BenchError
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.runner import Policy
from vagen_envs.errors import ConfigError
from vagen_envs.registration import ENTRY_POINTS, declared

HOSTILE = json.loads(
    (Path(__file__).parents[1] / "adapters" / "hostile_options.json").read_text(encoding="utf-8")
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(HOSTILE["texts"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)
GRIDS = ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")


def options_of(env_id):
    return [field.name for field in dataclasses.fields(declared(env_id)[1].config_class)]


@pytest.mark.parametrize("env_id", ENTRY_POINTS)
@given(st.data())
@settings(max_examples=40)
def test_a_client_sets_only_what_an_option_permits_within_its_bounds(env_id, data):
    """Whatever name and value a client gives, what is accepted was declared open and is in bounds."""
    names = [*options_of(env_id), *HOSTILE["names"]]
    name, value = data.draw(st.sampled_from(names)), data.draw(JSON)
    config_class = declared(env_id)[1].config_class
    try:
        accepted = permitted(env_id, {name: value}, {})
    except ConfigError:
        return
    assert accepted == {name: value}
    own = ENTRY_POINTS[env_id][1]
    bounds = remote_bounds(config_class)
    assert name in {*bounds, *own, "preset"}
    if name in bounds:
        assert bounds[name].admits(value)


@pytest.mark.parametrize("env_id", ENTRY_POINTS)
def test_options_that_name_paths_modules_or_addresses_are_closed(env_id):
    """Every such option is refused with every hostile text, unless the operator offers it by name."""
    config_class = declared(env_id)[1].config_class
    closed = set(options_of(env_id)) - set(remote_bounds(config_class))
    assert closed >= {"prompt_pack"}
    for name in closed - set(ENTRY_POINTS[env_id][1]):
        for text in HOSTILE["texts"]:
            with pytest.raises(ConfigError):
                permitted(env_id, {name: text}, {})
    offers = {"prompt_pack": {"plain": "default"}}
    assert permitted(env_id, {"prompt_pack": "plain"}, offers) == {"prompt_pack": "default"}
    with pytest.raises(ConfigError):
        permitted(env_id, {"prompt_pack": "default"}, offers)


@pytest.mark.parametrize("env_id", GRIDS)
@given(st.text(st.characters(codec=None), max_size=80) | st.sampled_from(HOSTILE["texts"]))
@settings(max_examples=40)
def test_any_reply_is_a_turn(env_id, reply):
    """No text of a model raises, names a file or ends anything but its own turn."""
    env = gym.make(env_id, disable_env_checker=True)
    env.reset(seed=1)
    turn = env.step(reply)[4]["turn"]
    assert turn.index == 0
    assert json.loads(json.dumps(turn.to_json()))


NONSENSE = [
    {},
    {"choices": None},
    {"choices": []},
    {"choices": [{"message": {"content": 7}}]},
    {"choices": [{"message": {"content": "x", "tool_calls": [{"function": {"name": ["a"]}}]}}]},
    {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": "many"}},
    {"choices": [{"message": {"content": "<answer>Up</answer>"}}], "usage": {"prompt_tokens": -5}},
    {"__class__": "os.system", "choices": {"0": 1}},
    "text",
    [1, 2],
    None,
]


@pytest.mark.parametrize("answer", NONSENSE, ids=str)
def test_an_endpoints_answer_is_a_reply_or_a_failed_episode(tmp_path, endpoint, answer):
    """Whatever a server sends back, a run ends with episodes that are scored or failed by name."""
    endpoint.script = lambda number, body: (200, {}, answer)
    model = Registry(None).find("openai:m", endpoint.url)
    agent = ChatAgent(model, base_url=endpoint.url, attempts=1, patience=0.0)
    runs.play(tmp_path / "run", [agent], ["frozenlake"], policy=Policy(concurrency=1), episodes=1)
    for episode in runs.episodes(tmp_path / "run"):
        assert episode.failure is None or episode.failure.message
        for call in filter(None, episode.calls):
            assert call["prompt_tokens"] is None or call["prompt_tokens"] >= 0


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("played") / "run"
    runs.play(folder, [Oracle()], ["frozenlake"], episodes=1)
    return folder


@given(st.data())
@settings(max_examples=25)
def test_a_changed_run_folder_is_one_clear_error_or_reads_back(played, tmp_path_factory, data):
    """Lines of a stored run with other JSON are refused by name; they are never code."""
    import shutil

    folder = tmp_path_factory.mktemp("changed") / "run"
    shutil.copytree(played, folder)
    files = sorted(path for path in folder.rglob("*.jsonl") if path.stat().st_size)
    file = data.draw(st.sampled_from(files))
    lines = file.read_text(encoding="utf-8").splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[at] = json.dumps(data.draw(JSON))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        list(RunFolder(folder).episodes())
    except (BenchError, vagen_envs.errors.VagenError):
        return
