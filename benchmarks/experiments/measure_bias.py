"""Measure the bias of the advantage estimators of `vagen_adapters.ppo`.

.venv/bin/python benchmarks/experiments/measure_bias.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from vagen_adapters.ppo import advantages, group_advantages
from vagen_adapters.ppo.packing import Advantages
from vagen_adapters.ppo.trajectories import Trajectories
from vagen_experiments.bias import Array, Batch, Estimator, StopOrGo, measure

CRITIC_ERROR = 1.0
"""Of the wrong critic, in units of reward; returns have a standard deviation of about 1.3."""


def estimator(
    function: Callable[..., Advantages], *, total: bool = False, **settings: Any
) -> Estimator:
    """Make one of `vagen_adapters.ppo`'s estimators a function of arrays.

    Args:
        function: such as `advantages.turn_gae`.
        total: give it the value of the whole episode, which `token_gae`'s critic learns.
        settings: its keywords.
    """

    def advantages_of(batch: Batch) -> Array:
        ended = torch.ones(len(batch.turn_ids), dtype=torch.bool)
        episodes = Trajectories(
            turn_ids=torch.from_numpy(batch.turn_ids),
            turn_rewards=torch.from_numpy(batch.turn_rewards),
            terminated=ended,
            truncated=~ended,
            values=torch.from_numpy(batch.total_values if total else batch.values),
            group_ids=torch.from_numpy(batch.group_ids),
            turn_states=torch.from_numpy(batch.turn_states),
            turn_values=torch.from_numpy(batch.turn_values),
        )
        found: Array = function(episodes, **settings).advantages.numpy()
        return found

    return advantages_of


ESTIMATORS: dict[str, Estimator] = {
    "token GAE": estimator(advantages.token_gae, total=True),
    "token GAE, λ 0.95": estimator(advantages.token_gae, total=True, lam=0.95),
    "turn GAE": estimator(advantages.turn_gae),
    "turn GAE, λ 0.95": estimator(advantages.turn_gae, lam=0.95),
    "turn GAE, λ 0": estimator(advantages.turn_gae, lam=0.0),
    "Bi-Level GAE": estimator(advantages.bilevel_gae),
    "Bi-Level GAE, λ 0.95": estimator(advantages.bilevel_gae, lam_turn=0.95, lam_token=0.95),
    "Bi-Level GAE, γ_turn 0.95": estimator(advantages.bilevel_gae, gamma_turn=0.95),
    "Bi-Level GAE as released": estimator(advantages.bilevel_gae_released),
    "Bi-Level GAE mixed (γ_turn, λ_turn 0.95)": estimator(advantages.bilevel_gae_mixed),
    "dual discount, γ 1, λ 1": estimator(
        advantages.dual_discount_gae, gamma_turn=1.0, lam_turn=1.0
    ),
    "dual discount, γ_turn 0.99, λ_turn 0.95": estimator(advantages.dual_discount_gae),
    "VinePPO": estimator(advantages.vine),
    "RLOO": estimator(group_advantages.rloo),
    "RLOO by turn": estimator(group_advantages.rloo_turns),
    "GRPO without scaling": estimator(group_advantages.grpo, scale=False),
    "GRPO": estimator(group_advantages.grpo),
    "GiGPO without scaling, γ 1": estimator(group_advantages.gigpo, scale=False, gamma=1.0),
    "GiGPO": estimator(group_advantages.gigpo),
}
"""By the name in the table. γ = λ = 1 where nothing else is stated."""
WITHOUT_CRITIC = (
    "VinePPO",
    "RLOO",
    "RLOO by turn",
    "GRPO without scaling",
    "GRPO",
    "GiGPO without scaling, γ 1",
    "GiGPO",
)


def table() -> str:
    """The table of reports/2026-11-estimator-bias.md: length and cosine of expected gradients."""
    perfect, wrong = StopOrGo(), StopOrGo(critic_error=CRITIC_ERROR)
    lines = [
        "| estimator | groups of 2 | groups of 4 | wrong critic | whitened, groups of 4 |",
        "|---|---|---|---|---|",
    ]
    for name, function in ESTIMATORS.items():
        cells = [
            measure(function, perfect, 2),
            measure(function, perfect, 4),
            None if name in WITHOUT_CRITIC else measure(function, wrong, 1),
            measure(function, perfect, 4, whiten=True),
        ]
        words = [
            "–" if bias is None else f"{bias.length:.2f} ({bias.cosine:.2f})" for bias in cells
        ]
        lines.append(f"| {name} | {' | '.join(words)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
