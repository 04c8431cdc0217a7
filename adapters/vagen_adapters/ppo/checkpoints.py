"""Folders of a run: checkpoints that were written to their end, and the best model."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from vagen_adapters.errors import TrainingConfigError, TrainingDataError, errors_as, in_short
from vagen_adapters.ppo import CARD
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.environments import read_environments

COMPLETE = "complete"
"""The file that marks a folder whose every file is written. It has their sizes, and the settings of
`RESTS_ON`.
"""
RESTS_ON = (
    *(
        "episodes_per_rollout",
        "group_size",
        "epochs_per_rollout",
        "minibatches",
        "rollout_turns",
    ),  # which levels have been played, and which episodes go on
    *("environments", "seed"),  # which levels they were
    *(
        "advantage",
        "shared_backbone",
        "lora",
        "freeze_vision",
    ),  # what the critic has learnt; which weights are trained
    *(
        "optim",
        "learning_rate",
        "critic_learning_rate",
        "weight_decay",
    ),  # read with the optimizer, whatever is set
    *("adam_beta1", "adam_beta2", "adam_epsilon"),
)
"""The settings that a checkpoint's state rests on."""
WITHOUT_EFFECT = frozenset(
    {
        *("num_envs", "env_threads", "packing", "attn_implementation"),
        *("eval_rollouts", "eval_episodes", "log_completions", "log_gradient_norms"),
        "save_total_limit",
    }
)
"""The trainer's own settings that don't change what is learnt."""
BEST = "best"
"""The folder of the model that did best in evaluations."""
EVALUATIONS = "evaluations.json"
"""The file of a run's evaluations, in order."""


def last_checkpoint(output_dir: str | Path) -> Path | None:
    """The newest whole checkpoint: a process may have been killed while it wrote or deleted one."""
    return next(
        (folder for folder in reversed(_by_step(output_dir)) if _fault(folder) is None), None
    )


def _by_step(output_dir: str | Path) -> list[Path]:
    """The folders of checkpoints, the newest last. A copy that a user has named `checkpoint-3.old`
    is none.
    """
    steps = {
        each: each.name.rpartition("-")[2]
        for each in Path(output_dir).glob(f"{PREFIX_CHECKPOINT_DIR}-*")
    }
    return sorted(
        (folder for folder, step in steps.items() if step.isdecimal()),
        key=lambda each: int(steps[each]),
    )


def rotate(output_dir: str | Path, most: int | None, keep: Collection[Path]) -> None:
    """Delete checkpoints until `most` are left: those that aren't whole, then the oldest, and none
    of `keep`.
    """
    if most is None or most <= 0:
        return
    others = sorted(
        (each for each in _by_step(output_dir) if each not in keep),
        key=lambda each: not _fault(each),
    )
    for folder in others[: max(0, len(others) - max(0, most - len(keep)))]:
        # A kill while the rest goes leaves nothing that seems whole.
        (folder / COMPLETE).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def mark_complete(folder: Path, settings: Mapping[str, Any]) -> None:
    """Mark a folder whose every file is written; `settings` are the trainer's."""
    sizes = {
        str(file.relative_to(folder)): file.stat().st_size
        for file in folder.rglob("*")
        if file.is_file()
    }
    part = folder / f"{COMPLETE}.part"
    part.write_text(json.dumps({"files": sizes, "settings": _resting(settings)}), encoding="utf-8")
    part.replace(folder / COMPLETE)


