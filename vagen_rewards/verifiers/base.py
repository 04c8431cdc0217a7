"""What a verifier is, and verifiers by name (V-Triune, section 3.2)."""

from __future__ import annotations

import importlib.util
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from vagen_envs.errors import MissingExtraError, did_you_mean
from vagen_envs.sample.schema import Sample
from vagen_envs.sample.scoring import VerifierResult
from vagen_rewards.errors import VerifierError

TAGS = ("<think>", "</think>", "<answer>", "</answer>")


def tag_format(response: str) -> float:
    """R_format of equation 2: a quarter for each of the four tags that stands in the response
    exactly once.
    """
    return 0.25 * sum(response.count(tag) == 1 for tag in TAGS)


class Verifier(ABC):
    """Scores the responses to the samples that name it. One object serves many threads.

    Subclass it, and `register(MyVerifier())`.
    """

    name: str
    parameters: ClassVar[frozenset[str]] = frozenset()
    """The names that `verifier_parm` may have."""
    modules: ClassVar[tuple[str, ...]] = ()
    """The modules of the extra `verify` that it needs."""

    @abstractmethod
    def verify(self, sample: Sample, response: str, iou_threshold: float) -> VerifierResult:
        """Score a response.

        Args:
            sample: the question with its truth.
            response: the model's whole text, any string. It must not make this raise.
            iou_threshold: ε of equation 3 now, for those who need one.

        Raises:
            VerifierError: the sample's truth or parameters can't be worked with.
        """

    def reference(self, sample: Sample) -> str:
        """The right answer as a reply would write it."""
        return sample.reward_model.truth

    def check(self, sample: Sample) -> None:
        """Raise VerifierError for a parameter that isn't known. Subclasses check their values,
        too.
        """
        for name in sample.reward_model.verifier_parm:
            if name not in self.parameters:
                known = did_you_mean(name, self.parameters) if self.parameters else " It has none."
                raise VerifierError(
                    f"unknown parameter verifier_parm[{name!r}] of the verifier "
                    f"{self.name!r}.{known}"
                )


_verifiers: dict[str, Verifier] = {}


def register(verifier: Verifier, *, replace: bool = False) -> None:
    """Make a verifier known by its name.

    Raises:
        VerifierError: the name is taken, and not by a verifier of the same class; or it is none.
    """
    if not isinstance(verifier, Verifier) or not getattr(verifier, "name", ""):
        raise VerifierError(
            f"{verifier!r:.80} is not a Verifier with a name; subclass Verifier and give it one"
        )
    known = _verifiers.get(verifier.name)
    if known is not None and not replace and type(known) is not type(verifier):
        raise VerifierError(
            f"the name {verifier.name!r} is taken by {type(known).__name__}; choose another, or "
            "pass replace=True"
        )
    _verifiers[verifier.name] = verifier


def verifier_named(name: str) -> Verifier:
    """The verifier of this name. Raises VerifierError if there is none."""
    if name not in _verifiers:
        raise VerifierError(
            f"unknown verifier {name!r}; register it first.{did_you_mean(name, _verifiers)}"
        )
    return _verifiers[name]


def verifier_names() -> tuple[str, ...]:
    """The names that are known, sorted."""
    return tuple(sorted(_verifiers))


def score(sample: Sample, response: str, iou_threshold: float = 0.85) -> VerifierResult:
    """Score a response by the verifier that its sample names. Blocks.

    Raises:
        VerifierError: there is no such verifier, or it can't work with the sample's truth or
            parameters.
    """
    if not isinstance(response, str):
        raise VerifierError(
            f"the response is {type(response).__name__}, not str; pass the model's text as it is"
        )
    if not (math.isfinite(iou_threshold) and 0 < iou_threshold <= 1):
        raise VerifierError(
            f"iou_threshold={iou_threshold!r} is not valid: it must be above 0 and at most 1"
        )
    verifier = verifier_named(sample.reward_model.verifier)
    verifier.check(sample)
    return _checked(verifier.verify(sample, response, iou_threshold), verifier)


def _checked(result: VerifierResult, verifier: Verifier) -> VerifierResult:
    """The result, if it is valid: a user's verifier may give anything, and a NaN would spoil a
    whole batch.
    """
    if not isinstance(result, VerifierResult):
        raise VerifierError(
            f"the verifier {verifier.name!r} gave {type(result).__name__}, not a VerifierResult; "
            "fix it"
        )
    shares = {
        "accuracy": 0.0 if result.accuracy is None else result.accuracy,
        "format": result.format,
    }
    for name, value in shares.items():
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise VerifierError(
                f"the verifier {verifier.name!r} gave {name}={value!r}; it must be from 0 to 1"
            )
    for name, value in result.metrics.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise VerifierError(
                f"the verifier {verifier.name!r} gave the metric {name}={value!r}; it must be "
                "finite"
            )
    return result


def score_many(
    samples: Sequence[Sample], responses: Sequence[str], iou_threshold: float = 0.85
) -> list[VerifierResult]:
    """Score responses, in order. A sample that can't be scored gets an unscored result with the
    reason.

    Raises:
        VerifierError: there are not as many responses as samples.
    """
    if len(samples) != len(responses):
        raise VerifierError(
            f"{len(samples)} samples and {len(responses)} responses; give one response a sample"
        )
    return [score_safely(*pair, iou_threshold) for pair in zip(samples, responses, strict=True)]


def score_safely(sample: Sample, response: str, iou_threshold: float) -> VerifierResult:
    """`score`, but what it raises becomes an unscored result: one broken sample must not stop a
    batch.
    """
    try:
        return score(sample, response, iou_threshold)
    except Exception as error:
        return VerifierResult.unscored(f"{type(error).__name__}: {error}")


class _ByName:
    """The verifiers as `vagen/Sample-v0` finds them."""

    def prepare(self) -> None:
        for verifier in _verifiers.values():
            for module in verifier.modules:
                if importlib.util.find_spec(module) is None:
                    raise MissingExtraError(f"the verifier {verifier.name!r}", "verify", module)

    def score(self, sample: Sample, response: str, iou_threshold: float) -> VerifierResult:
        return score(sample, response, iou_threshold)

    def reference(self, sample: Sample) -> str:
        return verifier_named(sample.reward_model.verifier).reference(sample)


SCORING = _ByName()
"""The default of the option `scoring` of `vagen/Sample-v0`."""
