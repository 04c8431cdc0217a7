"""The reward for reasoning in training: what is true is paid, what is not is not, and a judge that fails is no verdict."""

import gymnasium as gym
import pytest

pytest.importorskip("trl")

import vagen_envs  # noqa: F401
from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.ppo.reasoning import check_fields, reasoning_score
from vagen_rewards.scores import Judge, Score

WEIGHTS = {"grounding": 0.5, "world_modeling": 0.25}


def played(env, reply):
    env.reset(seed=3)
    return env.step(reply)[4]["turn"]


@pytest.fixture
def env():
    return gym.make("vagen/FrozenLake-v0", prompt_pack="terse")


def test_what_the_oracle_says_is_paid_in_full(env):
    env.reset(seed=3)
    turn = env.step(env.unwrapped.oracle_reply())[4]["turn"]
    terms = {term.name: term.value for term in reasoning_score(WEIGHTS)(turn)}
    assert terms == WEIGHTS


def test_nonsense_is_paid_nothing(env):
    said = env.unwrapped.grammar.render(["Up"], observation="It is cold.", reasoning="-", prediction="It is cold.")
    assert [term.value for term in reasoning_score(WEIGHTS)(played(env, said))] == [0.0, 0.0]


class Silent(Judge):
    name = "silent"

    def score(self, statement):
        return Score.unscored("the judge is down")


def test_a_judge_that_is_down_costs_the_episode_and_pays_nothing(env):
    env.reset(seed=3)
    turn = env.step(env.unwrapped.oracle_reply())[4]["turn"]
    with pytest.raises(TrainingDataError, match="the judge is down"):
        reasoning_score(WEIGHTS, Silent())(turn)


def test_a_strategy_without_the_words_is_refused(env):
    check_fields(env, WEIGHTS)
    bare = gym.make("vagen/FrozenLake-v0", strategy="grounding")
    check_fields(bare, {"grounding": 1.0})
    with pytest.raises(TrainingConfigError, match="<prediction>"):
        check_fields(bare, WEIGHTS)


def test_an_unknown_part_is_refused():
    with pytest.raises(TrainingConfigError, match="world_modeling"):
        reasoning_score({"world_modelling": 0.5})
