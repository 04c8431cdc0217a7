"""Episodes that go on by themselves: nothing waits for the longest reply of a turn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from vagen_adapters.ppo.episodes import Episode
from vagen_adapters.ppo.generation import Reply, Streaming

if TYPE_CHECKING:
    from vagen_adapters.ppo.rollout import Rollout


def flow(rollout: Rollout, sampler: Streaming, episodes: Sequence[Episode], seed: int) -> None:
    """Play episodes, each of which goes on as soon as its reply is there.

    What comes of an episode depends on its level and `seed` alone, so that it doesn't matter which reply is first.
    """
    waiting = deque(episodes)
    under_way: dict[Future[Any], Callable[[Any], None]] = {}
    times = rollout.times

    def now_or_beside(work: Callable[[Any], Any], what: Any, go_on: Callable[[Any], None]) -> None:
        """In a thread, if the rollout has some."""
        if rollout.pool is None:
            go_on(work(what))
        else:
            under_way[rollout.pool.submit(work, what)] = go_on

    def next_level(env: gym.Env[Any, Any]) -> None:
        if waiting:
            episode = waiting.popleft()
            now_or_beside(rollout.reset, (env, episode), lambda observation: begin(env, episode, observation))

    def begin(env: gym.Env[Any, Any], episode: Episode, observation: Any) -> None:
        rollout.begin(env, episode, observation)
        following.append((env, None if episode.failure else episode))

    def ask(env: gym.Env[Any, Any], episode: Episode) -> None:
        future = sampler.submit(rollout.prompt(episode), rollout.sampling, rollout.seed(seed, episode))
        under_way[future] = lambda reply: read(env, episode, reply)

    def read(env: gym.Env[Any, Any], episode: Episode, reply: Reply) -> None:
        text = rollout.codec.read(reply.ids) if reply.ids else None  # tokenizers keep to a thread
        now_or_beside(rollout.step, (env, text), lambda step: advance(env, episode, reply, step))

    def advance(env: gym.Env[Any, Any], episode: Episode, reply: Reply, step: Any) -> None:
        if step is not None and not isinstance(step, Exception):
            times["judge"] += step.judge_time
            times["environment"] += step.environment_time
        over = rollout.advance(env, episode, reply, step)
        following.append((env, None if over else episode))

    following: deque[tuple[gym.Env[Any, Any], Episode | None]] = deque((env, None) for env in rollout.envs)
    while following or under_way:
        while following:
            env, episode = following.popleft()
            next_level(env) if episode is None else ask(env, episode)
        if under_way:
            started = time.perf_counter()
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            times["generation"] += time.perf_counter() - started
            for future in done:
                under_way.pop(future)(future.result())
