"""DreamSim and DINO: the published layout with random weights, and the arithmetic against torch's own layers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")
pytest.importorskip("skimage")

from perf.random_weights import ALPHA, RANK, write_weights  # noqa: E402
from vagen_envs.svg.scorers import ScorerError, doctor, make_scorer  # noqa: E402
from vagen_envs.svg.scorers.vit import Block, as_batch  # noqa: E402
from vagen_envs.svg.scorers.weights import (  # noqa: E402
    ADAPTER,
    ADAPTER_CONFIG,
    CLIP,
    FILES,
    load,
    load_adapter,
)  # fmt: skip


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    write_weights(folder)
    return folder


@pytest.fixture(scope="module")
def pictures():
    return list(np.random.default_rng(0).integers(0, 256, (3, 224, 224, 3), dtype=np.uint8))


def test_the_published_layout_is_loaded_and_scores(weights, pictures):
    assert next(found for found in doctor(str(weights)) if found.scorer == "dreamsim").ready
    scorer = make_scorer("auto", str(weights), device="cpu")
    assert scorer.name == "dreamsim"
    assert scorer.version.startswith("dreamsim-ensemble-0.2+dino-vits16")
    same, other = scorer.score([pictures[0]] * 2, pictures[:2])
    assert list(same) == ["dreamsim", "dino"]
    assert same["dreamsim"] == pytest.approx(1, abs=1e-5)
    assert same["dino"] == pytest.approx(1, abs=1e-5)
    for name in same:  # random weights find any picture like any other, to float32's rounding
        assert 0 <= other[name] <= same[name] + 1e-6


def test_pictures_of_another_size_are_resized(pictures):
    assert torch.equal(
        as_batch(pictures, torch.device("cpu")) * 255, torch.tensor(np.stack(pictures)).permute(0, 3, 1, 2)
    )
    flat = [np.full((100, 100, 3), 51, np.uint8)]
    assert torch.allclose(as_batch(flat, torch.device("cpu")), torch.full((1, 3, 224, 224), 0.2))


def test_lora_is_added_as_alpha_over_r_times_b_a(weights):
    added = load_adapter(weights)
    lora = safetensors.load_file(weights / ADAPTER)
    assert len(added) == 36
    name = "base_model.model.extractor_list.1.model.blocks.7.attn.qkv"
    expected = (ALPHA / RANK) * lora[f"{name}.lora_B.weight"] @ lora[f"{name}.lora_A.weight"]
    assert torch.allclose(added[1, "blocks.7.attn.qkv.weight"], expected)


def test_a_missing_file_is_named_with_its_source(weights, tmp_path):
    for file in FILES:
        if file != CLIP:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).symlink_to(weights / file)
    found = next(found for found in doctor(str(tmp_path)) if found.scorer == "dreamsim")
    assert not found.ready
    assert CLIP in found.missing
    assert FILES[CLIP] in found.mend
    with pytest.raises(ScorerError, match=CLIP):
        make_scorer("dreamsim", str(tmp_path))


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_command_that_is_named_gets_every_file(tmp_path):
    """Run as it is, but for the addresses: those lead to files here."""
    there = tmp_path / "there"
    for file, source in FILES.items():
        if not source.endswith(".zip"):
            (there / source.removeprefix("https://")).parent.mkdir(parents=True)
            (there / source.removeprefix("https://")).write_text(file)
    archive = there / FILES[CLIP].removeprefix("https://")
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as packed:
        for file, source in FILES.items():
            if source == FILES[CLIP]:
                packed.writestr(file, file)
    folder = tmp_path / "with a space"
    found = next(found for found in doctor(str(folder)) if found.scorer == "dreamsim")
    local = found.mend.replace("https://", f"file://{there}/").replace("python -m", f"{sys.executable} -m")
    subprocess.run(["bash", "-c", local], check=True)
    assert next(found for found in doctor(str(folder)) if found.scorer == "dreamsim").ready


def test_an_adapter_with_anything_unknown_is_refused(tmp_path):
    (tmp_path / ADAPTER).parent.mkdir(parents=True)
    (tmp_path / ADAPTER_CONFIG).write_text(json.dumps({"r": RANK, "lora_alpha": ALPHA}))
    good = "base_model.model.extractor_list.0.model.blocks.0.attn.qkv.lora_A.weight"
    safetensors.save_file({"base_model.model.mlp.fc1.weight": torch.zeros(2, 2)}, tmp_path / ADAPTER)
    with pytest.raises(ScorerError, match="no LoRA weight"):
        load_adapter(tmp_path)
    safetensors.save_file({good: torch.zeros(RANK, 768)}, tmp_path / ADAPTER)
    with pytest.raises(ScorerError, match="A and B of rank 4"):
        load_adapter(tmp_path)
    for file, content in [(ADAPTER, "not tensors"), (ADAPTER_CONFIG, "{}"), (ADAPTER_CONFIG, "<html>404</html>")]:
        (tmp_path / file).write_text(content)
        with pytest.raises(ScorerError, match=f"{file} is damaged"):
            load_adapter(tmp_path)


@pytest.mark.parametrize("saved", [{"state_dict": eval}, {"weights": {}}, []], ids=["code", "another", "list"])
def test_what_runs_code_or_is_another_checkpoint_is_refused(tmp_path, saved):
    torch.save(saved, tmp_path / CLIP)
    with pytest.raises(ScorerError, match="not a checkpoint of tensors"):
        load(tmp_path, CLIP)


@pytest.mark.parametrize("kind", ["dino", "clip", "open_clip"])
def test_a_block_is_torchs_encoder_layer(kind):
    """torch's own pre-norm encoder layer with the same weights computes the same."""
    torch.manual_seed(0)
    block = Block(32, 4, kind, 1e-5).eval()
    quick = kind == "clip"
    peer = torch.nn.TransformerEncoderLayer(
        32, 4, 128, 0.0, (lambda x: x * torch.sigmoid(1.702 * x)) if quick else "gelu", 1e-5, True, True
    ).eval()
    peer.load_state_dict({
        "self_attn.in_proj_weight": block.attn.qkv.weight, "self_attn.in_proj_bias": block.attn.qkv.bias,
        "self_attn.out_proj.weight": block.attn.proj.weight, "self_attn.out_proj.bias": block.attn.proj.bias,
        "linear1.weight": block.mlp.fc1.weight, "linear1.bias": block.mlp.fc1.bias,
        "linear2.weight": block.mlp.fc2.weight, "linear2.bias": block.mlp.fc2.bias,
        "norm1.weight": block.norm1.weight, "norm1.bias": block.norm1.bias,
        "norm2.weight": block.norm2.weight, "norm2.bias": block.norm2.bias,
    })  # fmt: skip
    tokens = torch.randn(2, 5, 32)
    with torch.no_grad():
        assert torch.allclose(block(tokens), peer(tokens), atol=1e-5)
