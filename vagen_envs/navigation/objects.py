"""The types of furniture and objects: sizes, colours and places from objects.toml, shapes from
models/*.xml.

The 26 targets are the target types of EB-Navigation (EmbodiedBench, 2025), under their AI2-THOR
names.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from vagen_envs.navigation.floor_plan import Rect

Color = tuple[float, float, float]

_FOLDER = Path(__file__).parent


class Surface(NamedTuple):
    """Where small objects can stand on furniture: a kind of place, its edges in the furniture's
    frame, its height.
    """

    kind: str
    rect: Rect
    z: int


@dataclass(frozen=True, slots=True)
class ObjectType:
    """A type of furniture, or of a target.

    Attributes:
        size: width, depth and height in cm, with the front towards -y.
        colors: names in `COLORS` that a target may have; of furniture the palettes of its main and
            its second colour, in which a room has one colour each, or `any` for any cloth.
        places: kinds of surfaces that a target may stand on, `"Floor"` among them.
        aisle: cm of free floor in front of furniture.
    """

    size: tuple[int, int, int]
    colors: tuple[str, ...]
    places: tuple[str, ...] = ()
    surfaces: tuple[Surface, ...] = ()
    aisle: int = 55


class Tint(tuple[float, ...]):
    """An RGB colour, each channel from 0 to 1, that formats as MJCF.

    A format specification multiplies the channels: `f"{tint:0.8}"` is darker, `f"{tint:1.3}"`
    lighter.
    """

    __slots__ = ()

    def __format__(self, factor: str) -> str:
        return " ".join(f"{min(1.0, channel * float(factor or 1)):.3f}" for channel in self)


_COVERS = {"wood": "wood", "cloth": "fabric", "any": "fabric"}
"""The material of parts in a colour of a palette."""


def geoms(kind: str, main: Color, second: Color, painting: str = "matt") -> str:
    """The MJCF geoms of a type in its main and second colour; `painting` is a painting's
    material.
    """
    # Stripes of a pillow: darker on a light colour, white on a dark one.
    contrast = Tint(channel * 0.6 for channel in main) if sum(main) > 1.5 else Tint(COLORS["white"])
    palettes = FURNITURE[kind].colors if kind in FURNITURE else ()
    covers = {
        f'rgba="{{{name}': _COVERS[palette]
        for name, palette in zip(("main", "second"), palettes, strict=False)
        if palette in _COVERS
    }
    lines = model_file(f"{kind}.xml").decode().splitlines()
    text = "\n".join(_covered(line, covers) for line in lines)
    return text.format(main=Tint(main), second=Tint(second), contrast=contrast, painting=painting)


def _covered(line: str, covers: Mapping[str, str]) -> str:
    """A geom with the material that its colour asks for, unless it has one."""
    if "material=" in line:
        return line
    material = next((covers[color] for color in covers if color in line), None)
    return line if material is None else line.replace("/>", f' material="{material}"/>')


@functools.cache
def model_file(name: str) -> bytes:
    """A file of the folder `models`."""
    return (_FOLDER / "models" / name).read_bytes()


def _typed(value: Any) -> Any:
    """TOML's data with tuples for lists, surfaces and types."""
    if isinstance(value, list):
        return tuple(map(_typed, value))
    if not isinstance(value, dict):
        return value
    entries = {name: _typed(entry) for name, entry in value.items()}
    if "rect" in entries:
        return Surface(**entries)
    if "size" in entries:
        return ObjectType(**entries)
    return entries


_DATA = _typed(tomllib.loads((_FOLDER / "objects.toml").read_text("utf-8")))

TARGETS: Mapping[str, ObjectType] = _DATA["targets"]
FURNITURE: Mapping[str, ObjectType] = _DATA["furniture"]
COLORS: Mapping[str, Color] = _DATA["colors"]
PALETTES: Mapping[str, tuple[Color, ...]] = _DATA["palettes"]
"""Colours that rooms draw from: `cabinet`, `top`, `wood`, `cloth` and `wall`."""
