"""Vision-language models of many families, of random weights and a few thousand parameters, in folders like published ones.

Tokenizers are trained here; `families.toml` has the rest.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedTokenizerFast

SOME_TEXT = [
    "Up Down Left Right",
    "look at the lake, then move; <answer>Up</answer>",
    "user model assistant\n\n",
]
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 8192,
}
"""Of each family's language model, beside what is its own."""

with Path(__file__).with_name("families.toml").open("rb") as file:
    FAMILIES: dict[str, dict[str, Any]] = tomllib.load(file)


def tokenizer(name: str, template: str | None = None) -> Any:
    """Byte-level BPE, or with `spaces` one that writes them as ▁ and falls back to bytes, as SentencePiece does."""
    asked = {
        "pad": "<pad>",
        "bos": None,
        "spaces": False,
        "named": {},
        **FAMILIES[name]["tokenizer"],
    }
    ends = {f"{end}_token": asked[end] for end in ("pad", "bos", "eos")}
    own = list(dict.fromkeys([*asked["special"], *asked["named"].values()]))
    options = {
        "special_tokens": [*filter(None, ends.values()), *own],
        "vocab_size": 420,
        "show_progress": False,
    }
    if asked["spaces"]:
        made = Tokenizer(models.BPE(byte_fallback=True, unk_token=None))
        made.normalizer = normalizers.Replace(" ", "▁")
        made.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        )
        options["special_tokens"] += [f"<0x{each:02X}>" for each in range(256)]
    else:
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        options["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(SOME_TEXT, trainers.BpeTrainer(**options))
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        **ends,
        additional_special_tokens=own,
        extra_special_tokens=asked["named"] or own,
        chat_template=template or FAMILIES[name]["template"],
    )


def save(name: str, folder: Path, *, template: str | None = None) -> str:
    """Write a family's model to `folder`, with another chat template if one is given."""
    family, words = FAMILIES[name], tokenizer(name, template)
    text = {
        key: len(words) if value == "vocab_size" else value for key, value in family["text"].items()
    }
    ends = {name: getattr(words, name) for name in ("pad_token_id", "eos_token_id", "bos_token_id")}
    config = AutoConfig.for_model(
        family["kind"],
        text_config={"vocab_size": len(words), **ends, **TEXT, **text},
        vision_config=family["vision"],
        **{key: words.convert_tokens_to_ids(token) for key, token in family["token_ids"].items()},
        **family.get("config", {}),
    )
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(config)
    with torch.no_grad():  # as drawn, words hardly depend on pictures
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(
                    parameter * 3 if parameter.any() else torch.randn_like(parameter) / 3
                )
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(family["pictures"]))
    if "processor" in family:
        (folder / "processor_config.json").write_text(json.dumps(family["processor"]))
    return str(folder)
