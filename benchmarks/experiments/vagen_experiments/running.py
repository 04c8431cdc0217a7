"""Run an experiment: make its checkpoint, train every recipe with every seed, evaluate, report.

OUT/experiment.json     the experiment as loaded; a folder holds the results of one
OUT/checkpoint/         the initial checkpoint, with result.json once it is evaluated
OUT/privileged/         the same policy with a critic that is given states, where a recipe needs it
OUT/models/NAME-SEED/   a trained model
OUT/NAME-SEED.json      its result
OUT/results.json, table.md, curves.png, …

Everything is written under another name and renamed when complete, so an interrupted run continues
where it stopped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vagen_adapters.ppo.checkpoints import last_checkpoint
from vagen_benchmarks.meter import Meter
from vagen_experiments import plots
from vagen_experiments.checkpoint import make_checkpoint, make_privileged_critic
from vagen_experiments.critics import StudyTrainer
from vagen_experiments.evaluation import evaluate
from vagen_experiments.experiment import Experiment, ExperimentError
from vagen_experiments.merged import MergedSampler
from vagen_experiments.report import table
from vagen_experiments.training import (
    Evaluations,
    close_environments,
    options_of,
    reward_of,
    training_config,
    uses_privileged_critic,
)

CURVES = (
    "rollout/success",
    "rollout/return",
    "rollout/format",
    "rollout/turns",
    "rollout/failed",
    "reward/grounding",
    "reward/world_modeling",
    "critic/explained_variance",
    "policy/entropy",
    "policy/kl_to_reference",
    "policy/clip_fraction",
    "advantage/std",
)
"""The part of the trainer's log that is kept."""

Report = Callable[[str], None]


