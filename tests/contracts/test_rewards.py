"""Rewards: named terms, unscored is not zero, and reasoning is paid for what an agent sees."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import statistics

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_rewards import ReasoningReward, VisualReasoningReward
from vagen_rewards.scores import Judge, Score

LAKE, SOKOBAN = "vagen/FrozenLake-v0", "vagen/Sokoban-v0"
GRIDS = (LAKE, SOKOBAN)
PARTS = ("grounding", "world_modeling")
FORM = "natural_language"
LEVELS = 24
FIRST = 700_000


def make(env_id, **options):
    return gym.make(env_id, disable_env_checker=True, **options)


@functools.cache
def oracle_turns(env_id):
    """The oracle's first turn of many levels."""
    env = make(env_id)
    turns = []
    for seed in range(FIRST, FIRST + LEVELS):
        env.reset(seed=seed)
        turns.append(env.step(env.unwrapped.oracle_reply())[4]["turn"])
    return tuple(turns)


@functools.cache
def reward(env_id):
    return ReasoningReward().of(make(env_id))


def scores(env_id, turn):
    """The value of each part of a turn, None where it is unscored or not said."""
    found = dict(reward(env_id).paid(turn)[1].by_part())
    return {part: found[part].value if part in found else None for part in PARTS}


def saying(turn, observation, prediction=None):
    """The turn, had its reply said this."""
    said = dataclasses.replace(
        turn.parsed,
        observation=observation,
        prediction=observation if prediction is None else prediction,
    )
    return dataclasses.replace(turn, parsed=said)


def mean(env_id, part, words):
    """The mean score over levels of what `words` says of each turn."""
    values = [scores(env_id, saying(turn, words(turn)))[part] for turn in oracle_turns(env_id)]
    return statistics.fmean(value or 0.0 for value in values)


# -- terms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", GRIDS)
@given(seed=st.integers(0, 10**6), reply=st.sampled_from(["oracle", "hm", "<answer>Up</answer>"]))
@settings(max_examples=5)
def test_a_turns_reward_is_the_sum_of_its_named_terms(env_id, seed, reply):
    """Task, format and reasoning stand apart in the turn and add up to what `step` returns."""
    env = VisualReasoningReward(make(env_id))
    env.reset(seed=seed)
    said = env.unwrapped.oracle_reply() if reply == "oracle" else reply
    _, value, _, _, info = env.step(said)
    terms = {term.name: term.value for term in info["turn"].rewards}
    assert len(terms) == len(info["turn"].rewards)
    assert value == info["turn"].reward == pytest.approx(math.fsum(terms.values()))
    plain = make(env_id)
    plain.reset(seed=seed)
    theirs = plain.step(said)[4]["turn"].rewards
    own = {term.name: term.value for term in theirs}
    assert own.items() <= terms.items()


class Broken(Judge):
    """A judge that fails at every statement."""

    name = "broken"

    def score(self, statement):
        return Score.unscored("no answer within 10 s")


@pytest.mark.parametrize("env_id", GRIDS)
def test_a_judge_that_failed_is_unscored_and_never_zero(env_id):
    """There is no term and no value, and the reason stands in the turn."""
    for turn in oracle_turns(env_id)[:5]:
        paid, found = ReasoningReward(Broken(), weighting="plain").of(make(env_id)).paid(turn)
        assert {term.name for term in paid.rewards} == {term.name for term in turn.rewards}
        for part, score in found.by_part():
            assert score.value is None
            assert part not in paid.metrics
            assert paid.metrics[f"{part}_unscored"] is True
            assert "no answer" in paid.metrics[f"{part}_reason"]


@pytest.mark.parametrize("env_id", GRIDS)
@given(st.text(max_size=60))
@settings(max_examples=15)
def test_what_is_not_understood_is_unscored(env_id, noise):
    """Noise gets no value above 0, and no exception."""
    found = scores(env_id, saying(oracle_turns(env_id)[0], f"qwx {noise}"))
    assert all(value is None or value <= 0 for value in found.values())


