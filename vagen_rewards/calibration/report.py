"""What a judge makes of a labelled set."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vagen_rewards.calibration.labelled import Labelled
from vagen_rewards.scores import Judge, Score


@dataclass(slots=True)
class Counts:
    """Verdicts against labels."""

    true_yes: int = 0
    false_yes: int = 0
    true_no: int = 0
    false_no: int = 0
    unscored: int = 0
    true_unscored: int = 0

    def add(self, label: bool, score: Score, threshold: float) -> None:
        """Count one verdict."""
        if score.value is None:
            self.unscored += 1
            self.true_unscored += label
        elif score.value >= threshold:
            self.true_yes += label
            self.false_yes += not label
        else:
            self.false_no += label
            self.true_no += not label

    @property
    def scored(self) -> int:
        """Verdicts that there are."""
        return self.true_yes + self.false_yes + self.true_no + self.false_no

    @property
    def agreement(self) -> float:
        """Share of verdicts that are the label; NaN without verdicts."""
        return (self.true_yes + self.true_no) / self.scored if self.scored else math.nan

    @property
    def precision(self) -> float:
        """Share of accepted statements that are true; NaN without any."""
        accepted = self.true_yes + self.false_yes
        return self.true_yes / accepted if accepted else math.nan

    @property
    def accepted(self) -> float:
        """Share of true statements that are accepted, those without a verdict among them; NaN without any."""
        true = self.true_yes + self.false_no + self.true_unscored
        return self.true_yes / true if true else math.nan

    @property
    def rejected(self) -> float:
        """Share of true statements that are refused, those without a verdict among them; NaN without any."""
        true = self.true_yes + self.false_no + self.true_unscored
        return self.false_no / true if true else math.nan

    @property
    def recall(self) -> float:
        """Share of true statements with a verdict that are accepted; NaN without any."""
        true = self.true_yes + self.false_no
        return self.true_yes / true if true else math.nan


@dataclass(slots=True)
class Report:
    """A judge on a labelled set.

    Attributes:
        judge: its name.
        total: over everything but other languages, which the prompts don't ask for.
        by_kind: per kind of state, without other languages.
        by_category: per category, all of them.
        seconds: wall time.
        requests, tokens, dollars: of a judge that spends, else 0.
        unscored_because: the last reason, if anything is unscored.
        misses: items where verdict and label differ, with the score.
    """

    judge: str
    total: Counts = field(default_factory=Counts)
    by_kind: dict[str, Counts] = field(default_factory=dict)
    by_category: dict[str, Counts] = field(default_factory=dict)
    seconds: float = 0.0
    requests: int = 0
    tokens: int = 0
    dollars: float = 0.0
    unscored_because: str = ""
    misses: list[tuple[Labelled, Score]] = field(default_factory=list)


def calibrate(judge: Judge, items: Sequence[Labelled], threshold: float = 0.5) -> Report:
    """Ask a judge about labelled statements. A score of at least `threshold` accepts a statement."""
    spent = _spent(judge)
    start = time.perf_counter()
    scores: Iterable[Score] = asyncio.run(judge.score_many([item.statement for item in items]))
    report = Report(judge.name, seconds=time.perf_counter() - start)
    for item, score in zip(items, scores, strict=True):
        if not score.scored:
            report.unscored_because = score.reason
        report.by_category.setdefault(item.category, Counts()).add(item.label, score, threshold)
        if item.category != "other_language":
            report.total.add(item.label, score, threshold)
            report.by_kind.setdefault(item.statement.state.kind, Counts()).add(item.label, score, threshold)
            if score.value is not None and (score.value >= threshold) != item.label:
                report.misses.append((item, score))
    after = _spent(judge)
    report.requests, report.tokens = after[0] - spent[0], after[1] - spent[1]
    report.dollars = after[2] - spent[2]
    return report


def _spent(judge: Any) -> tuple[int, int, float]:
    spending = getattr(judge, "spending", None)
    return (spending.requests, spending.tokens, spending.dollars) if spending is not None else (0, 0, 0.0)
