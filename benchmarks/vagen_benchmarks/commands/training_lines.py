"""What `vagen train` prints while it trains: a line of the few figures that matter after each
rollout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vagen_benchmarks.commands.printing import out

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
    words = [f"{name} {logs[key]:.3g}" for name, key in FIGURES.items() if key in logs]
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


def show_lines(trainer: Any) -> None:
    """Let a trainer print one line for each log, in place of all that is in it."""
    import torch
    from transformers import PrinterCallback, TrainerCallback
    from transformers.trainer_callback import ProgressCallback

    class Lines(TrainerCallback):  # type: ignore[misc]  # transformers has no types
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            line = line_of(state.global_step, state.max_steps, logs or {})
            if line and state.is_world_process_zero:
                taken = torch.cuda.max_memory_allocated() / GIB if torch.cuda.is_available() else 0
                out.print(f"{line}, {taken:.1f} GiB" if taken else line, highlight=False)

    for each in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(each)
    trainer.add_callback(Lines())
