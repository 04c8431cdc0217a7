"""The third-person camera of the scenes, and where a point is in its picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class View:
    """A pinhole camera with z upwards: where it is and looks, in millimetres, and its field of view
    in radians.
    """

    eye: tuple[int, int, int]
    target: tuple[int, int, int]
    field: float

    def pixel(self, point: Sequence[float], size: int) -> tuple[int, int]:
        """Column and row of a point in a picture of `size` × `size` pixels, from its upper left."""
        forward = np.subtract(self.target, self.eye) / math.dist(self.target, self.eye)
        right = np.cross(forward, (0.0, 0.0, 1.0))
        right /= np.linalg.norm(right)
        up = np.cross(right, forward)
        away = np.subtract(point, self.eye)
        half = size / 2
        focal = half / math.tan(self.field / 2) / float(away @ forward)
        column = half + focal * float(away @ right)
        row = half - focal * float(away @ up)
        return round(column), round(row)

    def words(self, size: int, points: Sequence[tuple[int, int, int]]) -> str:
        """What an agent needs to read millimetres off a picture: pose, field of view and known
        points.
        """
        known = " and ".join(f"{point} is at pixel {self.pixel(point, size)}" for point in points)
        return (
            f"The camera is at {self.eye} and looks at {self.target}, with a field of view of "
            f"{math.degrees(self.field):.1f} degrees. In its picture of {size} x {size} pixels, "
            f"counted from the upper left as (column, row), {known}."
        )


TABLE = View((620, 0, 520), (-60, 0, 140), 0.78)
DRAWER = View((300, -60, 660), (-330, -160, 90), 0.85)
PUBLISHED = View((1000, 0, 600), (-200, 0, 200), math.pi / 2)
"""The release's, of its drawer scene."""


def view_of(task: str, published: bool) -> View:
    """The camera of a task's scenes, or of the published one."""
    if published:
        return PUBLISHED
    return DRAWER if task == "drawer" else TABLE
