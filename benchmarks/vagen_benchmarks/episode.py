"""An episode as it is stored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from vagen_benchmarks.agents import Call
from vagen_benchmarks.errors import FailureKind, RunFolderError
from vagen_envs.core import Turn

SCHEMA = 1


@dataclass(frozen=True)
class Failure:
    """Why an episode has no score."""

    kind: FailureKind
    message: str


@dataclass(frozen=True)
class Episode:
    """One episode as stored. Failed episodes keep the turns they had.

    Attributes:
        key: unique in the run.
        calls: for each turn what its reply cost; `None` for agents without a model.
        failure: `None` if the episode was played to its end.
    """

    key: str
    agent: str
    task: str
    split: str
    seed: int
    repeat: int
    turns: list[dict[str, Any]]
    calls: list[dict[str, Any] | None]
    failure: Failure | None = None
    schema: int = field(default=SCHEMA, kw_only=True)

    @property
    def score(self) -> float:
        """The return: the sum of all reward terms."""
        return math.fsum(term["value"] for turn in self.turns for term in turn["rewards"])

    @property
    def success(self) -> bool:
        """Whether the last turn solved the task."""
        return bool(self.turns and self.turns[-1]["metrics"]["success"])

    @classmethod
    def played(
        cls,
        key: tuple[str, str, str, str, int, int],
        turns: Iterable[Turn],
        calls: Iterable[Call | None],
        failure: Failure | None = None,
    ) -> Self:
        """From what was played; `key` is key, agent, task, split, seed and repeat."""
        costs = [None if call is None else asdict(call) for call in calls]
        return cls(*key, [turn.to_json() for turn in turns], costs, failure)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read an episode back. Raises RunFolderError for another schema."""
        if data.get("schema") != SCHEMA:
            raise RunFolderError(f"episode of schema {data.get('schema')!r}; this version reads {SCHEMA}")
        failure = data["failure"] and Failure(**data["failure"])
        return cls(**{**data, "failure": failure})

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with a schema version."""
        data = {each.name: getattr(self, each.name) for each in fields(self)}  # not asdict, which copies every turn
        return {**data, "failure": self.failure and asdict(self.failure)}

    def picture_names(self) -> set[str]:
        """The SHA-256 of every picture that the turns name."""
        shown = (turn[side]["picture"] for turn in self.turns for side in ("observed", "result"))
        return {picture["sha256"] for picture in shown if picture}
