"""SVG: drawing in the pool beside cairosvg inline, and the scorers.

Run by `make perf`. Every figure is a median; each pair runs right after one another.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from vagen_envs.pictures import Pixels
from vagen_envs.svg.dataset import load_dataset
from vagen_envs.svg.renderer import shared_renderer
from vagen_envs.svg.scorers import doctor, make_scorer

cairosvg = pytest.importorskip("cairosvg")

ICONS = [icon.svg for icon in load_dataset("builtin", 8_000).splits["test"][:64]]


def inline(svg: str) -> Pixels:
    """What a user of cairosvg would write."""
    png = cairosvg.svg2png(svg.encode(), output_width=224, output_height=224, background_color="white")
    return np.array(Image.open(io.BytesIO(png)).convert("RGB"))


def over(draw: Callable[[str], Any]) -> Callable[[], Any]:
    """Draws the next icon at each call."""
    icons = itertools.cycle(ICONS)
    return lambda: draw(next(icons))


@pytest.mark.benchmark(group="SVG to 224x224 pixels, checked and within limits")
def test_draw_ours(benchmark: Any) -> None:
    benchmark.extra_info["at_most"] = 1.3
    benchmark.pedantic(over(shared_renderer().draw), rounds=640, warmup_rounds=64)


@pytest.mark.benchmark(group="SVG to 224x224 pixels, checked and within limits")
def test_draw_theirs(benchmark: Any) -> None:
    benchmark.pedantic(over(inline), rounds=640, warmup_rounds=64)


@pytest.mark.benchmark(group="SVG, overhead of the pool: drawn in the pool")
def test_pool_ours(benchmark: Any) -> None:
    benchmark.extra_info["at_most"] = 1.1
    benchmark.pedantic(over(shared_renderer().draw), rounds=640, warmup_rounds=64)


@pytest.mark.benchmark(group="SVG, overhead of the pool: drawn in the pool")
def test_pool_theirs(benchmark: Any) -> None:
    """The same check and drawing in this process."""
    from vagen_envs.svg.check import check
    from vagen_envs.svg.drawing import draw

    def checked(svg: str) -> Pixels:
        check(svg)
        pixels = np.frombuffer(draw(svg, 224)[0], np.uint8).reshape(224, 224, 4)
        return np.ascontiguousarray(pixels[:, :, 2::-1])

    benchmark.pedantic(over(checked), rounds=640, warmup_rounds=64)


@pytest.mark.parametrize("name", [found.scorer for found in doctor() if found.ready])
def test_score_of_a_pair(benchmark: Any, name: str) -> None:
    """Against a target that is known, as it is from the second turn on."""
    benchmark.group = f"SVG, {name} score of a pair at 224x224"
    if name == "classical":
        benchmark.extra_info["at_most_us"] = 15_000
    scorer = make_scorer(name)
    pictures = [inline(svg) for svg in ICONS[:9]]
    drawn = itertools.cycle(pictures[1:])
    benchmark.pedantic(lambda: scorer.score(pictures[:1], [next(drawn)]), rounds=60, warmup_rounds=3)


@pytest.mark.gpu
def test_batches_on_a_gpu(benchmark: Any) -> None:
    """DreamSim in batches of 64 beside one by one; needs the weights and CUDA."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or "dreamsim" not in [found.scorer for found in doctor() if found.ready]:
        pytest.skip("no CUDA, or no weights")
    benchmark.group = "SVG, 64 DreamSim scores in one batch"
    scorer = make_scorer("dreamsim", device="cuda")
    pictures = [inline(svg) for svg in ICONS]
    benchmark.pedantic(lambda: scorer.score(pictures[:1] * 64, pictures), rounds=20, warmup_rounds=3)
