"""The rules of the game, and a search for the shortest joint solution.

A step is one move of player 0 followed by one of player 1. Players block each other like walls.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from vagen_adapters.two_player_sokoban.state import TwoPlayerSokobanState
from vagen_envs.errors import LevelError
from vagen_envs.grid import ACTIONS
from vagen_envs.seeding import HashStream, Split
from vagen_envs.sokoban.levels import Level, cells, draw_level, spread
from vagen_envs.sokoban.simulator import SokobanSimulator
from vagen_envs.sokoban.solver import Solutions, push

PLAYERS = (0, 1)

# Tile numbers after those of Sokoban: the other player, and the other player on a target.
OTHER = 7
OTHER_ON_TARGET = 8

_MOST_STATES = 500_000
_MOST_LEVELS = 1_000

Placement = tuple[int, int, int]
"""Boxes as a set of cells, the cell of player 0, the cell of player 1."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One action of one player. `gained` is the change in boxes on targets, None if nothing
    moved.
    """

    player: int
    action: str
    gained: int | None


class Board:
    """A level that two players play.

    Attributes:
        level: the level of player 0, without player 1.
        boxes: one bit per cell.
        players: the cell number of each player.
    """

    def __init__(self, level: Level, second: int) -> None:
        self.level = level
        self.boxes = level.boxes
        self.players = (level.player, second)
        self._steps = dict(zip(ACTIONS, level.steps(), strict=True))

    def place(self, boxes: int, players: Sequence[int]) -> None:
        """Set a position. Raises ValueError or TypeError if it is impossible on this board."""
        one, other = players
        if (
            boxes & ~self.level.floor
            or boxes.bit_count() != self.level.targets.bit_count()
            or one == other
        ):
            raise ValueError(
                "a box is in a wall, or there aren't as many as targets, or the players stand "
                "on a cell"
            )
        if not all((self.level.floor & ~boxes) >> player & 1 for player in players):
            raise ValueError("a player is in a wall or in a box")
        self.boxes = boxes
        self.players = (one, other)

    def copy(self) -> Board:
        """Return a copy of the board."""
        return Board(
            dataclasses.replace(self.level, boxes=self.boxes, player=self.players[0]),
            self.players[1],
        )

    @property
    def solved(self) -> bool:
        """Whether every box stands on a target."""
        return self.boxes == self.level.targets

    def move(self, player: int, action: str) -> Moved:
        """Move one player."""
        placement = self._moved((self.boxes, *self.players), player, self._steps[action])
        if placement is None:
            return Moved(player, action, None)
        were = self.boxes
        self.boxes = placement[0]
        self.players = placement[1:]
        targets = self.level.targets
        return Moved(
            player, action, (self.boxes & targets).bit_count() - (were & targets).bit_count()
        )

    def play(self, actions: Sequence[Sequence[str]], limit: int) -> list[Moved]:
        """Play the first action of each player, then the second, and so on, until solved or `limit`
        is reached.
        """
        played: list[Moved] = []
        for step in zip_longest(*actions):
            for player, action in enumerate(step):
                if action is None:
                    continue
                if self.solved or len(played) == limit:
                    return played
                played.append(self.move(player, action))
        return played

    def state(self, player: int) -> TwoPlayerSokobanState:
        """Return the current state from the view of `player`."""
        level = self.level

        def where(mask: int) -> tuple[tuple[int, int], ...]:
            return tuple([divmod(cell, level.width) for cell in cells(mask)])

        return TwoPlayerSokobanState(
            level.height,
            level.width,
            level.floor,
            divmod(self.players[player], level.width),
            divmod(self.players[1 - player], level.width),
            where(self.boxes),
            where(level.targets),
        )

    def tiles(self, player: int) -> bytes:
        """Return the tile of each cell in the view of `player`, row by row."""
        alone = SokobanSimulator(
            dataclasses.replace(self.level, boxes=self.boxes, player=self.players[player])
        )
        tiles = bytearray(alone.tiles())
        other = self.players[1 - player]
        tiles[other] = OTHER_ON_TARGET if self.level.targets >> other & 1 else OTHER
        return bytes(tiles)

    def plan_alone(self, player: int) -> list[str]:
        """Return a shortest solution by one player while the other stands still. Raises LevelError
        if there is none.
        """
        level = self.level
        alone = Solutions(
            level.width, level.floor & ~(1 << self.players[1 - player]), level.targets
        )
        if level.targets >> self.players[1 - player] & 1:
            raise LevelError(
                "the other player stands on a target, so one player can't solve this alone; "
                "plan for both"
            )
        return [ACTIONS[i] for i in alone.moves(self.boxes, self.players[player])]

    def plan_together(self) -> tuple[list[str], list[str]]:
        """Return the actions of both players in a shortest joint solution, by breadth-first search.

        Raises:
            LevelError: no solution exists, or the search exceeds its limit.
        """
        start: Placement = (self.boxes, *self.players)
        came: dict[Placement, tuple[Placement, str, str] | None] = {start: None}
        layer = [start]
        while layer and len(came) <= _MOST_STATES:
            following: list[Placement] = []
            for now in layer:
                if now[0] == self.level.targets:
                    return _path(came, now)
                for placement, one, other in self._steps_from(now):
                    if placement not in came:
                        came[placement] = (now, one, other)
                        following.append(placement)
            layer = following
        raise LevelError(
            "no sequence of moves of both solves this position, or none was found among "
            f"{len(came)} states; reset for another level, or make the board smaller"
        )

    def _steps_from(self, now: Placement) -> Iterator[tuple[Placement, str, str]]:
        """Yield the successors of a position; a blocked player stays in place."""
        for one, first in self._steps.items():
            between = self._moved(now, 0, first) or now
            for other, second in self._steps.items():
                yield self._moved(between, 1, second) or between, one, other

    def _moved(self, now: Placement, player: int, step: int) -> Placement | None:
        boxes, first, second = now
        mover, partner = (first, second) if player == 0 else (second, first)
        floor = self.level.floor & ~(1 << partner)
        moved = push(floor, boxes, mover, step)
        if moved is None:
            return None
        boxes, mover = moved
        return (boxes, mover, partner) if player == 0 else (boxes, partner, mover)


def _path(
    came: dict[Placement, tuple[Placement, str, str] | None], end: Placement
) -> tuple[list[str], list[str]]:
    steps: list[tuple[str, str]] = []
    while (step := came[end]) is not None:
        end, *_ = step
        steps.insert(0, step[1:])
    return [one for one, _ in steps], [other for _, other in steps]


def draw_board(stream: HashStream, split: Split, **level_options: Any) -> Board:
    """Draw a level of Sokoban with a second player.

    Player 1 starts on a cell that one shortest solution of player 0 doesn't use, so it can solve
    every level alone.

    Raises:
        LevelError: no level was found.
    """
    for _ in range(_MOST_LEVELS):
        level = draw_level(stream, split, **level_options)
        solutions = Solutions(level.width, level.floor, level.targets)
        used = level.boxes | 1 << level.player
        boxes = level.boxes
        player = level.player
        for move in solutions.moves(boxes, player):
            moved = push(level.floor, boxes, player, level.steps()[move])
            assert moved is not None, "a solution has no blocked move"  # noqa: S101 - narrows the type
            boxes, player = moved
            used |= boxes | 1 << player
        reached = spread(1 << level.player, level.floor, level.width)
        if free := cells(reached & ~used):
            return Board(level, stream.choice(free))
    raise LevelError(
        f"no level with room for a second player in {_MOST_LEVELS} tries; make dim_room larger"
    )
