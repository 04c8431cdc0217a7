"""The reward for reasoning in training: what tells the truth is paid, in turns that act, and a judge that fails is no verdict."""

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.ppo.reasoning import ReasoningScore, make_reward
from vagen_rewards.scores import Judge, Score

WEIGHTS = {"grounding": 0.5, "world_modeling": 0.25}


def paid(env, reply, **options):
    env.reset(seed=3)
    turn = env.step(reply)[4]["turn"]
    scored = ReasoningScore(make_reward({**WEIGHTS, **options}, env))(turn)
    return {
        term.name: term.value
        for term in scored.rewards
        if term.name not in ("step", "format", "success", "hole")
    }


@pytest.fixture
def env():
    return gym.make("vagen/FrozenLake-v0", prompt_pack="terse")


@pytest.mark.parametrize("weighting", ["contrast", "plain"])
def test_what_the_oracle_says_is_paid_in_full(env, weighting):
    env.reset(seed=3)
    terms = paid(env, env.unwrapped.oracle_reply(), weighting=weighting)
    # In contrast to peer states the weight is the mean over states.
    assert (
        terms == WEIGHTS
        if weighting == "plain"
        else min(terms[part] / WEIGHTS[part] for part in WEIGHTS) > 0.3
    )


@pytest.mark.parametrize("gate", [True, False])
def test_only_turns_that_act_in_the_right_format_are_paid(env, gate):
    env.reset(seed=3)
    true = env.unwrapped.oracle_reply()
    without_answer = true[: true.index("<answer>")]
    assert bool(paid(env, without_answer, gate=gate)) is not gate
    assert paid(env, true, gate=gate, weighting="plain") == WEIGHTS


class Silent(Judge):
    name = "silent"
    reads = True

    async def read_many(self, statements):
        return [Score.unscored("the judge is down") for _ in statements]

    def score(self, statement):
        return Score.unscored("the judge is down")


@pytest.mark.parametrize("weighting", ["contrast", "plain"])
def test_a_judge_that_is_down_costs_the_episode_and_pays_nothing(env, weighting):
    env.reset(seed=3)
    with pytest.raises(TrainingDataError, match="the judge is down"):
        paid(env, env.unwrapped.oracle_reply(), judge=Silent(), weighting=weighting)


def test_a_strategy_without_the_words_is_refused(env):
    bare = gym.make("vagen/FrozenLake-v0", strategy="grounding")
    assert make_reward({"grounding": 1.0}, bare).betas == {"grounding": 1.0, "world_modeling": 0.0}
    with pytest.raises(TrainingConfigError, match="<prediction>"):
        make_reward(WEIGHTS, bare)
