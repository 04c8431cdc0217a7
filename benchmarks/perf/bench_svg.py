"""SVG: drawing in the pool beside cairosvg inline, and the scorers.

Run by `make perf`. Every figure is a median; each pair runs right after one another. Drawing is
measured in CPU time, of this process and of those that draw: on a busy machine the wall clock shows
who else is waiting.
"""

from __future__ import annotations

import io
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

import vagen_envs  # noqa: F401
from perf.random_weights import write_weights
from vagen_envs.pictures import Pixels
from vagen_envs.svg.dataset import load_dataset
from vagen_envs.svg.renderer import shared_renderer
from vagen_envs.svg.scorers import SCORERS, make_scorer, missing

cairosvg = pytest.importorskip("cairosvg")

WORDS = dict.fromkeys(("observation", "reasoning", "prediction"), "I draw.")
ICONS = [icon.svg for icon in load_dataset("builtin", 8_000).splits["test"][:64]]


def cpu_seconds() -> float:
    """CPU time of this process and of the drawing processes."""
    theirs = (
        Path(f"/proc/{pid}/schedstat").read_text().split()[0] for pid in shared_renderer().pids
    )
    return time.process_time() + sum(map(int, theirs)) / 1e9


def inline(svg: str) -> Pixels:
    """What a user of cairosvg would write."""
    png = cairosvg.svg2png(
        svg.encode(), output_width=224, output_height=224, background_color="white"
    )
    return np.array(Image.open(io.BytesIO(png)).convert("RGB"))


def in_pairs(benchmark: Any, ours: Callable[[str], Any], theirs: Callable[[str], Any]) -> None:
    """Draw all icons both ways in each round, right after one another."""
    took: list[float] = []

    def draw_all(draw: Callable[[str], Any]) -> None:
        for svg in ICONS:
            draw(svg)

    def begin() -> None:
        began = cpu_seconds()
        draw_all(theirs)
        took.append(cpu_seconds() - began)

    draw_all(ours)
    benchmark.pedantic(lambda: draw_all(ours), setup=begin, rounds=24)
    stats = benchmark.stats.stats
    benchmark.extra_info["theirs"] = stats.median / float(
        np.median(np.divide(stats.data, took[-24:]))
    )


@pytest.mark.benchmark(group="64 SVGs to 224x224, safely; cairosvg inline", timer=cpu_seconds)
def test_draw(benchmark: Any) -> None:
    in_pairs(benchmark, shared_renderer().draw, inline)


RESTORE = "SVG, restore on the same level / a turn"


@pytest.fixture
def drawn() -> Any:
    """An environment in the middle of an episode that doesn't end."""
    env: Any = gym.make("vagen/SVGReconstruction-v0", scorer="classical", max_turns=10**9).unwrapped
    env.reset(seed=7)
    env.step(env.grammar.render([ICONS[0]], **WORDS))
    return env


@pytest.mark.ratio
@pytest.mark.benchmark(group=RESTORE)
def test_restore_ours(benchmark: Any, drawn: Any) -> None:
    """Back by one turn, from another drawing each time."""
    replies = itertools.cycle([drawn.grammar.render([svg], **WORDS) for svg in ICONS])

    def moment() -> tuple[tuple[bytes], dict[str, Any]]:
        drawn.reset(seed=7)
        drawn.step(next(replies))
        taken = drawn.snapshot()
        drawn.step(next(replies))
        return (taken,), {}

    benchmark.extra_info.update(at_least=4, at_most_us=50)
    benchmark.pedantic(drawn.restore, setup=moment, rounds=40, warmup_rounds=3)


@pytest.mark.ratio
@pytest.mark.benchmark(group=RESTORE)
def test_restore_theirs(benchmark: Any, drawn: Any) -> None:
    replies = itertools.cycle([drawn.grammar.render([svg], **WORDS) for svg in ICONS])
    benchmark.pedantic(lambda: drawn.step(next(replies)), rounds=40, warmup_rounds=3)


@pytest.mark.parametrize("name", [name for name in SCORERS if missing(name) is None])
def test_score_of_a_pair(benchmark: Any, name: str) -> None:
    """Against a target that is known, as it is from the second turn on."""
    benchmark.group = f"SVG, {name} score of a pair at 224x224"
    scorer = make_scorer(name)
    pictures = [inline(svg) for svg in ICONS[:9]]
    drawn = itertools.cycle(pictures[1:])
    benchmark.pedantic(
        lambda: scorer.score(pictures[:1], [next(drawn)]), rounds=60, warmup_rounds=3
    )


@pytest.fixture(scope="module")
def on_gpu(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """DreamSim and DINO with random weights, which take the time that the published ones do."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA")
    folder = tmp_path_factory.mktemp("weights")
    write_weights(folder)
    return make_scorer("dreamsim", str(folder), device="cuda")


BATCHES = "SVG, 64 DreamSim scores on a GPU: a batch, one by one"


@pytest.mark.gpu
@pytest.mark.benchmark(group=BATCHES)
def test_batches_ours(benchmark: Any, on_gpu: Any) -> None:
    pictures = [inline(svg) for svg in ICONS]
    benchmark.pedantic(
        lambda: on_gpu.score(pictures[:1] * 64, pictures), rounds=20, warmup_rounds=3
    )


@pytest.mark.gpu
@pytest.mark.benchmark(group=BATCHES)
def test_batches_theirs(benchmark: Any, on_gpu: Any) -> None:
    pictures = [inline(svg) for svg in ICONS]
    benchmark.pedantic(
        lambda: [on_gpu.score(pictures[:1], [each]) for each in pictures],
        rounds=20,
        warmup_rounds=3,
    )
