"""Comparison states, against levels that are played one after the other."""

from __future__ import annotations

import dataclasses
from collections import Counter

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.errors import ScorerError
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_rewards import comparison
from vagen_rewards.comparison import ENOUGH, FIRST, FIRST_LEVEL, Comparisons, Key, Recent
from vagen_rewards.owed import told
from vagen_rewards.transitions import Step

LAKE = "vagen/FrozenLake-v0"
LEVELS = 60


@pytest.fixture
def lake():
    found = Comparisons(LAKE, {})
    found.env.comparison_levels = LEVELS
    return found


@pytest.fixture
def env():
    with gym.make(LAKE, observation="text", max_turns=20) as made:
        yield made


def played(env, seed, turns, split="train"):
    """The turns of a level with these actions, as many as there are until it is over."""
    env.reset(seed=seed, options={"split": split})
    found = []
    for actions in turns:
        *_, terminated, truncated, info = env.step(env.unwrapped.grammar.render(list(actions)))
        found.append(info["turn"])
        if terminated or truncated:
            break
    return found


def history(turns):
    """The actions of turns, and the feedback on them."""
    return (
        tuple(tuple(each.text for each in turn.executed) for turn in turns),
        tuple(tuple(each.feedback for each in turn.executed) for turn in turns),
    )


def apart(one, other):
    """Differing feedback on actions, that on each turn worth half of the next one's."""
    total = 0.0
    for age, (mine, theirs) in enumerate(zip(reversed(one), reversed(other), strict=True)):
        differing = abs(len(mine) - len(theirs)) + sum(map(str.__ne__, mine, theirs))
        total += differing / 2**age
    return total


def by_hand(env, actions, feedback, levels=LEVELS):
    """The states of the comparison levels after these turns, by playing each to there."""
    left = []
    for seed in range(FIRST_LEVEL, FIRST_LEVEL + levels):
        turns = played(env, seed, actions)
        if len(turns) == len(actions) and not env.unwrapped._solved() and not env.unwrapped._lost():
            left.append((history(turns)[1], turns[-1].after))
    same = [state for told_there, state in left if told_there == feedback]
    if len(same) >= ENOUGH:
        return same
    for count in range(1, len(feedback) + 1):  # of equally near ones those that were nearer before
        left.sort(key=lambda each: apart(each[0][:count], feedback[:count]))
    return [state for _, state in left][:ENOUGH]


def test_what_was_asked_for_last_is_kept():
    made = []

    def get(key):
        return kept.get(key, lambda: made.append(key) or key.upper())

    kept = Recent(2)
    assert [get(key) for key in "ababca"] == ["A", "B", "A", "B", "C", "A"]
    assert made == ["a", "b", "c", "a"]
    assert get("c") == "C"
    assert made == ["a", "b", "c", "a"]


def test_first_turns_are_compared_with_the_starts_of_all_levels(lake, env):
    seeds = range(FIRST_LEVEL, FIRST_LEVEL + LEVELS)
    states = [env.reset(seed=seed, options={"split": "train"})[1]["state"] for seed in seeds]
    assert lake.steps(FIRST) == tuple(Step(state, state) for state in states)


def test_levels_that_were_prepared_are_not_drawn_again(monkeypatch, lake):
    lake.prepare()
    monkeypatch.setattr(lake.env, "reset", None)
    assert len(lake.steps(FIRST)) == LEVELS


def test_a_prediction_is_compared_with_the_states_after_the_same_actions(lake, env):
    (turn,) = played(env, 3, [("Down", "Right")])
    assert lake.key(turn, (), False) == FIRST
    key = lake.key(turn, (), True)
    assert key == Key(now=("Down", "Right"))
    for seed, step in zip(range(FIRST_LEVEL, FIRST_LEVEL + LEVELS), lake.steps(key), strict=True):
        (theirs,) = played(env, seed, [("Down", "Right")])
        assert step == Step(theirs.before, theirs.after)


def test_a_key_has_the_earlier_turns_and_the_feedback_on_them(lake, env):
    some = (played(env, seed, [("Up", "Left"), ("Up",), ("Down",)]) for seed in range(40))
    turns = next(each for each in some if len(each) == 3 and any(map(any, history(each)[1])))
    actions, feedback = history(turns[:2])
    assert lake.key(turns[2], turns[:2], False) == Key(actions, feedback)
    assert lake.key(turns[2], turns[:2], True) == Key(actions, feedback, ("Down",))
    lake.env.replays_comparisons = False
    assert lake.key(turns[2], turns[:2], True) is FIRST


