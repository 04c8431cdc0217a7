"""Plays the episodes of a protocol: in threads, since agents that call a model mostly wait."""

from __future__ import annotations

import itertools
import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import gymnasium as gym

from vagen_benchmarks.agents import Agent, Call, Game
from vagen_benchmarks.endings import Stop
from vagen_benchmarks.episode import Ended, Episode
from vagen_benchmarks.errors import EndpointError, Stopped
from vagen_benchmarks.protocol import Skipped, Task
from vagen_benchmarks.run_folder import RunWriter
from vagen_benchmarks.scoring import Scoring
from vagen_benchmarks.spending import Spending
from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import SimulatorError
from vagen_envs.pictures import Picture

log = logging.getLogger(__name__)

Job = tuple[str, Task, int, int]
"""Key, task, seed and repeat."""


@dataclass
class Outcome:
    """What a call of `run` did.

    Attributes:
        played: episodes played to their end.
        failed: episodes that have no score. What the model ran into, such as a full context, is an ending and played.
        left: episodes that weren't begun or not finished because the run stopped early.
        reason: why it stopped early, or empty.
    """

    played: int = 0
    failed: int = 0
    left: int = 0
    reason: str = ""


@dataclass
class Policy:
    """How hard a run tries.

    Attributes:
        concurrency: episodes in flight of an agent that calls a model. Others play one at a time.
        env_attempts: how often an episode is begun whose environment breaks.
        give_up_after: stop when this many episodes in a row have failed, or ended before their first turn.
        max_dollars, max_tokens: begin no episode once so much is spent, earlier calls of the run included. What is
            in flight then is played to its end, so a run may go over by that much.
    """

    concurrency: int = 16
    env_attempts: int = 2
    give_up_after: int = 20
    max_dollars: float | None = None
    max_tokens: int | None = None


@dataclass
class _Progress:
    """What the threads share. `lock` guards all of it."""

    outcome: Outcome
    told: Callable[[Episode], None]
    policy: Policy
    spending: Spending
    scoring: Scoring | None
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    failed_in_row: int = 0
    spent: bool = False

    def next(self, jobs: Iterator[Job]) -> Job | None:
        """The next job, if the budget allows one."""
        with self.lock:
            spent = self.spending.over(self.policy.max_dollars, self.policy.max_tokens)
            if spent and not self.stop.is_set():
                job = next(jobs, None)
                if job is not None:  # nothing more to do isn't running out of budget
                    self.outcome.reason = spent
                    self.spent = True
                return None
            return next(jobs, None)

    def add(self, episode: Episode) -> None:
        with self.lock:
            self.told(episode)
            self.spending.add(episode.agent, episode.calls)
            self.outcome.played += episode.failure is None
            self.outcome.failed += episode.failure is not None
            if episode.failure is None and episode.turns:
                self.failed_in_row = 0
                return
            self.failed_in_row += 1  # refusing every first prompt, an endpoint isn't set up for this
            if self.failed_in_row >= self.policy.give_up_after and not self.stop.is_set():
                last = episode.ended.message
                self.outcome.reason = f"{self.failed_in_row} episodes in a row failed, the last with: {last}"
                self.stop.set()


def run(
    folder: RunWriter,
    agents: Sequence[Agent],
    *,
    policy: Policy | None = None,
    skipped: Sequence[Skipped] = (),
    scoring: Scoring | None = None,
    told: Callable[[Episode], None] = lambda _: None,
) -> Outcome:
    """Play what the folder's protocol still lacks. On KeyboardInterrupt the folder stays a valid run.

    `scoring` judges what agents say. `told` is called with each episode once it is stored, one at a time. The
    agents are stopped in the end.
    """
    policy = policy or Policy()
    outcome = Outcome()
    folder.note("start", at=_now(), skipped=[vars(each) for each in skipped], **_machine())
    spending = Spending({agent.name: agent.price for agent in agents if agent.calls_a_model})
    for episode in folder.all_episodes() if spending.prices else ():
        spending.add(episode.agent, episode.calls)
    spending.check(policy.max_dollars)
    progress = _Progress(outcome, told, policy, spending, scoring)
    try:
        for agent in agents:
            if progress.stop.is_set() or progress.spent:
                break
            jobs = [job for job in folder.protocol.keys(agent.name) if job[0] not in folder.finished]
            _play_all(folder, agent, jobs, progress)
    except KeyboardInterrupt:
        progress.stop.set()
        outcome.reason = "interrupted"
        raise
    finally:
        for agent in agents:
            agent.stop()
        wanted = sum(1 for agent in agents for _ in folder.protocol.keys(agent.name))
        outcome.left = max(0, wanted - len(folder.finished) - outcome.failed)
        folder.note("end", at=_now(), **vars(outcome))
    return outcome


