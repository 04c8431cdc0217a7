"""The nine picture operations that transformers' processors take from torchvision, on torch alone.

Some families have a picture processor for torchvision only, which has no build for CPUs beside the torch that is
used here. Their own classes run on these operations instead: the same names and arguments, and the same result up to
one level of 255 where bytes are resized (the tests hold them to the twins on PIL of families that have both).
"""

from __future__ import annotations

import contextlib
import enum
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


class InterpolationMode(enum.Enum):
    """As torchvision names them."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


# Pillow's numbers of its resampling filters, which image processors have in their configurations.
_OF_PIL = {0: "NEAREST", 1: "LANCZOS", 2: "BILINEAR", 3: "BICUBIC", 4: "BOX", 5: "HAMMING"}


def resize(
    image: Tensor, size: Sequence[int], interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    max_size: int | None = None, antialias: bool | None = True,
) -> Tensor:  # fmt: skip
    """(…, H, W) → (…, h, w) of the same type. `size` has both sides."""
    if len(size) != 2 or max_size is not None:
        raise ValueError(f"size={size} with max_size={max_size} is not valid: give height and width")
    if tuple(image.shape[-2:]) == tuple(size):
        return image
    mode = interpolation.value
    smooth = mode in ("bilinear", "bicubic")
    rows = image.reshape(-1, *image.shape[-3:]).float()
    options: dict[str, Any] = {"align_corners": False, "antialias": bool(antialias)} if smooth else {}
    found = torch.nn.functional.interpolate(rows, size=list(size), mode=mode, **options)
    if not image.is_floating_point():
        found = found.round().clamp(0, 255)
    return found.to(image.dtype).reshape(*image.shape[:-2], *size)


def pad(image: Tensor, padding: Sequence[int], fill: Any = None, padding_mode: str = "constant") -> Tensor:
    """Wider by [left, top, right, bottom], or [left and right, top and bottom], or the same on all sides."""
    if padding_mode != "constant":
        raise ValueError(f"padding_mode={padding_mode!r} is not known here; only 'constant' is")
    sides = [padding] * 4 if isinstance(padding, int) else [*padding, *padding][:4] if len(padding) < 4 else padding
    left, top, right, bottom = map(int, sides)
    room = (left, right, top, bottom)
    if isinstance(fill, list | tuple) and len(set(fill)) > 1:
        channels = [torch.nn.functional.pad(one, room, value=each)
                    for one, each in zip(image.unbind(-3), fill, strict=True)]  # fmt: skip
        return torch.stack(channels, dim=-3)
    value = fill[0] if isinstance(fill, list | tuple) else fill
    return torch.nn.functional.pad(image, room, value=value or 0)


def crop(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A rectangle; black where it reaches beyond the picture."""
    rows, columns = image.shape[-2:]
    beyond = [max(0, -left), max(0, -top), max(0, left + width - columns), max(0, top + height - rows)]
    image = pad(image, beyond) if any(beyond) else image
    top, left = max(0, top), max(0, left)
    return image[..., top : top + height, left : left + width]


def normalize(image: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:  # noqa: ARG001 - as there
    """(image - mean) / std of each channel, along the third axis from the end."""
    if not image.is_floating_point():
        raise TypeError(f"a picture of {image.dtype} can't be normalised; make it a floating point one")
    centre, spread = (torch.as_tensor(each, dtype=image.dtype).reshape(-1, 1, 1) for each in (mean, std))
    return (image - centre) / spread


def to_dtype(image: Tensor, dtype: torch.dtype = torch.float32, scale: bool = False) -> Tensor:
    """With `scale`, bytes of 0 to 255 and numbers of 0 to 1 become each other."""
    if not scale or image.dtype == dtype or image.is_floating_point() == dtype.is_floating_point:
        return image.to(dtype)
    # torchvision's factor, 256 less a thousandth: 1.0 becomes 255 and each byte has the same share of [0, 1].
    return image.to(dtype) / 255 if dtype.is_floating_point else (image * 255.999).to(dtype)


def grayscale_to_rgb(image: Tensor) -> Tensor:
    """(…, 1, H, W) → (…, 3, H, W); others stay."""
    return image.expand(*image.shape[:-3], 3, *image.shape[-2:]) if image.shape[-3] == 1 else image


def rgb_to_grayscale(image: Tensor, num_output_channels: int = 1) -> Tensor:
    """(…, 3, H, W) → (…, channels, H, W) by ITU-R BT.601."""
    weights = torch.tensor([0.2989, 0.587, 0.114]).reshape(3, 1, 1)
    grey = (image.float() * weights).sum(-3, keepdim=True)
    grey = grey if image.is_floating_point() else grey.round()
    return grey.to(image.dtype).expand(*image.shape[:-3], num_output_channels, *image.shape[-2:])


def pil_to_tensor(picture: Any) -> Tensor:
    """A PIL picture → (channels, H, W)."""
    pixels = torch.from_numpy(np.array(picture))
    return pixels[None] if pixels.dim() == 2 else pixels.permute(2, 0, 1)


@contextlib.contextmanager
def in_place_of_torchvision() -> Iterator[None]:
    """While transformers' modules are imported that ask for torchvision's operations, they get these.

    Nothing stays in `sys.modules`: whoever asks whether torchvision is there hears that it isn't.
    """
    from transformers import image_processing_backends, image_processing_utils, image_utils
    from transformers.utils import is_torchvision_available

    if is_torchvision_available():
        yield
        return
    ours = sys.modules[__name__]
    for module in (image_processing_backends, image_processing_utils):
        module.tvF = ours  # type: ignore[attr-defined]
    image_utils.pil_torch_interpolation_mapping = {
        image_utils.PILImageResampling(number): InterpolationMode[name] for number, name in _OF_PIL.items()
    }
    image_processing_backends.pil_torch_interpolation_mapping = image_utils.pil_torch_interpolation_mapping  # type: ignore[attr-defined]
    names = ("torchvision", "torchvision.transforms", "torchvision.transforms.v2")
    for name in names:
        stand_in: Any = types.ModuleType(name)
        stand_in.functional, stand_in.InterpolationMode = ours, InterpolationMode
        sys.modules[name] = stand_in
    sys.modules["torchvision.transforms.v2.functional"] = ours
    try:
        yield
    finally:
        for name in (*names, "torchvision.transforms.v2.functional"):
            sys.modules.pop(name, None)
