"""What scores an answer, as the environment sees it. The verifiers are in `vagen_rewards`, above
this package.
"""

from __future__ import annotations

import dataclasses
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from vagen_envs.errors import ConfigError
from vagen_envs.sample.schema import Sample


@dataclass(frozen=True, slots=True)
class VerifierResult:
    """What a verifier says of a response.

    Attributes:
        accuracy: R_acc, 0 to 1; `None` when unscored, because the verifier failed.
        format: R_format, 0 to 1.
        answer: what was read from the response; `None` where there is no answer.
        reason: why, in words for a person.
        metrics: the verifier's own, such as `iou`.
    """

    accuracy: float | None
    format: float = 0.0
    answer: str | None = None
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def unscored(cls, reason: str) -> VerifierResult:
        """No verdict: the verifier failed. Adds nothing to a reward and is counted."""
        return cls(None, reason=reason)

    @property
    def scored(self) -> bool:
        """Whether there is a verdict."""
        return self.accuracy is not None

    @property
    def correct(self) -> bool:
        """Whether the answer earned anything for its accuracy."""
        return bool(self.accuracy)

    def reward(self, sample: Sample) -> float:
        """α_acc · R_acc + α_format · R_format with the sample's weights (V-Triune, section 3.2); 0
        if unscored.
        """
        if self.accuracy is None:
            return 0.0
        model = sample.reward_model
        return model.accuracy_ratio * self.accuracy + model.format_ratio * self.format

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary from which `VerifierResult(**…)` makes an equal verdict."""
        return dataclasses.asdict(self)


@runtime_checkable
class Scoring(Protocol):
    """Scores responses to samples."""

    def prepare(self) -> None:
        """Called once, when an environment is made. Raises MissingExtraError if something isn't
        installed.
        """

    def score(self, sample: Sample, response: str, iou_threshold: float) -> VerifierResult:
        """Score a whole reply. Never raises because of its text."""

    def reference(self, sample: Sample) -> str:
        """The right answer, written as a reply's answer."""


def find_scoring(place: str) -> Scoring:
    """The scoring at `module:attribute`. Raises ConfigError if there is none, and what its import
    raises.
    """
    try:
        found = pkgutil.resolve_name(place)
    except (ValueError, AttributeError, ModuleNotFoundError) as error:
        raise ConfigError(
            f"scoring={place!r} can't be found ({error}); write module:attribute"
        ) from error
    if not isinstance(found, Scoring):
        raise ConfigError(
            f"scoring={place!r} is {type(found).__name__}; it needs the methods prepare, score "
            "and reference"
        )
    return found
