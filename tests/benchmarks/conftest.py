"""Models for the runner: a chat endpoint on loopback, and small real weights in a folder."""

from __future__ import annotations

import socket

import pytest
from chat_endpoint import Endpoint


@pytest.fixture
def endpoint():
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def closed_port():
    """The URL of a port at which nothing listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}/v1"


TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}:{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    """A LLaVA of random weights, some hundred thousand of them, saved as real ones are."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )  # fmt: skip

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<pad>", "<s>", "</s>", "<image>"]
    vocabulary = {token: i for i, token in enumerate([*special, *alphabet])}
    plain = Tokenizer(models.BPE(vocabulary, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, additional_special_tokens=["<image>"], **names
    )  # fmt: skip
    size = {"height": 32, "width": 32}
    pictures = CLIPImageProcessor(size=size, crop_size=size)
    processor = LlavaProcessor(
        pictures, tokenizer, patch_size=16, vision_feature_select_strategy="default", chat_template=TEMPLATE,
        num_additional_image_tokens=1,
    )  # fmt: skip
    vision = CLIPVisionConfig(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                              image_size=32, patch_size=16)  # fmt: skip
    text = LlamaConfig(vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                       num_attention_heads=2, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                       max_position_embeddings=8192)  # fmt: skip
    torch.manual_seed(0)
    model = LlavaForConditionalGeneration(
        LlavaConfig(
            vision_config=vision, text_config=text, image_token_index=vocabulary["<image>"], vision_feature_layer=-1
        )
    )
    model.generation_config.eos_token_id = 2
    folder = tmp_path_factory.mktemp("weights")
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
