"""The advantage estimators against the literal loops over tensor elements that released training
code has.

128 sequences of 4096 tokens in 8 turns, half of them the policy's, float32 on the CPU.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason='needs pip install "vagen-envs[ppo]"')

from perf import advantage_loops  # noqa: E402
from vagen_adapters.ppo import advantages, group_advantages  # noqa: E402
from vagen_adapters.ppo.trajectories import Trajectories  # noqa: E402

ROWS, LENGTH, TURNS = 128, 4096, 8
TWO_LEVELS = {"gamma_turn": 0.95, "lam_turn": 0.9, "gamma_token": 1.0, "lam_token": 0.98}
ESTIMATORS: dict[str, dict[str, float]] = {
    "token_gae": {"gamma": 0.99, "lam": 0.95},
    "dual_discount_gae": TWO_LEVELS,
    "bilevel_gae": TWO_LEVELS,
    "bilevel_gae_released": {"gamma_turn": 0.95, "gamma_token": 1.0, "lam": 0.95},
    "turn_gae": {"gamma": 0.99, "lam": 0.9},
}


@pytest.fixture(scope="module")
def batch() -> Any:
    """Turns that each begin with an observation as long as the reply."""
    generator = torch.Generator().manual_seed(0)
    per_turn = LENGTH // TURNS
    position = torch.arange(LENGTH)
    turn_ids = torch.where(position % per_turn >= per_turn // 2, position // per_turn, -1).repeat(
        ROWS, 1
    )
    truncated = torch.arange(ROWS) % 2 == 0
    return Trajectories(
        turn_ids=turn_ids,
        turn_rewards=torch.randn(ROWS, TURNS, generator=generator),
        terminated=~truncated,
        truncated=truncated,
        values=torch.randn(ROWS, LENGTH + 1, generator=generator),
        kl_rewards=-0.001 * torch.randn(ROWS, LENGTH, generator=generator).abs(),
        bootstrap_values=torch.randn(ROWS, generator=generator),
        group_ids=torch.arange(ROWS) // 8,
    )


@pytest.mark.parametrize("name", ESTIMATORS)
def test_ours(benchmark: Any, batch: Any, name: str) -> None:
    benchmark.group = f"{name}, {ROWS}×{LENGTH}, {TURNS} turns"
    benchmark.pedantic(
        getattr(advantages, name), (batch,), ESTIMATORS[name], rounds=15, warmup_rounds=2
    )


@pytest.mark.parametrize("name", ESTIMATORS)
def test_theirs(benchmark: Any, batch: Any, name: str) -> None:
    benchmark.group = f"{name}, {ROWS}×{LENGTH}, {TURNS} turns"
    end_values = batch.bootstrap_values * batch.truncated

    def loop_over_rows() -> None:
        columns = (batch.turn_ids, batch.turn_rewards, batch.values, batch.kl_rewards, end_values)
        for row in zip(*columns, strict=True):
            getattr(advantage_loops, name)(*row, **ESTIMATORS[name])

    benchmark.pedantic(loop_over_rows, rounds=1)


@pytest.mark.parametrize("name", ["grpo", "rloo"])
def test_ours_without_critic(benchmark: Any, batch: Any, name: str) -> None:
    benchmark.group = f"{name}, {ROWS}×{LENGTH}"
    benchmark.pedantic(getattr(group_advantages, name), (batch,), rounds=15, warmup_rounds=2)


def test_ours_whitening(benchmark: Any, batch: Any) -> None:
    benchmark.group = f"whitening, {ROWS}×{LENGTH}"
    benchmark.pedantic(advantages.bilevel_gae(batch).whitened, rounds=15, warmup_rounds=2)
