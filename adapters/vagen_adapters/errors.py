"""Everything that `vagen_adapters` raises, in one place. A message says the value, the reason and the mend."""

from __future__ import annotations

from vagen_envs.errors import VagenError


class TrainingDataError(VagenError, ValueError):
    """A batch of sampled episodes cannot be trained on: its tensors disagree, or hold NaN or infinity."""


class TrainingConfigError(VagenError, ValueError):
    """A setting of a trainer or of an estimator is unknown or out of range."""
