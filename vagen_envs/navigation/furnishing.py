"""How a room is furnished: large things at the walls, then what hangs, then the things to look for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vagen_envs.errors import LevelError
from vagen_envs.navigation.furniture import (
    CABINET_COLORS,
    CLOTH_COLORS,
    FURNITURE,
    TOP_COLORS,
    WALL_COLORS,
    WOOD_COLORS,
)
from vagen_envs.navigation.house import FLOORS, ROOM_KINDS, House, Rect, RoomKind, Thing, overlap
from vagen_envs.navigation.objects import COLORS, TARGETS
from vagen_envs.navigation.shapes import Color
from vagen_envs.seeding import HashStream

_SOUTH, _EAST, _NORTH, _WEST = 0, 90, 180, 270
_TRIES = 30


def draw_house(stream: HashStream, kind: RoomKind | None = None) -> House:
    """A furnished room with eight or more things to look for, each of another type.

    Raises:
        LevelError: no room could be furnished, which a fixed generator makes a matter of luck beyond reason.
    """
    for _ in range(_TRIES):
        chosen = stream.choice(ROOM_KINDS) if kind is None else kind
        room = _Room(stream, chosen)
        _FURNISH[room.kind](room)
        room.hang()
        room.fill()
        if len([thing for thing in room.things if thing.kind in TARGETS]) >= 8:
            return room.finish()
    raise LevelError(f"no {kind or 'room'} could be furnished in {_TRIES} tries; use another seed")


class _Room:
    """A room being furnished."""

    def __init__(self, stream: HashStream, kind: RoomKind) -> None:
        self.stream, self.kind = stream, kind
        self.width, self.depth = 400 + 20 * stream.below(11), 400 + 20 * stream.below(8)
        self.notch: Rect | None = None
        if stream.below(3) == 0:
            wide, deep = 100 + 10 * stream.below(8), 100 + 10 * stream.below(8)
            west, south = stream.choice((0, self.width - wide)), stream.choice((0, self.depth - deep))
            self.notch = (west, south, west + wide, south + deep)
        self.things: list[Thing] = []
        self.taken: list[Rect] = [self.notch] if self.notch else []
        self.aisles: list[Rect] = []
        self.rug: tuple[Rect, Color] | None = None
        self.cabinet, self.top = stream.choice(CABINET_COLORS), stream.choice(TOP_COLORS)
        self.wood, self.cloth = stream.choice(WOOD_COLORS), stream.choice(CLOTH_COLORS)

    def finish(self) -> House:
        floor = self.stream.choice(FLOORS[:2] if self.kind == "kitchen" else (FLOORS[0], FLOORS[2]))
        return House(
            self.kind,
            self.width,
            self.depth,
            self.notch,
            self.stream.choice(WALL_COLORS),
            floor,
            self.rug,
            tuple(self.things),
        )

    # -- furniture ---------------------------------------------------------------------------------

    def thing(self, kind: str, x: int, y: int, z: int, turn: int) -> Thing:
        if kind in TARGETS:
            color = self.stream.choice(TARGETS[kind].colors)
            return Thing(kind, x, y, z, turn, color, COLORS[color], COLORS[color])
        wooden = kind in ("DiningTable", "Chair", "CoffeeTable", "SideTable", "TVStand", "Shelf", "Dresser", "Desk")
        if kind in ("Bed", "Sofa", "ArmChair", "Painting"):
            return Thing(
                kind,
                x,
                y,
                z,
                turn,
                "",
                self.cloth if kind != "Painting" else self.stream.choice(CLOTH_COLORS),
                self.stream.choice(CLOTH_COLORS),
            )
        return Thing(
            kind, x, y, z, turn, "", self.wood if wooden else self.cabinet, self.cloth if kind == "Chair" else self.top
        )

    def fits(self, rect: Rect, margin: int = 0) -> bool:
        x0, y0, x1, y1 = rect
        if x0 < 0 or y0 < 0 or x1 > self.width or y1 > self.depth:
            return False
        wide = (x0 - margin, y0 - margin, x1 + margin, y1 + margin)
        return not any(overlap(wide, each) for each in self.taken) and not any(
            overlap(rect, each) for each in self.aisles
        )

    def put(self, thing: Thing, aisle: int = 0) -> bool:
        """Place furniture if it fits and its aisle is free."""
        if not self.fits(thing.rect):
            return False
        free = _front(thing, aisle)
        if aisle and (any(overlap(free, each) for each in self.taken) or not _inside(free, self.width, self.depth)):
            return False
        self.things.append(thing)
        self.taken.append(thing.rect)
        if aisle:
            self.aisles.append(free)
        return True

    def at_wall(self, kind: str, turn: int, along: int, z: int = 0) -> Thing:
        """The thing with its back to the wall opposite of where it looks, its middle `along` the wall."""
        thing = self.thing(kind, 0, 0, z, turn)
        wide, deep, _ = thing.size
        x, y = {
            _SOUTH: (along, self.depth - (deep + 1) // 2),
            _NORTH: (along, deep // 2),
            _EAST: (wide // 2, along),
            _WEST: (self.width - (wide + 1) // 2, along),
        }[turn]
        return Thing(kind, x, y, z, turn, thing.color, thing.main, thing.second)

    def length(self, turn: int) -> int:
        return self.width if turn in (_SOUTH, _NORTH) else self.depth

    def stand(self, kind: str, turns: Sequence[int] = (_SOUTH, _EAST, _NORTH, _WEST)) -> Thing | None:
        """Furniture at a random place of a random wall."""
        for _ in range(_TRIES):
            turn = self.stream.choice(turns)
            thing = self.at_wall(kind, turn, 5 * self.stream.below(self.length(turn) // 5))
            if self.put(thing, round(100 * FURNITURE[kind].aisle)):
                return thing
        return None

    def free_standing(self, kind: str, margin: int) -> Thing | None:
        for _ in range(_TRIES):
            x, y = 5 * self.stream.below(self.width // 5), 5 * self.stream.below(self.depth // 5)
            thing = self.thing(kind, x, y, 0, self.stream.choice((_SOUTH, _EAST)))
            x0, y0, x1, y1 = thing.rect
            if self.fits(thing.rect, margin) and _inside(
                (x0 - margin, y0 - margin, x1 + margin, y1 + margin), self.width, self.depth
            ):
                self.put(thing)
                return thing
        return None

    def beside(self, thing: Thing, kind: str) -> bool:
        """Furniture next to another one at the same wall."""
        gap = (thing.size[1 if thing.turn % 180 else 0] + round(100 * FURNITURE[kind].width)) // 2 + 3
        middle = thing.y if thing.turn % 180 else thing.x
        return any(self.put(self.at_wall(kind, thing.turn, middle + side * gap), 40) for side in self._sides())

    def _sides(self) -> tuple[int, int]:
        return (1, -1) if self.stream.below(2) else (-1, 1)

    def chairs(self, table: Thing, count: int) -> None:
        x0, y0, x1, y1 = table.rect
        if table.turn % 180:
            spots = [
                (x0 - 12, table.y - 35, _EAST),
                (x1 + 12, table.y - 35, _WEST),
                (x0 - 12, table.y + 35, _EAST),
                (x1 + 12, table.y + 35, _WEST),
            ]
        else:
            spots = [
                (table.x - 35, y0 - 12, _NORTH),
                (table.x - 35, y1 + 12, _SOUTH),
                (table.x + 35, y0 - 12, _NORTH),
                (table.x + 35, y1 + 12, _SOUTH),
            ]
        for x, y, turn in self.stream.sample(spots, count):
            chair = self.thing("Chair", x, y, 0, turn)
            others = [each for each in self.taken if each != table.rect]
            if _inside(chair.rect, self.width, self.depth) and not any(overlap(chair.rect, each) for each in others):
                self.things.append(chair)
                self.taken.append(chair.rect)

    def lay_rug(self, around: Thing) -> None:
        x0, y0, x1, y1 = around.rect
        rect = (max(10, x0 - 45), max(10, y0 - 45), min(self.width - 10, x1 + 45), min(self.depth - 10, y1 + 45))
        if not (self.notch and overlap(rect, self.notch)):
            self.rug = (rect, self.stream.choice(CLOTH_COLORS))

    # -- walls and small things --------------------------------------------------------------------

    def hang(self) -> None:
        """A window and a painting or two, where nothing tall stands."""
        for kind, bottom in (("Window", 100), ("Painting", 135), ("Painting", 130)):
            for _ in range(8):
                turn = self.stream.choice((_SOUTH, _EAST, _NORTH, _WEST))
                thing = self.at_wall(kind, turn, 5 * self.stream.below(self.length(turn) // 5), bottom)
                blocked = [each.rect for each in self.things if each.z + each.size[2] > bottom - 15]
                if self.notch:
                    blocked.append(self.notch)
                if _inside(thing.rect, self.width, self.depth) and not any(
                    overlap(thing.rect, each) for each in blocked
                ):
                    self.things.append(thing)
                    break

    def fill(self) -> None:
        """Things to look for, each type at most once, on surfaces and on the floor at the walls."""
        kinds = sorted(TARGETS)
        self.stream.shuffle(kinds)
        placed = 0
        for kind in kinds:
            if placed == 12:
                break
            spots = list(self._spots(kind))
            if spots:
                self.things.append(self.stream.choice(spots))
                placed += 1

    def _spots(self, kind: str) -> Iterator[Thing]:
        places = TARGETS[kind].places
        small = [each for each in self.things if each.kind in TARGETS]
        for holder in self.things:
            for surface in FURNITURE[holder.kind].surfaces if holder.kind in FURNITURE else ():
                if surface.kind not in places:
                    continue
                turned = (
                    holder.turn if holder.kind != "DiningTable" else self.stream.choice((_SOUTH, _EAST, _NORTH, _WEST))
                )
                x0, y0, x1, y1 = _turned((surface.x0, surface.y0, surface.x1, surface.y1), holder)
                model = self.thing(kind, 0, 0, holder.z + round(100 * surface.z), turned)
                wide, deep, _ = model.size
                if wide > x1 - x0 or deep > y1 - y0:
                    continue
                for _ in range(4):
                    x, y = (
                        x0 + (wide + 1) // 2 + self.stream.below(x1 - x0 - wide + 1),
                        y0 + (deep + 1) // 2 + self.stream.below(y1 - y0 - deep + 1),
                    )
                    spot = Thing(kind, x, y, model.z, turned, model.color, model.main, model.second)
                    if not any(each.z == spot.z and overlap(each.rect, spot.rect) for each in (*small, *self._props())):
                        yield spot
                        break
        if "Floor" in places:
            for _ in range(6):
                turn = self.stream.choice((_SOUTH, _EAST, _NORTH, _WEST))
                spot = self.at_wall(kind, turn, 5 * self.stream.below(self.length(turn) // 5))
                if self.fits(spot.rect):
                    self.taken.append(spot.rect)
                    yield spot
                    break

    def _props(self) -> list[Thing]:
        return [each for each in self.things if each.kind == "Television"]


def _kitchen(room: _Room) -> None:
    turn = room.stream.choice((_SOUTH, _EAST, _NORTH, _WEST))
    run = ["CounterTop", "Stove", "CounterTop", "Sink"]
    if room.stream.below(2):
        run = run[::-1]
    run.insert(room.stream.choice((0, len(run))), "Fridge")
    at = 0
    for kind in run:
        wide = round(100 * FURNITURE[kind].width)
        thing = room.at_wall(kind, turn, at + wide // 2)
        if room.put(thing, 60):
            at += wide
            if kind in ("CounterTop",):
                room.things.append(room.at_wall("Cabinet", turn, at - wide // 2, 145))
        else:
            room.stand(kind)
    table = room.free_standing("DiningTable", 60)
    if table:
        room.chairs(table, 1 + room.stream.below(3))
        if room.stream.below(2):
            room.lay_rug(table)
    room.stand("HousePlant")


def _living_room(room: _Room) -> None:
    sofa = room.stand("Sofa")
    if sofa:
        room.beside(sofa, "SideTable")
        away = {_SOUTH: (0, -1), _EAST: (1, 0), _NORTH: (0, 1), _WEST: (-1, 0)}[sofa.turn]
        table = room.thing("CoffeeTable", sofa.x + away[0] * 118, sofa.y + away[1] * 118, 0, sofa.turn)
        if _inside(table.rect, room.width, room.depth) and not any(overlap(table.rect, each) for each in room.taken):
            room.aisles.clear()
            room.put(table)
            room.lay_rug(table)
    stand = room.stand("TVStand")
    if stand:
        room.things.append(room.thing("Television", stand.x, stand.y, 55, stand.turn))
    for kind in ("Shelf", "ArmChair", "Dresser", "HousePlant"):
        room.stand(kind)
    if room.stream.below(2):
        room.stand("Desk")


def _bedroom(room: _Room) -> None:
    bed = room.stand("Bed")
    if bed:
        room.beside(bed, "SideTable")
        if room.stream.below(2):
            room.lay_rug(bed)
    desk = room.stand("Desk")
    if desk:
        x0, y0, x1, y1 = _front(desk, 20)
        room.things.append(room.thing("Chair", (x0 + x1) // 2, (y0 + y1) // 2, 0, (desk.turn + 180) % 360))
        room.taken.append(room.things[-1].rect)
    for kind in ("Dresser", "Shelf"):
        room.stand(kind)
    room.stand(room.stream.choice(("ArmChair", "HousePlant")))


_FURNISH = {"kitchen": _kitchen, "living_room": _living_room, "bedroom": _bedroom}


def _front(thing: Thing, aisle: int) -> Rect:
    x0, y0, x1, y1 = thing.rect
    return {
        _SOUTH: (x0, y0 - aisle, x1, y0),
        _EAST: (x1, y0, x1 + aisle, y1),
        _NORTH: (x0, y1, x1, y1 + aisle),
        _WEST: (x0 - aisle, y0, x0, y1),
    }[thing.turn]


def _inside(rect: Rect, width: int, depth: int) -> bool:
    return rect[0] >= 0 and rect[1] >= 0 and rect[2] <= width and rect[3] <= depth


def _turned(rect: tuple[float, float, float, float], holder: Thing) -> Rect:
    """A rectangle in the frame of furniture, in metres, as one of the room, in cm."""
    x0, y0, x1, y1 = (round(100 * side) for side in rect)
    a, b, c, d = {
        _SOUTH: (x0, y0, x1, y1),
        _EAST: (-y1, x0, -y0, x1),
        _NORTH: (-x1, -y1, -x0, -y0),
        _WEST: (y0, -x1, y1, -x0),
    }[holder.turn]
    return holder.x + a, holder.y + b, holder.x + c, holder.y + d
