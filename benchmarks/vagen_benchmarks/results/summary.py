"""From episodes to the table: a cell for each task and agent."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, NamedTuple

from vagen_benchmarks.results.stats import Estimate, average, by_level, pass_at, rate
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.protocol import Protocol
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_rewards.scores import PARTS
from vagen_rewards.usage import Usage

OWN_METRICS = frozenset({"action_is_valid", "answer_is_unclear", "action_is_effective", "success"})
"""The metrics that every environment has; others become columns of their own."""
ACCEPTED = 0.5
"""The judge's score from which on a statement counts as right."""


@dataclass
class AtTurn:
    """What the turns of one number have in common: how many there are and, among them, how many are
    so.
    """

    count: int = 0
    well_formed: int = 0
    valid: int = 0
    effective: int = 0
    reward: float = 0.0
    judged: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in PARTS})

    def add(self, turn: Mapping[str, Any]) -> None:
        metrics = turn["metrics"]
        self.count += 1
        self.well_formed += bool(turn["parsed"]["well_formed"])
        self.valid += bool(metrics["action_is_valid"])
        self.effective += bool(metrics["action_is_effective"])
        self.reward += math.fsum(term["value"] for term in turn["rewards"])
        for part in PARTS:
            self.judged[part] += [float(metrics[part])] if part in metrics else []

    def row(self) -> dict[str, Any]:
        shares = {
            name: getattr(self, name) / self.count
            for name in ("well_formed", "valid", "effective", "reward")
        }
        judged = {part: fmean(values) if values else None for part, values in self.judged.items()}
        return {"turns": self.count, **shares, **judged}


def estimate(row: Mapping[str, Any]) -> Estimate:
    """The success that a row of the table states, as the estimate it came of."""
    names = ("success", "low", "high", "levels", "independent_plays", "freedom", "drawn", "flagged")
    return Estimate(*(row[name] for name in names))


SHARES = ("valid", "effective", "well_formed")
"""What `AtTurn` counts of a cell's turns."""
FLAGGED = 0.02
"""The share of failed and missing episodes beyond which a cell is marked wherever it is shown."""
MIXED = "≠"
"""Marks an agent whose replies more than one model has written, by the endpoint's names."""
FLAG = "‡"
"""Marks a score that more of its episodes than that could move, since they failed or are
missing.
"""


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
            self.served.update([call["served"]] if call.get("served") else [])
        if episode.failure is not None:
            self.failures[episode.failure.kind] += 1
            if not self.failed_as_misses:
                self.lost.append((episode.seed, level))
                return
        self.plays.append(
            EpisodeOutcome(episode.seed, level, episode.success, episode.score, len(episode.turns))
        )
        self.errors.update(errors_of(episode))
        for i, turn in enumerate(episode.turns):
            if i == len(self.by_turn):
                self.by_turn.append(AtTurn())
            self.by_turn[i].add(turn)
            own = turn["metrics"]
            self.unscored += [
                str(own.get(f"{part}_reason", "")) for part in PARTS if f"{part}_unscored" in own
            ]
            self.problems.update({problem["code"] for problem in turn["parsed"]["problems"]})
        for name, value in (episode.turns[-1]["metrics"] if episode.turns else {}).items():
            if isinstance(value, str) and name not in NOT_OWN:
                self.labels.setdefault(name, set()).add(value)
            elif isinstance(value, int | float) and name not in NOT_OWN:
                self.metrics.setdefault(name, []).append((level, float(value)))

    def row(self) -> dict[str, Any]:
        """The numbers of the table. Rates and means are `None` where nothing was played.

        `low` and `high` bound success: at 95 %, with what failed or is missing counted as lost for
        the one and as won for the other.
        """
        turns, played = sum(each.count for each in self.by_turn), len(self.plays)
        successes, judged = sum(each.success for each in self.plays), self._judged()
        success, returned = (
            self._success(),
            average(by_level((each.level, each.score) for each in self.plays)),
        )
        metrics, passed, usage = self._metrics(), self._pass_at(), self.usage
        failed, missing = sum(self.failures.values()), len(self.planned - self.seen)
        unscored = len(self.lost) + missing
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
            "flagged": unscored > FLAGGED * (played + unscored),
            **dict(zip(("return", "return_low", "return_high"), _bounds(returned), strict=True)),
            "turns": _share(turns, played),
            **{name: self._share_of_turns(name, turns) for name in SHARES},
            "by_turn": [each.row() for each in self.by_turn],
            "judged": judged,
            "unscored": len(self.unscored),
            "unscored_reason": self.unscored[-1] if self.unscored else "",
            "failed": failed,
            "failures": dict(self.failures),
            "problems": dict(sorted(self.problems.items(), key=lambda each: (-each[1], each[0]))),
            "errors": self._error_shares(judged),
            "solved_by_turn": self._solved_by_turn(),
            "pass_at": {k: each.value for k, each in passed.items()},
            "pass_at_bounds": {k: [each.low, each.high] for k, each in passed.items()},
            "metrics": {name: each.value for name, each in metrics.items()},
            "metric_bounds": {name: _bounds(each)[1:] for name, each in metrics.items()},
            "labels": {name: ", ".join(sorted(values)) for name, values in self.labels.items()},
            **{
                name: getattr(usage, name)
                for name in ("prompt_tokens", "cached_tokens", "completion_tokens")
            },
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
            scores = list(itertools.chain.from_iterable(each.judged[part] for each in self.by_turn))
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
        """The draw of the levels, by the first of them: a level is a function of its seed, split
        and configuration.
        """
        first = min(self.contents, default=None)
        return "" if first is None else f"{self.split} {first} {self.contents[first]}"

    def _success(self) -> Estimate:
        """Success among the played, and an interval that what failed or is missing has widened."""
        played = [(each.level, float(each.success)) for each in self.plays]
        found = rate(by_level(played))
        gone = [*self.lost] + [
            (seed, f"seed {seed}") for seed, _ in sorted(self.planned - self.seen)
        ]
        if not gone:
            return found
        levels = [self.contents.get(seed, level) for seed, level in gone]
        low = rate(by_level([*played, *((level, 0.0) for level in levels)]))
        high = rate(by_level([*played, *((level, 1.0) for level in levels)]))
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
    return sorted(values)[math.ceil(0.95 * len(values)) - 1] if values else None


