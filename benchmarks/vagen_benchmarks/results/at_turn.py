"""What the first, second, … turns of all episodes have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from vagen_rewards.scores import PARTS

SHARES = ("valid", "effective", "well_formed")
"""What `AtTurn` counts of turns, as columns of the table."""


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
            if part in metrics:
                self.judged[part].append(float(metrics[part]))

    def row(self) -> dict[str, Any]:
        shares = {
            name: getattr(self, name) / self.count
            for name in ("well_formed", "valid", "effective", "reward")
        }
        judged = {part: fmean(values) if values else None for part, values in self.judged.items()}
        return {"turns": self.count, **shares, **judged}
