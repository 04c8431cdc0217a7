"""An episode as it is stored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from vagen_benchmarks.agents.base import Call, ContextSummary
from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.stop_reasons import Stop
from vagen_envs.core import Turn

SCHEMA = 2


@dataclass(frozen=True)
class Ended:
    """The end of an episode and its message; the message is empty if the environment's rules ended
    it.
    """

    kind: Stop
    message: str = ""

    @classmethod
    def by_rules(cls, turn: Turn) -> Self:
        """As the last turn says."""
        if turn.success:
            return cls(Stop.SOLVED)
        return cls(Stop.LOST if turn.terminated else Stop.BUDGET)


@dataclass(frozen=True)
class Episode:
    """One episode as stored. Those that failed or ended early keep the turns they had, which may be
    none.

    Attributes:
        key: unique in the run.
        calls: for each turn what its reply cost; `None` for agents without a model.
        ended: how it came to its end.
        content: the content hash of its level, empty if the environment broke before there was one.
        summaries: `before` (the number of turns played), `text` and `call` of each that the model
            wrote.
    """

    key: str
    agent: str
    task: str
    split: str
    seed: int
    repeat: int
    turns: list[dict[str, Any]]
    calls: list[dict[str, Any] | None]
    ended: Ended
    content: str = ""
    summaries: list[dict[str, Any]] = field(default_factory=list)
    schema: int = field(default=SCHEMA, kw_only=True)

    @property
    def failure(self) -> Ended | None:
        """Why it has no score; `None` if it has one."""
        return None if self.ended.kind.counts else self.ended

    @property
    def all_calls(self) -> list[dict[str, Any]]:
        """What the model's replies and summaries cost."""
        return [*filter(None, self.calls), *(summary["call"] for summary in self.summaries)]

    @property
    def score(self) -> float:
        """The return: the sum of all reward terms."""
        return math.fsum(term["value"] for turn in self.turns for term in turn["rewards"])

    @property
    def success(self) -> bool:
        return self.ended.kind is Stop.SOLVED

    @classmethod
    def played(
        cls,
        key: tuple[str, str, str, str, int, int],
        turns: Iterable[Turn],
        calls: Iterable[Call | None],
        ended: Ended | None = None,
        content: str = "",
        summaries: Iterable[ContextSummary] = (),
    ) -> Self:
        """From what was played; `key` is key, agent, task, split, seed and repeat. Ended by the
        rules by default.
        """
        turns = list(turns)
        costs = [None if call is None else call.to_json() for call in calls]
        content = content or (turns[0].level["content"] if turns else "")
        ended = ended or Ended.by_rules(turns[-1])
        written = [
            {"before": each.before, "text": each.text, "call": each.call.to_json()}
            for each in summaries
        ]
        return cls(*key, [turn.to_json() for turn in turns], costs, ended, content, written)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read an episode back. Raises RunFolderError for another schema, and for what no run has
        stored.
        """
        if data.get("schema") != SCHEMA:
            raise RunFolderError(
                f"episode of schema {data.get('schema')!r}; this version reads {SCHEMA}"
            )
        try:
            episode = cls(
                **{**data, "ended": Ended(Stop(data["ended"]["kind"]), data["ended"]["message"])}
            )
            if not math.isfinite(episode.score):
                raise ValueError("its return is no number")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise RunFolderError(
                f"episode {data.get('key')!s:.80} is damaged or made up ({type(error).__name__}: "
                f"{error!s:.200})"
            ) from error
        return episode

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "ended": vars(self.ended)}  # not asdict, which copies every turn

    def picture_names(self) -> set[str]:
        """The SHA-256 of every picture that the turns name."""
        shown = (turn[side]["picture"] for turn in self.turns for side in ("observed", "result"))
        return {picture["sha256"] for picture in shown if picture}
