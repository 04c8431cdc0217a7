"""ClipJudge with random weights in the layout of the published ones."""

from __future__ import annotations

import asyncio
import io
import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import vagen_envs  # noqa: E402, F401
from vagen_envs.frozen_lake.state import FrozenLakeState  # noqa: E402
from vagen_envs.pictures import Picture  # noqa: E402
from vagen_rewards import Statement, VisualReasoningReward  # noqa: E402
from vagen_rewards.clip import GET, ClipJudge, weights_missing  # noqa: E402
from vagen_rewards.errors import JudgeConfigError  # noqa: E402

LAKE = FrozenLakeState(4, (0, 0), (3, 3), ())


def picture(seed: int) -> bytes:
    return Picture(np.random.default_rng(seed).integers(0, 256, (48, 64, 3), dtype=np.uint8)).png


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A CLIP of some ten thousand random weights, saved as the published ones are."""
    from tokenizers import pre_tokenizers

    folder = tmp_path_factory.mktemp("clip")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*alphabet, *(f"{each}</w>" for each in alphabet), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"bos_token_id": len(words) - 2, "eos_token_id": len(words) - 1, "pad_token_id": len(words) - 1}
    config = transformers.CLIPConfig(
        text_config={**size, "vocab_size": len(words), "max_position_embeddings": 77, **ends},
        vision_config={**size, "image_size": 32, "patch_size": 16},
        projection_dim=16,
    )
    torch.manual_seed(0)
    transformers.CLIPModel(config).save_pretrained(folder)
    prepared = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    (folder / "preprocessor_config.json").write_text(json.dumps(prepared))
    return folder


def test_the_score_is_the_models_cosine(weights):
    """The oracle is transformers' own processor and logits; `logit_scale` is taken out."""
    judge = ClipJudge(weights, weight=1.0, device="cpu")
    pictures = [picture(seed) for seed in range(3)]
    texts = ["The gift is below the player.", "A hole.", "x" * 500]
    asked = [Statement("grounding", text, LAKE, picture=png) for text, png in zip(texts, pictures, strict=True)]
    scores = asyncio.run(judge.score_many(asked))

    model = transformers.CLIPModel.from_pretrained(weights).eval()
    tokenizer = transformers.CLIPTokenizer.from_pretrained(weights)
    pil = transformers.models.clip.image_processing_pil_clip.CLIPImageProcessorPil.from_pretrained(weights)
    for statement, score in zip(asked, scores, strict=True):
        words = tokenizer(statement.text, truncation=True, max_length=77, return_tensors="pt")
        seen = pil(images=Image.open(io.BytesIO(statement.picture)), return_tensors="pt")
        with torch.inference_mode():
            logit = model(**words, pixel_values=seen["pixel_values"]).logits_per_image
        cosine = float(logit) / float(model.logit_scale.detach().exp())
        assert score.value == pytest.approx(max(0.0, cosine), abs=1e-5)
        assert f"{cosine:.3f}"[:-1] in score.reason
        assert judge.score(statement).value == pytest.approx(score.value, abs=1e-6)


def test_it_judges_turns_of_an_environment(weights):
    env = VisualReasoningReward(gym.make("vagen/FrozenLake-v0"), ClipJudge(weights, device="cpu"), weighting="plain")
    env.reset(seed=1)
    info = env.step(env.unwrapped.oracle_reply())[4]
    assert [score.scored for _, score in info["scores"].by_part()] == [True, True]
    blind = VisualReasoningReward(
        gym.make("vagen/FrozenLake-v0", observation="text"), ClipJudge(weights), weighting="plain"
    )
    blind.reset(seed=1)
    for _, score in blind.step(blind.unwrapped.oracle_reply())[4]["scores"].by_part():
        assert score.value is None
        assert "no picture" in score.reason


def test_without_weights_it_is_unscored_and_says_how_to_get_them(tmp_path, monkeypatch, weights):
    monkeypatch.delenv("VAGEN_CLIP_WEIGHTS", raising=False)
    statement = Statement("grounding", "A hole.", LAKE, picture=picture(0))
    score = ClipJudge().score(statement)
    assert score.value is None
    assert GET in score.reason
    assert "model.safetensors" in weights_missing(tmp_path)
    assert weights_missing(weights) == ""
    monkeypatch.setenv("VAGEN_CLIP_WEIGHTS", str(weights))
    assert ClipJudge(device="cpu").score(statement).scored


def test_broken_weights_and_pictures_are_unscored(tmp_path, weights):
    for file in weights.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text("{")
    assert ClipJudge(tmp_path).score(Statement("grounding", "A hole.", LAKE, picture=picture(0))).value is None
    judge = ClipJudge(weights, device="cpu")
    assert judge.score(Statement("grounding", "A hole.", LAKE, picture=b"no picture")).value is None
    assert judge.score(Statement("grounding", "  ", LAKE, picture=picture(0))).value == 0.0
    with pytest.raises(JudgeConfigError):
        ClipJudge(weights, weight=0)


def test_it_can_be_sent_to_another_process(weights):
    judge = ClipJudge(weights, device="cpu")
    statement = Statement("grounding", "A hole.", LAKE, picture=picture(0))
    assert pickle.loads(pickle.dumps(judge)).score(statement) == judge.score(statement)
