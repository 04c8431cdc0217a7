"""Everything that `vagen_rewards` raises, in one place."""

from __future__ import annotations

from vagen_envs.errors import MissingExtraError, SampleError, VagenError

__all__ = [
    "BudgetSpentError",
    "JudgeConfigError",
    "MissingExtraError",
    "RewardError",
    "SampleError",
    "TooManyUnscoredError",
    "VerifierError",
    "VerifierServiceError",
]


class RewardError(VagenError):
    """Base of every error raised on purpose by this package."""


class JudgeConfigError(RewardError, ValueError):
    """A judge was given an option it can't work with."""


class TooManyUnscoredError(RewardError, RuntimeError):
    """Too many statements are unscored: training on the rest would be misleading."""


class BudgetSpentError(RewardError, RuntimeError):
    """The judge's cap on dollars or tokens is reached."""


class VerifierError(RewardError, ValueError):
    """There is no verifier of this name, or its parameters are wrong."""


class VerifierServiceError(RewardError, RuntimeError):
    """The verifier service can't be started or doesn't answer. Nothing was scored."""


class BadRequestError(Exception):
    """A request that can't be read: its status and a message."""
