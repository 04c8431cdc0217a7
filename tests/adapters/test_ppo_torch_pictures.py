"""Picture operations in place of torchvision's, held to transformers' processors on PIL."""

import importlib
import sys

import pytest

pytest.importorskip("trl")
import numpy as np
import torch

from vagen_adapters.ppo import torch_pictures
from vagen_adapters.ppo.torch_pictures import InterpolationMode, in_place_of_torchvision

LEVEL = 1 / 255
SIZES = {"height": 48, "width": 64}
TWINS = {
    "qwen2_vl": ("Qwen2VLImageProcessor", {"patch_size": 16, "size": {"shortest_edge": 1024, "longest_edge": 16_384}}),
    "got_ocr2": ("GotOcr2ImageProcessor", {"size": SIZES, "crop_to_patches": True, "max_patches": 4}),
    "gemma3": ("Gemma3ImageProcessor", {"size": SIZES}),
    "llava_onevision": (
        "LlavaOnevisionImageProcessor",
        {"size": {"height": 32, "width": 32}, "image_grid_pinpoints": [[32, 64], [64, 32]]},
    ),
    "llava": ("LlavaImageProcessor", {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}),
    "pixtral": ("PixtralImageProcessor", {"size": {"longest_edge": 64}, "patch_size": 8}),
    "glm4v": ("Glm4vImageProcessor", {"patch_size": 14, "size": {"shortest_edge": 12_544, "longest_edge": 50_176}}),
}


def picture(rows=100, columns=140):
    """Smooth, with an edge: what photographs are made of."""
    x, y = np.meshgrid(np.linspace(0, 6, columns), np.linspace(0, 4, rows))
    made = np.stack([np.sin(x) * 100 + 120, np.cos(y + x) * 100 + 120, x * 30], axis=-1)
    made[30:60, 40:90] = (250, 20, 90)
    return made.clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("family", TWINS)
def test_a_processor_gives_the_patches_of_its_twin_on_pil(family):
    name, settings = TWINS[family]
    with in_place_of_torchvision():
        module = importlib.import_module(f"transformers.models.{family}.image_processing_{family}")
    twins = importlib.import_module(f"transformers.models.{family}.image_processing_pil_{family}")
    ours = getattr(module, name)(**settings)(images=[picture()], return_tensors="pt")
    theirs = getattr(twins, f"{name}Pil")(**settings)(images=[picture()], return_tensors="pt")
    assert ours.keys() == theirs.keys()
    for key in ours:
        one, other = torch.as_tensor(ours[key]).float(), torch.as_tensor(theirs[key]).float()
        assert one.shape == other.shape
        assert (one - other).abs().max() <= 4 * LEVEL / 0.26  # of a pixel's spread; PIL rounds after each direction
        assert (one - other).abs().mean() <= 0.3 * LEVEL / 0.26


def test_nothing_says_that_torchvision_is_there():
    from transformers.utils import is_torchvision_available

    before = is_torchvision_available()
    with in_place_of_torchvision():
        pass
    assert is_torchvision_available() == before
    assert before or "torchvision" not in sys.modules


def test_operations_by_hand():
    grey = torch.tensor([[[0, 255], [51, 102]]], dtype=torch.uint8)
    assert torch.equal(torch_pictures.grayscale_to_rgb(grey)[2], grey[0])
    assert torch.allclose(torch_pictures.to_dtype(grey, torch.float32, scale=True)[0, 1], torch.tensor([0.2, 0.4]))
    assert torch.equal(
        torch_pictures.to_dtype(torch.ones(1), torch.uint8, scale=True), torch.tensor([255], dtype=torch.uint8)
    )
    padded = torch_pictures.pad(grey, [1, 0, 0, 2], fill=7)
    assert padded.shape == (1, 4, 3)
    assert padded[0, :, 0].tolist() == [7] * 4
    assert padded[0, 0].tolist() == [7, 0, 255]
    assert torch_pictures.pad(torch.zeros(3, 1, 1), [1, 0], fill=[1, 2, 3])[:, 0, 0].tolist() == [1, 2, 3]
    assert torch_pictures.crop(grey, 1, -1, 2, 2).tolist() == [[[0, 51], [0, 0]]]
    assert torch_pictures.normalize(torch.ones(3, 1, 1), [0, 1, 2], [1, 2, 4]).flatten().tolist() == [1, 0, -0.25]
    assert torch_pictures.resize(grey, [2, 2], InterpolationMode.BICUBIC) is grey
    with pytest.raises(TypeError, match="uint8"):
        torch_pictures.normalize(grey, 0.0, 1.0)