def _resting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `RESTS_ON`, as JSON gives them back."""
    environments = [
        vars(environment) for environment in read_environments(settings["environments"])
    ]
    found = {name: settings[name] for name in RESTS_ON} | {"environments": environments}
    return dict(json.loads(json.dumps(found, default=str)))


def _fault(folder: Path) -> str | None:
    """What is wrong with a checkpoint, as far as sizes, first bytes and JSON tell; None if it is
    whole.
    """
    name = COMPLETE
    if not folder.is_dir():
        return "there is no such folder"
    if not (folder / COMPLETE).is_file():
        return f"{COMPLETE} is missing"
    try:
        marker = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
        if marker["settings"].keys() != set(RESTS_ON):
            return f"{COMPLETE} has the settings of another version of the trainer"
        for name, size in marker["files"].items():
            if not (folder / name).is_file() or (folder / name).stat().st_size != size:
                return f"{name} isn't there with the {size} bytes that were written"
            with (folder / name).open("rb") as file:
                if size and not any(file.read(64)):
                    return f"{name} begins with zeros, as after a power loss"
            if name.endswith(".json"):
                json.loads((folder / name).read_bytes())
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{name} can't be read ({in_short(error)})"
    return None


def check_checkpoint(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise TrainingConfigError unless a checkpoint is whole and the trainer's `settings` are those
    it rests on.
    """
    if fault := _fault(folder):
        other = last_checkpoint(folder) or last_checkpoint(folder.parent)
        none = "there is none that is complete, so begin in another folder, without --resume"
        fix = f"copy it anew; {f'the last complete one is {other}' if other else none}"
        raise TrainingConfigError(f"{folder} is no complete checkpoint: {fault}; {fix}")
    written = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
    present = _resting(settings)
    for name, there in written["settings"].items():
        if present[name] != there:
            raise TrainingConfigError(
                f"{name}={present[name]!r} is not valid: {folder} was trained with {there!r}; "
                "set that, or begin a new run from its model with --model"
            )


def changes(folder: Path, card: Mapping[str, Any]) -> dict[str, list[Any]]:
    """How a training differs from the one that wrote a checkpoint: recipe, rewards and the
    trainer's own settings, each with its value there and here.

    Args:
        folder: the checkpoint, with its card.
        card: of the training that goes on.
    """
    there = json.loads((folder / CARD).read_text(encoding="utf-8"))
    own = inspect.get_annotations(MultiTurnPPOConfig).keys() - WITHOUT_EFFECT
    pairs: dict[str, list[Any]] = {}
    for name in ("recipe", "reasoning_reward"):
        pairs[name] = [there.get(name), card.get(name)]
    for name in sorted(own):
        pairs[name] = [there["settings"].get(name), card["settings"].get(name)]
    return {name: [before, now] for name, (before, now) in pairs.items() if before != now}


def reading(checkpoint: str | Path) -> contextlib.AbstractContextManager[None]:
    """Make any failure to read a checkpoint that seemed whole a TrainingConfigError."""
    return errors_as(
        TrainingConfigError,
        f"{checkpoint} can't be read",
        "copy it anew, or resume from an earlier one",
    )


def writing(folder: str | Path) -> contextlib.AbstractContextManager[None]:
    """Make any failure to write to a folder, such as a full disk, a TrainingDataError."""
    return errors_as(
        TrainingDataError,
        f"{folder} can't be written",
        "make room there; complete checkpoints are kept",
    )


def replace_best(output_dir: str | Path, save: Callable[[str], None], *, is_main: bool) -> None:
    """Replace `best` by what `save` writes into a folder.

    The new model is written beside the old one and marked complete before the two change places, so
    that a kill at any moment leaves a complete model: `best`, or after `recover_best` what became
    of it. Every process calls this, and the main one moves the folders.
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
    """Let a new model that is complete take the place of `best`, from wherever an earlier attempt
    was interrupted.
    """
    best, new, old = (Path(output_dir) / f"{BEST}{suffix}" for suffix in ("", ".new", ".old"))
    if (new / COMPLETE).is_file():
        if best.exists():
            shutil.rmtree(old, ignore_errors=True)
            best.rename(old)
        new.rename(best)
    shutil.rmtree(old, ignore_errors=True)


def _of_evaluation(entry: Mapping[str, float]) -> dict[str, float]:
    return {
        name: number for name, number in entry.items() if name == "step" or name.startswith("eval_")
    }


def write_curve(output_dir: Path, log: Sequence[Mapping[str, float]], *, is_main: bool) -> bool:
    """Write a run's evaluations; return whether the last one solved more than all before."""
    curve = [_of_evaluation(entry) for entry in log if "eval_success" in entry]
    if is_main:
        output_dir.mkdir(parents=True, exist_ok=True)
        (output_dir / EVALUATIONS).write_text(json.dumps(curve, indent=1) + "\n", encoding="utf-8")
    successes = [
        -1.0 if math.isnan(entry["eval_success"]) else entry["eval_success"] for entry in curve
    ]
    return successes.index(max(successes)) == len(curve) - 1
