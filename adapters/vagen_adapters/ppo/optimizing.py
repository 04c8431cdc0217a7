"""Updates: learning rates and clips of policy and critic, and gradients that aren't finite."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from accelerate.utils import AutocastKwargs, DistributedDataParallelKwargs

from vagen_adapters.errors import TrainingDataError
from vagen_adapters.ppo.gradient_norms import gradient_norms
from vagen_adapters.ppo.saving import SavingTrainer

MOST_SKIPPED = 10
"""Updates in a row with gradients that aren't finite, after which a run ends."""
GO_BACK = (
    "resume from a checkpoint with a lower max_grad_norm, or begin anew with a lower learning_rate"
)


class OptimizingTrainer(SavingTrainer):
    """The part of `MultiTurnPPOTrainer` that applies gradients, and keeps figures until they are
    logged.
    """

    optimizer: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self._finite_gradients = True
        self._skipped_in_a_row = 0
        self._metrics: dict[str, list[float]] = defaultdict(list)

    def _record(self, entries: Mapping[str, float]) -> None:
        for name, entry in entries.items():
            self._metrics[name].append(entry)

    def _build_accelerator_args(self, **options: Any) -> dict[str, Any]:
        """Save two copies: gradients live in DDP's buckets, and autocast keeps no rounded
        weights.
        """
        found: dict[str, Any] = super()._build_accelerator_args(**options)
        for handler in found["kwargs_handlers"]:
            if isinstance(handler, DistributedDataParallelKwargs):
                handler.gradient_as_bucket_view = True
        found["kwargs_handlers"].append(AutocastKwargs(cache_enabled=False))
        return found

    def create_optimizer(self, model: Any = None) -> Any:
        """AdamW, or what `optim` names, with the critic's own learning rate."""
        if self.optimizer is None:
            cls, options = self.get_optimizer_cls_and_kwargs(self.args)
            decay = self.args.weight_decay
            policy = self.model.trainable(critic=False)
            critic = self.model.trainable(critic=True)
            groups = [
                {"params": policy, "lr": self.args.learning_rate, "weight_decay": decay},
                {"params": critic, "lr": self.args.critic_learning_rate, "weight_decay": decay},
            ]
            self.optimizer = cls([group for group in groups if group["params"]], **options)
        return self.optimizer

    def _clip_grad_norm(self, model: Any) -> Any:
        """Clip policy and critic separately to `max_grad_norm`: a critic's large errors would slow
        the policy.

        DeepSpeed has clipped them together by now.
        """
        if self.args.log_gradient_norms:
            self._record(gradient_norms(self.model.policy))
        clip = self.accelerator.clip_grad_norm_
        most = self.args.max_grad_norm
        if not self.is_deepspeed_enabled and self.args.critic_kind != "none":
            of_critic = float(clip(self.model.trainable(critic=True), most))
            self._record({"critic/grad_norm": of_critic})
            self._finite_gradients &= math.isfinite(of_critic)
        return clip(self.model.trainable(critic=False), most)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm)
        finite = self._finite_gradients and math.isfinite(float(norm))
        self._finite_gradients = True
        if self.accelerator.scaler is None:  # a scaler of float16 skips such updates itself
            self._skip_unless(finite, model)
        return norm

    def _skip_unless(self, finite: bool, model: Any) -> None:
        """Skip an update whose gradients aren't finite: it would break the weights."""
        self._record({"update/skipped": float(not finite)})
        self._skipped_in_a_row = 0 if finite else self._skipped_in_a_row + 1
        if finite:
            return
        if self.is_deepspeed_enabled or self._skipped_in_a_row == MOST_SKIPPED:
            times = f"{MOST_SKIPPED} in a row"
            if self.is_deepspeed_enabled:
                times = "which DeepSpeed can't skip"
            raise TrainingDataError(
                f"the gradients of update {self.state.global_step} aren't finite, {times}; "
                f"{GO_BACK}"
            )
        for parameter in model.parameters():
            parameter.grad = None
