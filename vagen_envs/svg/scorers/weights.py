"""The weights of DreamSim and DINO, as their authors publish them, read from one local folder.

The folder is the `cache_dir` of the dreamsim package 0.2 with a `checkpoints` folder as torch.hub makes it:

    clip_vitb16_pretrain.pth.tar             both, and ensemble_lora, are in DreamSim's ensemble archive:
    open_clip_vitb16_pretrain.pth.tar        https://github.com/ssundaram21/dreamsim/releases/download/
    ensemble_lora/adapter_config.json            v0.2.0-checkpoints/dreamsim_ensemble_checkpoint.zip
    ensemble_lora/adapter_model.safetensors  (or .bin)
    checkpoints/dino_vitbase16_pretrain.pth      https://dl.fbaipublicfiles.com/dino/dino_vitbase16_pretrain/
    checkpoints/dino_deitsmall16_pretrain.pth    https://dl.fbaipublicfiles.com/dino/dino_deitsmall16_pretrain/

Nothing here downloads. Files are read without running code from them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vagen_envs.errors import MissingExtraError
from vagen_envs.svg.scorers.base import ScorerError

CLIP = "clip_vitb16_pretrain.pth.tar"
OPEN_CLIP = "open_clip_vitb16_pretrain.pth.tar"
ADAPTER_CONFIG = "ensemble_lora/adapter_config.json"
ADAPTER = "ensemble_lora/adapter_model.safetensors"
DINO_BASE = "checkpoints/dino_vitbase16_pretrain.pth"
DINO_SMALL = "checkpoints/dino_deitsmall16_pretrain.pth"

_ENSEMBLE = (
    "https://github.com/ssundaram21/dreamsim/releases/download/v0.2.0-checkpoints/dreamsim_ensemble_checkpoint.zip"
)
_DINO = "https://dl.fbaipublicfiles.com/dino"
FILES: Mapping[str, str] = {
    CLIP: _ENSEMBLE,
    OPEN_CLIP: _ENSEMBLE,
    ADAPTER_CONFIG: _ENSEMBLE,
    ADAPTER: _ENSEMBLE,
    DINO_BASE: f"{_DINO}/dino_vitbase16_pretrain/dino_vitbase16_pretrain.pth",
    DINO_SMALL: f"{_DINO}/dino_deitsmall16_pretrain/dino_deitsmall16_pretrain.pth",
}
"""Every file that is needed, and where it is published."""

_LORA = re.compile(r"extractor_list\.(\d+)\.model\.(blocks\.\d+\.[\w.]+?)\.lora_([AB])(?:\.default)?\.weight$")


def missing_files(folder: Path) -> list[str]:
    """Which of `FILES` are not there. The adapter may also be `adapter_model.bin`."""
    lacking = [file for file in FILES if not (folder / file).is_file()]
    if ADAPTER in lacking and (folder / ADAPTER).with_suffix(".bin").is_file():
        lacking.remove(ADAPTER)
    return lacking


def command_for(folder: Path, lacking: Sequence[str]) -> str:
    """The shell command that gets these of `FILES` into a folder."""
    steps = [f"mkdir -p {shlex.quote(str(folder))}", f"cd {shlex.quote(str(folder))}"]
    for source in dict.fromkeys(FILES[file] for file in lacking):
        name = source.rpartition("/")[2]
        if source == _ENSEMBLE:
            steps += [f"curl -fLO {source}", f"python -m zipfile -e {name} ."]
        else:
            steps.append(f"curl -fL --create-dirs -o checkpoints/{name} {source}")
    return " && ".join(steps)


def load(folder: Path, file: str) -> Mapping[str, Tensor]:
    """A checkpoint's weights by name, on the CPU. Raises ScorerError if that takes running code from it."""
    path = folder / file
    try:
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
        weights: Mapping[str, Tensor] = found["state_dict"] if file in (CLIP, OPEN_CLIP) else found
        return weights
    except Exception as error:
        raise ScorerError(f"{path} is not a checkpoint of tensors ({error}); get it from {FILES[file]}") from error


def load_adapter(folder: Path) -> dict[tuple[int, str], Tensor]:
    """What LoRA adds to the weights of DreamSim's three networks.

    Returns:
        By network (0 DINO, 1 CLIP, 2 OpenCLIP) and name of a weight within it, `alpha / r · B A`.

    Raises:
        ScorerError: a file is damaged, there are tensors that are not understood, or half of a pair is missing.
            None is skipped.
    """
    path = folder / ADAPTER_CONFIG
    try:
        config = json.loads(path.read_text())
        rank, scale = config["r"], config["lora_alpha"] / config["r"]
        path = folder / ADAPTER
        if path.is_file():
            tensors = _safetensors(path)
        else:
            path = path.with_suffix(".bin")
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except MissingExtraError:
        raise
    except Exception as error:  # whatever the readers raise
        raise ScorerError(f"{path} is damaged ({type(error).__name__}: {error}); get {_ENSEMBLE}") from error
    halves: dict[tuple[int, str], dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        match = _LORA.search(name)
        if match is None:
            raise ScorerError(f"{path} has {name!r}, which is no LoRA weight of DreamSim's ensemble; get {_ENSEMBLE}")
        halves.setdefault((int(match[1]), f"{match[2]}.weight"), {})[match[3]] = tensor.float()
    added = {}
    for key, half in halves.items():
        if set(half) != {"A", "B"} or half["A"].shape[0] != rank:
            raise ScorerError(f"{path} is damaged at {key}: A and B of rank {rank} are needed; get {_ENSEMBLE}")
        added[key] = scale * half["B"] @ half["A"]
    if not added:
        raise ScorerError(f"{path} has no LoRA weights; get {_ENSEMBLE}")
    return added


def _safetensors(path: Path) -> Any:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise MissingExtraError(f"reading {path.name}", "dreamsim", "safetensors") from error
    return load_file(path)
