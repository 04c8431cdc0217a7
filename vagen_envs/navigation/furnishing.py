"""How a room is furnished: large things at the walls, then what hangs, then the things to look
for.
"""

from __future__ import annotations

import dataclasses
import itertools

from vagen_envs.errors import LevelError
from vagen_envs.navigation.floor_plan import (
    DOOR,
    FloorPlan,
    grown,
    is_inside,
    moved,
    overlap,
)
from vagen_envs.navigation.house import FLOORS, ROOM_KINDS, House, HouseObject, RoomKind
from vagen_envs.navigation.objects import FURNITURE, PALETTES, TARGETS
from vagen_envs.navigation.placing import TRIES, TURNS, Room
from vagen_envs.seeding import HashStream


def draw_house(stream: HashStream, kind: RoomKind | None = None) -> House:
    """A furnished room with eight or more things to look for, each of another type."""
    for _ in range(TRIES):
        room = Room(stream, stream.choice(ROOM_KINDS) if kind is None else kind)
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
    raise LevelError(f"no {kind or 'room'} could be furnished in {TRIES} tries; use another seed")


def furnish(stream: HashStream, plan: FloorPlan) -> House:
    """A house of several rooms with 20 or so things to look for, each of another type."""
    drawn = [stream.sample(ROOM_KINDS, 3) for _ in plan.rooms]
    kinds = list(itertools.chain(*drawn))[: len(plan.rooms)]
    furniture: list[HouseObject] = []
    targets: list[HouseObject] = []
    for kind, inside in zip(kinds, plan.rooms, strict=True):
        x, y = inside[:2]
        room = Room(stream, kind, (inside[2] - x, inside[3] - y))
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


def _kitchen(room: Room) -> None:
    turn = room.stream.choice(TURNS)
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


def _living_room(room: Room) -> None:
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


def _bedroom(room: Room) -> None:
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
