"""How much the KL counts, steered to a target from rollout to rollout."""

from __future__ import annotations

from typing import Any

from transformers.trainer_callback import ExportableState, TrainerCallback


class AdaptiveKL(TrainerCallback, ExportableState):
    """The controller of Ziegler et al. 2019, section 2.2; a callback, so that checkpoints keep its state.

    Args:
        target: KL to the reference, in nats a token.
        horizon: over how many episodes β may double, roughly.

    Attributes:
        factor: by which β is multiplied; 1 at the beginning.
    """

    def __init__(self, target: float, horizon: float) -> None:
        self.target, self.horizon = target, horizon
        self.factor = 1.0

    def update(self, kl: float, episodes: int) -> None:
        """Take note of a rollout's KL: β grows where it is above the target, by a fifth of it at most."""
        error = min(max(kl / self.target - 1, -0.2), 0.2)
        self.factor *= 1 + error * episodes / self.horizon

    def state(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"args": {"target": self.target, "horizon": self.horizon}, "attributes": {"factor": self.factor}}