def run(
    experiment: Experiment,
    out: Path,
    report: Report,
    *,
    recipes: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> Path:
    """Train what is not in `out` yet and write the table of all results that are there.

    Args:
        experiment: what to run.
        out: the folder of its results.
        report: receives a line at each step.
        recipes: a subset of the experiment's; empty for all.
        seeds: likewise.

    Returns:
        The path of the table.

    Raises:
        ExperimentError: a recipe or seed is unknown, or `out` belongs to another experiment.
    """
    for name, asked, known in (
        ("recipe", recipes, experiment.recipes),
        ("seed", seeds, experiment.seeds),
    ):
        for value in set(asked) - set(known):
            raise ExperimentError(
                f"{experiment.name} has no {name} {value!r}; choose from "
                f"{', '.join(map(str, known))}"
            )
    _claim(experiment, out)
    checkpoint = _checkpoint(experiment, out, report)
    report(f"initial checkpoint: success {checkpoint['sampled']['success']:.3f}")
    trainings = [
        (recipe, seed)
        for seed in seeds or experiment.seeds
        for recipe in recipes or experiment.recipes
    ]
    left = [
        (recipe, seed)
        for recipe, seed in trainings
        if not (out / f"{recipe}-{seed}.json").is_file()
    ]
    with Meter("trainings", len(trainings), done=len(trainings) - len(left)) as meter:
        for recipe, seed in meter.over(left):
            report(f"training {recipe}, seed {seed}")
            result = _train(
                experiment, recipe, seed, _start_of(experiment, recipe, out, report), out
            )
            _write(out / f"{recipe}-{seed}.json", result)
            report(f"{recipe}, seed {seed}: success {result['sampled']['success']:.3f}")
    return write_report(experiment, collect(experiment, out), out)


def collect(experiment: Experiment, out: Path) -> dict[str, Any]:
    """The results of `out` in the form of the files in `results/`."""
    checkpoint = _read(out / "checkpoint" / "result.json")
    if (out / "privileged" / "spent.json").is_file():
        checkpoint["privileged_critic"] = _read(out / "privileged" / "spent.json")
    files = sorted(
        out / f"{recipe}-{seed}.json" for recipe in experiment.recipes for seed in experiment.seeds
    )
    runs = [_read(file) for file in files if file.is_file()]
    return {"experiment": experiment.name, "checkpoint": checkpoint, "runs": runs}


def write_report(experiment: Experiment, results: Mapping[str, Any], out: Path) -> Path:
    """Write results.json, table.md and plots to `out`; returns the path of the table."""
    _write(out / "results.json", results)
    path = out / "table.md"
    path.write_text(table(results, experiment.baseline) + "\n", encoding="utf-8")
    world = experiment.env.rpartition(":")[2]  # without the module that registers it
    title, runs = f"{world}: {experiment.name}", results["runs"]
    if runs:
        plots.plot_curves(title, runs, out / "curves.png")
        plots.plot_turns(title, runs, out / "turns.png")
    if any(result.get("under") for result in runs):
        plots.plot_memory(title, results, out / "memory.png")
    if any(result.get("evaluations") for result in runs):
        plots.plot_evaluations(title, runs, out / "evaluations.png")
    if any(result.get("critic") for result in runs):
        plots.plot_critic(title, runs, out / "critic.png")
    return path


def _claim(experiment: Experiment, out: Path) -> None:
    """Note the experiment in a new folder, or compare it with that of an old one."""
    own = json.loads(json.dumps(dataclasses.asdict(experiment)))
    marker = out / "experiment.json"
    if not marker.is_file():
        _write(marker, own)
        return
    other = _read(marker)
    differing = [
        key
        for key in own
        if own[key] != other.get(key) and key not in ("about", "recipes", "seeds")
    ]
    if differing:
        raise ExperimentError(
            f"{out} holds another experiment (its {', '.join(differing)} differ); choose another "
            "--out"
        )


def _checkpoint(experiment: Experiment, out: Path, report: Report) -> dict[str, Any]:
    folder = out / "checkpoint"
    if not folder.is_dir():
        report("making the initial checkpoint")
        with _whole(folder) as part:
            make_checkpoint(experiment, part, report)
    if not (folder / "result.json").is_file():
        result = {**_read(folder / "spent.json"), **evaluate(experiment, folder)}
        if experiment.evaluation.own_options:
            result["sampled_as"] = _played_as_variants(experiment, folder)
        _write(folder / "result.json", result)
    return _read(folder / "result.json")


def _played_as_variants(experiment: Experiment, start: Path) -> dict[str, Any]:
    """The start's sampled replies with the options of each variant; those alike are played once."""
    played: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for recipe in experiment.recipes:
        options = json.dumps(options_of(experiment, recipe), sort_keys=True)
        if options not in played:
            played[options] = evaluate(_with_options_of(experiment, recipe), start)["sampled"]
        found[recipe] = played[options]
    return found


def _with_options_of(experiment: Experiment, recipe: str) -> Experiment:
    """The experiment as its variant's models are evaluated."""
    if not experiment.evaluation.own_options:
        return experiment
    return dataclasses.replace(experiment, options=options_of(experiment, recipe))


def _start_of(experiment: Experiment, recipe: str, out: Path, report: Report) -> Path:
    """The checkpoint that a recipe starts from."""
    if not uses_privileged_critic(experiment, recipe):
        return out / "checkpoint"
    folder = out / "privileged"
    if not folder.is_dir():
        report("pretraining the privileged critic")
        with _whole(folder) as part:
            make_privileged_critic(experiment, out / "checkpoint", part)
    return folder


def _train(
    experiment: Experiment, recipe: str, seed: int, start: Path, out: Path
) -> dict[str, Any]:
    config = training_config(experiment, recipe, seed, out / "models" / f"{recipe}-{seed}")
    began, evaluations = time.perf_counter(), Evaluations(config)
    score = reward_of(experiment, recipe, config)
    sampler = MergedSampler if config.lora else None
    trainer = StudyTrainer(
        str(start), config, score=score, callbacks=[evaluations], make_sampler=sampler
    )
    saved = last_checkpoint(config.output_dir)
    trainer.train(resume_from_checkpoint=str(saved) if saved else None)
    seconds = time.perf_counter() - began
    trainer.save_model(config.output_dir)
    close_environments(trainer)
    policy = trainer.model.policy
    if config.lora:
        policy = policy.merge_and_unload()
    logs = [entry for entry in trainer.state.log_history if "rollout/return" in entry]
    return {
        "recipe": recipe,
        "seed": seed,
        "env": experiment.env,
        "context": config.context,
        "seconds": seconds,
        "cpu_seconds": evaluations.cpu_seconds,
        "rollouts": config.rollouts,
        "episodes_per_rollout": config.episodes_per_rollout,
        **({"evaluations": evaluations.found} if evaluations.found else {}),
        **({"critic": evaluations.critic} if evaluations.critic else {}),
        **evaluate(_with_options_of(experiment, recipe), start, policy, config.context),
        "curves": {
            key: [round(entry[key], 4) for entry in logs if key in entry]
            for key in CURVES
            if any(key in entry for entry in logs)
        },
    }


@contextlib.contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder to fill, renamed when it is complete, with the CPU seconds that it took in
    spent.json.
    """
    began = time.process_time()
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    yield part
    _write(part / "spent.json", {"cpu_seconds": time.process_time() - began})
    part.rename(folder)


def _write(path: Path, data: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(data) + "\n", encoding="utf-8")
    part.replace(path)


def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data
