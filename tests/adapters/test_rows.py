"""What a row of a data set may ask for, which may come from anywhere."""

from __future__ import annotations

import sys

import gymnasium as gym
import numpy as np
import published
import pytest

from vagen_adapters.prompt_check import prompt_hash, require_prompt_of
from vagen_adapters.rows import TRUST_ROWS, levels, make_from_row
from vagen_envs.errors import ConfigError
from vagen_rewards import ReasoningReward

LAKE = "vagen/FrozenLake-v0"


def test_a_row_has_the_environment_that_gymnasium_makes():
    options = {"strategy": "grounding", "max_turns": 4, "size": None}
    made, alone = (
        make_from_row(LAKE, options),
        gym.make(LAKE, strategy="grounding", max_turns=4).unwrapped,
    )
    assert made.unwrapped.config == alone.config


def test_reasoning_is_paid_as_the_reward_alone_pays_it():
    options = {"weighting": "plain", "judge": "rule"}
    paid, unpaid = make_from_row(LAKE, None, options), gym.make(LAKE)
    for env in (paid, unpaid):
        env.reset(seed=3)
    reply = unpaid.unwrapped.oracle_reply()
    with_it, turn = (env.step(reply)[4]["turn"] for env in (paid, unpaid))
    owed = sum(term.value for term in ReasoningReward.from_options(options)(turn))
    assert owed > 0
    assert with_it.reward == pytest.approx(turn.reward + owed)


