"""DreamSim's and DINO's weights in the published layout, with random numbers in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RANK, ALPHA = 4, 2


def write_weights(folder: Path) -> None:
    """Write every file that the scorer reads; what they compute means nothing."""
    import torch
    from safetensors.torch import save_file

    from vagen_envs.svg.scorers.weights import (
        ADAPTER,
        ADAPTER_CONFIG,
        CLIP,
        DINO_BASE,
        DINO_SMALL,
        FILES,
        OPEN_CLIP,
    )  # fmt: skip

    for file in FILES:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
    torch.save(_random_state("dino", seed=1), folder / DINO_BASE)
    torch.save(_random_state("dino", 384, 6, seed=2), folder / DINO_SMALL)
    torch.save({"state_dict": _random_state("clip", projected=True, seed=3)}, folder / CLIP)
    torch.save({"state_dict": _random_state("open_clip", projected=True, seed=4)}, folder / OPEN_CLIP)
    (folder / ADAPTER_CONFIG).write_text(
        json.dumps({"r": RANK, "lora_alpha": ALPHA, "lora_dropout": 0.3, "bias": "none", "target_modules": ["qkv"]})
    )
    generator = torch.Generator().manual_seed(5)
    lora = {}
    for network in range(3):
        for block in range(12):
            name = f"base_model.model.extractor_list.{network}.model.blocks.{block}.attn.qkv"
            lora[f"{name}.lora_A.weight"] = torch.randn(RANK, 768, generator=generator) * 0.02
            lora[f"{name}.lora_B.weight"] = torch.randn(3 * 768, RANK, generator=generator) * 0.02
    save_file(lora, folder / ADAPTER)


def _random_state(kind: Any, width: int = 768, heads: int = 12, projected: bool = False, seed: int = 0) -> Any:
    """Every tensor of the checkpoint, its rows alike: a view of few numbers, so that the file is small."""
    import torch

    from vagen_envs.svg.scorers.vit import VisionTransformer

    generator = torch.Generator().manual_seed(seed)
    state = {}
    with torch.device("meta"):
        shapes = {name: each.shape for name, each in VisionTransformer(kind, width, heads).state_dict().items()}
    for name, shape in shapes.items():
        state[name] = (torch.randn(shape[-1], generator=generator) * 0.05).expand(shape)
        if "norm" in name or "pos_drop" in name:
            state[name] = state[name] + (1.0 if name.endswith("weight") else 0.0)
    if projected:
        state["proj"] = torch.randn(width, 512, generator=generator) * 0.05
    return state
