"""Exact solutions by retrograde search.

From the solved states, moves are undone breadth-first; a state's depth is its exact distance, in
moves, from the nearest solved state. All player positions of one placement of the boxes are one
integer, a bit a cell, so a whole set of them moves with a shift. Boards have walls all around, so
nothing wraps around an edge.
"""

from __future__ import annotations

from vagen_envs.errors import LevelError

MOST_STATES = 700_000
"""Placements of boxes that are searched: four boxes in 10x10 cells without an inner wall have
635,376.
"""


class Solutions:
    """Exact distances to the solved states of one board, searched as deep as anybody has asked."""

    def __init__(self, width: int, floor: int, targets: int) -> None:
        self._floor = floor
        self._width = width
        self.targets = targets
        self._unseen: dict[int, int] = {targets: 0}
        """Placements of the boxes that were met, each with the free cells from which no solution
        was found yet.
        """
        self.layers: list[dict[int, int]] = [{targets: floor & ~targets}]
        """`layers[d]` maps a placement of the boxes to the player cells from which d moves solve
        it.
        """

    def extend(self, depth: int, most: int = MOST_STATES) -> None:
        """Search until `layers` reaches `depth` or there are no more states.

        Raises:
            LevelError: the board has more placements of boxes than `most`, a sensible time and
                memory.
        """
        while len(self.layers) <= depth and self.layers[-1]:
            self.layers.append(self._before(self.layers[-1]))
            if len(self._unseen) > most:
                raise LevelError(
                    f"more than {most} placements of boxes lie within {len(self.layers)} moves "
                    "of the goal; ask for a smaller board, fewer boxes or a shorter solution"
                )

    def _before(self, layer: dict[int, int]) -> dict[int, int]:
        """The states from which one move leads into `layer` and that no shorter way was found
        for.
        """
        floor = self._floor
        width = self._width
        unseen = self._unseen
        found: dict[int, int] = {}
        for boxes, players in layer.items():
            beside = players << 1 | players >> 1 | players << width | players >> width
            walked = beside & unseen[boxes]
            if walked:
                unseen[boxes] ^= walked
                found[boxes] = found.get(boxes, 0) | walked
            if beside & boxes:
                free = floor ^ boxes
                for step in (1, width):
                    # The player stands on p, the box it just pushed on p + step, and it came from p
                    # - step.
                    pulls = players & boxes >> step
                    if pulls:
                        self._pull(found, boxes, pulls & free << step, step)
                    pulls = players & boxes << step
                    if pulls:
                        self._pull(found, boxes, pulls & free >> step, -step)
        return found

    def _pull(self, found: dict[int, int], boxes: int, players: int, step: int) -> None:
        """Note what was before each of the players pushed the box that is a `step` further."""
        unseen = self._unseen
        while players:
            p = players & -players
            players ^= p
            pushed, came = (p << step, p >> step) if step > 0 else (p >> -step, p << -step)
            placed = boxes ^ p ^ pushed
            left = unseen.get(placed)
            if left is None:
                left = self._floor ^ placed
            if left & came:
                unseen[placed] = left ^ came
                found[placed] = found.get(placed, 0) | came

    def distance(self, boxes: int, player: int, most: int = MOST_STATES) -> int | None:
        """The fewest moves that solve this state; `None` if nothing does. `player` is a cell's
        number.

        Raises:
            LevelError: as `extend`.
        """
        bit = 1 << player
        depth = 0
        while True:
            self.extend(depth, most)
            if depth >= len(self.layers) or not self.layers[depth]:
                return None
            if self.layers[depth].get(boxes, 0) & bit:
                return depth
            depth += 1

    def moves(self, boxes: int, player: int) -> list[int]:
        """A shortest solution as indices into `ACTIONS`. Raises LevelError if there is none."""
        depth = self.distance(boxes, player)
        if depth is None:
            raise LevelError(
                "no sequence of moves solves this position: a box is stuck; reset for another level"
            )
        path = []
        steps = (-self._width, self._width, -1, 1)
        for left in range(depth - 1, -1, -1):
            for action, step in enumerate(steps):
                moved = push(self._floor, boxes, player, step)
                if moved is not None and self.layers[left].get(moved[0], 0) >> moved[1] & 1:
                    boxes, player = moved
                    path.append(action)
                    break
        return path


def push(floor: int, boxes: int, player: int, step: int) -> tuple[int, int] | None:
    """The rules of the game: boxes and player after one move, `None` if a wall or a box stops
    it.
    """
    to = player + step
    if not floor >> to & 1:
        return None
    if boxes >> to & 1:
        beyond = to + step
        if not floor >> beyond & 1 or boxes >> beyond & 1:
            return None
        return boxes ^ (1 << to | 1 << beyond), to
    return boxes, to
