"""What boards of cells have in common: symmetries, relations in words, pictures made of tiles.

A board is a flat sequence of cells, row by row from the upper left; a position is (row, column).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from PIL import Image

from vagen_envs.pictures import Picture, Pixels

Position = tuple[int, int]


@functools.cache
def symmetries(height: int, width: int) -> tuple[Callable[[bytes], tuple[int, ...]], ...]:
    """The board's symmetries as functions on its cells: 8 for a square, 4 for a rectangle."""
    board = np.arange(height * width).reshape(height, width)
    turned = [np.rot90(board, k) for k in range(4)]
    images = [image for each in turned for image in (each, each[:, ::-1]) if image.shape == board.shape]
    return tuple(operator.itemgetter(*image.ravel().tolist()) for image in images)


def canonical(cells: bytes, height: int, width: int) -> bytes:
    """The same bytes for every board that is `cells` turned or mirrored."""
    return bytes((height, width)) + bytes(min([image(cells) for image in symmetries(height, width)]))


def relation(subject: str, at: Position, other: str, other_at: Position) -> str:
    """Where `subject` is, seen from `other`, in the words of VAGEN, appendix D.1."""
    rows, columns = at[0] - other_at[0], at[1] - other_at[1]
    if rows == 0 and columns == 0:
        return f"{subject} is at the same position as {other}"
    if rows == 0:
        return f"{subject} is at the same row and to the {'left' if columns < 0 else 'right'} of {other}"
    vertical = "above" if rows < 0 else "below"
    if columns == 0:
        return f"{subject} is {vertical} and at the same column as {other}"
    return f"{subject} is {vertical} and on the {'left' if columns < 0 else 'right'} side of {other}"


class TileSet:
    """Square tiles for boards, from one PNG strip shipped with an environment.

    Args:
        package: where the strip is, such as `"vagen_envs.sokoban"`.
        file: name of the PNG; its tiles stand side by side, and it has at most 256 colours.
        scale: each pixel becomes this many pixels wide and high.
    """

    def __init__(self, package: str, file: str, scale: int = 1) -> None:
        with files(package).joinpath(file).open("rb") as stream, Image.open(stream) as image:
            strip = np.asarray(image.convert("RGB"))
        colours, indices = np.unique(strip.reshape(-1, 3), axis=0, return_inverse=True)
        self.palette: Pixels = colours.astype(np.uint8)
        side = strip.shape[0]
        tiles = indices.reshape(strip.shape[:2]).astype(np.uint8).reshape(side, -1, side).swapaxes(0, 1)
        self.indices: Pixels = np.ascontiguousarray(np.kron(tiles, np.ones((1, scale, scale), np.uint8)))
        self.rgb: Pixels = self.palette[self.indices]
        self.side = side * scale


@functools.cache
def tile_set(package: str, file: str, scale: int) -> TileSet:
    """The tile set, loaded once in a process: its arrays are only ever read."""
    return TileSet(package, file, scale)


class BoardPainter:
    """Pictures of one board. Only the tiles that changed since the last picture are painted again."""

    def __init__(self, tiles: TileSet, height: int, width: int) -> None:
        self._tiles = tiles
        self._width = width
        self.shape = (height * tiles.side, width * tiles.side, 3)
        self._rgb: Pixels = np.zeros(self.shape, np.uint8)
        self._indices: Pixels = np.zeros(self.shape[:2], np.uint8)
        side = tiles.side
        corners = [((i // width) * side, (i % width) * side) for i in range(height * width)]
        self._places: list[Any] = [(slice(y, y + side), slice(x, x + side)) for y, x in corners]
        self._painted: list[int] = [-1] * (height * width)

    def picture(self, tiles: Sequence[int]) -> Picture:
        """The board with these tiles, row by row."""
        painted, places = self._painted, self._places
        for i, tile in enumerate(tiles):
            if tile != painted[i]:
                place = places[i]
                self._rgb[place] = self._tiles.rgb[tile]
                self._indices[place] = self._tiles.indices[tile]
                painted[i] = tile
        return Picture(self._rgb.copy(), self._indices.copy(), self._tiles.palette)
