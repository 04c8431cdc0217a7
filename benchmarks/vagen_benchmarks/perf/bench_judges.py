"""RuleJudge and LLMJudge's cache. Run by `make perf`."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.core import Turn
from vagen_rewards import RuleJudge, score_turn
from vagen_rewards.llm.cache import ReplyCache, key_of
from vagen_rewards.llm.verdicts import Prompts, read_verdict
from vagen_rewards.rules import boards, reading
from vagen_rewards.scores import statements_of

TURNS = 300


def oracle_turns(env_id: str) -> list[Turn]:
    """Turns of true sentences about different levels."""
    env = gym.make(env_id)
    turns: list[Turn] = []
    for seed in itertools.count():
        env.reset(seed=seed)
        over = False
        while not over:
            _, _, terminated, truncated, info = env.step(env.unwrapped.oracle_reply())  # type: ignore[attr-defined]
            over = terminated or truncated
            turns.append(info["turn"])
        if len(turns) >= TURNS:
            return turns
    raise AssertionError


@pytest.mark.parametrize("known", [True, False], ids=["converged", "new"])
@pytest.mark.parametrize("env_id", ["vagen/Sokoban-v0", "vagen/FrozenLake-v0"])
def test_rule_judge_ours(benchmark: Any, env_id: str, known: bool) -> None:
    """A turn's two statements; `new` forgets every sentence before each round."""
    turns = oracle_turns(env_id)
    judge = RuleJudge()

    def forget() -> None:
        if not known:
            for cache in (reading._read_cached, reading._read_sentence, boards._compare_cached):
                cache.cache_clear()

    benchmark.group = f"{TURNS}+ turns judged, {env_id}, {'converged' if known else 'new'} sentences"
    benchmark.extra_info["at_most_us"] = len(turns) / 20_000 * 1e6
    benchmark.pedantic(lambda: [score_turn(turn, judge) for turn in turns], setup=forget, rounds=15, warmup_rounds=1)


def test_cached_verdict_ours(benchmark: Any, tmp_path: Any) -> None:
    """From a statement to its score, with the model's reply known."""
    statement = statements_of(oracle_turns("vagen/Sokoban-v0")[0])[0]
    cache, prompts = ReplyCache(tmp_path / "replies.sqlite"), Prompts()

    def key() -> bytes:
        return key_of({"model": "m", "messages": prompts.direct(statement, False), "temperature": 0.1})

    cache.put(key(), "<think>It fits.</think><answer>YES</answer>")
    benchmark.group = "a cached verdict"
    benchmark.extra_info["at_most_us"] = 50
    benchmark(lambda: read_verdict(cache.get(key()) or "", False))
