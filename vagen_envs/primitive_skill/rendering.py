"""SAPIEN's renderer of a process, and what is to be done where it has no driver."""

from __future__ import annotations

import functools
import os

import sapien

from vagen_envs.errors import SimulatorError
from vagen_envs.primitive_skill import ENV_ID

_VULKAN_FIX = (
    "SAPIEN draws with Vulkan, and no driver here can do it. On a machine without a GPU install "
    "Mesa 23.1 or newer: "
    "on Debian 12 add the suite `bookworm-backports main` to your apt sources and run, as root, "
    "`apt-get update && "
    "apt-get install -y --no-install-recommends -t bookworm-backports mesa-vulkan-drivers "
    "libgl1 libglib2.0-0` "
    "(`vagen setup vulkan` does both); on Debian 13 and Ubuntu 24.04 "
    "`apt-get install mesa-vulkan-drivers`. A driver elsewhere is named by "
    "VK_DRIVER_FILES=/path/to/lvp_icd.json. "
    'Without pictures, with observation="text", none is needed'
)


@functools.cache
def renderer(device: str) -> sapien.render.RenderSystem:
    """The renderer of this process, kept for good: with the last one its compiled shaders would go,
    7 s of work.

    Raises:
        SimulatorError: there is no driver for it; the message says how to get one.
    """
    if os.environ.get("SAPIEN_DISABLE_RAY_TRACING"):
        raise SimulatorError(
            ENV_ID,
            "SAPIEN_DISABLE_RAY_TRACING is set, which hides the CPU's Vulkan driver from "
            "SAPIEN; unset it",
        )
    try:
        return sapien.render.RenderSystem("cuda" if device == "gpu" else "cpu")
    except RuntimeError as error:
        fix = "device='gpu' needs an NVIDIA GPU with its Vulkan driver; use 'cpu'"
        if device == "cpu":
            fix = _VULKAN_FIX
        raise SimulatorError(ENV_ID, f"{error}. {fix}") from error
