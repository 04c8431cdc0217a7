"""What the machine must have for pictures and for a GPU, and what to do where it lacks it."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import sapien

from vagen_envs.errors import ConfigError, SimulatorError
from vagen_envs.primitive_skill import ENV_ID

VULKAN_FIX = (
    "SAPIEN draws with Vulkan, and no driver here can do it. On a machine without a GPU install Mesa 23.1 or newer: "
    "on Debian 12 add the suite `bookworm-backports main` to your apt sources and run, as root, `apt-get update && "
    "apt-get install -y --no-install-recommends -t bookworm-backports mesa-vulkan-drivers libgl1 libglib2.0-0` "
    "(in a clone, `sh scripts/setup_vulkan.sh` does both); on Debian 13 and Ubuntu 24.04 "
    "`apt-get install mesa-vulkan-drivers`. A driver elsewhere is named by VK_DRIVER_FILES=/path/to/lvp_icd.json. "
    'Without pictures, with observation="text", none is needed'
)

_UNREAD = ("SegmentationView0", "SegmentationView1", "DepthLinear", "Line", "Point", "Custom")
"""Pictures that the shader draws beside the one that is taken, and that nothing here reads, nor ManiSkill."""


@functools.cache
def renderer(device: str) -> sapien.render.RenderSystem:
    """The renderer of this process, kept for good: with the last one its compiled shaders would go, 7 s of work.

    Raises:
        SimulatorError: there is no driver for it; the message says how to get one.
    """
    if os.environ.get("SAPIEN_DISABLE_RAY_TRACING"):
        raise SimulatorError(
            ENV_ID, "SAPIEN_DISABLE_RAY_TRACING is set, which hides the CPU's Vulkan driver from SAPIEN; unset it"
        )
    if device == "cpu":
        for name in _UNREAD:  # floats by default, in which they take 7 of the 29 MB of a further environment
            sapien.render.set_picture_format(name, "r8g8b8a8unorm")
    try:
        return sapien.render.RenderSystem("cuda" if device == "gpu" else "cpu")
    except RuntimeError as error:
        raise SimulatorError(ENV_ID, f"{error}. {VULKAN_FIX}") from error


@functools.cache
def check_gpu() -> None:
    """Whether PhysX can run on a GPU here.

    Raises:
        ConfigError: it can't; the message says what is missing and what to do.
    """
    import torch

    if not torch.cuda.is_available():
        raise ConfigError(
            f"{ENV_ID}: device='gpu' needs an NVIDIA GPU and a CUDA build of torch, and torch {torch.__version__} "
            "sees no GPU. Use device='cpu', with workers for speed"
        )
    try:
        sapien.physx.enable_gpu()
    except RuntimeError as error:
        folder = Path.home() / ".sapien" / "physx"
        raise ConfigError(
            f"{ENV_ID}: device='gpu' needs PhysX's GPU library, which could not be loaded ({error}). SAPIEN downloads "
            f"it at first use, and wants it before anything is simulated on a CPU in the same process; on a closed "
            f"network put it under {folder} beforehand"
        ) from error
