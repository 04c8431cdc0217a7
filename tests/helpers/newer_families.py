"""Families that bring something of their own, beside those of `families`.

Llama 4 has no model without a head, and pictures in bfloat16. Gemma 4's layers look both ways within a picture. Molmo 2
counts patches through all pictures of a call. HyperCLOVA X multiplies logits by what others divide them by.
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


def llama4() -> dict[str, Any]:
    special = ["<|header_start|>", "<|header_end|>", "<|image|>", "<|image_start|>", "<|image_end|>", "<|patch|>",
               "<|tile_x_separator|>", "<|tile_y_separator|>"]  # fmt: skip
    template = _turns("{{ bos_token }}", "<|header_start|>ROLE<|header_end|>\n\n", "<|image|>", "<|eot|>")
    words = tokenizer(special, eos="<|eot|>", bos="<|begin_of_text|>", template=template)
    ids = words.convert_tokens_to_ids(["<|image_start|>", "<|image_end|>", "<|patch|>"])
    return {
        "kind": "llama4", "tokenizer": words,
        "text": {**TEXT, "intermediate_size_mlp": 32, "num_local_experts": 2, "no_rope_layer_interval": 2,
                 "attention_chunk_size": 64},
        "vision": {**TOWER, "intermediate_size": 64, "image_size": 32, "patch_size": 8, "vision_output_dim": 32,
                   "projector_input_dim": 32, "projector_output_dim": 32},
        "config": dict(zip(("boi_token_index", "eoi_token_index", "image_token_index"), ids, strict=True)),
        "pictures": {"image_processor_type": "Llama4ImageProcessor", "size": {"height": 32, "width": 32}, "max_patches": 3},
        "processor": {"patch_size": 8, "pixel_shuffle_ratio": 0.5},
    }  # fmt: skip


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


def molmo2() -> dict[str, Any]:
    parts = ["<im_patch>", "<im_start>", "<low_res_im_start>", "<im_end>", "<frame_start>", "<frame_end>", "<im_col>", "<im_low>"]  # fmt: skip
    words = tokenizer(["<|im_start|>", "<|image|>", "<|video|>", *parts], eos="<|im_end|>", pad="<|endoftext|>",
                      bos="<|bos|>", template="{{ bos_token }}" + chatml("<|image|>"))  # fmt: skip
    names = ("image_patch_id", "image_start_token_id", "low_res_image_start_token_id", "image_end_token_id",
             "frame_start_token_id", "frame_end_token_id")  # fmt: skip
    heads = {"num_key_value_heads": 2, "head_dim": 8}
    return {
        "kind": "molmo2", "tokenizer": words, "text": {**TEXT, "additional_vocab_size": 8},
        "vision": {**TOWER, **heads, "image_size": [32, 32], "patch_size": 8},
        "config": {
            **dict(zip(names, words.convert_tokens_to_ids(parts[: len(names)]), strict=True)),
            "adapter_config": {**TOWER, **heads, "vision_feature_layer": [0, 0], "text_hidden_size": 32},
        },
        "pictures": {"image_processor_type": "Molmo2ImageProcessor", "size": {"height": 32, "width": 32},
                     "patch_size": 8, "max_crops": 2, "overlap_margins": [1, 1], "pooling_size": [2, 2]},
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
    **{each.__name__: each for each in (llama4, gemma4, molmo2, hyperclovax_vision_v2)},
}


def save(name: str, folder: Path, *, template: str | None = None) -> str:
    """As `families.save`."""
    return families.write(FAMILIES[name](), folder, template)
