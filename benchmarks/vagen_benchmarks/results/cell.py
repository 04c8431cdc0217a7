"""What an agent did on a task: one cell of the table."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, NamedTuple

from vagen_benchmarks.results.at_turn import SHARES, AtTurn
from vagen_benchmarks.results.play_errors import ERRORS, JUDGED_ERRORS, errors_of
from vagen_benchmarks.results.stats import Estimate, average, by_level, pass_at, rate
from vagen_benchmarks.runs.episode import Episode
from vagen_rewards.scores import PARTS
from vagen_rewards.usage import Usage

OWN_METRICS = frozenset({"action_is_valid", "answer_is_unclear", "action_is_effective", "success"})
"""The metrics that every environment has; others become columns of their own."""
NOT_OWN = {*OWN_METRICS, "reasoning_gated"}.union(
    f"{part}{ending}" for part in PARTS for ending in ("", "_unscored", "_reason", "_unread")
)
"""Metrics that don't become columns: those of every environment, and the judge's."""
FLAGGED = 0.02
"""The share of failed and missing episodes beyond which a cell is marked wherever it is shown."""


class EpisodeOutcome(NamedTuple):
    """A scored episode, as far as the table needs it."""

    seed: int
    level: str
    success: bool
    score: float
    turns: int


@dataclass
class Cell:
    """What an agent did on a task. Failed episodes widen the interval of success and have no part
    in other numbers.

    `planned` has seed and repeat of every episode that the protocol names. With `failed_as_misses`
    a failed episode is one that was not solved.
    """

    task: str
    agent: str
    planned: set[tuple[int, int]] = field(default_factory=set)
    split: str = ""
    plays: list[EpisodeOutcome] = field(default_factory=list)
    lost: list[tuple[int, str]] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    contents: dict[int, str] = field(default_factory=dict)
    by_turn: list[AtTurn] = field(default_factory=list)
    unscored: list[str] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    metrics: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    labels: dict[str, set[str]] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    seconds: list[float] = field(default_factory=list)
    served: Counter[str] = field(default_factory=Counter)
    failed_as_misses: bool = False

    def add(self, episode: Episode) -> None:
        self.split = episode.split
        self.seen.add((episode.seed, episode.repeat))
        level = episode.content or f"seed {episode.seed}"
        if episode.content:
            self.contents[episode.seed] = level
        for call in episode.all_calls:
            self.usage.add(call)
            self.seconds.append(call["seconds"])
            if call.get("served"):
                self.served[call["served"]] += 1
        if episode.failure is not None:
            self.failures[episode.failure.kind] += 1
            if not self.failed_as_misses:
                self.lost.append((episode.seed, level))
                return
        self.plays.append(
            EpisodeOutcome(episode.seed, level, episode.success, episode.score, len(episode.turns))
        )
        self.errors.update(errors_of(episode))
        for number, turn in enumerate(episode.turns):
            self._add_turn(number, turn)
        last_metrics = episode.turns[-1]["metrics"] if episode.turns else {}
        for name, value in last_metrics.items():
            if name in NOT_OWN:
                continue
            if isinstance(value, str):
                self.labels.setdefault(name, set()).add(value)
            elif isinstance(value, int | float):
                self.metrics.setdefault(name, []).append((level, float(value)))

    def _add_turn(self, number: int, turn: Mapping[str, Any]) -> None:
        if number == len(self.by_turn):
            self.by_turn.append(AtTurn())
        self.by_turn[number].add(turn)
        metrics = turn["metrics"]
        for part in PARTS:
            if f"{part}_unscored" in metrics:
                self.unscored.append(str(metrics.get(f"{part}_reason", "")))
        self.problems.update({problem["code"] for problem in turn["parsed"]["problems"]})

    def row(self) -> dict[str, Any]:
        """The numbers of the table. Rates and means are `None` where nothing was played.

        `low` and `high` bound success: at 95 %, with what failed or is missing counted as lost for
        the one and as won for the other.
        """
        turns = sum(at_turn.count for at_turn in self.by_turn)
        played = len(self.plays)
        successes = sum(play.success for play in self.plays)
        success = self._success()
        returned = _bounds(average(by_level((play.level, play.score) for play in self.plays)))
        judged = self._judged()
        missing = len(self.planned - self.seen)
        without_score = len(self.lost) + missing
        return {
            "task": self.task,
            "agent": self.agent,
            "split": self.split,
            "played": played,
            "successes": successes,
            "success": _share(successes, played),
            "low": success.low,
            "high": success.high,
            "freedom": success.freedom,
            "levels": success.levels,
            "independent_plays": success.effective,
            "drawn": self._drawn(),
            "missing": missing,
            "flagged": without_score > FLAGGED * (played + without_score),
            **dict(zip(("return", "return_low", "return_high"), returned, strict=True)),
            "turns": _share(turns, played),
            **{name: self._share_of_turns(name, turns) for name in SHARES},
            "by_turn": [at_turn.row() for at_turn in self.by_turn],
            "judged": judged,
            "unscored": len(self.unscored),
            "unscored_reason": self.unscored[-1] if self.unscored else "",
            "failed": sum(self.failures.values()),
            "failures": dict(self.failures),
            "problems": dict(sorted(self.problems.items(), key=lambda each: (-each[1], each[0]))),
            "errors": self._error_shares(judged),
            "solved_by_turn": self._solved_by_turn(),
            **self._pass_columns(),
            **self._metric_columns(),
            "labels": {name: ", ".join(sorted(values)) for name, values in self.labels.items()},
            **self._cost_columns(),
        }

    def _pass_columns(self) -> dict[str, Any]:
        passed = self._pass_at()
        return {
            "pass_at": {k: found.value for k, found in passed.items()},
            "pass_at_bounds": {k: [found.low, found.high] for k, found in passed.items()},
        }

    def _metric_columns(self) -> dict[str, Any]:
        metrics = self._metrics()
        return {
            "metrics": {name: found.value for name, found in metrics.items()},
            "metric_bounds": {name: _bounds(found)[1:] for name, found in metrics.items()},
        }

    def _cost_columns(self) -> dict[str, Any]:
        usage = self.usage
        return {
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "dollars": usage.dollars if usage.requests else None,
            "counted_by_us": usage.estimated,
            "seconds_per_reply": fmean(self.seconds) if self.seconds else None,
            "seconds_median": median(self.seconds) if self.seconds else None,
            "seconds_p95": _p95(self.seconds),
            "served": dict(self.served),
        }

    def _error_shares(self, judged: Mapping[str, float]) -> dict[str, float | None]:
        """The share of episodes with each error; `None` for those that nobody judged."""
        shares: dict[str, float | None] = {}
        for name in ERRORS:
            unjudged = name in JUDGED_ERRORS and JUDGED_ERRORS[name] not in judged
            shares[name] = None if unjudged else _share(self.errors[name], len(self.plays))
        return shares

    def _judged(self) -> dict[str, float]:
        """The mean score of each part that a judge has scored."""
        means: dict[str, float] = {}
        for part in PARTS:
            of_turns = [at_turn.judged[part] for at_turn in self.by_turn]
            scores = list(itertools.chain.from_iterable(of_turns))
            if scores:
                means[part] = fmean(scores)
        return means

    def _solved_by_turn(self) -> list[float]:
        """The share of episodes solved by the end of turn 1, 2, … ."""
        solved = sorted([each.turns for each in self.plays if each.success])
        played = len(self.plays)
        last = max(solved, default=0)
        return [bisect_right(solved, turn) / played for turn in range(1, last + 1)]

    def _share_of_turns(self, name: str, turns: int) -> float | None:
        return _share(sum(getattr(each, name) for each in self.by_turn), turns)

    def _drawn(self) -> str:
        """A name of the levels that were drawn: split, seed and content of the first. Levels are a
        function of split, seed and configuration.
        """
        first = min(self.contents, default=None)
        return "" if first is None else f"{self.split} {first} {self.contents[first]}"

    def _success(self) -> Estimate:
        """Success among the played, and an interval that what failed or is missing has widened."""
        played = [(each.level, float(each.success)) for each in self.plays]
        found = rate(by_level(played))
        missing = [(seed, f"seed {seed}") for seed, _ in sorted(self.planned - self.seen)]
        gone = [*self.lost, *missing]
        if not gone:
            return found
        levels = [self.contents.get(seed, level) for seed, level in gone]
        all_lost = [(level, 0.0) for level in levels]
        all_won = [(level, 1.0) for level in levels]
        low = rate(by_level([*played, *all_lost]))
        high = rate(by_level([*played, *all_won]))
        return Estimate(
            found.value, low.low, high.high, found.levels, found.effective, found.freedom
        )

    def _metrics(self) -> dict[str, Estimate]:
        """The environment's own metrics at the last turn; 0 for episodes that ended before their
        first.
        """
        early = [(each.level, 0.0) for each in self.plays if not each.turns]
        return {name: average(by_level([*values, *early])) for name, values in self.metrics.items()}

    def _pass_at(self) -> dict[int, Estimate]:
        """pass@k for k = 1, 2, 4, … up to the tries that every seed had; empty if seeds were played
        once.
        """
        tries: dict[tuple[int, str], list[bool]] = {}
        for each in self.plays:
            tries.setdefault((each.seed, each.level), []).append(each.success)
        fewest = min(map(len, tries.values()), default=0)
        found: dict[int, Estimate] = {}
        if fewest < 2:
            return found
        for k in (1 << i for i in range(fewest.bit_length())):
            chances = [(level, pass_at(k, len(won), sum(won))) for (_, level), won in tries.items()]
            found[k] = rate(by_level(chances))
        return found


def _p95(values: Sequence[float]) -> float | None:
    """The smallest value that 95 % of them don't exceed."""
    if not values:
        return None
    rank = math.ceil(0.95 * len(values))
    return sorted(values)[rank - 1]


def _share(count: float, of: int) -> float | None:
    return count / of if of else None


def _bounds(found: Estimate) -> list[float | None]:
    """Value and interval, with `None` where a number is missing: JSON has neither NaN nor
    infinity.
    """
    numbers = (found.value, found.low, found.high)
    return [number if math.isfinite(number) else None for number in numbers]
