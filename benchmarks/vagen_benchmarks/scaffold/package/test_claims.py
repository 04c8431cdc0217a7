"""A test of MyEnv's sentences. Run it with `python test_claims.py`, or with pytest."""

from __future__ import annotations

import gymnasium as gym

from vagen_rewards import RuleJudge, Statement


def test_the_judge_reads_true_and_false_sentences() -> None:
    """The target is in one cell and not in the next."""
    env = gym.make("my_env:example/MyEnv-v0")
    env.reset(seed=0)
    state = env.unwrapped.true_state  # type: ignore[attr-defined]
    row, column = state.target
    judge = RuleJudge("direct")
    for cell, score in (((row, column), 1.0), ((row, column + 1), 0.0)):
        statement = Statement("grounding", f"The target is at {cell}.", state)
        assert judge.score(statement).value == score, cell


if __name__ == "__main__":
    test_the_judge_reads_true_and_false_sentences()
    print("the judge reads MyEnv's sentences")  # noqa: T201
