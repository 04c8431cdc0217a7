"""A diagnosis as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vagen_benchmarks.diagnosis.attribution import CAUSES, Diagnosis
from vagen_benchmarks.diagnosis.playing import CONDITIONS
from vagen_benchmarks.report.pages import render

_MEANING = {
    "sight": "lost with the image, but not with the true state",
    "prediction": "lost with the true state; the outcome was predicted wrongly",
    "planning": "lost with the true state; the outcome was predicted correctly",
    "format": "turns in which no action could be read",
}
_SHOWN = {"picture": "the image", "truth": "the true state as text"}


def write_page(diagnoses: Sequence[Diagnosis], path: Path) -> None:
    """Write a page with a section for each diagnosis."""
    agents = ", ".join(dict.fromkeys(one.agent for one in diagnoses))
    with path.open("w", encoding="utf-8") as file:
        render(
            "diagnosis.html", file, agents=agents, diagnoses=diagnoses, causes=CAUSES, conditions=CONDITIONS,
            meaning=_MEANING, shown=_SHOWN,
        )  # fmt: skip
