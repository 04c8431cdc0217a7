"""Configurations of models by name, as their makers publish them in `config.json`: for plans without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vagen_adapters.errors import TrainingConfigError
from vagen_envs.errors import did_you_mean

_QWEN25_VISION = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16}
_MROPE = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}

PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "Qwen/Qwen2.5-VL-3B-Instruct": ("qwen2_5_vl", {
        "text_config": {"vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 11_008,
                        "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 2,
                        "rope_parameters": _MROPE, "tie_word_embeddings": True},
        "vision_config": {**_QWEN25_VISION, "out_hidden_size": 2048}, "tie_word_embeddings": True,
    }),
    "Qwen/Qwen2.5-VL-7B-Instruct": ("qwen2_5_vl", {
        "text_config": {"vocab_size": 152_064, "hidden_size": 3584, "intermediate_size": 18_944,
                        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
                        "rope_parameters": _MROPE, "tie_word_embeddings": False},
        "vision_config": {**_QWEN25_VISION, "out_hidden_size": 3584}, "tie_word_embeddings": False,
    }),
    "Qwen/Qwen3-VL-30B-A3B-Instruct": ("qwen3_vl_moe", {
        "text_config": {"vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 6144,
                        "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
                        "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
                        "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_interleaved": True,
                                            "mrope_section": [24, 20, 20]}, "tie_word_embeddings": False},
        "vision_config": {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16,
                          "out_hidden_size": 2048, "patch_size": 16, "num_position_embeddings": 2304,
                          "deepstack_visual_indexes": [8, 16, 24]}, "tie_word_embeddings": False,
    }),
}  # fmt: skip
"""Model type and what differs from its defaults; the tests hold their sums to the published numbers of parameters."""


def config_of(model: str) -> Any:
    """A model's configuration: of a folder that needs to hold no more than `config.json`, of the table, or of the hub.

    Raises:
        TrainingConfigError: there is none by that name.
    """
    from transformers import AutoConfig

    if model in PUBLISHED and not Path(model).exists():
        kind, options = PUBLISHED[model]
        return AutoConfig.for_model(kind, **options)
    try:
        return AutoConfig.from_pretrained(model)
    except Exception as error:  # of a config.json that is none it raises whatever it likes
        raise TrainingConfigError(
            f"there is no model {model!r}: neither a folder with a config.json, nor a name that the hub knows here "
            f"({' '.join(str(error).split())[:160]}).{did_you_mean(model, PUBLISHED)}"
        ) from error
