"""Plays the episodes of a protocol in one event loop, since agents that call a model mostly
wait.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from vagen_benchmarks.agents.base import Agent, AsyncAgent, Call
from vagen_benchmarks.clients.budget import RunBudget
from vagen_benchmarks.errors import Stopped
from vagen_benchmarks.runs.episode import Ended, Episode
from vagen_benchmarks.runs.event_thread import in_a_thread
from vagen_benchmarks.runs.journal import EpisodeLedger, KeptReply, kept_replies, spending
from vagen_benchmarks.runs.playing import PlannedEpisode, PlayedEpisode, Seat, is_quick, play
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.scoring import RunScoring
from vagen_benchmarks.runs.tasks import Skipped
from vagen_benchmarks.stop_reasons import ENDING_STOPS, Stop
from vagen_rewards.usage import Usage


@dataclass
class Outcome:
    """The result of a call of `run`.

    Attributes:
        played: scored episodes. A full context and the like are endings of played episodes.
        failed: episodes without a score.
        left: episodes not begun or not finished because the run stopped early.
        reason: why it stopped early, or empty.
        failures: number of failures by kind and message, in the order of their first occurrence.
        usage: of each agent that calls a model, including earlier calls of the run.
    """

    played: int = 0
    failed: int = 0
    left: int = 0
    reason: str = ""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    usage: dict[str, Usage] = field(default_factory=dict)

    def count(self, ended: Ended) -> None:
        if ended.kind.counts:
            self.played += 1
        else:
            self.failed += 1
            self.failures[ended.kind.value, ended.message] += 1


@dataclass
class Policy:
    """Limits of a run.

    Attributes:
        concurrency: episodes in flight of an agent that calls a model. Other agents play one at a
            time.
        give_up_after: stop after this many episodes in a row that failed, or ended before their
            first turn.
        max_dollars, max_total_tokens: send no request that could exceed these, counting requests in
            flight at their worst case and what earlier calls of the run have spent.
    """

    concurrency: int = 16
    give_up_after: int = 20
    max_dollars: float | None = None
    max_total_tokens: int | None = None


def run(
    folder: RunWriter,
    agents: Sequence[Agent],
    *,
    policy: Policy | None = None,
    skipped: Sequence[Skipped] = (),
    scoring: RunScoring | None = None,
    told: Callable[[Episode], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Play the episodes that the folder lacks. On KeyboardInterrupt the folder stays a valid run.

    Args:
        folder: where episodes are stored.
        agents: those of the folder's protocol. They are stopped at the end.
        policy: limits.
        skipped: environments that can't be made here, for the journal.
        scoring: judge of the replies.
        told: called with each episode once it is stored, one at a time.
        say: called with messages about the endpoint.
    """
    played = _Run(folder, policy or Policy(), scoring, told, say)
    played.begin(agents, skipped)
    try:
        in_a_thread(played.play(agents))
    except KeyboardInterrupt:
        played.outcome.reason = "interrupted"
        raise
    finally:
        for agent in agents:
            agent.stop()
        played.finish(agents)
    return played.outcome