@pytest.mark.parametrize("env_id", GRIDS)
def test_reasoning_is_paid_in_well_formed_turns_that_acted(env_id):
    """The same true words without an answer, without an action, or out of format earn nothing."""
    env = make(env_id)
    env.reset(seed=FIRST)
    whole = env.unwrapped.oracle_reply()
    words, _, _ = whole.partition("<answer>")
    for reply in (
        words,
        f"{words}<answer></answer>",
        f"{words}<answer>fly</answer>",
        f"So: {whole}",
    ):
        env.reset(seed=FIRST)
        turn = env.step(reply)[4]["turn"]
        terms = {term.name for term in reward(env_id)(turn)}
        assert not terms & set(PARTS), reply
    env.reset(seed=FIRST)
    turn = env.step(whole)[4]["turn"]
    assert {term.name for term in reward(env_id)(turn)} >= set(PARTS)


# -- what earns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", GRIDS)
@pytest.mark.parametrize("part", PARTS)
def test_the_states_own_description_earns(env_id, part):
    """What is true and whole earns clearly more than 0 on average."""
    values = [scores(env_id, turn)[part] for turn in oracle_turns(env_id)]
    assert statistics.fmean(value or 0.0 for value in values) > 0.5


@pytest.mark.parametrize("env_id", GRIDS)
@pytest.mark.parametrize("part", PARTS)
def test_nothing_earns_more_than_one(env_id, part):
    """However much a description says, a turn's score is at most 1."""
    values = [scores(env_id, turn)[part] for turn in oracle_turns(env_id)]
    assert max(value or 0.0 for value in values) <= 1.0 + 1e-9


def repeated(text):
    return " ".join([text] * 20)


@pytest.mark.parametrize("env_id", GRIDS)
@given(st.data())
@settings(max_examples=8)
def test_repeating_earns_no_more(env_id, data):
    """A true description said twenty times is worth no more than once."""
    turn = data.draw(st.sampled_from(oracle_turns(env_id)))
    sentences = data.draw(
        st.lists(st.sampled_from(turn.before.sentences()), min_size=1, max_size=4)
    )
    once = scores(env_id, saying(turn, " ".join(f"{each}." for each in sentences)))
    often = scores(env_id, saying(turn, repeated(" ".join(f"{each}." for each in sentences))))
    for part in PARTS:
        assert (often[part] or 0.0) <= max(once[part] or 0.0, 0.0) + 1e-9


CONSTANTS = {
    LAKE: [
        "The target is below the player.",
        "The target is below and to the right of the player.",
    ],
    SOKOBAN: ["The box is below the player.", "The target is to the right of the box."],
}


@pytest.mark.parametrize("env_id", GRIDS)
@pytest.mark.parametrize("part", PARTS)
def test_a_constant_earns_nothing(env_id, part):
    """One sentence for every picture: nothing on average, but for chance over some levels."""
    for text in CONSTANTS[env_id]:
        assert mean(env_id, part, lambda turn, text=text: text) <= 0.15


@pytest.mark.parametrize("env_id", GRIDS)
def test_a_useless_truth_earns_nothing(env_id):
    """What is true of every level is known without a look."""
    for text in (
        "There is a player.",
        "The player is on the board.",
        "I see a target and a player.",
    ):
        assert mean(env_id, "grounding", lambda turn, text=text: text) <= 0.05


@pytest.mark.parametrize("env_id", GRIDS)
def test_another_levels_description_earns_nothing(env_id):
    """A blind player that describes a level it made up."""
    turns = oracle_turns(env_id)
    blind = [
        scores(env_id, saying(turn, other.before.describe(FORM)))["grounding"]
        for turn, other in zip(turns, turns[1:] + turns[:1], strict=True)
    ]
    assert statistics.fmean(value or 0.0 for value in blind) <= 0.15


def turned(sentence):
    """The sentence with all its directions turned round."""
    words = {"above": "below", "below": "above", "left": "right", "right": "left"}
    return re.sub("|".join(words), lambda found: words[found[0]], sentence)


@pytest.mark.parametrize("env_id", GRIDS)
def test_each_fact_moves_the_score(env_id):
    """Left out or turned into its opposite, a sentence of a whole description costs on average."""
    turns = oracle_turns(env_id)
    whole, short, wrong = [], [], []
    for turn in turns:
        sentences = list(turn.before.sentences())
        for index, sentence in enumerate(sentences):
            others = sentences[:index] + sentences[index + 1 :]
            if not others:
                continue
            opposite = turned(sentence)
            text = lambda said: " ".join(f"{each}." for each in said)  # noqa: E731
            whole.append(scores(env_id, saying(turn, text(sentences)))["grounding"] or 0.0)
            short.append(scores(env_id, saying(turn, text(others)))["grounding"] or 0.0)
            if opposite != sentence:
                wrong.append(scores(env_id, saying(turn, text([*others, opposite])))["grounding"])
    assert statistics.fmean(short) < statistics.fmean(whole) - 0.02
    assert statistics.fmean(value or 0.0 for value in wrong) < statistics.fmean(short)


