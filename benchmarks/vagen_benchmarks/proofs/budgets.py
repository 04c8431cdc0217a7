"""What a training reached for what it had spent: success on the validation split by episodes and by CPU seconds."""

from __future__ import annotations

import time
from typing import Any

from transformers import TrainerCallback


class OnTheWay(TrainerCallback):  # type: ignore[misc]
    """Notes every evaluation of a training.

    Attributes:
        cpu_seconds: of this process so far, spent on play and updates, not on evaluations.
        found: of each evaluation the episodes and CPU seconds before it and the success.
    """

    def __init__(self, episodes_per_rollout: int, steps_per_rollout: int) -> None:
        self.cpu_seconds = 0.0
        self.found: list[tuple[int, float, float]] = []
        self._episodes, self._steps = episodes_per_rollout, steps_per_rollout
        self._begun = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._begun = time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.cpu_seconds += time.process_time() - self._begun

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        episodes = state.global_step // self._steps * self._episodes
        self.found.append((episodes, self.cpu_seconds, (metrics or {})["eval_success"]))
