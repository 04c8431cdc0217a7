"""Imported when Python starts in an environment whose torch is for CPU and whose torchvision is
not.

Its compiled operators then can't be loaded, and without the names of two of them `import
torchvision` fails. vLLM imports it for the pictures' transforms, which are Python and need none of
them.
"""

import importlib.util
from pathlib import Path

import torch

spec = importlib.util.find_spec("torchvision")
if spec is not None and spec.origin is not None:
    try:
        torch.ops.load_library(Path(spec.origin).with_name("_C.so"))
    except OSError:
        for name in ("nms", "qnms"):
            torch.library.define(
                f"torchvision::{name}",
                "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
            )
