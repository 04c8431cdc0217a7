"""The types of furniture and objects: sizes, colours and places from objects.toml, shapes from models/*.xml.

The 26 targets are the target types of EB-Navigation (EmbodiedBench, 2025), under their AI2-THOR names.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from vagen_envs.navigation.rects import Rect

Color = tuple[float, float, float]

FOLDER = files("vagen_envs.navigation")


@dataclass(frozen=True, slots=True)
class Surface:
    """Where small objects can stand on furniture.

    Attributes:
        kind: the name that `ObjectType.places` uses.
        rect: west, south, east and north edge in cm, in the furniture's own frame.
        z: height in cm.
    """

    kind: str
    rect: Rect
    z: int


@dataclass(frozen=True, slots=True)
class ObjectType:
    """A type of furniture, or of a target.

    Attributes:
        size: width, depth and height in cm, with the front towards -y.
        colors: names in `COLORS` that a target may have; of furniture the palettes of its main and its second colour,
            in which a room has one colour each, or `any` for any cloth.
        places: kinds of surfaces that a target may stand on, `"Floor"` among them.
        surfaces: surfaces of furniture.
        aisle: cm of free floor in front of furniture.
    """

    size: tuple[int, int, int]
    colors: tuple[str, ...]
    places: tuple[str, ...]
    surfaces: tuple[Surface, ...]
    aisle: int


class Tint(tuple[float, ...]):
    """An RGB colour, each channel from 0 to 1, that formats as MJCF.

    A format specification multiplies the channels: `f"{tint:0.8}"` is darker, `f"{tint:1.3}"` lighter.
    """

    __slots__ = ()

    def __format__(self, factor: str) -> str:
        return " ".join(f"{min(1.0, channel * float(factor or 1)):.3f}" for channel in self)


def geoms(kind: str, main: Color, second: Color) -> str:
    """The MJCF geoms of a type in its main and second colour."""
    # Stripes of a pillow: darker on a light colour, white on a dark one.
    contrast = Tint(channel * 0.6 for channel in main) if sum(main) > 1.5 else Tint(COLORS["white"])
    return model_file(f"{kind}.xml").decode().format(main=Tint(main), second=Tint(second), contrast=contrast)


@functools.cache
def model_file(name: str) -> bytes:
    """A file of the folder `models`."""
    return FOLDER.joinpath("models", name).read_bytes()


def _object_type(entry: Mapping[str, Any]) -> ObjectType:
    surfaces = tuple(Surface(given["kind"], tuple(given["rect"]), given["z"]) for given in entry.get("surfaces", ()))
    colors, places = tuple(entry.get("colors", ())), tuple(entry.get("places", ()))
    return ObjectType(tuple(entry["size"]), colors, places, surfaces, entry.get("aisle", 55))


_DATA = tomllib.loads(FOLDER.joinpath("objects.toml").read_text("utf-8"))

TARGETS: Mapping[str, ObjectType] = {kind: _object_type(entry) for kind, entry in _DATA["targets"].items()}
FURNITURE: Mapping[str, ObjectType] = {kind: _object_type(entry) for kind, entry in _DATA["furniture"].items()}
COLORS: Mapping[str, Color] = {name: tuple(color) for name, color in _DATA["colors"].items()}
PALETTES: Mapping[str, tuple[Color, ...]] = {
    name: tuple(map(tuple, colors)) for name, colors in _DATA["palettes"].items()
}
"""Colours that rooms draw from: `cabinet`, `top`, `wood`, `cloth` and `wall`."""
