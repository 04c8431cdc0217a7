"""How a start is taught, before PPO: the one loop of updates that imitation, sight and the critic
share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Report = Callable[[int, float], None]
"""Is told the number of each update and one figure of it."""


def fit(
    parameters: Sequence[nn.Parameter],
    updates: int,
    learning_rate: float,
    step: Callable[[], tuple[Tensor, float]],
    report: Report | None,
) -> None:
    """Lower a loss: AdamW, gradients clipped at 1, the learning rate on a cosine to zero.

    Args:
        parameters: what is trained.
        updates: how many.
        learning_rate: at its highest, after a twentieth of the updates.
        step: gives the loss of the next batch, and the figure that is reported of it.
        report: where the figures go.
    """
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, learning_rate, total_steps=updates + 1, pct_start=0.05, cycle_momentum=False
    )
    for number in range(updates):
        loss, figure = step()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if report is not None:
            report(number, figure)
