"""Everything that `vagen_adapters` raises, in one place. A message says the value, the reason and the mend."""

from __future__ import annotations

from vagen_envs.errors import VagenError


class TrainingDataError(VagenError, ValueError):
    """A batch of sampled episodes cannot be trained on: its tensors disagree, or hold NaN or infinity."""


class TrainingConfigError(VagenError, ValueError):
    """A setting of a trainer or of an estimator is unknown or out of range."""


class ServiceError(VagenError, RuntimeError):
    """The environment service can't be reached, refuses a request, or breaks its protocol; `code` says which."""

    def __init__(self, code: object, message: str = "") -> None:
        super().__init__(f"the environment service: {message}" if message else str(code))
        self.code: str = str(code) if message else getattr(code, "code", "")
        self.message: str = message or getattr(code, "message", str(code))