def _share(count: float, of: int) -> float | None:
    return count / of if of else None


def _bounds(found: Estimate) -> list[float | None]:
    """Value and interval, with `None` where a number is missing: JSON has neither NaN nor
    infinity.
    """
    return [each if math.isfinite(each) else None for each in (found.value, found.low, found.high)]


NOT_OWN = {*OWN_METRICS, "reasoning_gated"}.union(
    f"{part}{ending}" for part in PARTS for ending in ("", "_unscored", "_reason", "_unread")
)
"""Metrics that every environment has."""
JUDGED_ERRORS = {"grounding wrong": "grounding", "prediction wrong": "world_modeling"}
"""The errors that only a judge can tell, and the part of a reply that it judges."""
STOPS = ("filtered", "refused", "overflow", "empty", "cut", "unclear answer", "format")
"""Stop reasons of episodes and replies that say more of a model's provider or its writing than of
its play.
"""
COUNTED_AS = {
    **dict.fromkeys(STOPS[:3], "the episode ends and counts as not solved"),
    **dict.fromkeys(STOPS[3:6], "the reply counts as it is: a turn without what could not be read"),
    "format": "the turn counts; its actions are executed where they can be read",
}
"""How each of `STOPS` counts."""
ERRORS = (
    *STOPS,
    "invalid action",
    "too many actions",
    *JUDGED_ERRORS,
    "no progress",
    "lost",
    "budget",
    "given up",
)
"""What goes wrong in an episode, as `errors_of` names it."""


def errors_of(episode: Episode) -> set[str]:
    """What went wrong in an episode, read off its end and its turns.

    `filtered`, `refused`, `overflow`, `empty`, `cut`: a reply ended so, or the episode. `unclear
    answer`: an answer says more than the actions to execute. `format`: a reply wasn't well formed.
    `invalid action`: an action was refused, or there was none. `too many actions`: actions beyond
    the maximum were dropped. `grounding wrong`, `prediction wrong`: the judge, if there is one,
    scored the statement below `ACCEPTED`. `no progress`: actions were executed and none changed
    anything. And, unsolved, how it ended, as `Stop` has it.
    """
    found = set() if episode.success else {str(episode.ended.kind)}
    found.update(call["ending"] for call in episode.calls if call and call["ending"] in STOPS)
    for turn in episode.turns:
        codes = {problem["code"] for problem in turn["parsed"]["problems"]}
        wrong = {
            "format": not turn["parsed"]["well_formed"],
            "unclear answer": "unclear_answer" in codes,
            "invalid action": codes & {"unknown_action", "bad_argument", "no_action", "no_answer"},
            "too many actions": "too_many_actions" in codes,
            "no progress": turn["executed"] and not turn["metrics"]["action_is_effective"],
            **{
                name: turn["metrics"].get(part, ACCEPTED) < ACCEPTED
                for name, part in JUDGED_ERRORS.items()
            },
        }
        found.update(name for name, is_so in wrong.items() if is_so)
    return found


def served_names(rows: Iterable[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """The models that answered for each agent, as endpoints name them, with their replies."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        if row["served"]:
            found.setdefault(row["agent"], Counter()).update(row["served"])
    return found


class Summary:
    """The cells of a run, filled an episode at a time. What the protocol names and the run lacks is
    counted.
    """

    def __init__(self, protocol: Protocol, *, failed_as_misses: bool = False) -> None:
        self.protocol, self._misses = protocol, failed_as_misses
        self.cells: dict[tuple[str, str], Cell] = {}
        for agent in protocol.agents:
            for _, task, seed, repeat in protocol.keys(agent["name"]):
                key = task.label, agent["name"]
                self.cells.setdefault(key, self._cell(*key)).planned.add((seed, repeat))

    def add(self, episode: Episode) -> None:
        key = episode.task, episode.agent
        self.cells.setdefault(key, self._cell(*key)).add(episode)

    def _cell(self, task: str, agent: str) -> Cell:
        return Cell(task, agent, failed_as_misses=self._misses)

    def rows(self) -> list[dict[str, Any]]:
        """The table, by task and then by agent, in the order they were first seen."""
        tasks = list(dict.fromkeys(task for task, _ in self.cells))
        return [cell.row() for task in tasks for cell in self.cells.values() if cell.task == task]


def summarise(run: RunFolder, *, failed_as_misses: bool = False) -> Summary:
    """The table of a run, with what its protocol named and it lacks.

    Args:
        run: any.
        failed_as_misses: whether an episode that failed by its endpoint, its environment or its
            budget counts as not solved, and not as one that has no score.
    """
    summary = Summary(run.protocol, failed_as_misses=failed_as_misses)
    for episode in run.episodes():
        summary.add(episode)
    return summary
