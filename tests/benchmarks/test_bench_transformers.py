"""A model in this process, loaded from a folder in the layout that real weights have."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from vagen_benchmarks.errors import ProtocolError  # noqa: E402
from vagen_benchmarks.lineup import Asked, make_agents  # noqa: E402
from vagen_benchmarks.protocol import Protocol, make_tasks  # noqa: E402
from vagen_benchmarks.run_folder import RunFolder, RunWriter  # noqa: E402
from vagen_benchmarks.runner import run  # noqa: E402

TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}:{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A LLaVA of random weights, some hundred thousand of them, saved as real ones are."""
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


def test_model_from_a_folder_plays(weights, tmp_path):
    (agent,) = make_agents([f"transformers:{weights}"], Asked(max_tokens=12))
    tasks, _ = make_tasks(["sokoban"], episodes=2)
    with RunWriter(tmp_path / "run", Protocol(tuple(tasks), (agent.describe(),))) as folder:
        outcome = run(folder, [agent])
    assert (outcome.played, outcome.failed) == (2, 0), next(iter(RunFolder(tmp_path / "run").episodes()))
    for episode in RunFolder(tmp_path / "run").episodes():
        for call in episode.calls:
            assert call["ending"] in ("length", "stop", "empty")
            assert 1 <= call["completion_tokens"] <= 12
        tokens = [call["prompt_tokens"] for call in episode.calls]
        assert tokens == sorted(set(tokens))  # the history grows with every turn


def test_greedy_replies_are_the_same_each_time(weights, tmp_path):
    replies = []
    for name in ("1", "2"):
        (agent,) = make_agents([f"transformers:{weights}"], Asked(max_tokens=6, temperature=0.0))
        tasks, _ = make_tasks(["sokoban"], episodes=1)
        with RunWriter(tmp_path / name, Protocol(tuple(tasks), (agent.describe(),))) as folder:
            run(folder, [agent])
        replies.append([turn["reply"] for e in RunFolder(tmp_path / name).episodes() for turn in e.turns])
    assert replies[0] == replies[1]


def test_folder_without_a_model_is_one_clear_error(tmp_path):
    with pytest.raises(ProtocolError, match="holds no vision-language model"):
        make_agents([f"transformers:{tmp_path}"], Asked())
