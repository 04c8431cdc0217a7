"""How rooms look: textures of walls, ceilings, furniture and paintings, drawn here, and three
styles.

A style follows from what stands where, so it is the same everywhere and moves no level. Every scene
has all textures, since one OpenGL context draws all scenes of a process.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vagen_envs.navigation.house import House, HouseObject
from vagen_envs.seeding import HashStream

Texture = NDArray[np.float64]
"""Brightness or colour of each pixel, from 0 to 1: (side, side) or (side, side, 3)."""

STYLES = ("plaster", "wallpaper", "panels")
PAINTINGS = 8
_SIDE = 128
_HEIGHT = np.linspace(1.0, 0.0, _SIDE)[:, None]
"""The height of each row of a wall's texture: 1 at the ceiling, 0 at the floor."""
_ACROSS = np.linspace(0.0, 1.0, _SIDE)[None, :]


def style_of(house: House) -> str:
    """The style of a house."""
    return HashStream("navigation style", house.content().hex()).choice(STYLES)


def painting_of(thing: HouseObject) -> str:
    """The material of a painting that hangs there."""
    number = HashStream("navigation painting", thing.x, thing.y, thing.turn).below(PAINTINGS)
    return f"painting{number}"


def _grain(seed: int, strength: float, along: int = 1) -> Texture:
    """Fine noise around 1, stretched `along` pixels."""
    generator = np.random.Generator(np.random.PCG64(seed))
    noise = generator.standard_normal((_SIDE, _SIDE // along))
    return 1.0 + strength * np.repeat(noise, along, axis=1)


def _corners(depth: float) -> Texture:
    """Darker towards floor, ceiling and the neighbouring walls, where less light comes from
    around.
    """
    edges = np.minimum(_ACROSS, 1.0 - _ACROSS)
    shade = np.exp(-_HEIGHT / 0.07) + 0.7 * np.exp(-(1.0 - _HEIGHT) / 0.09)
    return 1.0 - depth * np.minimum(1.0, shade + 0.8 * np.exp(-edges / 0.03))


def _plaster() -> Texture:
    return _corners(0.20) * _grain(1, 0.012)


def _wallpaper() -> Texture:
    """Stripes, with a lighter border below the ceiling."""
    stripes = np.where((_ACROSS * 24).astype(int) % 2, 0.90, 1.02)
    border = np.where(_HEIGHT > 0.93, 0.80, 1.0)
    return stripes * border * _corners(0.18) * _grain(2, 0.008)


def _panels() -> Texture:
    """Boards up to a third of the wall's height, plaster above."""
    boards = np.where((_ACROSS * _SIDE).astype(int) % 16 < 1, 0.55, 0.78)
    rail = np.abs(_HEIGHT - 0.36) < 0.012
    wall = np.where(_HEIGHT < 0.36, boards, 1.0)
    return np.where(rail, 0.6, wall) * _corners(0.18) * _grain(3, 0.010)


def _ceiling() -> Texture:
    middle = np.minimum(np.minimum(_ACROSS, 1 - _ACROSS), np.minimum(_HEIGHT, 1 - _HEIGHT))
    return (1.0 - 0.22 * np.exp(-middle / 0.10)) * _grain(4, 0.006)


def _wood() -> Texture:
    rings = np.sin(60.0 * _HEIGHT + 3.0 * np.sin(5.0 * _ACROSS))
    return (0.95 + 0.04 * rings) * _grain(5, 0.03, along=16)


def _fabric() -> Texture:
    weave = np.sin(np.pi * 32 * _ACROSS) * np.sin(np.pi * 32 * _HEIGHT)
    return (0.95 + 0.05 * weave) * _grain(6, 0.02)


def _landscape(stream: HashStream) -> Texture:
    """Hills behind one another under a sky with a sun."""
    sky = np.array([stream.uniform(0.3, 0.9) for _ in range(3)])
    far = np.array([stream.uniform(0.3, 0.9) for _ in range(3)])
    light = _HEIGHT[..., None]
    picture = sky * light + far * (1.0 - light) + np.zeros((_SIDE, _SIDE, 3))
    x = stream.uniform(0.2, 0.8)
    y = stream.uniform(0.65, 0.85)
    sun = (_ACROSS - x) ** 2 + (_HEIGHT - y) ** 2 < 0.006
    picture[sun] = (0.98, 0.85, 0.45)
    for ridge in range(4):
        waves = np.sin(stream.uniform(4, 11) * _ACROSS + stream.uniform(0, 6))
        hills = 0.55 - 0.13 * ridge + 0.07 * waves
        ridge_colour = [stream.uniform(0.1, 0.6) for _ in range(3)]
        picture[np.broadcast_to(hills, (_SIDE, _SIDE)) > _HEIGHT] = ridge_colour
    return picture


def _abstract(stream: HashStream) -> Texture:
    """Coloured fields and discs on a light ground."""
    picture = np.full((_SIDE, _SIDE, 3), 0.9)
    for _ in range(7):
        color = [stream.uniform(0.05, 0.9) for _ in range(3)]
        left = stream.below(_SIDE - 20)
        top = stream.below(_SIDE - 20)
        if stream.below(2):
            picture[top : top + 15 + stream.below(50), left : left + 15 + stream.below(60)] = color
        else:
            disc = (_ACROSS * _SIDE - left) ** 2 + ((1 - _HEIGHT) * _SIDE - top) ** 2
            picture[disc < (8 + stream.below(24)) ** 2] = color
    return picture


_DRAWN: dict[str, Callable[[], Texture]] = {
    "plaster": _plaster,
    "wallpaper": _wallpaper,
    "panels": _panels,
    "ceiling": _ceiling,
    "wood": _wood,
    "fabric": _fabric,
}


def _upright(texture: Texture) -> Iterator[tuple[str, Texture]]:
    """The sides of MuJoCo's cube textures, turned so that the texture's upper edge is up on each of
    a box's walls.
    """
    for side, quarters in (("right", 1), ("left", -1), ("up", 2), ("down", 0), ("front", 0)):
        yield side, np.rot90(texture, quarters)


@functools.cache
def textures() -> tuple[str, dict[str, bytes]]:
    """MJCF of all textures and materials of this module, and their files."""
    drawn = {name: draw() for name, draw in _DRAWN.items()}
    for number in range(PAINTINGS):
        stream = HashStream("navigation paintings", number)
        drawn[f"painting{number}"] = (_landscape, _abstract)[number % 2](stream)
    lines = []
    files = {}
    for name, texture in drawn.items():
        sides = dict(_upright(texture))
        sides["back"] = texture
        for side, pixels in sides.items():
            files[f"{name}-{side}.png"] = _png(pixels)
        named = " ".join(f'file{side}="{name}-{side}.png"' for side in sides)
        shine = 'emission="0.42"' if name == "ceiling" else 'specular="0.1" shininess="0.2"'
        lines.append(f'<texture name="{name}" type="cube" {named}/>')
        lines.append(f'<material name="{name}" texture="{name}" {shine}/>')
    return "\n".join(lines), files


def _png(texture: Texture) -> bytes:
    pixels = (255 * np.clip(texture, 0.0, 1.0)).astype(np.uint8)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG")
    return file.getvalue()
