"""How much faster the advantage estimators are than the literal loops.

    python -m vagen_benchmarks.perf.advantages [--device cuda] [--dtype float64]

Two loops stand beside each estimator: the same lines over tensor elements, as released training code has
them, on a few rows and scaled up to the batch; and over plain Python lists, the fastest a loop gets, in full.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from vagen_adapters.ppo import advantages
from vagen_adapters.ppo.trajectories import Trajectories
from vagen_benchmarks.perf import advantage_loops

LOOP_ROWS = 2
TWO_LEVELS = {"gamma_turn": 0.95, "lam_turn": 0.9, "gamma_token": 1.0, "lam_token": 0.98}
ESTIMATORS: dict[str, dict[str, float]] = {
    "token_gae": {"gamma": 0.99, "lam": 0.95},
    "dual_discount_gae": TWO_LEVELS,
    "bilevel_gae": TWO_LEVELS,
    "bilevel_gae_released": {"gamma_turn": 0.95, "gamma_token": 1.0, "lam": 0.95},
    "turn_gae": {"gamma": 0.99, "lam": 0.9},
}


def sample(rows: int, length: int, turns: int, *, sampled: float, device: str, dtype: torch.dtype) -> Trajectories:
    """A batch whose turns each begin with an observation; a share `sampled` of all tokens is the policy's."""
    generator = torch.Generator().manual_seed(0)
    position = torch.arange(length) % (length // turns)
    turn = (torch.arange(length) // (length // turns)).clamp(max=turns - 1)
    turn_ids = torch.where(position >= (1 - sampled) * (length // turns), turn, -1).repeat(rows, 1)
    normal = partial(torch.randn, generator=generator, dtype=dtype)
    truncated = torch.arange(rows) % 2 == 0
    batch: dict[str, torch.Tensor] = {
        "turn_ids": turn_ids,
        "turn_rewards": normal(rows, turns),
        "terminated": ~truncated,
        "truncated": truncated,
        "values": normal(rows, length + 1),
        "kl_rewards": -0.001 * normal(rows, length).abs(),
        "bootstrap_values": normal(rows),
        "group_ids": torch.arange(rows) // 8,
    }
    return Trajectories(**{name: tensor.to(device) for name, tensor in batch.items()})


def seconds(call: Callable[[], Any], *, repeats: int, device: str) -> float:
    """The median wall time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def say(line: str) -> None:
    """Write a line as soon as it is known."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def loop(batch: Trajectories, name: str, rows: int, *, as_lists: bool, **settings: float) -> None:
    """The literal loop over the first rows."""
    assert batch.values is not None
    assert batch.kl_rewards is not None
    assert batch.bootstrap_values is not None
    end_values = batch.bootstrap_values * batch.truncated
    tensors = (batch.turn_ids, batch.turn_rewards, batch.values, batch.kl_rewards, end_values)
    columns = [each[:rows].cpu() for each in tensors]
    for row in zip(*[column.tolist() if as_lists else column for column in columns], strict=True):
        getattr(advantage_loops, name)(*row, **settings)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--sampled", type=float, default=0.5, help="share of the tokens that the policy sampled")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    rows, length, device = options.rows, options.length, options.device
    make = partial(
        sample, rows, length, options.turns, sampled=options.sampled, device=device, dtype=getattr(torch, options.dtype)
    )
    batch = make()
    say(f"{rows} x {length}, {options.turns} turns, {options.sampled:.0%} sampled, {options.dtype}, {device}")
    say(f"{'estimator':22} {'ours':>9} {'loop, tensors':>15} {'ratio':>8} {'loop, lists':>13} {'ratio':>8}")
    checks = seconds(batch.__post_init__, repeats=options.repeats, device=device)
    say(f"{'(checks of the batch)':22} {checks * 1e3:6.1f} ms")
    for name, settings in ESTIMATORS.items():
        ours = seconds(partial(getattr(advantages, name), batch, **settings), repeats=options.repeats, device=device)
        timed = partial(seconds, repeats=1, device=device)
        slow = timed(partial(loop, batch, name, LOOP_ROWS, as_lists=False, **settings)) * rows / LOOP_ROWS
        lists = timed(partial(loop, batch, name, rows, as_lists=True, **settings))
        say(f"{name:22} {ours * 1e3:6.1f} ms {slow:13.1f} s {slow / ours:7.0f}x {lists:11.2f} s {lists / ours:7.0f}x")
    for name in ("grpo", "rloo"):
        ours = seconds(partial(getattr(advantages, name), batch), repeats=options.repeats, device=device)
        say(f"{name:22} {ours * 1e3:6.1f} ms")
    estimate = advantages.bilevel_gae(batch, **TWO_LEVELS)
    whitening = seconds(estimate.whitened, repeats=options.repeats, device=device)
    say(f"{'(whitening)':22} {whitening * 1e3:6.1f} ms")


if __name__ == "__main__":
    main()
