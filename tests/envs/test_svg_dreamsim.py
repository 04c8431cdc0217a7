"""DreamSim and DINO by their packages, with random weights in the published layout.

torchvision's wheels fit no torch for CPUs alone; there run these tests in an environment of its own, where a `.pth` file imports
scripts/torchvision_on_cpu.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("timm")
dreamsim = pytest.importorskip("dreamsim")
pytest.importorskip("resvg")

from perf.random_weights import write_weights  # noqa: E402
from vagen_envs.svg.scorers import ScorerError, make_scorer, missing  # noqa: E402
from vagen_envs.svg.scorers.dreamsim import DINO_SMALL, FILES  # noqa: E402


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    write_weights(folder)
    return folder


def test_the_scores_are_the_packages_own(weights):
    pictures = list(np.random.default_rng(0).integers(0, 256, (3, 224, 224, 3), dtype=np.uint8))
    pictures[2] = np.full((100, 100, 3), 51, np.uint8)
    scorer = make_scorer("auto", str(weights), device="cpu")
    assert scorer.name == "dreamsim"
    model, preprocess = dreamsim.dreamsim(cache_dir=str(weights), device="cpu")
    tensors = [preprocess(Image.fromarray(each)) for each in pictures]
    scores = scorer.score([pictures[0]] * 3, pictures)
    assert list(scores[0]) == ["dreamsim", "dino"]
    for score, tensor in zip(scores, tensors, strict=True):
        assert score["dreamsim"] == pytest.approx(1 - float(model(tensors[0], tensor)), abs=1e-5)
        assert 0 <= score["dino"] <= 1
    assert scores[0]["dino"] == pytest.approx(1, abs=1e-5)


def test_nothing_is_downloaded_for_a_missing_file(weights, tmp_path):
    for file in FILES:
        if file != DINO_SMALL:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).symlink_to(weights / file)
    assert DINO_SMALL in missing("dreamsim", str(tmp_path))[0]
    with pytest.raises(ScorerError, match=DINO_SMALL):
        make_scorer("dreamsim", str(tmp_path))


def test_a_damaged_file_is_named(weights, tmp_path):
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).symlink_to(weights / file)
    (tmp_path / "clip_vitb16_pretrain.pth.tar").unlink()
    (tmp_path / "clip_vitb16_pretrain.pth.tar").write_bytes(b"no weights")
    with pytest.raises(ScorerError, match="can't read the weights"):
        make_scorer("dreamsim", str(tmp_path))
