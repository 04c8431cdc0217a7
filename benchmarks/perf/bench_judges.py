"""RuleJudge, and the overhead of LLMJudge. Run by `make perf`."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import pytest

import vagen_envs
from perf import endpoint as loopback
from vagen_envs.core import Turn
from vagen_rewards import RuleJudge
from vagen_rewards.llm import LLMJudge
from vagen_rewards.llm.verdicts import JudgePrompts
from vagen_rewards.scores import Statement, statements_of

TURNS = 300
ENVS: dict[str, dict[str, Any]] = {
    "vagen/Sokoban-v0": {},
    "vagen/FrozenLake-v0": {},
    "vagen/Navigation-v0": {"observation": "text"},
    "vagen/PrimitiveSkillPlace-v0": {"observation": "text"},
    "vagen/SVGReconstruction-v0": {"observation": "text"},
}
CHUNK = 30
"""Statements of a round."""


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


@pytest.mark.parametrize("env_id", ENVS)
def test_rule_judge(benchmark: Any, env_id: str) -> None:
    """Statements that the judge has never read: each round judges turns of other levels."""
    try:
        turns = oracle_turns(env_id)
    except vagen_envs.errors.VagenError as error:
        pytest.skip(str(error))
    judge = RuleJudge()
    statements = [statement for turn in turns for statement in statements_of(turn)]
    chunks = iter([statements[start : start + CHUNK] for start in range(0, TURNS, CHUNK)])
    benchmark.group = f"{CHUNK} statements judged for the first time, {env_id}"
    benchmark.extra_info.update(at_least_per_s=1_000, count=CHUNK)

    def judge_all(chunk: Sequence[Statement]) -> None:
        for statement in chunk:
            judge.score(statement)

    benchmark.pedantic(
        judge_all, setup=lambda: ((next(chunks),), {}), rounds=TURNS // CHUNK, warmup_rounds=0
    )


# -- LLMJudge beside a bare client

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
