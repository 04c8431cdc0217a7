"""Places for furniture in a room: at walls, free-standing, beside and upon other things."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from vagen_envs.navigation.floor_plan import (
    Rect,
    grown,
    is_inside,
    overlap,
    overlaps_any,
)
from vagen_envs.navigation.house import HouseObject, RoomKind
from vagen_envs.navigation.objects import COLORS, FURNITURE, PALETTES, TARGETS, Color
from vagen_envs.seeding import HashStream

TURNS = SOUTH, EAST, NORTH, WEST = 0, 90, 180, 270
TRIES = 30


class Room:
    """A room being furnished, of a given width and depth or a drawn one."""

    def __init__(
        self, stream: HashStream, kind: RoomKind, size: tuple[int, int] | None = None
    ) -> None:
        self.stream = stream
        self.kind = kind
        self.width, self.depth = size or (400 + 20 * stream.below(11), 400 + 20 * stream.below(8))
        self.doors: list[Rect] = []
        self.notch: Rect | None = None
        if size is None and stream.below(3) == 0:
            wide = 100 + 10 * stream.below(8)
            deep = 100 + 10 * stream.below(8)
            west = stream.choice((0, self.width - wide))
            south = stream.choice((0, self.depth - deep))
            self.notch = (west, south, west + wide, south + deep)
        self.objects: list[HouseObject] = []
        self.taken: list[Rect] = [self.notch] if self.notch else []
        self.aisles: list[Rect] = []
        self.rug: tuple[Rect, Color] | None = None
        self.paints = {
            name: stream.choice(PALETTES[name]) for name in ("cabinet", "top", "wood", "cloth")
        }

    def make(self, kind: str, x: int, y: int, z: int, turn: int) -> HouseObject:
        if kind in TARGETS:
            color = self.stream.choice(TARGETS[kind].colors)
            return HouseObject(kind, x, y, z, turn, color, COLORS[color], COLORS[color])
        main, second = (
            self.stream.choice(PALETTES["cloth"]) if name == "any" else self.paints[name]
            for name in FURNITURE[kind].colors
        )
        return HouseObject(kind, x, y, z, turn, "", main, second)

    def fits(self, rect: Rect) -> bool:
        """Whether it is within the room and off the aisles, and nothing stands there."""
        return self.is_free(rect) and not overlaps_any(rect, self.aisles)

    def is_free(self, rect: Rect, margin: int = 0) -> bool:
        """Whether it is within the room, and nothing stands there, or within `margin` cm."""
        return is_inside(rect, self.width, self.depth) and not overlaps_any(
            grown(rect, margin), self.taken
        )

    def keep(self, thing: HouseObject) -> None:
        self.objects.append(thing)
        self.taken.append(thing.rect)

    def put(self, thing: HouseObject, aisle: int = 0) -> bool:
        """Place furniture if it fits and its aisle is free."""
        wide, deep, _ = FURNITURE[thing.kind].size
        front = thing.in_room((-wide // 2, -deep // 2 - aisle, wide // 2, -deep // 2))
        if not self.fits(thing.rect) or (aisle and not self.is_free(front)):
            return False
        self.keep(thing)
        if aisle:
            self.aisles.append(front)
        return True

    def at_wall(self, kind: str, turn: int, along: int, z: int = 0) -> HouseObject:
        """The thing with its back to the wall opposite of where it looks, its middle `along` the
        wall.
        """
        thing = self.make(kind, 0, 0, z, turn)
        wide, deep, _ = thing.size
        x, y = {
            SOUTH: (along, self.depth - (deep + 1) // 2),
            NORTH: (along, deep // 2),
            EAST: (wide // 2, along),
            WEST: (self.width - (wide + 1) // 2, along),
        }[turn]
        return dataclasses.replace(thing, x=x, y=y)

    def at_any_wall(self, kind: str, z: int = 0) -> HouseObject:
        """The thing at a random place of a random wall, which may be taken."""
        turn = self.stream.choice(TURNS)
        return self.at_wall(
            kind, turn, 5 * self.stream.below((self.depth if turn % 180 else self.width) // 5), z
        )

    def stand(self, kind: str) -> HouseObject | None:
        """Furniture at a random place of a random wall."""
        for _ in range(TRIES):
            thing = self.at_any_wall(kind)
            if self.put(thing, FURNITURE[kind].aisle):
                return thing
        return None

    def free_standing(self, kind: str, margin: int) -> HouseObject | None:
        for _ in range(TRIES):
            x = 5 * self.stream.below(self.width // 5)
            y = 5 * self.stream.below(self.depth // 5)
            thing = self.make(kind, x, y, 0, self.stream.choice((SOUTH, EAST)))
            inside = is_inside(grown(thing.rect, margin), self.width, self.depth)
            if inside and self.is_free(thing.rect, margin) and self.put(thing):
                return thing
        return None

    def beside(self, thing: HouseObject, kind: str) -> bool:
        """Furniture next to another one at the same wall."""
        lies_along_y = bool(thing.turn % 180)
        length = thing.size[1 if lies_along_y else 0]
        middle = thing.y if lies_along_y else thing.x
        gap = (length + FURNITURE[kind].size[0]) // 2 + 3
        sides = (1, -1) if self.stream.below(2) else (-1, 1)
        for side in sides:
            if self.put(self.at_wall(kind, thing.turn, middle + side * gap), 40):
                return True
        return False

    def chairs(self, table: HouseObject, count: int) -> None:
        x0, y0, x1, y1 = table.rect
        spots = []
        for by in (-35, 35):
            if table.turn % 180:
                spots += [(x0 - 12, table.y + by, EAST), (x1 + 12, table.y + by, WEST)]
            else:
                spots += [(table.x + by, y0 - 12, NORTH), (table.x + by, y1 + 12, SOUTH)]
        for x, y, turn in self.stream.sample(spots, count):
            chair = self.make("Chair", x, y, 0, turn)
            others = [rect for rect in self.taken if rect != table.rect]
            if is_inside(chair.rect, self.width, self.depth) and not overlaps_any(
                chair.rect, others
            ):
                self.keep(chair)

    def lay_rug(self, around: HouseObject) -> None:
        x0, y0, x1, y1 = grown(around.rect, 45)
        rect = (max(10, x0), max(10, y0), min(self.width - 10, x1), min(self.depth - 10, y1))
        if not (self.notch and overlap(rect, self.notch)):
            self.rug = (rect, self.stream.choice(PALETTES["cloth"]))

    def hang(self) -> None:
        """A window and a painting or two, where nothing tall stands."""
        for kind, bottom in (("Window", 100), ("Painting", 135), ("Painting", 130)):
            # A wall that is full goes without.
            for _ in range(8):
                thing = self.at_any_wall(kind, bottom)
                blocked = [
                    item.rect for item in self.objects if item.z + item.size[2] > bottom - 15
                ] + self.doors
                blocked += [self.notch] if self.notch else []
                if is_inside(thing.rect, self.width, self.depth) and not overlaps_any(
                    thing.rect, blocked
                ):
                    self.objects.append(thing)
                    break

    def fill(self, elsewhere: Iterable[str] = ()) -> None:
        """Things to look for, of types that aren't `elsewhere`, on surfaces and on the floor at the
        walls.
        """
        kinds = sorted(set(TARGETS) - set(elsewhere))
        self.stream.shuffle(kinds)
        left = 5 if self.doors else 12
        for kind in kinds:
            if left and (spots := list(self._spots(kind))):
                self.objects.append(self.stream.choice(spots))
                left -= 1

    def _spots(self, kind: str) -> Iterator[HouseObject]:
        places = TARGETS[kind].places
        small = [item for item in self.objects if item.kind in TARGETS or item.kind == "Television"]
        for holder in (item for item in self.objects if item.kind in FURNITURE):
            for surface in (
                surface for surface in FURNITURE[holder.kind].surfaces if surface.kind in places
            ):
                turn = self.stream.choice(TURNS) if holder.kind == "DiningTable" else holder.turn
                x0, y0, x1, y1 = holder.in_room(surface.rect)
                model = self.make(kind, 0, 0, holder.z + surface.z, turn)
                wide, deep, _ = model.size
                if wide > x1 - x0 or deep > y1 - y0:
                    continue
                for _ in range(4):
                    x = x0 + (wide + 1) // 2 + self.stream.below(x1 - x0 - wide + 1)
                    y = y0 + (deep + 1) // 2 + self.stream.below(y1 - y0 - deep + 1)
                    spot = dataclasses.replace(model, x=x, y=y)
                    if not overlaps_any(
                        spot.rect, [item.rect for item in small if item.z == spot.z]
                    ):
                        yield spot
                        break
        if "Floor" in places:
            # A room that is full goes without; other places are tried too.
            for _ in range(6):
                spot = self.at_any_wall(kind)
                if self.fits(spot.rect):
                    self.taken.append(spot.rect)
                    yield spot
                    break
