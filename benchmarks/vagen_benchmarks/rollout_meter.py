"""How far a training is."""

from __future__ import annotations

from typing import Any, Self

from transformers import TrainerCallback

from vagen_benchmarks.meter import Meter


class RolloutMeter(TrainerCallback):  # type: ignore[misc]
    """A step is a rollout with its updates: updates alone take next to no time, and the first waits for the rollout.

    The training stands within its `with`.
    """

    def __init__(self, config: Any, what: str = "rollouts") -> None:
        self._config, self._what = config, what
        self._meter: Meter | None = None
        self._note = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._meter is not None:  # also where training raised, or a terminal would keep its bar and no cursor
            self._meter.__exit__(*error)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            done = state.global_step // self._config.steps_per_rollout
            self._meter = Meter(self._what, self._config.rollouts, done=done).__enter__()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        said = {"solved": (logs or {}).get("rollout/success"), "of val": (logs or {}).get("eval_success")}
        shares = [f"{name} {share:.0%}" for name, share in said.items() if share is not None]
        self._note = ", ".join(shares) or self._note

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._meter is not None and state.global_step % self._config.steps_per_rollout == 0:
            self._meter.advance(note=self._note)
