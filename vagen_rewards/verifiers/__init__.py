"""Verifiable rewards a sample, as in V-Triune: verifiers by name, IoU schedules, a service, and
metrics a source.

>>> from vagen_envs.sample.generated import generated_samples
>>> from vagen_rewards.verifiers import score
>>> sample = next(generated_samples(1, sources=["vagen/detection"]))
>>> score(sample, f"<think>…</think><answer>{sample.reward_model.truth}</answer>").accuracy
1.0

Samples themselves (`vagen_envs.sample`) are below this package, since `vagen/Sample-v0` plays them.
"""

from vagen_envs.sample.scoring import VerifierResult
from vagen_rewards.verifiers.base import (
    SCORING,
    Verifier,
    register,
    score,
    score_many,
    verifier_named,
    verifier_names,
)
from vagen_rewards.verifiers.client import VerifierClient
from vagen_rewards.verifiers.detection import DetectionVerifier
from vagen_rewards.verifiers.maths import MathVerifyVerifier
from vagen_rewards.verifiers.metrics import Scored, source_metrics
from vagen_rewards.verifiers.schedule import DYNAMIC, LOOSE, STRICT, AdaptiveIoU, IoUSchedule

__all__ = [
    "DYNAMIC",
    "LOOSE",
    "SCORING",
    "STRICT",
    "AdaptiveIoU",
    "DetectionVerifier",
    "IoUSchedule",
    "MathVerifyVerifier",
    "Scored",
    "Verifier",
    "VerifierClient",
    "VerifierResult",
    "register",
    "score",
    "score_many",
    "source_metrics",
    "verifier_named",
    "verifier_names",
]

register(MathVerifyVerifier())
register(DetectionVerifier())
