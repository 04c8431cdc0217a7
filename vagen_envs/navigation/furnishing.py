"""How a room is furnished: large things at the walls, then what hangs, then the things to look
for.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from vagen_envs.errors import LevelError
from vagen_envs.navigation.floor_plan import (
    DOOR,
    FloorPlan,
    Rect,
    grown,
    is_inside,
    moved,
    overlap,
    overlaps_any,
)
from vagen_envs.navigation.house import FLOORS, ROOM_KINDS, House, HouseObject, RoomKind
from vagen_envs.navigation.objects import COLORS, FURNITURE, PALETTES, TARGETS, Color
from vagen_envs.seeding import HashStream

_TURNS = _SOUTH, _EAST, _NORTH, _WEST = 0, 90, 180, 270
_TRIES = 30


def draw_house(stream: HashStream, kind: RoomKind | None = None) -> House:
    """A furnished room with eight or more things to look for, each of another type."""
    for _ in range(_TRIES):
        room = _Room(stream, stream.choice(ROOM_KINDS) if kind is None else kind)
        _FURNISH[room.kind](room)
        room.hang()
        room.fill()
        if sum(thing.kind in TARGETS for thing in room.objects) >= 8:
            floor = stream.choice(FLOORS[:2] if room.kind == "kitchen" else (FLOORS[0], FLOORS[2]))
            wall = stream.choice(PALETTES["wall"])
            things = tuple(room.objects)
            return House(
                room.kind, room.width, room.depth, room.notch, wall, floor, room.rug, things
            )
    raise LevelError(f"no {kind or 'room'} could be furnished in {_TRIES} tries; use another seed")


def furnish(stream: HashStream, plan: FloorPlan) -> House:
    """A house of several rooms with 20 or so things to look for, each of another type."""
    drawn = [stream.sample(ROOM_KINDS, 3) for _ in plan.rooms]
    kinds = list(itertools.chain(*drawn))[: len(plan.rooms)]
    furniture: list[HouseObject] = []
    targets: list[HouseObject] = []
    for kind, inside in zip(kinds, plan.rooms, strict=True):
        x, y = inside[:2]
        room = _Room(stream, kind, (inside[2] - x, inside[3] - y))
        free = [
            grown(door, 0, 70) if door[3] - door[1] != DOOR else grown(door, 70, 0)
            for door in plan.doors
        ]
        room.doors = [moved(rect, -x, -y) for rect in free if overlap(rect, inside)]
        room.taken += room.doors
        _FURNISH[kind](room)
        room.hang()
        room.fill(item.kind for item in targets)
        for item in room.objects:
            placed = dataclasses.replace(item, x=item.x + x, y=item.y + y)
            if item.kind in TARGETS:
                targets.append(placed)
            elif item.kind != "Window" or not is_inside(
                grown(placed.rect, 2), plan.width, plan.depth
            ):
                furniture.append(placed)
    wall = stream.choice(PALETTES["wall"])
    floor = stream.choice(FLOORS)
    return House(
        "house",
        plan.width,
        plan.depth,
        None,
        wall,
        floor,
        None,
        (*furniture, *targets),
        plan.walls,
        plan.doors,
    )


class _Room:
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
            _SOUTH: (along, self.depth - (deep + 1) // 2),
            _NORTH: (along, deep // 2),
            _EAST: (wide // 2, along),
            _WEST: (self.width - (wide + 1) // 2, along),
        }[turn]
        return dataclasses.replace(thing, x=x, y=y)

    def at_any_wall(self, kind: str, z: int = 0) -> HouseObject:
        """The thing at a random place of a random wall, which may be taken."""
        turn = self.stream.choice(_TURNS)
        return self.at_wall(
            kind, turn, 5 * self.stream.below((self.depth if turn % 180 else self.width) // 5), z
        )

    def stand(self, kind: str) -> HouseObject | None:
        """Furniture at a random place of a random wall."""
        for _ in range(_TRIES):
            thing = self.at_any_wall(kind)
            if self.put(thing, FURNITURE[kind].aisle):
                return thing
        return None

    def free_standing(self, kind: str, margin: int) -> HouseObject | None:
        for _ in range(_TRIES):
            x = 5 * self.stream.below(self.width // 5)
            y = 5 * self.stream.below(self.depth // 5)
            thing = self.make(kind, x, y, 0, self.stream.choice((_SOUTH, _EAST)))
            inside = is_inside(grown(thing.rect, margin), self.width, self.depth)
            if inside and self.is_free(thing.rect, margin) and self.put(thing):
                return thing
        return None

    def beside(self, thing: HouseObject, kind: str) -> bool:
        """Furniture next to another one at the same wall."""
        gap = (thing.size[1 if thing.turn % 180 else 0] + FURNITURE[kind].size[0]) // 2 + 3
        middle = thing.y if thing.turn % 180 else thing.x
        sides = (1, -1) if self.stream.below(2) else (-1, 1)
        return any(
            self.put(self.at_wall(kind, thing.turn, middle + side * gap), 40) for side in sides
        )

    def chairs(self, table: HouseObject, count: int) -> None:
        x0, y0, x1, y1 = table.rect
        spots = []
        for by in (-35, 35):
            if table.turn % 180:
                spots += [(x0 - 12, table.y + by, _EAST), (x1 + 12, table.y + by, _WEST)]
            else:
                spots += [(table.x + by, y0 - 12, _NORTH), (table.x + by, y1 + 12, _SOUTH)]
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
                turn = self.stream.choice(_TURNS) if holder.kind == "DiningTable" else holder.turn
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


def _kitchen(room: _Room) -> None:
    turn = room.stream.choice(_TURNS)
    run = ["CounterTop", "Stove", "CounterTop", "Sink"]
    if room.stream.below(2):
        run = run[::-1]
    run.insert(room.stream.choice((0, len(run))), "Fridge")
    at = 0
    for kind in run:
        wide = FURNITURE[kind].size[0]
        thing = room.at_wall(kind, turn, at + wide // 2)
        if room.put(thing, 60):
            at += wide
            if kind == "CounterTop":
                room.objects.append(room.at_wall("Cabinet", turn, at - wide // 2, 145))
        else:
            room.stand(kind)
    if table := room.free_standing("DiningTable", 60):
        room.chairs(table, 1 + room.stream.below(3))
        if room.stream.below(2):
            room.lay_rug(table)
    room.stand("HousePlant")


def _living_room(room: _Room) -> None:
    if sofa := room.stand("Sofa"):
        room.beside(sofa, "SideTable")
        x, y, *_ = sofa.in_room((0, -118, 0, -118))
        table = room.make("CoffeeTable", x, y, 0, sofa.turn)
        if room.is_free(table.rect):
            room.aisles.clear()
            room.put(table)
            room.lay_rug(table)
    if stand := room.stand("TVStand"):
        room.objects.append(room.make("Television", stand.x, stand.y, 55, stand.turn))
    for kind in ("Shelf", "ArmChair", "Dresser", "HousePlant"):
        room.stand(kind)
    if room.stream.below(2):
        room.stand("Desk")


def _bedroom(room: _Room) -> None:
    if bed := room.stand("Bed"):
        room.beside(bed, "SideTable")
        if room.stream.below(2):
            room.lay_rug(bed)
    if desk := room.stand("Desk"):
        seat = -FURNITURE["Desk"].size[1] // 2 - 10
        x, y, *_ = desk.in_room((0, seat, 0, seat))
        room.keep(room.make("Chair", x, y, 0, (desk.turn + 180) % 360))
    for kind in ("Dresser", "Shelf"):
        room.stand(kind)
    room.stand(room.stream.choice(("ArmChair", "HousePlant")))


_FURNISH = {"kitchen": _kitchen, "living_room": _living_room, "bedroom": _bedroom}
