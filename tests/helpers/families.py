"""Vision-language models of many families, of random weights and a few thousand parameters, in folders like published ones.

Tokenizers and processors are made here; chat templates are in the manner of each family's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedTokenizerFast

SOME_TEXT = ["Up Down Left Right", "look at the lake, then move; <answer>Up</answer>", "user model assistant\n\n"]

PARTS = "{% for part in message.content %}{% if part.type == 'image' %}IMAGE{% else %}{{ part.text }}{% endif %}{% endfor %}"
EITHER = "{% if message.content is string %}{{ message.content }}{% else %}" + PARTS + "{% endif %}"


def chatml(image: str, *, after_role: str = "\n", end: str = "<|im_end|>\n", opened: str = "") -> str:
    """Qwen's, InternVL's and LLaVA-OneVision's way."""
    return (
        "{% for message in messages %}<|im_start|>{{ message.role }}"
        + after_role
        + EITHER.replace("IMAGE", image)
        + end
        + "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
        + opened
        + "{% endif %}"
    )


QWEN_VISION = "<|vision_start|><|image_pad|><|vision_end|>"
QWEN = chatml(QWEN_VISION)
# Qwen3.5 opens empty thoughts where thinking is off, and writes none of them in later turns.
QWEN35 = chatml(
    QWEN_VISION,
    opened="{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}",
)
GEMMA = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set prefix = messages[0].content if messages[0].content is string "
    "else messages[0].content[0].text %}{% set prefix = prefix + '\n\n' %}{% set turns = messages[1:] %}{% else %}"
    "{% set prefix = '' %}{% set turns = messages %}{% endif %}{% for message in turns %}"
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "<start_of_turn>{{ 'model' if message.role == 'assistant' else message.role }}\n{{ prefix if loop.first else '' }}"
    "{% if message.content is string %}{{ message.content | trim }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<start_of_image>{% else %}{{ part.text | trim }}{% endif %}{% endfor %}{% endif %}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
SMOL = (
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}"
    "{% if message['content'][0]['type'] == 'image' %}:{% else %}: {% endif %}{% for line in message['content'] %}"
    "{% if line['type'] == 'text' %}{{ line['text'] }}{% elif line['type'] == 'image' %}<image>{% endif %}{% endfor %}"
    "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)
ONEVISION = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }} "
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}<image>{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ '\n' + content['text'] }}{% endfor %}"
    "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
GLM = (
    "[gMASK]<sop>{% for message in messages %}<|{{ message.role }}|>\n"
    + EITHER.replace("IMAGE", "<|begin_of_image|><|image|><|end_of_image|>")
    + "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'system' %}[SYSTEM_PROMPT]"
    + EITHER
    + "[/SYSTEM_PROMPT]"
    "{% elif message.role == 'user' %}[INST]"
    + EITHER.replace("IMAGE", "[IMG]")
    + "[/INST]{% else %}"
    + EITHER
    + "{{ eos_token }}{% endif %}{% endfor %}"
)
LLAVA = (
    "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': '}}{% endif %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)


def tokenizer(
    special: list[str],
    *,
    eos: str,
    template: str | None,
    bos: str | None = None,
    pad: str = "<pad>",
    spaces: bool = False,
    **named: str,
) -> Any:
    """Byte-level BPE, or with `spaces` one that writes them as ▁ and falls back to bytes, as SentencePiece does."""
    special = list(dict.fromkeys([pad, *([bos] if bos else []), eos, *special]))
    options: dict[str, Any] = {"special_tokens": special, "vocab_size": 420, "show_progress": False}
    if spaces:
        made = Tokenizer(models.BPE(byte_fallback=True, unk_token=None))
        made.normalizer = normalizers.Replace(" ", "▁")
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        made.train_from_iterator(
            SOME_TEXT,
            trainers.BpeTrainer(
                **{**options, "special_tokens": [*special, *(f"<0x{each:02X}>" for each in range(256))]}
            ),
        )
    else:
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        made.train_from_iterator(
            SOME_TEXT, trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **options)
        )
    rest = [each for each in special if each not in (pad, bos, eos)]
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token=eos,
        bos_token=bos,
        pad_token=pad,
        additional_special_tokens=rest,
        extra_special_tokens=named or rest,
        chat_template=template,
    )


TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 8192,
}
MROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]}
TOWER: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
QWEN_TOWER: dict[str, Any] = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "out_hidden_size": 32,
}
QWEN_SPECIAL = ["<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]


def _qwen(kind: str, patch: int, text: dict[str, Any], vision: dict[str, Any], template: str = QWEN) -> dict[str, Any]:
    from transformers import Qwen2VLImageProcessorPil

    words = tokenizer(QWEN_SPECIAL, eos="<|im_end|>", pad="<|endoftext|>", template=template)
    ids = dict(
        zip(
            ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id"),
            words.convert_tokens_to_ids(QWEN_SPECIAL[1:]),
            strict=True,
        )
    )
    size = {"shortest_edge": 32 * 32, "longest_edge": 128 * 128}
    return {
        "kind": kind,
        "tokenizer": words,
        "text": {**TEXT, **text},
        "vision": {**QWEN_TOWER, "patch_size": patch, **vision},
        "config": ids,
        "pictures": Qwen2VLImageProcessorPil(patch_size=patch, merge_size=2, size=size),
    }


def qwen2_5_vl() -> dict[str, Any]:
    return _qwen("qwen2_5_vl", 14, {"rope_parameters": MROPE}, {"fullatt_block_indexes": [0], "window_size": 56})


def qwen3_vl() -> dict[str, Any]:
    return _qwen(
        "qwen3_vl",
        16,
        {"rope_parameters": {**MROPE, "mrope_interleaved": True}},
        {"deepstack_visual_indexes": [0], "num_position_embeddings": 64},
    )


def qwen3_vl_moe() -> dict[str, Any]:
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "num_local_experts": 4}
    made = qwen3_vl()
    return {**made, "kind": "qwen3_vl_moe", "text": {**made["text"], **experts}}


def qwen3_5() -> dict[str, Any]:
    text = {
        "layer_types": ["linear_attention", "full_attention"],
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "rope_parameters": {**MROPE, "mrope_interleaved": True, "partial_rotary_factor": 1.0},
    }
    return _qwen("qwen3_5", 16, text, {"num_position_embeddings": 64}, QWEN35)


def internvl3() -> dict[str, Any]:
    from transformers import GotOcr2ImageProcessorPil

    named = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    special = ["<|im_start|>", *named.values()]
    words = tokenizer(special, eos="<|im_end|>", pad="<|endoftext|>", template=chatml("<IMG_CONTEXT>\n"), **named)
    return {
        "kind": "internvl",
        "tokenizer": words,
        "text": {**TEXT, "model_type": "qwen2"},
        "vision": {**TOWER, "image_size": [32, 32], "patch_size": [8, 8]},
        "config": {"image_token_id": words.convert_tokens_to_ids("<IMG_CONTEXT>"), "image_seq_length": 4},
        "pictures": GotOcr2ImageProcessorPil(size={"height": 32, "width": 32}, crop_to_patches=True, max_patches=2),
        "processor": {"image_seq_length": 4},
    }


def gemma3() -> dict[str, Any]:
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

    named = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    special = ["<start_of_turn>", "<end_of_turn>", *named.values()]
    words = tokenizer(special, eos="<eos>", bos="<bos>", template=GEMMA, spaces=True, **named)
    ids = {f"{name}_index": words.convert_tokens_to_ids(each) for name, each in named.items()}
    return {
        "kind": "gemma3",
        "tokenizer": words,
        "text": {**TEXT, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]},
        "vision": {**TOWER, "image_size": 32, "patch_size": 8, "vision_use_head": False},
        "config": {**ids, "mm_tokens_per_image": 4},
        "pictures": Gemma3ImageProcessorPil(size={"height": 32, "width": 32}),
        "processor": {"image_seq_length": 4},
    }


def smolvlm2() -> dict[str, Any]:
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)]
    special = ["<|im_start|>", "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *tiles]
    words = tokenizer(special, eos="<|endoftext|>", template=SMOL)
    return {
        "kind": "smolvlm",
        "tokenizer": words,
        "text": {**TEXT, "model_type": "llama"},
        "vision": {**TOWER, "image_size": 32, "patch_size": 8},
        "config": {"image_token_id": words.convert_tokens_to_ids("<image>"), "scale_factor": 2},
        "pictures": SmolVLMImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32}),
        "processor": {"image_seq_len": 4},
    }


def llava_onevision() -> dict[str, Any]:
    from transformers import LlavaOnevisionImageProcessorPil

    words = tokenizer(["<|im_start|>", "<image>", "<video>"], eos="<|im_end|>", pad="<|endoftext|>", template=ONEVISION)
    grid = [[32, 32], [32, 64], [64, 32], [64, 64]]
    return {
        "kind": "llava_onevision",
        "tokenizer": words,
        "text": {**TEXT, "model_type": "qwen2"},
        "vision": {
            **TOWER,
            "model_type": "siglip_vision_model",
            "image_size": 32,
            "patch_size": 8,
            "vision_use_head": False,
        },
        "config": {
            "image_token_index": words.convert_tokens_to_ids("<image>"),
            "video_token_index": words.convert_tokens_to_ids("<video>"),
            "image_grid_pinpoints": grid,
        },
        "pictures": LlavaOnevisionImageProcessorPil(size={"height": 32, "width": 32}, image_grid_pinpoints=grid),
        "processor": {"num_image_tokens": 16, "vision_feature_select_strategy": "full"},
    }


def glm4v() -> dict[str, Any]:
    from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil

    places = {
        "image": "<|image|>",
        "video": "<|video|>",
        "image_start": "<|begin_of_image|>",
        "image_end": "<|end_of_image|>",
        "video_start": "<|begin_of_video|>",
        "video_end": "<|end_of_video|>",
    }
    roles = ["[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"]
    words = tokenizer([*roles, *places.values()], eos="<|endoftext|>", template=GLM)
    return {
        "kind": "glm4v",
        "tokenizer": words,
        "text": {**TEXT, "rope_parameters": {**MROPE, "partial_rotary_factor": 1.0}},
        "vision": {**QWEN_TOWER, "patch_size": 14, "image_size": 56},
        "config": {f"{name}_token_id": words.convert_tokens_to_ids(each) for name, each in places.items()},
        "pictures": Glm4vImageProcessorPil(
            patch_size=14, merge_size=2, size={"shortest_edge": 112 * 112, "longest_edge": 4 * 112 * 112}
        ),
    }


