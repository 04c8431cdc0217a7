"""The IoU threshold ε over training: the dynamic schedule, its variants, and the adaptive
controller.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from vagen_envs.errors import ConfigError


@dataclass(frozen=True)
class IoUSchedule:
    """A threshold that rises in steps (V-Triune, section 3.2.1).

    Attributes:
        thresholds: the values of ε, in order, each above 0 and at most 1.
        ends: the share of training at which each but the last ends, rising, between 0 and 1.
    """

    thresholds: tuple[float, ...] = (0.85, 0.95, 0.99)
    ends: tuple[float, ...] = (0.10, 0.25)

    def __post_init__(self) -> None:
        if not self.thresholds or not all(0 < each <= 1 for each in self.thresholds):
            raise ConfigError(
                f"thresholds={self.thresholds!r} is not valid: each must be above 0 and at most 1"
            )
        inside = all(0 < each < 1 for each in self.ends) and all(
            a < b for a, b in pairwise(self.ends)
        )
        if len(self.ends) != len(self.thresholds) - 1 or not inside:
            raise ConfigError(
                f"ends={self.ends!r} is not valid: one fewer than thresholds, rising, between 0 "
                "and 1"
            )

    def at(self, progress: float) -> float:
        """The threshold after this share of training, 0 to 1; a stage's end belongs to the next.

        Raises:
            ConfigError: `progress` is outside.
        """
        if not 0 <= progress <= 1:
            raise ConfigError(
                f"progress={progress!r} is not valid: it is a share of training, 0 to 1"
            )
        return self.thresholds[bisect_right(self.ends, progress)]


DYNAMIC = IoUSchedule()
"""0.85 for the first 10 %, 0.95 up to 25 %, then 0.99 (section 3.2.1)."""
LOOSE = IoUSchedule((0.70, 0.80, 0.85))
"""Variant 1 of appendix J."""
STRICT = IoUSchedule((0.90, 0.95, 0.99))
"""Variant 2 of appendix J."""
# A fixed threshold is `IoUSchedule((0.5,), ())`.

MILESTONES = (0.50, 0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 0.99)
"""𝒮 of appendix I."""


@dataclass
class AdaptiveIoU:
    """The controller of appendix I: one milestone up or down after each batch (equation 6).

    For a checkpoint take `dataclasses.asdict(controller)`; `AdaptiveIoU(**saved)` goes on from
    there.

    Attributes:
        target: τ, the success rate aimed at; the paper tries 0.1, 0.3, 0.5, 0.7 and 0.9.
        threshold: T_t, one of `MILESTONES`; T_0 is the first.

    Raises:
        ConfigError: the target isn't between 0 and 1, or the threshold is no milestone.
    """

    target: float = 0.9
    threshold: float = MILESTONES[0]

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise ConfigError(f"target={self.target!r} is not valid: it is a rate between 0 and 1")
        if self.threshold not in MILESTONES:
            raise ConfigError(
                f"threshold={self.threshold!r} is not valid: it must be one of {MILESTONES}"
            )

    def update(self, ious: Iterable[float]) -> float:
        """Take a batch in, and return T_{t+1}.

        The batch success rate is the share of samples whose IoU exceeds T_t: above τ the next
        milestone follows, below τ the one before, at τ none. The first and last milestones stay
        where there is no next. A batch without samples changes nothing.

        Raises:
            ConfigError: an IoU isn't from 0 to 1.
        """
        batch = [float(each) for each in ious]
        if wrong := [each for each in batch if not 0 <= each <= 1]:
            raise ConfigError(f"an IoU of {wrong[0]!r} is not valid: it must be from 0 to 1")
        if batch:
            rate = math.fsum(each > self.threshold for each in batch) / len(batch)
            place = MILESTONES.index(self.threshold) + (rate > self.target) - (rate < self.target)
            self.threshold = MILESTONES[min(max(place, 0), len(MILESTONES) - 1)]
        return self.threshold
