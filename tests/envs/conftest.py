"""Shared by the tests of environments."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="session")
def farthest():
    """How far, of 255, the means of a square picture's blocks are from golden ones: (side, side, 3)."""

    def measure(picture, golden):
        side = golden.shape[0]
        block = picture.shape[0] // side
        means = picture.astype(float).reshape(side, block, side, block, 3).mean((1, 3))
        return float(np.abs(means - golden).max())

    return measure
