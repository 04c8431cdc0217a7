"""Prometheus metrics of a server."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
"""Bounds of the histogram: a turn in a grid takes 1 ms, and a call may compute for 10 s."""


class Metrics:
    """The metrics of one server, in a registry of its own, so that tests can have several in a
    process.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._moves = self._counter(
            "moves", "Resets and steps that were carried out", "env_id", "verb"
        )
        self.repeats = self._counter(
            "repeated_moves", "Resets and steps that were sent again and not played again"
        )
        self.replays = self._counter(
            "replays", "Episodes that began elsewhere and were played again here"
        )
        self.failures = self._counter("failures", "Items and requests that failed", "code")
        self.ended = self._counter("ended_sessions", "Sessions that ended", "why")
        self._seconds = Histogram(
            "vagen_move_seconds",
            "From a move's arrival to its result",
            registry=self._registry,
            buckets=SECONDS,
        )

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(f"vagen_{name}", description, labels, registry=self._registry)

    def moved(self, env_id: str, verb: str, seconds: float) -> None:
        """Count a reset or a step."""
        self._moves.labels(env_id, verb).inc()
        self._seconds.observe(seconds)

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a gauge that is read when the metrics are."""
        Gauge(f"vagen_{name}", description, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)
