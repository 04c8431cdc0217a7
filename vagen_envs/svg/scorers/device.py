"""Where torch computes."""

from __future__ import annotations

from typing import Any


def torch_device(device: str) -> Any:
    """`torch.device` of a name; `auto` is CUDA where there is one, else the CPU."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)
