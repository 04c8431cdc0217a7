"""All recordings through all checks."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from vagen_adapters.parity.checks import CHECKS, Compared
from vagen_adapters.parity.recordings import RECORDINGS, Recording, Watched, solved
from vagen_adapters.parity.report import Finding, Report, Verdict
from vagen_adapters.parity.sampler import RecordedSampler
from vagen_adapters.parity.stage import Stage
from vagen_adapters.parity.trained import Scene, Trained, Trainer


def run(trainer: Trainer, stage: Stage | None = None, names: Collection[str] | None = None) -> Report:
    """Play recordings through a trainer and check what it would train on.

    Args:
        trainer: the adapter.
        stage: the model to play with; a new one in a temporary folder by default.
        names: of the recordings; all by default.
    """
    if stage is None:
        with tempfile.TemporaryDirectory() as folder:
            return run(trainer, Stage(Path(folder) / "tiny"), names)
    findings: list[Finding] = []
    for each in RECORDINGS:
        if names is None or each.name in names:
            scene = scene_of(each, stage)
            if each.room:
                whole = scene_of(replace(each, room=False), stage)
                played(trainer, whole)
                scene = replace(scene, room=room_before_the_last_observation(whole))
            findings += played(trainer, scene)
    return Report(trainer.name, tuple(findings))


def scene_of(recording: Recording, stage: Stage) -> Scene:
    """A recording, set up."""
    recording = solved(recording)
    return Scene(stage, recording, Watched(recording), RecordedSampler(stage, recording))


def room_before_the_last_observation(scene: Scene) -> int | None:
    """So many tokens after the first prompt that the last turn's observation is cut within its picture."""
    if len(scene.sampler.calls) < 2:
        return None
    sizes = scene.stage.patches(scene.stage.features(scene.env.shown)["image_grid_thw"])
    first, before, last = (len(scene.stage.expand(scene.sampler.calls[number].ids, sizes)) for number in (0, -2, -1))
    observation = last - before - len(scene.sampler.calls[-2].reply)
    return last - first - observation // 2


def played(trainer: Trainer, scene: Scene) -> list[Finding]:
    """The findings of one recording."""
    recording = scene.recording
    verdict: Verdict = "pass" if recording.refusable else "fail"
    try:
        rows = list(trainer.play(scene))
    except Exception as error:  # a trainer may raise anything
        name = "failure" if recording.breaks is not None else "plays"
        return [Finding(recording.name, name, verdict, f"it stops with {type(error).__name__}: {str(error)[:200]}")]
    if recording.breaks is not None:
        return [failure(recording, rows)]
    if not rows:
        return [Finding(recording.name, "plays", verdict, "the episode is left out")]
    return [checked(scene, rows, name) for name in CHECKS]


def failure(recording: Recording, rows: list[Trained]) -> Finding:
    """A failed episode isn't a zero: nothing of it is trained."""
    trained = [row for row in rows if any(row.mask)]
    if not trained:
        return Finding(recording.name, "failure", "pass", "the episode is left out")
    paid = [row.reward if row.rewards is None else sum(row.rewards) for row in trained]
    return Finding(recording.name, "failure", "fail", f"{len(trained)} of its sequences are trained, paid {paid}")


def checked(scene: Scene, rows: list[Trained], name: str) -> Finding:
    """One check of all sequences of an episode."""
    if name == "ends" and rows[-1].terminated is None and rows[-1].truncated is None:
        return Finding(scene.recording.name, name, "skip", "the trainer makes no difference between ends")
    rows = rows[-1:] if name == "ends" else rows
    for row in rows:
        said = "; ".join(CHECKS[name](Compared.of(scene, row)))
        if said:
            return Finding(scene.recording.name, name, "fail", said)
    return Finding(scene.recording.name, name, "pass")