@dataclass
class _Run:
    """What all seats of a run share. Lives in the thread of the run's event loop."""

    folder: RunWriter
    policy: Policy
    scoring: RunScoring | None
    told: Callable[[Episode], None]
    say: Callable[[str], None]
    budget: RunBudget = field(default_factory=RunBudget)
    outcome: Outcome = field(default_factory=Outcome)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    failed_in_row: int = 0
    kept: dict[str, list[KeptReply]] = field(default_factory=dict)
    disk: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "disk"))
    judges: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(32, "judge"))

    def begin(self, agents: Sequence[Agent], skipped: Sequence[Skipped]) -> None:
        """Write the start to the journal and load the budget with what earlier calls have spent."""
        remarks: dict[str, list[str]] = {}
        for agent in agents:
            for task in self.folder.protocol.tasks_of(agent.name):
                if told := agent.remarks(task.env_id, task.options, task.config):
                    remarks[f"{agent.name} on {task.label.removeprefix('vagen/')}"] = told
        missing = [vars(entry) for entry in skipped]
        self.folder.note("start", at=_now(), skipped=missing, remarks=remarks, **_machine())
        prices = {agent.name: agent.price for agent in agents if agent.calls_a_model}
        self.budget = RunBudget(prices, self.policy.max_dollars, self.policy.max_total_tokens)
        of_key = {
            planned[0]: agent.name
            for agent in agents
            for planned in self.folder.protocol.keys(agent.name)
        }
        earlier = self.folder.journal()
        spent = spending(earlier, of_key)
        for name, call in spent.calls:
            self.budget.add(name, [call])
        self.budget.spend(spent.dollars, spent.tokens)
        stored = Counter(data["key"] for _, _, data in self.folder.lines() if data is not None)
        self.kept = kept_replies(earlier, stored)

    def finish(self, agents: Sequence[Agent]) -> None:
        """Write the end to the journal and complete the outcome."""
        outcome = self.outcome
        outcome.usage = self.budget.usage
        protocol = self.folder.protocol
        planned = sum(len(list(protocol.keys(agent.name))) for agent in agents)
        outcome.left = max(0, planned - len(self.folder.finished) - outcome.failed)
        self.folder.note(
            "end",
            at=_now(),
            played=outcome.played,
            failed=outcome.failed,
            left=outcome.left,
            reason=outcome.reason,
            scored=self.folder.scored,
        )

    async def play(self, agents: Sequence[Agent]) -> None:
        try:
            for agent in agents:
                if self.stop.is_set():
                    break
                if isinstance(agent, AsyncAgent):
                    agent.join(self.budget, self.say)
                await self._play_agent(agent)
        finally:
            for agent in agents:
                if isinstance(agent, AsyncAgent):
                    await agent.aclose()
            self.judges.shutdown(wait=False, cancel_futures=True)
            self.disk.shutdown()

    async def _play_agent(self, agent: Agent) -> None:
        episodes = self.folder.left(agent.name)
        waiting = iter(episodes)
        # Tasks are played in order, so most seats keep their environment.
        count = min(self.policy.concurrency if agent.calls_a_model else 1, len(episodes))
        seats: list[asyncio.Task[None]] = []
        stop = asyncio.create_task(self.stop.wait())
        try:
            for _ in range(count):
                seats.append(asyncio.create_task(self._sit(agent, waiting)))
                # A seat sends its request before the next one makes its environment.
                await asyncio.sleep(0)
            left: set[asyncio.Task[Any]] = set(seats)
            while left:
                done, left = await asyncio.wait({*left, stop}, return_when=asyncio.FIRST_COMPLETED)
                for seat in done - {stop}:
                    seat.result()
                left -= {stop}
                if stop in done and left:
                    # Episodes in flight may end, since they are paid for; those that wait for an
                    # outage are given up.
                    waits = isinstance(agent, AsyncAgent) and agent.waits
                    _, left = await asyncio.wait(left, timeout=0 if waits else None)
                    break
        finally:
            for task in (*seats, stop):
                task.cancel()
            await asyncio.gather(*seats, stop, return_exceptions=True)

    async def _sit(self, agent: Agent, episodes: Iterator[PlannedEpisode]) -> None:
        seat = Seat(agent)
        loop = asyncio.get_running_loop()
        try:
            while not self.stop.is_set() and (planned := next(episodes, None)) is not None:
                try:
                    played = await play(seat, planned, self._ledger(agent, planned[0]))
                except Stopped:
                    break
                if self.scoring is not None:
                    options = planned[1].options
                    judged = await loop.run_in_executor(
                        self.judges, self.scoring.scored, played.turns, options
                    )
                    played.turns = [turn for turn, _ in judged]
                spent = played.ended is not None and played.ended.kind is Stop.SPENT
                if played.turns or not spent:  # else nothing was played or paid
                    await self._store(agent, planned, played)
                self._count(played)
        finally:
            await seat.leave()

    def _ledger(self, agent: Agent, key: str) -> EpisodeLedger:
        def spend(call: Call) -> None:  # of an agent that doesn't count its requests by itself
            self.budget.add(agent.name, [call.to_json()])

        kept = self.kept.pop(key, ()) if agent.is_stateless else ()
        return EpisodeLedger(self.folder.note, key, spend, kept)

    async def _store(self, agent: Agent, planned: PlannedEpisode, played: PlayedEpisode) -> None:
        key, task, seed, repeat = planned
        name = (key, agent.name, task.label, task.split, seed, repeat)
        episode = Episode.played(
            name, played.turns, played.calls, played.ended, played.content, played.summaries
        )
        pictures = [picture for turn in played.turns for picture in turn.pictures]
        if is_quick(task.env_id):  # small pictures, mostly encoded for the model already
            self.folder.add(episode, pictures)
            await asyncio.sleep(0)  # an agent that never waits leaves the loop no other moment
        else:  # encoding a simulator's pictures takes milliseconds
            await asyncio.get_running_loop().run_in_executor(
                self.disk, self.folder.add, episode, pictures
            )
        self.told(episode)

    def _count(self, played: PlayedEpisode) -> None:
        """Count an episode, and stop the run if going on is pointless."""
        ended = played.ended or Ended.by_rules(played.turns[-1])
        if ended.kind is Stop.SPENT:  # left for a larger budget
            return self._end(ended.message)
        self.outcome.count(ended)
        is_blocked = ended.kind in ENDING_STOPS.values() and len(played.turns) < 2
        if ended.kind.counts and not is_blocked:
            self.failed_in_row = 0
            return None
        self.failed_in_row += 1  # an endpoint that refuses every first prompt isn't set up for this
        if played.hopeless:
            self._end(ended.message)
        elif self.failed_in_row >= self.policy.give_up_after:
            self._end(
                f"{self.failed_in_row} episodes in a row failed, the last with: {ended.message}"
            )
        return None

    def _end(self, reason: str) -> None:
        self.outcome.reason = self.outcome.reason or reason
        self.stop.set()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _machine() -> dict[str, Any]:
    """Facts for readers of the results, which don't depend on them."""
    versions = {name: metadata.version(name) for name in ("gymnasium", "numpy", "pillow", "openai")}
    system = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }
    return {**system, "versions": versions}