@pytest.mark.parametrize(
    ("env_id", "options", "reasoning"),
    [
        ("trap:vagen/FrozenLake-v0", {}, None),
        ("trap:trap/None-v0", {}, None),
        ("vagen/Sample-v0", {"scoring": "trap:scored"}, None),
        ("vagen/Sample-v0", {"dataset": "trap.py"}, None),
        (LAKE, {"prompt_pack": "trap"}, None),
        (LAKE, {"render_mode": "human"}, None),
        (LAKE, {"max_turns": 10**9}, None),
        (LAKE, {}, {"judge": "gpt-5.2"}),
        (LAKE, {}, {"judge": "rule", "llm": {"base_url": "http://elsewhere"}}),
        (LAKE, {}, {"judge": ["rule"]}),
    ],
)
def test_a_row_imports_and_opens_nothing(tmp_path, monkeypatch, env_id, options, reasoning):
    (tmp_path / "trap.py").write_text("raise SystemExit('it was imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f"{TRUST_ROWS}=1"):
        make_from_row(env_id, options, reasoning)
    assert "trap" not in sys.modules


def test_who_made_the_rows_may_allow_everything(tmp_path, monkeypatch):
    (tmp_path / "own_lake.py").write_text(
        f"import gymnasium as gym\ngym.register('own/Lake-v0', lambda **options: gym.make({LAKE!r}, **options))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(TRUST_ROWS, "1")
    try:
        assert make_from_row("own_lake:own/Lake-v0", {"max_turns": 2}).config.max_turns == 2
    finally:
        gym.registry.pop("own/Lake-v0", None)
        sys.modules.pop("own_lake", None)


def test_rows_play_published_levels_once_in_order(tmp_path, monkeypatch):
    options = published.boards(tmp_path)
    monkeypatch.setenv(TRUST_ROWS, "1")
    played = []
    for _, row in levels(published.SOKOBAN, split="test", **options):
        env = make_from_row(row["env_id"], row["options"])
        played.append(
            env.reset(seed=row["seed"], options={"split": row["split"]})[1]["level"]["content"]
        )
    assert played == published.contents(options)
    assert len(set(played)) == 3
    assert [
        row["seed"] for _, row in levels(published.SOKOBAN, split="test", first_seed=1, **options)
    ] == [1, 2]
    for wrong in ({"num_levels": 4}, {"first_seed": 3}, {"first_seed": -1}):
        with pytest.raises(ConfigError, match="'test' has 3, counted from 0"):
            next(levels(published.SOKOBAN, split="test", **wrong, **options))


def test_misspelt_ids_and_arguments_are_refused_with_the_right_ones():
    for env_id, wrong, right in (
        ("vagen/FrozenLak-v0", {}, f"Did you mean '{LAKE}'"),
        (LAKE, {"num_level": 3}, "Did you mean 'num_levels'"),
        (LAKE, {"max_turn": 3}, "Did you mean 'max_turns'"),
        (LAKE, {"options": {}}, "unknown option 'options'. Known: "),
        (LAKE, {"first_seed": "x"}, "first_seed='x'"),
        (LAKE, {"num_levels": "3"}, "num_levels='3'"),
        (None, {}, "None"),
        (5, {}, "unknown environment 5"),
        (".my:x", {}, "unknown environment '.my:x'"),
    ):
        with pytest.raises(ConfigError, match=right):
            next(levels(env_id, **wrong))


def test_generated_levels_have_a_hundred_rows_by_default():
    assert [row["seed"] for _, row in levels(LAKE, first_seed=5)] == [*range(5, 105)]


def test_an_id_without_a_version_is_the_latest_as_in_gymnasium():
    with pytest.warns(UserWarning, match=LAKE):
        assert len([*levels("vagen/FrozenLake", num_levels=np.int64(2))]) == 2


def test_a_row_whose_prompt_says_something_else_is_refused():
    for _, row in levels(LAKE, num_levels=2, strategy="no_think"):
        options, says = row["options"], row["prompt_hash"]
        assert make_from_row(LAKE, options, None, says).unwrapped.config.strategy == "no_think"
        for changed in ({}, {"strategy": "grounding"}, {**options, "separator": ";"}):
            with pytest.raises(ConfigError, match=f"prompt is of {LAKE}.*prompt {says[:8]}.*but"):
                make_from_row(LAKE, changed, None, says)


def ends_after_two_turns(env):
    env.reset(seed=1)
    return [env.step("no answer")[2:4] for _ in range(2)] == [(False, False), (False, True)]


def test_a_limit_of_steps_that_a_trusted_row_names_truncates(monkeypatch):
    (_, row), *_ = levels(LAKE, num_levels=1, max_episode_steps=2)
    with pytest.raises(ConfigError, match="'max_episode_steps' is closed"):
        make_from_row(LAKE, row["options"])
    monkeypatch.setenv(TRUST_ROWS, "1")
    assert ends_after_two_turns(make_from_row(LAKE, row["options"]))


def test_a_limit_of_steps_with_which_an_id_is_registered_truncates():
    limited = "test/LimitedFrozenLake-v0"
    gym.register(limited, gym.spec(LAKE).entry_point, max_episode_steps=2)
    try:
        assert ends_after_two_turns(make_from_row(limited, {}))
    finally:
        del gym.registry[limited]


@pytest.mark.parametrize("wrong", [{"env_id": 3}, {"hashed": 3}])
def test_an_id_and_a_hash_are_strings(wrong):
    with pytest.raises(ConfigError, match="=3 is not valid: it must be a string"):
        require_prompt_of(gym.make(LAKE), **{"env_id": LAKE, "hashed": None, **wrong})


@pytest.mark.parametrize("named", [LAKE, "vagen/FrozenLake", f"vagen_envs:{LAKE}", None])
def test_an_id_may_be_written_in_several_ways(named):
    env = gym.make(LAKE)
    require_prompt_of(env, named, prompt_hash(env.unwrapped.system_prompt))


@pytest.mark.parametrize("named", ["vagen/Sokoban-v0", "vagen/FrozenLake-v1", "Lake", ""])
def test_another_id_is_refused_whatever_the_prompt_says(named):
    env = gym.make(LAKE)
    with pytest.raises(ConfigError, match="prompt is of"):
        require_prompt_of(env, named, prompt_hash(env.unwrapped.system_prompt))