UNASKED = {LAKE: "The player is in the bottom right corner.", SOKOBAN: "There are 5 boxes."}


@pytest.mark.parametrize("env_id", GRIDS)
def test_a_false_claim_that_no_description_owes_costs(env_id):
    """What isn't asked for earns nothing where it is true, and costs where it is false."""
    whole, beside = [], []
    for turn in oracle_turns(env_id):
        text = turn.before.describe(FORM)
        whole.append(scores(env_id, saying(turn, text))["grounding"] or 0.0)
        beside.append(scores(env_id, saying(turn, f"{text} {UNASKED[env_id]}"))["grounding"] or 0.0)
    assert all(one <= other + 1e-9 for one, other in zip(beside, whole, strict=True))
    assert statistics.fmean(beside) < statistics.fmean(whole) - 0.05


@pytest.mark.parametrize("env_id", GRIDS)
def test_a_prediction_copied_from_the_observation_costs(env_id):
    """What doesn't hold any more after the actions is wrong as a prediction."""
    copied, foreseen = [], []
    for turn in oracle_turns(env_id):
        if turn.before == turn.after:
            continue
        before = turn.before.describe(FORM)
        copied.append(scores(env_id, saying(turn, before))["world_modeling"] or 0.0)
        foreseen.append(scores(env_id, turn)["world_modeling"] or 0.0)
    assert statistics.fmean(copied) < statistics.fmean(foreseen) - 0.5
    assert min(copied) < 0


@pytest.mark.parametrize("env_id", GRIDS)
def test_a_prediction_of_what_stays_as_it_is_earns_nothing(env_id):
    """What held before the actions and still holds could be copied without foreseeing anything."""
    seen = 0
    for turn in oracle_turns(env_id):
        stays = [each for each in turn.before.sentences() if each in turn.after.sentences()]
        if not stays:
            continue
        seen += 1
        text = " ".join(f"{each}." for each in stays)
        assert (scores(env_id, saying(turn, text))["world_modeling"] or 0.0) <= 1e-9
    assert seen > 3


# -- when to solve ------------------------------------------------------------------------------------


def returned(env, dawdling, solves):
    """The return of an episode whose every word is true: so many idle turns, then the oracle."""
    inner, total, over = env.unwrapped, 0.0, False
    while not over:
        if dawdling > 0 or not solves:
            actions = idle(inner)
            state = inner.true_state
            reply = inner.grammar.render(
                actions,
                observation=state.describe(FORM),
                reasoning="-",
                prediction=inner.imagine(actions).describe(FORM),
            )
            dawdling -= 1
        else:
            reply = inner.oracle_reply()
        _, value, terminated, truncated, _ = env.step(reply)
        total += value
        over = terminated or truncated
    return total


def idle(env):
    """One action that neither ends the episode nor pushes a box."""
    boxes = getattr(env.true_state, "boxes", None)
    for action in ("Up", "Down", "Left", "Right"):
        after = env.imagine([action])
        lost = getattr(after, "on_hole", False) or getattr(after, "player", 0) in getattr(
            after, "holes", ()
        )
        solved = getattr(after, "player", 0) == getattr(after, "target", 1)
        if not lost and not solved and getattr(after, "boxes", None) == boxes:
            return [action]
    return ["Up"]


@pytest.mark.parametrize("env_id", GRIDS)
def test_true_words_never_make_it_better_to_solve_later_or_not_at_all(env_id):
    """With every word true, the sooner an episode is solved the more it returns."""
    env = VisualReasoningReward(make(env_id, max_turns=6))
    for seed in range(FIRST, FIRST + 4):
        found = []
        for dawdling in (0, 2, 99):
            env.reset(seed=seed)
            found.append(returned(env, dawdling, solves=dawdling < 99))
        at_once, *later = found
        assert all(at_once >= value - 1e-9 for value in later), (seed, found)