def _play_all(folder: RunWriter, agent: Agent, jobs: list[Job], progress: _Progress) -> None:
    waiting = iter(jobs)
    # Threads begin together but a list of tasks is played in order, so most keep their environment.
    count = min(progress.policy.concurrency if agent.calls_a_model else 1, len(jobs))
    threads = [
        threading.Thread(target=_work, args=(folder, agent, waiting, progress), name=f"{agent.name} {i}", daemon=True)
        for i in range(count)
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)  # in steps, so that Ctrl-C is heard
                if progress.stop.is_set():
                    agent.stop()
    except KeyboardInterrupt:
        progress.stop.set()
        agent.stop()
        deadline = time.monotonic() + 5.0
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        raise


def _work(folder: RunWriter, agent: Agent, jobs: Iterator[Job], progress: _Progress) -> None:
    """A thread: take jobs until there are none. Its environment never leaves it (simulators mind)."""
    seat = _Seat()
    try:
        while not progress.stop.is_set():
            job = progress.next(jobs)
            if job is None:
                break
            try:
                episode, pictures = _play(seat, agent, job, progress)
            except Stopped:
                break
            folder.add(episode, pictures)
            progress.add(episode)
    except BaseException as error:  # a full disk, a defect of ours: the run must not go on without this thread
        with progress.lock:
            progress.outcome.reason = progress.outcome.reason or f"{type(error).__name__}: {error}"
        progress.stop.set()
        raise
    finally:
        seat.leave()


class _Seat:
    """Keeps the environment of the last episode for the next one of the same task."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._env: gym.Env[dict[str, Any], str] | None = None

    def take(self, task: Task) -> gym.Env[dict[str, Any], str]:
        if self._env is None or self._task != task:
            self.leave()
            self._env, self._task = task.make(), task
        return self._env

    def leave(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            env.close()


def _play(seat: _Seat, agent: Agent, job: Job, progress: _Progress) -> tuple[Episode, list[Picture]]:
    """An episode, whatever comes of it. A broken environment is replaced and the episode begun again."""
    key, task, seed, repeat = job
    for attempt in itertools.count(1):
        played, ended = _Played(), None
        try:
            _play_turns(seat.take(task), agent, job, played)
        except Stopped:
            raise
        except EndpointError as error:
            ended = Ended(error.kind, str(error))
        except _AgentBrokeError as error:
            ended = Ended(Stop.AGENT, str(error))
        except Exception as error:
            _discard(seat)
            if attempt < progress.policy.env_attempts:
                continue
            ended = Ended(Stop.ENVIRONMENT, f"{type(error).__name__}: {error}")
        turns = played.turns
        if progress.scoring is not None:
            turns = [turn for turn, _ in progress.scoring.scored(turns, task.options)]
        pictures = [picture for turn in turns for picture in turn.pictures]
        names = (key, agent.name, task.label, task.split, seed, repeat)
        return Episode.played(names, turns, played.calls, ended, played.content), pictures
    raise AssertionError("unreachable")


@dataclass
class _Played:
    """What there is of an episode, however it ends."""

    turns: list[Turn] = field(default_factory=list)
    calls: list[Call | None] = field(default_factory=list)
    content: str = ""


class _AgentBrokeError(Exception):
    """An agent raised something that isn't an EndpointError."""


def _play_turns(env: gym.Env[dict[str, Any], str], agent: Agent, job: Job, played: _Played) -> None:
    _, task, seed, repeat = job
    _, info = env.reset(seed=seed)
    played.content = info["level"]["content"]
    inner = env.unwrapped
    assert isinstance(inner, VagenEnv)
    game = Game(inner, task.label, task.split, seed, repeat, inner.observed, played.turns)
    over = False
    while not over:
        try:
            reply = agent.reply(game)
        except (EndpointError, Stopped, SimulatorError):
            raise
        except Exception as error:
            raise _AgentBrokeError(f"{type(error).__name__}: {error}") from error
        _, _, terminated, truncated, info = env.step(reply.text)
        over = terminated or truncated
        played.turns.append(info["turn"])
        played.calls.append(reply.call)
        game.now = info["turn"].result


def _discard(seat: _Seat) -> None:
    try:
        seat.leave()
    except Exception as error:
        log.warning("while closing a broken environment: %s: %s", type(error).__name__, error)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _machine() -> dict[str, Any]:
    """What a reader of the results may want to know, though they don't depend on it."""
    versions = {name: metadata.version(name) for name in ("gymnasium", "numpy", "pillow", "openai")}
    return {"python": platform.python_version(), "platform": platform.platform(), "cpus": os.cpu_count(),
            "versions": versions}  # fmt: skip
