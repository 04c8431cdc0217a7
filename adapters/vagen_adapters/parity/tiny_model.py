"""A small vision-language model that is trained and played in minutes: Qwen3-VL's architecture, a
million parameters.

Its folder is laid out as that of any Qwen3-VL checkpoint, so that whatever loads those loads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from vagen_envs import VagenError

TAGS = tuple(
    f"<{slash}{tag}>"
    for tag in ("think", "observation", "reasoning", "prediction", "answer")
    for slash in ("", "/")
)
ROLES = ["system\n", "user\n", "assistant\n"]
"""What the chat template adds to every message; the tokenizer learns each as a token."""
PROMPTS = "terse"
"""The prompt pack of a few words, for a model that would learn nothing from more."""
PAD = "<|endoftext|>"
START = "<|im_start|>"
END = "<|im_end|>"
VISION_START = "<|vision_start|>"
VISION_END = "<|vision_end|>"
IMAGE = "<|image_pad|>"
VIDEO = "<|video_pad|>"

CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content -%}
{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>
{%- else %}{{ part.text }}{% endif %}
{%- endfor %}{% endif %}<|im_end|>
{% endfor -%}
{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def save_tiny(
    folder: str | Path,
    texts: Iterable[str],
    *,
    seed: int = 0,
    vocabulary: int = 1024,
    hidden: int = 128,
    layers: int = 3,
    vision_hidden: int = 64,
    vision_layers: int = 2,
) -> None:
    """Write an untrained model with its own tokenizer and image processor to `folder`.

    Args:
        folder: made if it doesn't exist.
        texts: what the tokenizer learns its words from, such as `texts_of` environments.
        seed: of the weights.
        vocabulary: most tokens in all; 270 of them are the bytes, the tags and the special tokens.
        hidden: width of the text model, a multiple of 32.
        layers: of the text model.
        vision_hidden: width of the vision model, a multiple of 16.
        vision_layers: of the vision model.
    """
    from transformers import (
        Qwen2VLImageProcessorPil,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
    )

    tokenizer = _train_tokenizer(texts, vocabulary)
    image, video, start, end = tokenizer.convert_tokens_to_ids(
        [IMAGE, VIDEO, VISION_START, VISION_END]
    )
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": hidden,
            "intermediate_size": 3 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": hidden // 32,
            "num_key_value_heads": hidden // 32,
            "head_dim": 32,
            "max_position_embeddings": 8192,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": vision_layers,
            "hidden_size": vision_hidden,
            "intermediate_size": 2 * vision_hidden,
            "num_heads": vision_hidden // 16,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": hidden,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    size = {"shortest_edge": 32 * 32, "longest_edge": 512 * 512}
    Qwen2VLImageProcessorPil(patch_size=16, merge_size=2, size=size).save_pretrained(folder)


def texts_of(env_ids: Iterable[str], *, levels: int = 20, **options: Any) -> Iterator[str]:
    """What environments and their oracle write while it plays training levels, for a tokenizer to
    learn from.
    """
    for env_id in env_ids:
        env = gym.make(env_id, split="train", **options)
        yield env.unwrapped.system_prompt  # type: ignore[attr-defined]
        for seed in range(levels):
            observation, _ = env.reset(seed=seed)
            over = False
            while not over:
                yield observation["text"]
                try:
                    reply = env.unwrapped.oracle_reply()  # type: ignore[attr-defined]
                except VagenError:  # the oracle has lost its way
                    break
                yield reply
                observation, _, terminated, truncated, _ = env.step(reply)
                over = terminated or truncated
        env.close()


def _train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """Byte-level BPE in which every tag is one token."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = [PAD, START, END, VISION_START, VISION_END, IMAGE, VIDEO]
    tokenizer = Tokenizer(models.BPE())
    # Whole sentences may become one token: a world's sentences are few, and a reply of 30 tokens is
    # played and learned several times as fast as one of 100 words.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            # A coordinate is written digit by digit: one that was seldom seen is read, and copied,
            # like any other.
            pre_tokenizers.Split(Regex(r"(?<![A-Za-z])-?\d"), "isolated"),
            pre_tokenizers.Split(Regex(r"[^.,\n]*[.,\n]+ ?"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(TAGS),
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tags = re.compile("|".join(map(re.escape, TAGS)))
    pieces = [piece for text in texts for piece in tags.split(text) if piece]
    pieces += ROLES * len(pieces)
    tokenizer.train_from_iterator(pieces, trainer)
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START, VISION_START, VISION_END, IMAGE, VIDEO],
        chat_template=CHAT_TEMPLATE,
    )