def llava() -> dict[str, Any]:
    from transformers import LlavaImageProcessorPil

    words = tokenizer(["<image>"], eos="</s>", bos="<s>", template=LLAVA)
    return {
        "kind": "llava",
        "tokenizer": words,
        "text": {**TEXT, "model_type": "llama"},
        "vision": {**TOWER, "model_type": "clip_vision_model", "image_size": 32, "patch_size": 8},
        "config": {
            "image_token_index": words.convert_tokens_to_ids("<image>"),
            "vision_feature_layer": -1,
            "image_seq_length": 16,
        },
        "pictures": LlavaImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        "processor": {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
    }


def gemma4() -> dict[str, Any]:
    """Its layers look both ways within a picture."""
    named = {
        "image_token": "<|image|>",
        "boi_token": "<|image>",
        "eoi_token": "<image|>",
        "audio_token": "<|audio|>",
        "boa_token": "<|audio>",
        "eoa_token": "<audio|>",
        "video_token": "<|video|>",
    }
    template = (
        "{{ bos_token }}{% for message in messages %}<|turn>{{ 'model' if message.role == 'assistant' else message.role }}\n"
        + EITHER.replace("IMAGE", "<|image|>")
        + "<turn|>\n{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
    )
    words = tokenizer(["<|turn>", *named.values()], eos="<turn|>", bos="<bos>", template=template, spaces=True, **named)
    ids = {f"{name}_id": words.convert_tokens_to_ids(each) for name, each in named.items()}
    ids["eoa_token_index"] = ids.pop("eoa_token_id")
    return {
        "kind": "gemma4",
        "tokenizer": words,
        "text": {
            **TEXT,
            "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"],
            "vocab_size_per_layer_input": len(words),
            "hidden_size_per_layer_input": 8,
            "global_head_dim": 16,
            "final_logit_softcapping": 30.0,
            "use_bidirectional_attention": "vision",
        },
        "vision": {
            **TOWER,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "patch_size": 8,
            "pooling_kernel_size": 2,
            "position_embedding_size": 64,
        },
        "config": {**ids, "audio_config": None},
        "pictures": {
            "image_processor_type": "Gemma4ImageProcessor",
            "patch_size": 8,
            "pooling_kernel_size": 2,
            "max_soft_tokens": 70,
        },
    }


def hyperclovax_vision_v2() -> dict[str, Any]:
    """It multiplies logits by what others divide them by."""
    named = {"image_token": "<|IMAGE_PAD|>", "video_token": "<|VIDEO_PAD|>"}
    words = tokenizer(
        ["<|im_start|>", *named.values()],
        eos="<|im_end|>",
        pad="<|endoftext|>",
        template=chatml("<|IMAGE_PAD|>"),
        **named,
    )
    made = qwen2_5_vl()
    return {
        **made,
        "kind": "hyperclovax_vision_v2",
        "tokenizer": words,
        "text": {**TEXT, "model_type": "hyperclovax", "logits_scaling": 0.25},
        "vision": {**made["vision"], "model_type": "qwen2_5_vl_vision"},
        "config": {f"{name}_id": words.convert_tokens_to_ids(each) for name, each in named.items()},
    }


FAMILIES: dict[str, Callable[[], dict[str, Any]]] = {
    each.__name__: each
    for each in (
        qwen2_5_vl,
        qwen3_vl,
        qwen3_vl_moe,
        qwen3_5,
        internvl3,
        gemma3,
        smolvlm2,
        llava_onevision,
        glm4v,
        llava,
        gemma4,
        hyperclovax_vision_v2,
    )
}


def save(name: str, folder: Path, *, template: str | None = None) -> str:
    """Write a family's model to `folder`, with another chat template if one is given."""
    made = FAMILIES[name]()
    words = made["tokenizer"]
    if template is not None:
        words.chat_template = template
    ends = {name: getattr(words, name) for name in ("pad_token_id", "eos_token_id", "bos_token_id")}
    config = AutoConfig.for_model(
        made["kind"],
        text_config={"vocab_size": len(words), **ends, **made["text"]},
        vision_config=made["vision"],
        **made["config"],
    )
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(config)
    with torch.no_grad():  # as drawn, words hardly depend on pictures
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(parameter * 3 if parameter.any() else torch.randn_like(parameter) / 3)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    if isinstance(made["pictures"], dict):  # of a class that asks for torchvision when it is made
        (folder / "preprocessor_config.json").write_text(json.dumps(made["pictures"]))
    else:
        made["pictures"].save_pretrained(folder)
    if "processor" in made:
        (folder / "processor_config.json").write_text(json.dumps(made["processor"]))
    return str(folder)
