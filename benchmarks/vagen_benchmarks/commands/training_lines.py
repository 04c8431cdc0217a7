"""What `vagen train` prints while it trains: how far a rollout is, and after each one a line of
the few figures that matter.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from vagen_benchmarks.commands.printing import out

if TYPE_CHECKING:
    from vagen_adapters.ppo.rollout import Progress

FIGURES = {
    "success": "rollout/success",
    "return": "rollout/return",
    "format": "rollout/format",
    "KL": "policy/kl_to_reference",
    "gap": "policy/sampler_gap",
    "critic": "critic/explained_variance",
    "tokens/s": "tokens_per_second",
}
"""What is printed, and its name in the log."""
TERMS = "reward/"
GIB = 2**30


def line_of(step: int, whole: int, logs: Mapping[str, float]) -> str:
    """The line of a log; empty where it has none of the figures."""
    # explained variance isn't defined where all returns are equal
    known = {name: entry for name, entry in logs.items() if not math.isnan(entry)}
    words = [f"{name} {known[key]:.3g}" for name, key in FIGURES.items() if key in known]
    terms = [
        f"{name.removeprefix(TERMS)} {entry:.3g}"
        for name, entry in logs.items()
        if name.startswith(TERMS)
    ]
    if "eval_success" in logs:
        words.append(f"evaluated: success {logs['eval_success']:.3g}")
    if terms:
        words.append(f"({', '.join(terms)})")
    return f"update {step}/{whole}: {', '.join(words)}" if words else ""


class RolloutLines:
    """Prints how far a rollout is: over the same line of a terminal, else a line a minute."""

    EVERY = 60.0
    """Seconds between two lines where there is no terminal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._number = -1
        self._began = 0.0
        self._printed = 0.0

    def __call__(self, number: int, progress: Progress) -> None:
        now = self._clock()
        if number != self._number:
            self._number = number
            self._began = now
            self._printed = now
        spent = now - self._began
        line = (
            f"rollout {number}: {progress.done}/{progress.episodes} episodes, "
            f"{progress.tokens:,} tokens"
        )
        if progress.share > 0:
            left = spent * (1 - progress.share) / progress.share
            line += f", {timedelta(seconds=round(left))} to go at most"
        if out.is_terminal:
            over = progress.done == progress.episodes
            out.print(line.ljust(79), end="\n" if over else "\r", highlight=False)
        elif now - self._printed >= self.EVERY:
            self._printed = now
            out.print(line, highlight=False)


def show_lines(trainer: Any) -> None:
    """Let a trainer print one line for each log, in place of all that is in it."""
    import torch
    from transformers import PrinterCallback, TrainerCallback
    from transformers.trainer_callback import ProgressCallback

    class Lines(TrainerCallback):  # type: ignore[misc]  # transformers has no types
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            line = line_of(state.global_step, state.max_steps, logs or {})
            if not line or not state.is_world_process_zero:
                return
            if torch.cuda.is_available():
                taken = torch.cuda.max_memory_allocated() / GIB
                if taken:
                    line = f"{line}, {taken:.1f} GiB"
            out.print(line, highlight=False)

    for each in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(each)
    trainer.add_callback(Lines())
