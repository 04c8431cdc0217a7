"""A furnished room: what stands where, in whole centimetres.

x goes to the east, y to the north, z up; the room's south-west corner is (0, 0). A turn of 0 looks
south, 90 east, 180 north, 270 west.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from vagen_envs.navigation.floor_plan import Rect, moved, turned
from vagen_envs.navigation.objects import FURNITURE, TARGETS, Color

RoomKind = Literal["kitchen", "living_room", "bedroom"]
HouseKind = Literal[RoomKind, "house"]
ROOM_KINDS: tuple[RoomKind, ...] = ("kitchen", "living_room", "bedroom")
FLOORS = ("planks", "tiles", "carpet")


@dataclass(frozen=True, slots=True)
class HouseObject:
    """A piece of furniture or a thing to look for, where it stands.

    Attributes:
        kind: AI2-THOR's name of its type.
        x, y, z: middle of its foot in cm.
        turn: where its front looks, 0 south, counter-clockwise in degrees.
        color: name in `objects.COLORS` for a target, empty for furniture.
        main, second: its colours.
    """

    kind: str
    x: int
    y: int
    z: int
    turn: int
    color: str
    main: Color
    second: Color

    @property
    def size(self) -> tuple[int, int, int]:
        """Extent along x, y and z in cm, as turned."""
        wide, deep, high = (TARGETS.get(self.kind) or FURNITURE[self.kind]).size
        return (deep, wide, high) if self.turn % 180 else (wide, deep, high)

    @property
    def rect(self) -> Rect:
        """West, south, east, north edge in cm."""
        wide, deep, _ = self.size
        return (
            self.x - wide // 2,
            self.y - deep // 2,
            self.x + (wide + 1) // 2,
            self.y + (deep + 1) // 2,
        )

    def in_room(self, rect: Rect) -> Rect:
        """Where a rectangle of the object's own frame is."""
        return moved(turned(rect, self.turn), self.x, self.y)


@dataclass(frozen=True, slots=True)
class House:
    """One furnished room, or several with doorways between them.

    Attributes:
        width, depth: extent along x and y in cm.
        notch: a corner that doesn't belong to the room, which makes it L-shaped.
        rug: where a rug lies, and its colour.
        objects: furniture first.
        walls, doors: between rooms, see `floor_plan`.
    """

    kind: HouseKind
    width: int
    depth: int
    notch: Rect | None
    wall: Color
    floor: str
    rug: tuple[Rect, Color] | None
    objects: tuple[HouseObject, ...]
    walls: tuple[Rect, ...] = ()
    doors: tuple[Rect, ...] = ()

    def content(self) -> bytes:
        """The canonical content: what stands where, without colours."""
        things = [
            (placed.kind, placed.x, placed.y, placed.z, placed.turn) for placed in self.objects
        ]
        walls = [self.walls] if self.walls else []
        return json.dumps(
            ["navigation", self.kind, self.width, self.depth, self.notch, things, *walls]
        ).encode()

    @property
    def targets(self) -> list[HouseObject]:
        """The things that can be looked for."""
        return [thing for thing in self.objects if thing.kind in TARGETS]
