"""What a training reached for what it had spent: success on the validation split by episodes and by CPU seconds."""

from __future__ import annotations

import math
import time
from typing import Any

from transformers import TrainerCallback

CRITIC = "eval_critic_"
"""What the names of an evaluation's figures of the critic begin with."""


class OnTheWay(TrainerCallback):  # type: ignore[misc]
    """Notes every evaluation of a training, and ends it where one reaches the target.

    Attributes:
        cpu_seconds: of this process so far, spent on play and updates, not on evaluations.
        found: of each evaluation the episodes and CPU seconds before it and the success.
        critic: of each evaluation what else it found of the critic, if it looked; see `forks.held_to_forks`.
        solved: the one of these that reached the target, if any.
    """

    def __init__(self, config: Any, target: float = math.inf) -> None:
        self.cpu_seconds = 0.0
        self.found: list[tuple[int, float, float]] = []
        self.critic: list[dict[str, float]] = []
        self.solved: tuple[int, float, float] | None = None
        self._episodes, self._steps, self._target = config.episodes_per_rollout, config.steps_per_rollout, target
        self._begun = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._begun = time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.cpu_seconds += time.process_time() - self._begun

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        episodes, known = state.global_step // self._steps * self._episodes, metrics or {}
        self.found.append((episodes, self.cpu_seconds, known["eval_success"]))
        of_critic = {name.removeprefix(CRITIC): entry for name, entry in known.items() if name.startswith(CRITIC)}
        if of_critic:
            self.critic.append(of_critic)
        if self.found[-1][2] >= self._target and self.solved is None:
            self.solved = self.found[-1]
            control.should_training_stop = True
