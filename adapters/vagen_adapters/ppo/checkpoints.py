"""Folders of a run: checkpoints that were written to their end, and the best model."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

COMPLETE = "complete"
"""The file that marks a folder whose every file is written."""
BEST = "best"
"""The folder of the model that did best in evaluations."""
EVALUATIONS = "evaluations.json"
"""The file of a run's evaluations, in order."""


def last_checkpoint(output_dir: str | Path) -> Path | None:
    """The newest complete checkpoint: a process may have been killed while it wrote one."""
    complete = [marker.parent for marker in Path(output_dir).glob(f"{PREFIX_CHECKPOINT_DIR}-*/{COMPLETE}")]
    return max(complete, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)


def replace_best(output_dir: str | Path, save: Callable[[str], None], *, is_main: bool) -> None:
    """Replace `best` by what `save` writes into a folder.

    The new model is written beside the old one and marked complete before the two change places, so that a kill at any
    moment leaves a complete model: `best`, or after `recover_best` what became of it.

    Args:
        output_dir: of the run.
        save: writes the model; called by every process.
        is_main: whether this process moves the folders.
    """
    best, new, old = (Path(output_dir) / f"{BEST}{suffix}" for suffix in ("", ".new", ".old"))
    if is_main:
        recover_best(output_dir)
        shutil.rmtree(new, ignore_errors=True)
    save(str(new))
    if is_main:
        (new / COMPLETE).touch()
        if best.exists():
            best.rename(old)
        new.rename(best)
        shutil.rmtree(old, ignore_errors=True)


def recover_best(output_dir: str | Path) -> None:
    """Finish a replacement that was interrupted between its two renames."""
    best, new, old = (Path(output_dir) / f"{BEST}{suffix}" for suffix in ("", ".new", ".old"))
    if not best.exists():
        for folder in (new, old):
            if (folder / COMPLETE).is_file():
                folder.rename(best)
                break
    if best.exists():
        shutil.rmtree(old, ignore_errors=True)


def write_curve(output_dir: Path, log: Sequence[Mapping[str, float]], *, is_main: bool) -> bool:
    """Write a run's evaluations; return whether the last one solved more than all before."""
    names = ("step", "eval_success", "eval_return", "eval_failed")
    curve = [{name: entry[name] for name in names} for entry in log if "eval_success" in entry]
    if is_main:
        output_dir.mkdir(parents=True, exist_ok=True)
        (output_dir / EVALUATIONS).write_text(json.dumps(curve, indent=1) + "\n", encoding="utf-8")
    successes = [-1.0 if math.isnan(entry["eval_success"]) else entry["eval_success"] for entry in curve]
    return successes.index(max(successes)) == len(curve) - 1
