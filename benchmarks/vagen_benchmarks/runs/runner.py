"""Plays the episodes of a protocol: in one event loop, since agents that call a model mostly wait."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from vagen_benchmarks.agents.base import Agent, AsyncAgent
from vagen_benchmarks.clients.budget import RunBudget
from vagen_benchmarks.errors import Stopped
from vagen_benchmarks.runs.episode import Ended, Episode
from vagen_benchmarks.runs.playing import Job, Played, Seat, is_quick, play
from vagen_benchmarks.runs.protocol import Skipped
from vagen_benchmarks.runs.run_folder import RunWriter
from vagen_benchmarks.runs.scoring import Scoring
from vagen_benchmarks.runs.writing import Writer
from vagen_benchmarks.stop_reasons import Stop
from vagen_rewards.usage import Usage


@dataclass
class Outcome:
    """What a call of `run` did.

    Attributes:
        played: episodes played to their end.
        failed: episodes that have no score. What the model ran into, such as a full context, is an ending and played.
        left: episodes that weren't begun or not finished because the run stopped early.
        reason: why it stopped early, or empty.
        failures: how often which failure was met: kind and message, in the order they were first met.
        usage: of each agent that calls a model in the run, earlier calls of it included.
    """

    played: int = 0
    failed: int = 0
    left: int = 0
    reason: str = ""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    usage: dict[str, Usage] = field(default_factory=dict)

    def count(self, ended: Ended) -> None:
        """Take an episode in, played or failed."""
        self.played += ended.kind.counts
        self.failed += not ended.kind.counts
        if not ended.kind.counts:
            self.failures[ended.kind.value, ended.message] += 1


@dataclass
class Policy:
    """How hard a run tries.

    Attributes:
        concurrency: episodes in flight of an agent that calls a model. Others play one at a time.
        env_attempts: how often an episode is begun whose environment breaks.
        give_up_after: stop when this many episodes in a row have failed, or ended before their first turn.
        max_dollars, max_tokens: begin no request that could go over, with what is in flight at its worst and what
            earlier calls of the run have spent.
    """

    concurrency: int = 16
    env_attempts: int = 2
    give_up_after: int = 20
    max_dollars: float | None = None
    max_tokens: int | None = None


class _Progress:
    """What came of the episodes so far, and whether to go on. Lives in the loop's thread."""

    def __init__(self, outcome: Outcome, policy: Policy) -> None:
        self.outcome, self.policy = outcome, policy
        self.stop = asyncio.Event()
        self.failed_in_row = 0

    def add(self, played: Played) -> None:
        """Count an episode."""
        outcome, error = self.outcome, played.error
        ended = played.ended or Ended.by_rules(played.turns[-1])
        if ended.kind is Stop.SPENT:  # it is left for when there is more to spend
            return self.end(ended.message)
        outcome.count(ended)
        if ended.kind.counts and played.turns:
            self.failed_in_row = 0
            return None
        self.failed_in_row += 1  # refusing every first prompt, an endpoint isn't set up for this
        if error is not None and error.hopeless:
            self.end(ended.message)
        elif self.failed_in_row >= self.policy.give_up_after:
            self.end(f"{self.failed_in_row} episodes in a row failed, the last with: {ended.message}")
        return None

    def end(self, reason: str) -> None:
        """Begin no further episode."""
        self.outcome.reason = self.outcome.reason or reason
        self.stop.set()


