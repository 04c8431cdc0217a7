"""Families that bring something of their own, beside those of `families`.

Gemma 4's layers look both ways within a picture. HyperCLOVA X multiplies logits by what others divide them by.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import families
from families import EITHER, TEXT, TOWER, chatml, tokenizer


def _turns(begin: str, opened: str, image: str, end: str, opening: str = "{{ message.role }}") -> str:
    reply = opened.replace("ROLE", "assistant")
    return (
        begin + "{% for message in messages %}" + opened.replace("ROLE", opening) + EITHER.replace("IMAGE", image) + end
        + "{% endfor %}{% if add_generation_prompt %}" + reply + "{% endif %}"
    )  # fmt: skip


def gemma4() -> dict[str, Any]:
    named = {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>", "audio_token": "<|audio|>",
             "boa_token": "<|audio>", "eoa_token": "<audio|>", "video_token": "<|video|>"}  # fmt: skip
    role = "{{ 'model' if message.role == 'assistant' else message.role }}"
    template = _turns("{{ bos_token }}", "<|turn>ROLE\n", "<|image|>", "<turn|>\n", role).replace(
        "<|turn>assistant", "<|turn>model"
    )
    words = tokenizer(["<|turn>", *named.values()], eos="<turn|>", bos="<bos>", template=template, spaces=True, **named)
    ids = {f"{name}_id": words.convert_tokens_to_ids(each) for name, each in named.items()}
    ids["eoa_token_index"] = ids.pop("eoa_token_id")
    return {
        "kind": "gemma4", "tokenizer": words,
        "text": {**TEXT, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"],
                 "vocab_size_per_layer_input": len(words), "hidden_size_per_layer_input": 8, "global_head_dim": 16,
                 "final_logit_softcapping": 30.0, "use_bidirectional_attention": "vision"},
        "vision": {**TOWER, "num_key_value_heads": 2, "head_dim": 8, "patch_size": 8, "pooling_kernel_size": 2,
                   "position_embedding_size": 64},
        "config": {**ids, "audio_config": None},
        "pictures": {"image_processor_type": "Gemma4ImageProcessor", "patch_size": 8, "pooling_kernel_size": 2,
                     "max_soft_tokens": 70},
    }  # fmt: skip


def hyperclovax_vision_v2() -> dict[str, Any]:
    named = {"image_token": "<|IMAGE_PAD|>", "video_token": "<|VIDEO_PAD|>"}
    words = tokenizer(["<|im_start|>", *named.values()], eos="<|im_end|>", pad="<|endoftext|>",
                      template=chatml("<|IMAGE_PAD|>"), **named)  # fmt: skip
    made = families.qwen2_5_vl()
    return {
        **made, "kind": "hyperclovax_vision_v2", "tokenizer": words,
        "text": {**TEXT, "model_type": "hyperclovax", "logits_scaling": 0.25},
        "vision": {**made["vision"], "model_type": "qwen2_5_vl_vision"},
        "config": {f"{name}_id": words.convert_tokens_to_ids(each) for name, each in named.items()},
    }  # fmt: skip


FAMILIES = {
    **families.FAMILIES,
    **{each.__name__: each for each in (gemma4, hyperclovax_vision_v2)},
}


def save(name: str, folder: Path, *, template: str | None = None) -> str:
    """As `families.save`."""
    return families.write(FAMILIES[name](), folder, template)
