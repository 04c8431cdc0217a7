"""Folders of a run: checkpoints that were written to their end, and the best model."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from vagen_adapters.errors import TrainingConfigError, TrainingDataError, in_short
from vagen_envs.errors import VagenError

COMPLETE = "complete"
"""The file that marks a folder whose every file is written. It has their sizes, and the settings of `RESTS_ON`."""
RESTS_ON = (
    *("episodes_per_rollout", "group_size", "epochs_per_rollout", "minibatches"),  # which levels have been played
    *("advantage", "shared_backbone", "lora", "freeze_vision"),  # what the critic has learnt; which weights are trained
    *("optim", "learning_rate", "critic_learning_rate", "weight_decay"),  # read with the optimizer, whatever is set
)
"""The settings that a checkpoint's state rests on."""
BEST = "best"
"""The folder of the model that did best in evaluations."""
EVALUATIONS = "evaluations.json"
"""The file of a run's evaluations, in order."""


def last_checkpoint(output_dir: str | Path) -> Path | None:
    """The newest complete checkpoint: a process may have been killed while it wrote one."""
    complete = [marker.parent for marker in Path(output_dir).glob(f"{PREFIX_CHECKPOINT_DIR}-*/{COMPLETE}")]
    return max(complete, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)


def mark_complete(folder: Path, settings: Mapping[str, Any]) -> None:
    """Mark a folder whose every file is written; `settings` are the trainer's."""
    sizes = {str(file.relative_to(folder)): file.stat().st_size for file in folder.rglob("*") if file.is_file()}
    marker = {"files": sizes, "settings": {name: settings[name] for name in RESTS_ON}}
    part = folder / f"{COMPLETE}.part"
    part.write_text(json.dumps(marker), encoding="utf-8")
    part.replace(folder / COMPLETE)


def check_checkpoint(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise TrainingConfigError unless a checkpoint is whole and the trainer's `settings` are those it rests on."""
    other = last_checkpoint(folder) or last_checkpoint(folder.parent)
    fix = f"the last complete one is {other}" if other else "there is none that is complete, so begin without --resume"
    for name in ("trainer_state.json", COMPLETE):
        if not (folder / name).is_file() or not (folder / name).stat().st_size:
            raise TrainingConfigError(f"{folder} is no complete checkpoint: {name} is missing or empty; {fix}")
    written = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
    for name, size in written["files"].items():
        if not (folder / name).is_file() or (folder / name).stat().st_size != size:
            fault = f"{name} isn't there with the {size} bytes that were written"
            raise TrainingConfigError(f"{folder} is no complete checkpoint: {fault}; copy it anew; {fix}")
    for name, there in written["settings"].items():
        if settings[name] != there:
            raise TrainingConfigError(
                f"{name}={settings[name]!r} is not valid: {folder} was trained with {there!r}; set that, or begin a "
                "new run from its model with --model"
            )


@contextlib.contextmanager
def writing(folder: str | Path) -> Iterator[None]:
    """Make any failure to write to a folder a TrainingDataError: on a full disk libraries raise whatever they like."""
    try:
        yield
    except VagenError:
        raise
    except Exception as error:
        fix = "make room there; complete checkpoints are kept"
        raise TrainingDataError(f"{folder} can't be written: {in_short(error)}; {fix}") from error


def replace_best(output_dir: str | Path, save: Callable[[str], None], *, is_main: bool) -> None:
    """Replace `best` by what `save` writes into a folder.

    The new model is written beside the old one and marked complete before the two change places, so that a kill at any
    moment leaves a complete model: `best`, or after `recover_best` what became of it.

    Args:
        output_dir: of the run.
        save: writes the model; called by every process.
        is_main: whether this process moves the folders.
    """
    new = Path(output_dir) / f"{BEST}.new"
    if is_main:
        recover_best(output_dir)
        shutil.rmtree(new, ignore_errors=True)
    save(str(new))
    if is_main:
        (new / COMPLETE).touch()
        recover_best(output_dir)


def recover_best(output_dir: str | Path) -> None:
    """Let a new model that is complete take the place of `best`, from wherever an earlier attempt was interrupted."""
    best, new, old = (Path(output_dir) / f"{BEST}{suffix}" for suffix in ("", ".new", ".old"))
    if (new / COMPLETE).is_file():
        if best.exists():
            shutil.rmtree(old, ignore_errors=True)
            best.rename(old)
        new.rename(best)
    shutil.rmtree(old, ignore_errors=True)


def write_curve(output_dir: Path, log: Sequence[Mapping[str, float]], *, is_main: bool) -> bool:
    """Write a run's evaluations; return whether the last one solved more than all before."""
    curve = [
        {name: number for name, number in entry.items() if name == "step" or name.startswith("eval_")}
        for entry in log
        if "eval_success" in entry
    ]
    if is_main:
        output_dir.mkdir(parents=True, exist_ok=True)
        (output_dir / EVALUATIONS).write_text(json.dumps(curve, indent=1) + "\n", encoding="utf-8")
    successes = [-1.0 if math.isnan(entry["eval_success"]) else entry["eval_success"] for entry in curve]
    return successes.index(max(successes)) == len(curve) - 1
