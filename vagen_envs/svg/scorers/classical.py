"""A score without learned weights: outlines, edges and colours.

The mean of three likenesses: the cosine of histograms of oriented gradients, the F-measure of edges
matched by distance, and exp(-ΔE/25) weighted by how far from white either picture is. Each is
corrected for chance, as Cohen's kappa is: what a picture gets that has the same strokes in other
places counts as 0, the same picture as 1. Without that a grid of pale lines, which touches every
edge, has 0.40 on icons, and another real icon 0.20 (raw SSIM would give a blank canvas 0.57 to
0.73).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.color import deltaE_cie76, rgb2lab
from skimage.feature import hog

from vagen_envs.pictures import Pixels
from vagen_envs.svg.scorers.base import FeatureScorer

Floats = NDArray[np.float64]

_SIDE = 112
_WHITE = np.array([100.0, 0.0, 0.0])
_INK = 3.0  # ΔE from white from which on something is painted
# about the mean likeness of pictures that know only how icons are laid out: discs, a mean icon
_BLIND = 0.1
_EDGE = 20.0  # change of Lab over an edge
_REACH = 2.0  # pixels by which edges may be apart, at 112
_TONE = 35.0  # ΔE at which colours are alike by 1/e


class Features(NamedTuple):
    """The compared features of a picture.

    Attributes:
        lab: (112, 112, 3), CIE L*a*b*.
        ink: (112, 112), ΔE from white.
        gradients: (blocks, 32), histograms of oriented gradients; of length 1 together unless
            blank.
        edges: (112, 112), where an edge is.
        near: (112, 112), from 1 at an edge down to 0 far from all.
    """

    lab: Floats
    ink: Floats
    gradients: Floats
    edges: NDArray[np.bool_]
    near: Floats


class ClassicalScorer(FeatureScorer[Features]):
    """Scores a pair of 224×224 pictures in about 10 ms on one core."""

    name = "classical"
    version = "classical-2"

    def features(self, pictures: Sequence[Pixels]) -> list[Features]:
        return [_features(picture) for picture in pictures]

    def compare(self, target: Features, picture: Features) -> Mapping[str, float]:
        same = np.array_equal(target.lab, picture.lab)  # 1, whatever is rounded
        return {"classical": 1.0 if same else _likeness(target, picture)}


def _features(picture: Pixels) -> Features:
    """The features of a uint8 picture of shape (height, width, 3)."""
    step = max(1, round(max(picture.shape[:2]) / _SIDE))
    height, width = (side // step * step for side in picture.shape[:2])
    # Strided sums are several times quicker than a mean over axes.
    total = sum(
        (picture[i:height:step, j:width:step] for i in range(step) for j in range(step)), 0.0
    )
    lab: Floats = rgb2lab(total / step**2 / 255.0)
    ink: Floats = deltaE_cie76(lab, _WHITE)
    changes = [
        np.abs(ndimage.sobel(lab[..., channel], axis)) / 4
        for channel in range(3)
        for axis in (0, 1)
    ]
    change = np.max(changes, axis=0)
    edges = change > _EDGE
    if not edges.any():
        edges = change > 1.0  # a very pale picture
    blocks = hog(
        lab[..., 0],
        orientations=8,
        pixels_per_cell=(14, 14),
        cells_per_block=(2, 2),
        feature_vector=False,
    )
    gradients: Floats = blocks.reshape(blocks.shape[0] * blocks.shape[1], -1)
    gradients = gradients / (float(np.linalg.norm(gradients)) or 1.0)
    near: Floats = np.zeros(edges.shape)
    if edges.any():
        near = np.exp(-ndimage.distance_transform_edt(~edges) / _REACH)
    return Features(lab, ink, gradients, edges, near)


def _likeness(target: Features, picture: Features) -> float:
    """From 0 (a blank canvas, or worse) to 1 (the same picture)."""
    blank = (target.ink.max() <= _INK, picture.ink.max() <= _INK)
    if any(blank):
        return float(all(blank))
    outlines = float((target.gradients * picture.gradients).sum())
    # Scaled so that their product is the chance of a match.
    means = [
        each.gradients.mean(axis=0) * np.sqrt(len(each.gradients)) for each in (target, picture)
    ]
    tone = _tone(deltaE_cie76(target.lab, picture.lab), np.maximum(target.ink, picture.ink))
    blank_tone = _tone(target.ink, target.ink)
    parts = (
        _beyond_chance(outlines, float(means[0] @ means[1])),
        _edge_match(target, picture),
        (tone - blank_tone) / (1 - blank_tone),  # wrong colours are worse than none
    )
    mean = max(0.0, sum(parts) / 3)
    # Any picture in the middle of the canvas is a little like any other. This leaves 0 and 1 where
    # they are, keeps the order, and takes most away where that is all there is: 0.1 becomes 0.05,
    # 0.5 becomes 0.45.
    return mean * mean / (mean + _BLIND * (1 - mean)) if mean else 0.0


def _tone(difference: Floats, weights: Floats) -> float:
    return float((weights * np.exp(-difference / _TONE)).sum() / weights.sum())


def _beyond_chance(share: float, chance: float) -> float:
    return min(1.0, max(0.0, (share - chance) / (1 - chance))) if chance < 1 else 0.0


def _edge_match(target: Features, picture: Features) -> float:
    """F-measure of the edges that lie at one of the other's; chance is an edge's that may lie
    anywhere.
    """
    if not target.edges.any() or not picture.edges.any():
        return float(target.edges.any() == picture.edges.any())
    precision = _met(picture.edges, target.near)
    recall = _met(target.edges, picture.near)
    if not precision + recall:
        return 0.0
    return 2 * precision * recall / (precision + recall)


def _met(edges: NDArray[np.bool_], near: NDArray[np.float64]) -> float:
    """The share of edges that lie near the other picture's, beyond chance."""
    return _beyond_chance(float(near[edges].mean()), float(near.mean()))
