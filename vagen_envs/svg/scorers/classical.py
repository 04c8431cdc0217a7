"""A score without learned weights: outlines, edges and colours.

The mean of three likenesses, each anchored so that a blank canvas has 0 and the same picture 1:
the cosine of histograms of oriented gradients, the F-measure of edges matched by distance, and
exp(-ΔE/25) over all that is painted in either picture. Raw SSIM would give a blank canvas 0.57 to
0.73 on icons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.color import deltaE_cie76, rgb2lab
from skimage.feature import hog

from vagen_envs.pictures import Pixels
from vagen_envs.svg.scorers.base import Remembered

Floats = NDArray[np.float64]

_SIDE = 112
_WHITE = np.array([100.0, 0.0, 0.0])
_INK = 3.0  # ΔE from white from which on something is painted
_EDGE = 20.0  # change of Lab over an edge
_REACH = 2.0  # pixels by which edges may be apart, at 112
_TONE = 25.0  # ΔE at which colours are alike by 1/e


@dataclass(frozen=True, slots=True)
class Features:
    """What is compared of a picture.

    Attributes:
        lab: (112, 112, 3), CIE L*a*b*.
        ink: (112, 112), where something is painted.
        gradients: histogram of oriented gradients, of length 1 unless blank.
        edges: (112, 112), where an edge is.
        far: (112, 112), pixels to the nearest edge.
        blank_tone: what a blank canvas has as likeness of colours.
    """

    lab: Floats
    ink: NDArray[np.bool_]
    gradients: Floats
    edges: NDArray[np.bool_]
    far: Floats
    blank_tone: float


class ClassicalScorer:
    """Scores a pair of 224×224 pictures in about 10 ms on one core."""

    name = "classical"
    version = "classical-1"

    def __init__(self) -> None:
        self._targets = Remembered(256)

    def score(self, targets: Sequence[Pixels], pictures: Sequence[Pixels]) -> list[Mapping[str, float]]:
        wanted = self._targets.get_all(targets, lambda unknown: [features(each) for each in unknown])
        drawn = [features(picture) for picture in pictures]
        return [{"classical": likeness(a, b)} for a, b in zip(wanted, drawn, strict=True)]


def features(picture: Pixels) -> Features:
    """The features of a uint8 picture of shape (height, width, 3)."""
    lab: Floats = rgb2lab(_shrink(picture) / 255.0)
    distance = deltaE_cie76(lab, _WHITE)
    ink = distance > _INK
    change = np.zeros(lab.shape[:2])
    for channel in range(3):
        for axis in (0, 1):
            change = np.maximum(change, np.abs(ndimage.sobel(lab[..., channel], axis=axis)) / 4)
    edges = change > _EDGE
    if not edges.any():
        edges = change > 1.0  # a very pale picture
    gradients: Floats = hog(lab[..., 0], orientations=8, pixels_per_cell=(14, 14), cells_per_block=(2, 2))
    norm = float(np.linalg.norm(gradients))
    far = ndimage.distance_transform_edt(~edges) if edges.any() else np.full(edges.shape, np.inf)
    tone = float(np.exp(-distance[ink] / _TONE).mean()) if ink.any() else 0.0
    return Features(lab, ink, gradients / norm if norm else gradients, edges, far, tone)


def likeness(target: Features, picture: Features) -> float:
    """From 0 (a blank canvas, or worse) to 1 (the same picture)."""
    union = target.ink | picture.ink
    if not union.any():
        return 1.0
    if not target.ink.any() or not picture.ink.any():
        return 0.0
    outlines = float(target.gradients @ picture.gradients)
    tone = float(np.exp(-deltaE_cie76(target.lab[union], picture.lab[union]) / _TONE).mean())
    colours = (tone - target.blank_tone) / (1 - target.blank_tone)
    parts = (outlines, _edge_match(target, picture), colours)
    return min(1.0, max(0.0, sum(min(1.0, max(0.0, part)) for part in parts) / 3))


def _edge_match(target: Features, picture: Features) -> float:
    if not target.edges.any() or not picture.edges.any():
        return float(target.edges.any() == picture.edges.any())
    precision = float(np.exp(-target.far[picture.edges] / _REACH).mean())
    recall = float(np.exp(-picture.far[target.edges] / _REACH).mean())
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _shrink(picture: Pixels) -> Floats:
    """Mean of blocks, to about 112 pixels a side."""
    step = max(1, round(max(picture.shape[:2]) / _SIDE))
    height, width = (side // step * step for side in picture.shape[:2])
    total = np.zeros((height // step, width // step, 3))
    for row in range(step):  # strided sums are several times quicker than a mean over axes
        for column in range(step):
            total += picture[row:height:step, column:width:step]
    return total / step**2