@pytest.mark.parametrize(
    "turns",
    [[("Up",)], [("Up", "Left")], [("Up", "Up"), ("Left",)], [("Up", "Up"), ("Left", "Left")]],
)
def test_levels_with_the_same_feedback_or_else_the_nearest(lake, env, turns):
    """Of those that aren't over, and in the order of the levels."""
    seen = {}
    for seed in range(40):
        earlier = played(env, seed, turns)
        if len(earlier) == len(turns) and len(seen) < 3:
            actions, feedback = history(earlier)
            seen[feedback] = actions
    assert len(seen) > 1
    for feedback, actions in seen.items():
        expected = by_hand(env, actions, feedback)
        assert [step.before for step in lake.steps(Key(actions, feedback))] == expected


def test_feedback_that_no_level_had_is_compared_with_the_nearest(lake, env):
    """Also feedback on fewer actions, and what stands apart in an older turn counts half."""
    actions = (("Up", "Up"), ("Left", "Left"))
    for feedback in ((("", "Nothing like it."), ("", "")), (("",), ("Nothing like it.",))):
        found = [step.before for step in lake.steps(Key(actions, feedback))]
        assert found == by_hand(env, actions, feedback)
        assert len(found) == ENOUGH


def test_where_enough_had_the_same_feedback_only_they_are_played_on(monkeypatch, lake, env):
    """Others would only fill the comparison up; where they are needed, the nearest are followed."""
    actions = (("Up",), ("Left",))
    seeds = range(FIRST_LEVEL, FIRST_LEVEL + LEVELS)
    levels = [played(env, seed, actions) for seed in seeds]
    first = [history(turns[:1])[1] for turns in levels]
    ((usual, often),) = Counter(first).most_common(1)
    monkeypatch.setattr(comparison, "ENOUGH", LEVELS)  # all that are left are in the comparison
    key = Key(actions, (*usual, ("",)))
    for most in (often, often + 1):
        monkeypatch.setattr(comparison, "FOLLOWED", most)
        fresh = Comparisons(LAKE, {})
        fresh.env.comparison_levels = LEVELS
        found = {step.before for step in fresh.steps(key)}
        same = {
            turns[1].after
            for turns, told_there in zip(levels, first, strict=True)
            if told_there == usual and len(turns) == 2 and not turns[1].success
        }
        left = {state for state in same if state.player not in state.holes}
        assert left <= found
        assert len(found - left) <= most - often


def test_where_every_level_is_over_those_of_fewer_turns_are_taken(lake, env):
    lake.env.comparison_levels = 1
    ways = [(name,) for name in ("Up", "Down", "Left", "Right")]
    for first in ways:
        turns = played(env, FIRST_LEVEL, [first, *ways * 3])
        if env.unwrapped._lost() or env.unwrapped._solved():
            break
    actions, feedback = history(turns)
    one_more = Key((*actions, ("Up",)), (*feedback, ("",)))
    (step,) = lake.steps(one_more)
    assert step.before == turns[-1].before


def test_boards_are_counted_by_their_descriptions(lake):
    assert lake.counted
    key = Key(now=("Down",))
    steps = lake.steps(key)
    assert lake.described(key) == Counter((told(one), told(other)) for one, other in steps)


def test_states_that_make_their_own_comparisons_are_not_counted(monkeypatch, lake):
    monkeypatch.setattr(FrozenLakeState, "alike", lambda *_: [], raising=False)
    assert not lake.counted


def test_a_scorer_is_loaded_only_where_states_depend_on_it():
    env_id, options = "vagen/SVGReconstruction-v0", {"scorer": "lpips", "scorer_weights": "folder"}
    elsewhere = {**options, "scorer_address": "http://127.0.0.1:9"}
    for given in (options, elsewhere):
        config = Comparisons(env_id, given).env.config
        assert (config.scorer, config.scorer_weights, config.scorer_address) == (
            "classical",
            "",
            "",
        )
    with pytest.raises(ScorerError, match=r"127\.0\.0\.1:9"):  # it is asked
        Comparisons(env_id, {**elsewhere, "success_score": 0.9})


def test_options_are_those_of_the_environment():
    made = Comparisons(LAKE, {"size": 6, "observation": "image", "strategy": "free_think"})
    assert (made.env.config.size, made.env.config.observation) == (6, "text")
    assert made.env.config.strategy == "no_think"
    assert dataclasses.asdict(made.env.config)["size"] == 6
