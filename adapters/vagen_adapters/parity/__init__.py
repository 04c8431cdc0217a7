"""Does a trainer train on what was sampled? A conformance kit for multi-turn training with pictures.

    python -m vagen_adapters.parity your_package.parity:adapter --html parity.html

It plays recorded episodes through a trainer's own rollout with a sampler whose every token is known, and holds what
the trainer made of them against what was sampled, seen and paid.

    stage       a tiny vision-language model: tokens, picture features, positions, log-probabilities
    recordings  the episodes, and an environment that remembers what was played
    sampler     says what is recorded, remembers what it was shown, and gives the log-probabilities of that
    trained     what a trainer's adapter hands over, and the protocol that it follows
    checks      one function a check
    kit         all recordings through all checks
    report      one page, as text and as HTML
    of_ppo      the adapter of this package's own trainer, and an example to start from
"""

from vagen_adapters.parity.kit import run
from vagen_adapters.parity.recordings import Recording
from vagen_adapters.parity.report import Report
from vagen_adapters.parity.sampler import Call, RecordedSampler
from vagen_adapters.parity.stage import Stage
from vagen_adapters.parity.trained import Scene, Trained, Trainer

__all__ = ["Call", "RecordedSampler", "Recording", "Report", "Scene", "Stage", "Trained", "Trainer", "run"]
