"""What Prometheus is told."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
"""Bounds of the histograms, two to three times apart: a grid's turn takes 1 ms, and a call may take 10 s of CPU."""


class Metrics:
    """The figures of one server, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._moves = self._counter("moves", "Resets and steps that were carried out", "env_id", "do")
        self.repeats = self._counter("repeated_moves", "Resets and steps that were said again and not done again")
        self.replays = self._counter("replays", "Episodes that were begun elsewhere and played again here")
        self.failures = self._counter("failures", "Items and requests that failed", "code")
        self.ended = self._counter("ended_sessions", "Sessions that ended", "why")
        self.pictures = self._counter("pictures_sent", "Pictures that were sent")
        self.spared = self._counter("pictures_spared", "Pictures that the client had already")
        self.cut_off = self._counter("connections_cut_off", "Clients that didn't read or say anything in time")
        self._moves_of: dict[tuple[str, str], Counter] = {}
        self._seconds = Histogram(
            "vagen_move_seconds", "From a reset's or step's arrival to its answer", registry=self._registry,
            buckets=SECONDS,
        )  # fmt: skip

    def _counter(self, name: str, said: str, *labels: str) -> Counter:
        return Counter(f"vagen_{name}", said, labels, registry=self._registry)

    def moved(self, env_id: str, do: str, seconds: float) -> None:
        """A reset or a step was carried out, so long after it was asked for."""
        moves = self._moves_of.get((env_id, do))
        if moves is None:  # kept: to find a counter by its labels takes as long as a turn's JSON
            moves = self._moves_of[env_id, do] = self._moves.labels(env_id, do)
        moves.inc()
        self._seconds.observe(seconds)

    def watch(self, name: str, said: str, value: Callable[[], float]) -> None:
        """A figure that is asked for when it is read."""
        Gauge(f"vagen_{name}", said, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)


def resident(pids: Sequence[int]) -> float:
    """Bytes of memory that processes of this machine hold; those that have ended count nothing."""
    return os.sysconf("SC_PAGE_SIZE") * sum(float(_told(pid, "statm")[1]) for pid in pids)


def processor_seconds(pids: Sequence[int]) -> float:
    """User and system time of processes of this machine; those that have ended count nothing."""
    return sum(float(_told(pid, "stat")[11]) + float(_told(pid, "stat")[12]) for pid in pids) / os.sysconf("SC_CLK_TCK")


def _told(pid: int, file: str) -> Sequence[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{file}").read_text().rpartition(")")[2].split()
    return ["0"] * 20
