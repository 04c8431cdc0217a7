"""What a training's play and log say of its course: success, and how varied the replies stay.

VAGEN's figures 5 and 8 are curves of training success; its appendix E.2 and E.3 describe replies
that converge and sentences that earn without looking.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.training_play import PLAY
from vagen_rewards.hacking import distinct_responses, entropy, sentences
from vagen_rewards.scores import PARTS

FEWEST = 24
"""Replies of a point: entropy and distinct texts grow with their number, so that all points of a
training have equally many.
"""
MOST_POINTS = 40
SMOOTHED = 5
"""Rollouts that a point of the success curve averages over."""

Curve = list[tuple[float, float]]
"""Points of a rollout and a figure."""


@dataclass(frozen=True)
class Course:
    """Curves over a training's rollouts, by name, and what it said most often.

    Attributes:
        name: of the folder.
        curves: empty where a training has no such figures.
        frequent: the most frequent sentences of the last quarter, with their share of the replies
            there and in the first quarter.
    """

    name: str
    curves: dict[str, Curve]
    frequent: list[tuple[str, float, float]]


@dataclass(frozen=True)
class _Said:
    """A reply of a rollout: its thoughts in one text, and the judge's scores."""

    rollout: int
    text: str
    scores: tuple[float, ...]


def course_of(folder: Path, most: int = 10) -> Course:
    """Read the folder of a training. `most` is the number of frequent sentences.

    Raises:
        RunFolderError: it holds no play of a training.
    """
    said = _said(folder)
    log = _log(folder)
    curves = {"success in training": _smoothed(_logged(log, "rollout/success"))}
    curves["success in evaluations"] = _logged(log, "eval_success")
    curves |= _variety(said)
    return Course(folder.resolve().name, curves, _frequent(said, most))


def _said(folder: Path) -> list[_Said]:
    """The replies that were kept of each rollout, in order."""
    paths = sorted((folder / PLAY).glob("rollout-*"))
    if not paths:
        raise RunFolderError(
            f"{folder} holds no play of a training; name the --out folder of vagen train"
        )
    return [
        _read(int(path.name.rpartition("-")[2]), turn)
        for path in paths
        for episode in RunFolder(path).episodes()
        for turn in episode.turns
    ]


def _read(rollout: int, turn: dict[str, Any]) -> _Said:
    parsed = turn["parsed"]
    fields = [parsed.get(name) for name in ("observation", "reasoning", "prediction")]
    text = " ".join(filter(None, fields)) or turn["reply"]
    metrics = turn["metrics"]
    scores = [metrics[part] for part in PARTS if part in metrics]
    return _Said(rollout, text, tuple(scores))


def _log(folder: Path) -> list[dict[str, Any]]:
    """The log of the newest checkpoint; empty without checkpoints."""
    states = sorted(
        folder.glob("checkpoint-*/trainer_state.json"),
        key=lambda each: int(each.parent.name.rpartition("-")[2]),
    )
    if not states:
        return []
    found: list[dict[str, Any]] = json.loads(states[-1].read_text(encoding="utf-8"))["log_history"]
    return found


def _logged(log: Sequence[dict[str, Any]], name: str) -> Curve:
    """A figure of the log over rollouts: their number is that of the logs of rollouts so far."""
    curve: Curve = []
    rollouts = 0
    for entry in log:
        rollouts += "rollout/failed" in entry
        if name in entry:
            curve.append((rollouts, entry[name]))
    return curve


def _smoothed(curve: Curve) -> Curve:
    smoothed = []
    for i, (at, _) in enumerate(curve):
        lately = curve[max(0, i - SMOOTHED + 1) : i + 1]
        smoothed.append((at, fmean(figure for _, figure in lately)))
    return smoothed


def _variety(said: Sequence[_Said]) -> dict[str, Curve]:
    """Figures of equally many replies each, as many as fill `MOST_POINTS`."""
    size = max(FEWEST, len(said) // MOST_POINTS)
    found: dict[str, Curve] = {
        "score of the judge": [],
        "distinct replies": [],
        "entropy of words (bit)": [],
        "replies with the most frequent sentence": [],
    }
    for start in range(0, len(said) - size + 1, size):
        part = said[start : start + size]
        texts = [each.text for each in part]
        at = fmean(each.rollout for each in part) + 1
        scores = [score for each in part for score in each.scores]
        if scores:
            found["score of the judge"].append((at, fmean(scores)))
        found["distinct replies"].append((at, distinct_responses(texts)))
        found["entropy of words (bit)"].append((at, entropy(texts)))
        commonest = _shares(texts).most_common(1)
        share = commonest[0][1] / size if commonest else 0.0
        found["replies with the most frequent sentence"].append((at, share))
    return found


def _shares(texts: Sequence[str]) -> Counter[str]:
    """In how many texts each sentence stands."""
    return Counter(sentence for text in texts for sentence in set(sentences(text)))


def _frequent(said: Sequence[_Said], most: int) -> list[tuple[str, float, float]]:
    quarter = max(1, len(said) // 4)
    early = _shares([each.text for each in said[:quarter]])
    late = _shares([each.text for each in said[-quarter:]])
    return [
        (sentence, count / quarter, early[sentence] / quarter)
        for sentence, count in late.most_common(most)
    ]
