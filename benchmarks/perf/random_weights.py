"""DreamSim's and DINO's weights in the layout of their packages, with random numbers in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_HUB = """
import torch
from dreamsim.feature_extraction.vision_transformer import vit_base
dependencies = ["torch"]
def dino_vitb16(pretrained=True):
    model = vit_base(patch_size=16)
    url = "https://dl.fbaipublicfiles.com/dino/dino_vitbase16_pretrain/dino_vitbase16_pretrain.pth"
    model.load_state_dict(torch.hub.load_state_dict_from_url(url))
    return model
"""


def write_weights(folder: Path) -> None:
    """Write every file that the packages read; what they compute means nothing."""
    import timm
    import torch
    from dreamsim.feature_extraction.vision_transformer import vit_base
    from safetensors.torch import save_file

    for name in ("ensemble_lora", "facebookresearch_dino_main", "checkpoints"):
        (folder / name).mkdir(parents=True)
    (folder / "facebookresearch_dino_main" / "hubconf.py").write_text(_HUB)
    generator = torch.Generator().manual_seed(5)

    def drawn(shape: Any) -> Any:  # rows alike: a view of few numbers, so that the files are small
        return (torch.randn(shape[-1], generator=generator) * 0.05).expand(shape)

    def state_of(model: Any) -> Any:
        state = {name: drawn(each.shape) for name, each in model.state_dict().items()}
        return {
            name: each + 1.0 if "norm" in name and name.endswith("weight") else each
            for name, each in state.items()
        }

    torch.save(
        state_of(vit_base(patch_size=16)), folder / "checkpoints" / "dino_vitbase16_pretrain.pth"
    )
    small = timm.create_model("vit_small_patch16_224.dino")
    torch.save(state_of(small), folder / "checkpoints" / "dino_deitsmall16_pretrain.pth")
    for kind in ("clip", "open_clip"):
        model = vit_base(patch_size=16)
        model.pos_drop = torch.nn.LayerNorm(768)
        state = {**state_of(model), "proj": torch.randn(768, 512, generator=generator) * 0.05}
        torch.save({"state_dict": state}, folder / f"{kind}_vitb16_pretrain.pth.tar")
    head = {
        f"module.head.{name}": drawn(shape)
        for name, shape in (
            ("mlp.0.weight", (2048, 768)),
            ("mlp.0.bias", (2048,)),
            ("mlp.2.weight", (2048, 2048)),
            ("mlp.2.bias", (2048,)),
            ("mlp.4.weight", (256, 2048)),
            ("mlp.4.bias", (256,)),
            ("last_layer.weight", (2048, 256)),
        )
    }
    torch.save({"student": head}, folder / "dino_vitb16_pretrain.pth")
    config = {
        "r": 4,
        "lora_alpha": 2,
        "lora_dropout": 0.3,
        "bias": "none",
        "target_modules": ["qkv"],
        "peft_type": "LORA",
    }
    (folder / "ensemble_lora" / "adapter_config.json").write_text(json.dumps(config))
    lora = {}
    for network in range(3):
        for block in range(12):
            name = f"base_model.model.extractor_list.{network}.model.blocks.{block}.attn.qkv"
            lora[f"{name}.lora_A.weight"] = torch.randn(4, 768, generator=generator) * 0.02
            lora[f"{name}.lora_B.weight"] = torch.randn(3 * 768, 4, generator=generator) * 0.02
    save_file(lora, folder / "ensemble_lora" / "adapter_model.safetensors")
