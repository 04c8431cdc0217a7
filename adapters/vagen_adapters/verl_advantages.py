"""verl: Bi-Level GAE as an advantage estimator, and the critic's values that it needs.

The estimator is registered as `algorithm.adv_estimator=bilevel_gae_released` when this module is
imported. `install` gives it the values (docs/adapters/verl.md).
"""

from __future__ import annotations

import sys
from typing import Any

from vagen_adapters.errors import TrainingDataError, not_importable

try:
    import torch
    from torch import Tensor
    from verl.trainer.ppo import ray_trainer
    from verl.trainer.ppo.core_algos import register_adv_est
except ImportError as error:
    raise not_importable("vagen_adapters.verl_advantages", "verl", "verl", error) from error

from vagen_adapters.ppo.advantages import bilevel_gae_released
from vagen_adapters.ppo.trajectories import Trajectories

ESTIMATOR = "bilevel_gae_released"
"""The `algorithm.adv_estimator`. verl lacks the value after the last token that Algorithm 2 of the
paper needs.
"""


@register_adv_est(ESTIMATOR)
def bilevel_advantages(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    config: Any = None,
    values: Tensor | None = None,
    token_level_scores: Tensor | None = None,
    truncated: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Bi-Level GAE as in VAGEN's released code (`ppo.advantages.bilevel_gae_released`), whitened as
    verl's GAE is.

    A turn is an unbroken run of sampled tokens. γ and λ are `algorithm.gamma` (between tokens) and
    `algorithm.lam` (both levels); `+algorithm.gamma_turn` is between turns, 1 by default.

    Args:
        token_level_rewards: (B, L), the turn rewards, with KL penalties if verl puts them into the
            reward.
        response_mask: (B, L), 1 for sampled tokens.
        config: verl's `algorithm`.
        values: (B, L), V before each token. verl 0.9.1 gives registered estimators none: `install`
            does.
        token_level_scores: (B, L), the turn rewards alone; without them all of the reward is a
            turn's.
        truncated: (B,) bool, the episodes that a limit ended. verl computes no value after the last
            token, so what could have followed counts as 0 there, as in VAGEN's released code.

    Returns:
        Advantages and the critic's targets, (B, L).
    """
    if values is None:
        raise TrainingDataError(
            f"{ESTIMATOR} got no values, for verl gives a registered estimator none; call "
            "vagen_adapters.verl_advantages.install() in the trainer's process and set "
            "critic.enable=True"
        )
    settings = config if config is not None else {}
    sampled = response_mask.bool()
    begins = sampled & ~torch.nn.functional.pad(sampled, (1, 0))[:, :-1]
    turns = begins.long().cumsum(1) - 1
    turn_ids = turns.where(sampled, -1)
    scores = token_level_rewards if token_level_scores is None else token_level_scores
    scores = scores.masked_fill(~sampled, 0).float()
    turn_rewards = scores.new_zeros(len(scores), int(turn_ids.max().clamp(min=0)) + 1)
    turn_rewards.scatter_add_(1, turns.clamp(min=0), scores)
    cut = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
    if truncated is not None:
        cut = truncated.to(cut)
    batch = Trajectories(
        turn_ids=turn_ids,
        turn_rewards=turn_rewards,
        terminated=~cut,
        truncated=cut,
        values=torch.nn.functional.pad(values.float(), (0, 1)),
        kl_rewards=token_level_rewards.float() - scores,
    )
    found = bilevel_gae_released(
        batch,
        gamma_turn=settings.get("gamma_turn", 1.0),
        gamma_token=settings.get("gamma", 1.0),
        lam=settings.get("lam", 1.0),
    )
    return found.whitened().advantages, found.returns[:, :-1]


_original_compute_advantage = ray_trainer.compute_advantage


def compute_advantage(data: Any, adv_estimator: Any, *args: Any, **kwargs: Any) -> Any:
    """The trainer's function of this name, but our estimator gets the critic's values."""
    if adv_estimator != ESTIMATOR:
        return _original_compute_advantage(data, adv_estimator, *args, **kwargs)
    batch = data.batch
    data.batch["advantages"], data.batch["returns"] = bilevel_advantages(
        batch["token_level_rewards"],
        batch["response_mask"],
        config=kwargs.get("config"),
        values=batch.get("values", None),
        token_level_scores=batch.get("token_level_scores", None),
        truncated=_stored_flags(data, "truncated"),
    )
    return data


def _stored_flags(data: Any, name: str) -> Tensor | None:
    """What the agent loop stored of each episode; None for episodes of another loop."""
    stored = getattr(data, "non_tensor_batch", {}).get(name)
    return None if stored is None else torch.tensor([bool(flag) for flag in stored])


def install() -> None:
    """Let verl's trainers of this process give `ESTIMATOR` the values, by their
    `compute_advantage`. May be repeated.

    For Ray's workers:
    `+ray_kwargs.ray_init.runtime_env.worker_process_setup_hook=vagen_adapters.verl_advantages.install`.
    """
    for name in ("verl.trainer.ppo.ray_trainer", "verl.trainer.ppo.v1.utils"):
        module = sys.modules.get(name)  # imported later, it takes ray_trainer's
        if module is not None:
            module.compute_advantage = compute_advantage  # type: ignore[attr-defined]