def run(
    folder: RunWriter,
    agents: Sequence[Agent],
    *,
    policy: Policy | None = None,
    skipped: Sequence[Skipped] = (),
    scoring: Scoring | None = None,
    told: Callable[[Episode], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Play what the folder's protocol still lacks. On KeyboardInterrupt the folder stays a valid run.

    `scoring` judges what agents say. `told` is called with each episode once it is stored, one at a time, and `say`
    with words about the endpoint. The agents are stopped in the end.
    """
    policy = policy or Policy()
    outcome = Outcome()
    budget = begin(folder, agents, policy, skipped)
    writer = Writer(folder, told)
    loop = _Loop(_play_agents(folder, agents, _Table(policy, outcome, scoring, budget, writer, say)))
    try:
        with _rare_collections():
            loop.wait()
    except KeyboardInterrupt:
        outcome.reason = "interrupted"
        loop.cancel()
        raise
    finally:
        for agent in agents:
            agent.stop()
        stored = writer.close()
        finish(folder, agents, outcome, budget, _unstored(budget, stored))
    writer.check()
    return outcome


def begin(
    folder: RunWriter,
    agents: Sequence[Agent],
    policy: Policy,
    skipped: Sequence[Skipped],
) -> RunBudget:
    """Note that a call of the run begins. Returns its budget, with what earlier calls have spent."""
    folder.note("start", at=_now(), skipped=[vars(each) for each in skipped], **_machine())
    prices = {agent.name: agent.price for agent in agents if agent.calls_a_model}
    budget = RunBudget(prices, policy.max_dollars, policy.max_tokens)
    for episode in folder.all_episodes() if budget.prices else ():
        budget.add(episode.agent, episode.all_calls)
    dollars, tokens = sum_unstored(folder.journal())
    budget.spend(dollars, tokens)
    budget.open()
    return budget


def finish(
    folder: RunWriter, agents: Sequence[Agent], outcome: Outcome, budget: RunBudget, unstored: Mapping[str, float]
) -> None:
    """Note that it ends, and complete its outcome. `unstored` is what it has spent on what it didn't store."""
    outcome.usage = budget.usage
    wanted = sum(1 for agent in agents for _ in folder.protocol.keys(agent.name))
    outcome.left = max(0, wanted - len(folder.finished) - outcome.failed)
    said = {name: value for name, value in vars(outcome).items() if name not in ("failures", "usage")}
    folder.note("end", at=_now(), **said, scored=folder.scored, unstored=dict(unstored))


@dataclass
class _Table:
    """What all seats share."""

    policy: Policy
    outcome: Outcome
    scoring: Scoring | None
    budget: RunBudget
    writer: Writer
    say: Callable[[str], None]
    judges: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(32, thread_name_prefix="judge"))


async def _play_agents(folder: RunWriter, agents: Sequence[Agent], table: _Table) -> None:
    progress = _Progress(table.outcome, table.policy)
    table.writer.on_error(asyncio.get_running_loop(), lambda error: progress.end(f"{type(error).__name__}: {error}"))
    try:
        for agent in agents:
            if progress.stop.is_set():
                break
            if isinstance(agent, AsyncAgent):
                agent.join(table.budget, table.say)
            await _play_all(agent, folder.left(agent.name), progress, table)
    finally:
        for agent in agents:
            if isinstance(agent, AsyncAgent):
                await agent.aclose()
        table.judges.shutdown(wait=False, cancel_futures=True)


async def _play_all(agent: Agent, jobs: list[Job], progress: _Progress, table: _Table) -> None:
    waiting = iter(jobs)
    # A list of tasks is played in order, so most seats keep their environment.
    count = min(table.policy.concurrency if agent.calls_a_model else 1, len(jobs))
    seats: list[asyncio.Task[None]] = []
    stop = asyncio.create_task(progress.stop.wait())
    try:
        for _ in range(count):
            seats.append(asyncio.create_task(_sit(agent, waiting, progress, table)))
            await asyncio.sleep(0)  # each asks before the next makes its environment, which for 512 takes 0.3 s
        left: set[asyncio.Task[Any]] = set(seats)
        while left:
            done, left = await asyncio.wait({*left, stop}, return_when=asyncio.FIRST_COMPLETED)
            for seat in done - {stop}:
                seat.result()
            left -= {stop}
            if stop in done and left:
                # What is in flight is let end: it is paid for. What waits for an outage is given up.
                _, left = await asyncio.wait(left, timeout=0 if _hopeless(agent) else None)
                break
    finally:
        for task in (*seats, stop):
            task.cancel()
        await asyncio.gather(*seats, stop, return_exceptions=True)


def _hopeless(agent: Agent) -> bool:
    return isinstance(agent, AsyncAgent) and agent.waits


async def _sit(agent: Agent, jobs: Iterator[Job], progress: _Progress, table: _Table) -> None:
    """A seat: take jobs until there are none."""
    seat = Seat(agent)
    try:
        while not progress.stop.is_set() and (job := next(jobs, None)) is not None:
            try:
                played = await play(seat, job, table.policy.env_attempts)
            except Stopped:
                break
            if agent.calls_a_model and not isinstance(agent, AsyncAgent):  # which counts each call as it is made
                table.budget.add(agent.name, [None if call is None else call.to_json() for call in played.calls])
            if table.scoring is not None:
                loop, scored = asyncio.get_running_loop(), table.scoring.scored
                judged = await loop.run_in_executor(table.judges, scored, played.turns, job[1].options)
                played.turns = [turn for turn, _ in judged]
            key, task, seed, repeat = job
            spent = played.ended is not None and played.ended.kind is Stop.SPENT
            if played.turns or not spent:  # else nothing was played nor spent
                name = (key, agent.name, task.label, task.split, seed, repeat)
                await table.writer.put(name, played, quick=is_quick(task.env_id))
            progress.add(played)
    finally:
        await seat.discard()


class _Loop:
    """A coroutine in a thread with an event loop of its own, so that a notebook's loop is no hindrance."""

    def __init__(self, work: Any) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="runner", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        async def main() -> None:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work

        try:
            with asyncio.Runner() as runner:
                runner.run(main())
        except BaseException as error:
            self._error = error

    def wait(self) -> None:
        while self._thread.is_alive():
            self._thread.join(0.2)  # in steps, so that Ctrl-C is heard
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(5.0)


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for cycles among objects seldom: hundreds of episodes in flight are a heap that lives on and has none.

    At 512 in flight a look at each 20,000 new objects took a tenth of a turn's time, and found 63 in 18,000 turns.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], 100_000) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def sum_unstored(journal: Sequence[dict[str, Any]]) -> tuple[float, int]:
    """Dollars and tokens that earlier calls of the run spent on what wasn't stored."""
    said = [entry["unstored"] for entry in journal if "unstored" in entry]
    return sum(each["dollars"] for each in said), sum(each["tokens"] for each in said)


def _unstored(budget: RunBudget, stored: tuple[float, int]) -> dict[str, float]:
    """What this call has spent on what it didn't store: episodes it was interrupted in, requests that were lost."""
    dollars, tokens = budget.dollars - budget.earlier[0] - stored[0], budget.tokens - budget.earlier[1] - stored[1]
    return {"dollars": max(0.0, round(dollars, 9)), "tokens": max(0, tokens)}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _machine() -> dict[str, Any]:
    """What a reader of the results may want to know, though they don't depend on it."""
    versions = {name: metadata.version(name) for name in ("gymnasium", "numpy", "pillow", "openai")}
    return {"python": platform.python_version(), "platform": platform.platform(), "cpus": os.cpu_count(),
            "versions": versions}  # fmt: skip
