"""Parity kit: check that a trainer trains on exactly what was sampled, in multi-turn episodes with
pictures.

    python -m vagen_adapters.parity your_package.parity:adapter

The kit plays recorded episodes through the trainer's own rollout with a sampler whose tokens are
known, and compares the training data with what was sampled, seen and rewarded.

    reference_model  a tiny vision-language model: tokens, picture features, positions,
    log-probabilities recordings       the episodes, and an environment that stores what was played
    sampler          replays recorded replies and stores its inputs
    trained          the interface of a trainer's adapter
    checks           the checks of trained sequences, one function each
    against_env      the checks of what was played and read
    kit              runs all recordings through all checks
    report           the report
"""

from vagen_adapters.parity.kit import run
from vagen_adapters.parity.recordings import Recording
from vagen_adapters.parity.reference_model import ReferenceModel
from vagen_adapters.parity.report import Report
from vagen_adapters.parity.sampler import RecordedSampler, SamplerCall
from vagen_adapters.parity.trained import Playback, TrainedSequence, Trainer

__all__ = [
    "Playback",
    "RecordedSampler",
    "Recording",
    "ReferenceModel",
    "Report",
    "SamplerCall",
    "TrainedSequence",
    "Trainer",
    "run",
]
