"""Run all recordings through all checks."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from vagen_adapters.parity.against_env import ENV_CHECKS
from vagen_adapters.parity.checks import CHECKS
from vagen_adapters.parity.compared import Compared
from vagen_adapters.parity.recordings import (
    INJECTED,
    RECORDINGS,
    RecordedEnv,
    Recording,
    solved,
)
from vagen_adapters.parity.reference_model import ReferenceModel
from vagen_adapters.parity.report import Finding, Report, Verdict
from vagen_adapters.parity.sampler import RecordedSampler
from vagen_adapters.parity.trained import Playback, TrainedSequence, Trainer

LEFT_OUT = "the episode is left out"


def run(
    trainer: Trainer, model: ReferenceModel | None = None, names: Collection[str] | None = None
) -> Report:
    """Play recordings through a trainer and check what it would train on.

    Args:
        trainer: the adapter.
        model: the model that plays; by default a new one in a temporary folder.
        names: names of recordings; all by default.
    """
    if model is None:
        with tempfile.TemporaryDirectory() as folder:
            return run(trainer, ReferenceModel(Path(folder) / "tiny"), names)
    findings: list[Finding] = []
    for recording in RECORDINGS:
        if names is None or recording.name in names:
            playback = playback_of(recording, model)
            if recording.room:
                whole = playback_of(replace(recording, room=False), model)
                played(trainer, whole)
                playback = replace(playback, room=room_before_the_last_observation(whole))
            findings += played(trainer, playback)
    return Report(trainer.name, tuple(findings))


def playback_of(recording: Recording, model: ReferenceModel) -> Playback:
    """Set up a recording."""
    recording = solved(recording)
    return Playback(model, recording, RecordedEnv(recording), RecordedSampler(model, recording))


def room_before_the_last_observation(playback: Playback) -> int | None:
    """Return how many tokens after the first prompt cut the last observation within its picture."""
    if len(playback.sampler.calls) < 2:
        return None
    sizes = playback.model.patches(playback.model.features(playback.env.shown)["image_grid_thw"])
    first, before, last = (
        len(playback.model.expand(playback.sampler.calls[number].ids, sizes))
        for number in (0, -2, -1)
    )
    observation = last - before - len(playback.sampler.calls[-2].reply)
    return last - first - observation // 2


def played(trainer: Trainer, playback: Playback) -> list[Finding]:
    """Play one recording and return its findings."""
    recording = playback.recording
    name = "plays" if recording.breaks is None else "failure"
    try:
        rows = list(trainer.play(playback))
    except Exception as error:  # a trainer may raise anything
        said = f"{type(error).__name__}: {str(error)[:200]}"
        verdict: Verdict = "pass" if _is_refusal(trainer, recording, error) else "fail"
        return [Finding(recording.name, name, verdict, f"it stops with {said}")]
    if recording.breaks is not None:
        return [failure(recording, rows)]
    if not rows:
        declared = declared_refusal(trainer, recording)
        is_declared = bool(declared) and declared in LEFT_OUT
        return [Finding(recording.name, name, "pass" if is_declared else "fail", LEFT_OUT)]
    findings = []
    for check, look in ENV_CHECKS.items():
        message = "; ".join(look(playback))
        findings.append(Finding(recording.name, check, "fail" if message else "pass", message))
    return findings + [checked(playback, rows, check) for check in CHECKS]


def declared_refusal(trainer: Trainer, recording: Recording) -> str:
    """Return how the trainer's library refuses a recording; empty if it doesn't, or must not."""
    return trainer.refusals.get(recording.name, "") if recording.refusable else ""


def _is_refusal(trainer: Trainer, recording: Recording, error: Exception) -> bool:
    """Whether an exception is a declared refusal, or the failure that the environment had."""
    cause: BaseException | None = error
    while cause is not None:
        if recording.breaks is not None and INJECTED in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    declared = declared_refusal(trainer, recording)
    return bool(declared) and declared in f"{type(error).__name__}: {error}"


def failure(recording: Recording, rows: list[TrainedSequence]) -> Finding:
    """Check that nothing of a failed episode is trained."""
    trained = [row for row in rows if any(row.mask)]
    if not trained:
        return Finding(recording.name, "failure", "pass", LEFT_OUT)
    paid = [row.reward if row.rewards is None else sum(row.rewards) for row in trained]
    return Finding(
        recording.name,
        "failure",
        "fail",
        f"{len(trained)} of its sequences are trained, paid {paid}",
    )


def checked(playback: Playback, rows: list[TrainedSequence], name: str) -> Finding:
    """Apply one check to all sequences of an episode."""
    if name == "ends" and rows[-1].terminated is None and rows[-1].truncated is None:
        return Finding(playback.recording.name, name, "skip", "the trainer does not keep ends")
    rows = rows[-1:] if name == "ends" else rows
    for row in rows:
        message = "; ".join(CHECKS[name](Compared.of(playback, row)))
        if message:
            return Finding(playback.recording.name, name, "fail", message)
    return Finding(playback.recording.name, name, "pass")
