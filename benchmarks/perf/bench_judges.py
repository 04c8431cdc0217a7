"""RuleJudge, LLMJudge's cache and its overhead. Run by `make perf`."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest

import vagen_envs
from perf import endpoint as loopback
from vagen_envs.core import Turn
from vagen_rewards import RuleJudge, score_turn
from vagen_rewards.llm import LLMJudge
from vagen_rewards.llm.cache import ReplyCache, key_of
from vagen_rewards.llm.verdicts import JudgePrompts, read_verdict
from vagen_rewards.reader import read
from vagen_rewards.scores import Statement, statements_of

TURNS = 300
ENVS: dict[str, dict[str, Any]] = {
    "vagen/Sokoban-v0": {},
    "vagen/FrozenLake-v0": {},
    "vagen/Navigation-v0": {"observation": "text"},
    "vagen/PrimitiveSkillPlace-v0": {"observation": "text"},
    "vagen/SVGReconstruction-v0": {"observation": "text"},
}
CACHES = (read,)
"""All that a judge remembers of earlier texts."""


@functools.cache
def oracle_turns(env_id: str) -> list[Turn]:
    """Turns of true sentences about different levels."""
    env = gym.make(env_id, **ENVS[env_id])
    turns: list[Turn] = []
    for seed in itertools.count():
        env.reset(seed=seed)
        over = False
        while not over:
            _, _, terminated, truncated, info = env.step(env.unwrapped.oracle_reply())  # type: ignore[attr-defined]
            over = terminated or truncated
            turns.append(info["turn"])
        if len(turns) >= TURNS:
            env.close()
            return turns
    raise AssertionError


@pytest.mark.parametrize("known", [True, False], ids=["converged", "new"])
@pytest.mark.parametrize("env_id", ENVS)
def test_rule_judge_ours(benchmark: Any, env_id: str, known: bool) -> None:
    """A turn's two statements; `new` forgets all statements before each round of 300 turns.

    What a policy says again and again is read once. Descriptions of a whole lake or drawing take
    longest to read anew.
    """
    try:
        turns = oracle_turns(env_id)
    except vagen_envs.errors.VagenError as error:
        pytest.skip(str(error))
    judge = RuleJudge()

    def forget() -> None:
        if not known:
            for cache in CACHES:
                cache.cache_clear()

    benchmark.group = (
        f"{len(turns)} turns judged, {env_id}, {'converged' if known else 'new'} sentences"
    )
    benchmark.extra_info["at_most_us"] = len(turns) / (20_000 if known else 2_000) * 1e6
    benchmark.pedantic(
        lambda: [score_turn(turn, judge) for turn in turns],
        setup=forget,
        rounds=15,
        warmup_rounds=1,
    )


def test_cached_verdict_ours(benchmark: Any, tmp_path: Any) -> None:
    """From a statement to its score, with the model's reply known."""
    statement = statements_of(oracle_turns("vagen/Sokoban-v0")[0])[0]
    cache, prompts = ReplyCache(tmp_path / "replies.sqlite"), JudgePrompts()

    def key() -> bytes:
        return key_of({"model": "m", "messages": prompts.direct(statement), "temperature": 0.1})

    cache.put(key(), "<think>It fits.</think><answer>YES</answer>")
    benchmark.group = "a cached verdict"
    benchmark.extra_info["at_most_us"] = 50
    benchmark(lambda: read_verdict(cache.get(key()) or ""))


# -- LLMJudge beside a bare client
# --------------------------------------------------------------------

IN_FLIGHT = 32
REQUESTS = 256
REPLY = "<think>It fits.</think><answer>YES</answer>"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Its URL: a model that takes 50 ms for each reply."""
    with loopback.endpoint(0.05, REPLY) as url:
        yield url


def asked_statements() -> list[Statement]:
    """As many different ones."""
    state = oracle_turns("vagen/Sokoban-v0")[0].before
    return [
        Statement("grounding", f"The box is {i} rows above the player.", state)
        for i in range(REQUESTS)
    ]


def test_in_flight_ours(benchmark: Any, endpoint: str) -> None:
    """LLMJudge with its prompts, cache file, retries and accounting."""
    statements = asked_statements()
    judge = LLMJudge("m", base_url=endpoint, api_key="none", concurrency=IN_FLIGHT)

    def forget() -> None:
        judge.cache._execute("DELETE FROM replies", ())

    benchmark.group = f"{REQUESTS} verdicts, {IN_FLIGHT} in flight, 50 ms each"
    benchmark.extra_info["at_most"] = 1.05
    benchmark.pedantic(
        lambda: asyncio.run(judge.score_many(statements)), setup=forget, rounds=9, warmup_rounds=2
    )
    judge.close()


def test_in_flight_theirs(benchmark: Any, endpoint: str) -> None:
    """The same requests by nothing but the openai client and a semaphore."""
    import openai

    prompts = JudgePrompts()
    asked = [prompts.direct(statement) for statement in asked_statements()]
    loop = asyncio.new_event_loop()
    client = openai.AsyncOpenAI(base_url=endpoint, api_key="none", timeout=30.0, max_retries=0)

    async def ask_all() -> list[str]:
        slots = asyncio.Semaphore(IN_FLIGHT)

        async def ask(messages: Any) -> str:
            async with slots:
                done = await client.chat.completions.create(
                    model="m", messages=messages, temperature=0.1, max_tokens=512
                )
            return done.choices[0].message.content or ""

        return await asyncio.gather(*[ask(messages) for messages in asked])

    benchmark.group = f"{REQUESTS} verdicts, {IN_FLIGHT} in flight, 50 ms each"
    benchmark.pedantic(lambda: loop.run_until_complete(ask_all()), rounds=9, warmup_rounds=2)
    loop.run_until_complete(client.close())
    loop.close()
