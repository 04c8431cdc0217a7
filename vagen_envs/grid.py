"""What boards of cells have in common: symmetries, relations in words, pictures made of tiles, the
environment.

A board is a flat sequence of cells, row by row from the upper left; a position is (row, column).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from abc import abstractmethod
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vagen_envs.core import VagenEnv
from vagen_envs.pictures import Picture, Pixels
from vagen_envs.replies import Action, ActionGrammar, Names, ParsedTurn
from vagen_envs.replies.parsed import REFUSED_CODES
from vagen_envs.seeding import HashStream, Split
from vagen_envs.turn import Executed, State

Position = tuple[int, int]
ACTIONS = ("Up", "Down", "Left", "Right")

KEPT_PICTURES = 512
"""Boards whose pictures a tile set remembers, at some 30 kB each."""


@functools.cache
def symmetries(height: int, width: int, stride: int = 0) -> NDArray[np.intp]:
    """The board's symmetries: all 8 for a square, the 4 that lie it down for a rectangle.

    Args:
        height: of the board, in cells.
        width: of the board, in cells.
        stride: how many cells of the sequence a row takes up, `width` by default.

    Returns:
        For each symmetry, the places in the sequence that its cells come from.
    """
    board = np.arange(height * (stride or width)).reshape(height, -1)[:, :width]
    turned = [np.rot90(board, k) for k in range(4)]
    lying = (min(height, width), max(height, width))
    mirrored = [image[:, ::-1] for image in turned]
    images = itertools.chain.from_iterable(zip(turned, mirrored, strict=True))
    return np.array([image.ravel() for image in images if image.shape == lying])


def canonical(cells: bytes, height: int, width: int, stride: int = 0) -> bytes:
    """The same bytes for every board that is `cells` turned or mirrored."""
    board = np.frombuffer(cells.ljust(height * (stride or width)), np.uint8)
    images = map(bytes, board[symmetries(height, width, stride)])
    sides = bytes((min(height, width), max(height, width)))
    return sides + min(images)


def relation(subject: str, at: Position, other: str, other_at: Position) -> str:
    """Where `subject` is, seen from `other`, in the words of VAGEN, appendix D.1."""
    rows = at[0] - other_at[0]
    columns = at[1] - other_at[1]
    if rows == 0 and columns == 0:
        return f"{subject} is at the same position as {other}"
    if rows == 0:
        return (
            f"{subject} is at the same row and to the {'left' if columns < 0 else 'right'} of "
            f"{other}"
        )
    vertical = "above" if rows < 0 else "below"
    if columns == 0:
        return f"{subject} is {vertical} and at the same column as {other}"
    return (
        f"{subject} is {vertical} and on the {'left' if columns < 0 else 'right'} side of {other}"
    )


class TileSet:
    """Square tiles for boards, from an environment's `tiles.png`, in which they stand side by side.

    Args:
        package: where the file is, such as `"vagen_envs.sokoban"`.
        scale: each pixel becomes this many pixels wide and high.
    """

    def __init__(self, package: str, scale: int) -> None:
        with files(package).joinpath("tiles.png").open("rb") as stream, Image.open(stream) as image:
            strip = np.asarray(image.convert("RGB"))
        height = strip.shape[0]
        tiles = strip.reshape(height, -1, height, 3).swapaxes(0, 1)
        self._tiles: Pixels = np.kron(tiles, np.ones((1, scale, scale, 1), np.uint8))
        self.side: int = height * scale
        self.picture = functools.lru_cache(KEPT_PICTURES)(self._picture)

    def _picture(self, codes: bytes, width: int) -> Picture:
        """A board of the tiles with these numbers, row by row, `width` cells wide.

        Boards come back, by moves that are blocked or undone and levels that are played again: a
        picture that is known has its name and its PNG already.
        """
        rows = self._tiles[np.frombuffer(codes, np.uint8).reshape(-1, width)].swapaxes(1, 2)
        return Picture(rows.reshape(-1, width * self.side, 3))


tile_set = functools.cache(TileSet)
"""The tile set, loaded once in a process: its arrays are only ever read."""


class GridEnv(VagenEnv):
    """A board of cells seen from above, on which a player moves by `ACTIONS`."""

    quick = True
    blind_search = (200, 64)
    comparison_levels = 1200
    looks_when_restored = True
    simulator: Any
    """The level being played, with `step`, `copy`, `state`, `tiles`, `solved` and `lost`."""

    @abstractmethod
    def _drawn(self, stream: HashStream, split: Split) -> Any:
        """The simulator of the level that `stream` says, at its start."""

    @abstractmethod
    def _feedback(self, action: str, went: Any, simulator: Any) -> str:
        """What the agent is told of an action, given what `step` gave and the simulator after
        it.
        """

    def _actions(self) -> ActionGrammar:
        return Names(*ACTIONS, exact=self.config.parsing == "released")

    def _as_played(self, parsed: ParsedTurn) -> ParsedTurn:
        """The released code reads name by name, and none after the action that ends the episode."""
        if self.config.parsing != "released":
            return parsed
        read = [problem for problem in parsed.problems if problem.code not in REFUSED_CODES]
        return dataclasses.replace(parsed, problems=tuple(read))

    def _is_effective(self, before: Any, after: Any, executed: Sequence[Executed]) -> bool:
        """In the released code whether the player ended elsewhere: there and back again isn't
        effective.
        """
        if self.config.parsing != "released":
            return VagenEnv._is_effective(self, before, after, executed)
        return bool(before.player != after.player)

    def _tiled(self, rows: int, columns: int, scale: int) -> tuple[int, int, int]:
        """The shape of a picture of so many tiles, which are in `tiles.png` in the environment's
        folder.
        """
        self._tiles = tile_set(f"vagen_envs.{self.prompt_folder}", scale)
        self._columns = columns
        return rows * self._tiles.side, columns * self._tiles.side, 3

    def _load(self, stream: HashStream, split: Split) -> None:
        self._beginning = self._drawn(stream, split)
        self.simulator = self._beginning.copy()

    def _rewind(self) -> None:
        self._load_again()
        self.simulator = self._beginning.copy()

    def _extract(self) -> State:
        state: State = self.simulator.state()
        return state

    def _picture(self) -> Picture:
        return self._tiles.picture(self.simulator.tiles(), self._columns)

    def _view_text(self) -> str:
        return self._state.symbolic()

    def _solved(self) -> bool:
        return bool(self.simulator.solved)

    def _lost(self) -> bool:
        return bool(self.simulator.lost)

    def imagine(self, actions: Sequence[str]) -> State:
        ahead = self.simulator.copy()
        for action in actions:
            if ahead.solved or ahead.lost:
                break
            ahead.step(action)
        state: State = ahead.state()
        return state

    # -- what the same actions do elsewhere

    def moment(self) -> Any:
        """This moment of the level, to `play_on` from; other levels are played meanwhile."""
        return self.simulator.copy()

    def play_on(self, moment: Any, text: str) -> tuple[Any, str, bool]:
        """Play an action from a moment: the moment after it, the feedback, and whether the level
        is over.
        """
        action = self.grammar.actions.read(text, 0, len(text))
        if not isinstance(action, Action):
            return moment, "", moment.solved or moment.lost
        after = moment.copy()
        went = after.step(action.name)
        return after, self._feedback(action.name, went, after), after.solved or after.lost

    def state_at(self, moment: Any) -> State:
        """The truth at a moment."""
        state: State = moment.state()
        return state
