"""Play all levels under all conditions, and keep what is complete when playing stops early."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from vagen_benchmarks.agents.base import Agent
from vagen_benchmarks.diagnosis.attribution import Diagnosis, LevelPlay, attribute
from vagen_benchmarks.diagnosis.playing import CONDITIONS, Condition, Subject
from vagen_benchmarks.errors import BenchError, EndpointError

GIVE_UP_AFTER = 20
"""Plays in a row without a reply, as in `vagen bench`."""

_LevelJob = tuple[int, Condition]
_Report = tuple[_LevelJob | None, LevelPlay | BaseException | None]
"""A play with its result; without one a thread has ended, by an error or because no job is left."""


def diagnose(
    agent: Agent,
    env_id: str,
    options: Mapping[str, Any] | None = None,
    *,
    levels: int = 64,
    split: str = "test",
    first_seed: int = 0,
    at_once: int = 1,
    told: Callable[[], None] = lambda: None,
) -> Diagnosis:
    """Play the levels under each condition, and attribute the lost actions to causes (`attribute`).

    Levels in which the model gave no reply are left out and counted. Playing stops early when an interrupt comes, when
    an endpoint is given up, or after 20 plays in a row without a reply. Complete levels are then diagnosed.

    Args:
        agent: any agent of `vagen bench`.
        env_id: an environment with a plan.
        options: of the environment.
        levels: number of levels.
        split: of the levels.
        first_seed: seed of the first level.
        at_once: levels played at the same time, for models behind a network.
        told: called after each play of a level.

    Raises:
        BenchError: the environment doesn't fit, the agent is faulty, or playing stopped before a level was complete.
    """
    jobs: queue.SimpleQueue[_LevelJob] = queue.SimpleQueue()
    for seed in range(first_seed, first_seed + levels):
        for condition in CONDITIONS:
            jobs.put((seed, condition))
    reports: queue.SimpleQueue[_Report] = queue.SimpleQueue()
    stop = threading.Event()

    def play() -> None:
        try:
            with contextlib.closing(Subject(agent, env_id, options or {}, split)) as subject:
                while not stop.is_set():
                    job = jobs.get_nowait()
                    try:
                        reports.put((job, subject.play(*job)))
                    except EndpointError as error:
                        reports.put((job, error))
        except queue.Empty:
            reports.put((None, None))
        except BaseException as error:
            reports.put((None, error))
        else:
            reports.put((None, None))

    threads = min(at_once, levels * len(CONDITIONS))
    for _ in range(threads):
        # A daemon, since a reply that an interrupt doesn't wait for may take minutes.
        threading.Thread(target=play, daemon=True).start()
    found: dict[_LevelJob, LevelPlay] = {}
    failures: Counter[tuple[str, str]] = Counter()
    stopped = _collect(reports, threads, found, failures, told, stop)
    complete = [seed for seed in range(first_seed, first_seed + levels) if all((seed, c) in found for c in CONDITIONS)]
    if not complete:
        raise BenchError(f"no level was played under all conditions: {stopped or next(iter(failures))[1]}")
    played = attribute(agent.name, env_id, [{c: found[seed, c] for c in CONDITIONS} for seed in complete])
    return dataclasses.replace(played, failures=failures, stopped=stopped)


def _collect(
    reports: queue.SimpleQueue[_Report],
    threads: int,
    found: dict[_LevelJob, LevelPlay],
    failures: Counter[tuple[str, str]],
    told: Callable[[], None],
    stop: threading.Event,
) -> str:
    """Take in reports until all threads have ended. Return why playing stopped early, or an empty string."""
    stopped, failed_in_row = "", 0
    try:
        while threads:
            job, result = reports.get()
            if job is None:
                threads -= 1
                if isinstance(result, BaseException):
                    raise result
            elif isinstance(result, EndpointError):
                failures[result.kind.value, str(result)] += 1
                failed_in_row += 1
                if result.hopeless:
                    stopped = stopped or str(result)
                elif failed_in_row >= GIVE_UP_AFTER:
                    stopped = stopped or f"{failed_in_row} levels in a row failed, the last with: {result}"
                if stopped:
                    stop.set()
            elif isinstance(result, tuple):
                found[job] = result
                failed_in_row = 0
                told()
    except KeyboardInterrupt:
        stopped = "interrupted"
    finally:
        stop.set()
    return stopped
