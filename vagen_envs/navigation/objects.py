"""The 26 things that can be looked for: the target types of EB-Navigation (EmbodiedBench, 2025).

`TARGETS` says of each how it is built, which colours it may have, where it may stand and how much room it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vagen_envs.navigation import home_objects as home
from vagen_envs.navigation import kitchen_objects as kitchen
from vagen_envs.navigation.shapes import WHITE, Color, Part

COLORS: Mapping[str, Color] = {
    "red": (0.78, 0.10, 0.08),
    "blue": (0.12, 0.28, 0.72),
    "green": (0.10, 0.48, 0.20),
    "yellow": (0.93, 0.75, 0.12),
    "orange": (0.92, 0.45, 0.08),
    "purple": (0.45, 0.18, 0.58),
    "pink": (0.92, 0.50, 0.62),
    "turquoise": (0.10, 0.62, 0.62),
    "white": WHITE,
    "grey": (0.50, 0.52, 0.54),
    "black": (0.10, 0.10, 0.12),
    "silver": (0.74, 0.76, 0.79),
    "brown": (0.46, 0.27, 0.13),
    "golden brown": (0.72, 0.44, 0.16),
    "bronze": (0.50, 0.33, 0.14),
    "cardboard brown": (0.70, 0.52, 0.32),
}


@dataclass(frozen=True, slots=True)
class Target:
    """A type of thing to look for.

    Attributes:
        build: its parts in a colour.
        colors: names in `COLORS`.
        places: kinds of furniture it may stand on, `"Floor"` among them.
        width, depth, height: the room it takes in metres.
    """

    build: Callable[[Color], list[Part]]
    colors: tuple[str, ...]
    places: tuple[str, ...]
    width: float
    depth: float
    height: float


_COUNTER = ("CounterTop", "DiningTable")
_LOW = ("CoffeeTable", "SideTable", "TVStand")
_TABLES = (*_LOW, "Shelf", "Dresser", "Desk")

TARGETS: Mapping[str, Target] = {
    "AlarmClock": Target(
        home.alarm_clock, ("red", "turquoise", "yellow"), ("SideTable", "Dresser", "Desk"), 0.32, 0.16, 0.40
    ),
    "Book": Target(home.book, ("red", "blue", "green", "purple"), _TABLES, 0.50, 0.28, 0.32),
    "Bowl": Target(kitchen.bowl, ("blue", "orange", "turquoise", "pink"), (*_COUNTER, "CoffeeTable"), 0.39, 0.39, 0.15),
    "Box": Target(home.carton, ("cardboard brown",), ("Floor", "CoffeeTable", "Dresser"), 0.56, 0.46, 0.40),
    "Bread": Target(kitchen.bread, ("golden brown",), _COUNTER, 0.56, 0.20, 0.21),
    "CellPhone": Target(
        home.cell_phone, ("black", "white"), ("SideTable", "Desk", "CoffeeTable", "Dresser"), 0.18, 0.16, 0.32
    ),
    "CoffeeMachine": Target(kitchen.coffee_machine, ("black", "red", "grey"), ("CounterTop",), 0.28, 0.38, 0.48),
    "Cup": Target(kitchen.cup, ("turquoise", "yellow", "orange", "green"), _COUNTER, 0.20, 0.20, 0.38),
    "DeskLamp": Target(
        home.desk_lamp, ("black", "red", "green", "white"), ("Desk", "SideTable", "Dresser"), 0.40, 0.24, 0.56
    ),
    "FloorLamp": Target(home.floor_lamp, ("black", "silver", "brown"), ("Floor",), 0.50, 0.50, 1.73),
    "GarbageCan": Target(home.garbage_can, ("green", "grey", "blue", "black"), ("Floor",), 0.48, 0.48, 0.66),
    "Kettle": Target(kitchen.kettle, ("silver", "red", "white"), ("CounterTop",), 0.44, 0.32, 0.40),
    "Laptop": Target(
        home.laptop, ("silver", "grey", "black"), ("Desk", "CoffeeTable", "DiningTable"), 0.42, 0.42, 0.29
    ),
    "LaundryHamper": Target(home.laundry_hamper, ("cardboard brown", "white", "brown"), ("Floor",), 0.54, 0.50, 0.70),
    "Lettuce": Target(kitchen.lettuce, ("green",), _COUNTER, 0.30, 0.30, 0.26),
    "Mug": Target(kitchen.mug, ("red", "blue", "white", "yellow"), (*_COUNTER, "Desk", "SideTable"), 0.30, 0.22, 0.30),
    "Pillow": Target(home.pillow, ("red", "yellow", "white", "blue"), ("Sofa", "Bed", "ArmChair"), 0.60, 0.26, 0.39),
    "Plate": Target(kitchen.plate, ("blue", "red", "green"), ("DiningTable", "CounterTop", "Shelf"), 0.36, 0.24, 0.37),
    "Pot": Target(kitchen.pot, ("silver", "red", "blue"), _COUNTER, 0.46, 0.36, 0.31),
    "Safe": Target(home.safe, ("grey", "green", "blue"), ("Floor", "Dresser"), 0.48, 0.48, 0.48),
    "Statue": Target(home.statue, ("bronze", "white", "black"), (*_LOW, "Shelf", "Dresser"), 0.40, 0.24, 0.72),
    "StoveBurner": Target(kitchen.stove_burner, ("black",), ("StoveTop",), 0.58, 0.52, 0.10),
    "TissueBox": Target(
        home.tissue_box, ("pink", "blue", "green", "purple"), (*_TABLES, "DiningTable"), 0.32, 0.20, 0.28
    ),
    "Toaster": Target(kitchen.toaster, ("silver", "red", "black", "white"), ("CounterTop",), 0.46, 0.25, 0.34),
    "Tomato": Target(kitchen.tomato, ("red",), _COUNTER, 0.22, 0.22, 0.20),
    "Vase": Target(
        home.vase, ("blue", "white", "purple", "turquoise"), ("DiningTable", *_LOW, "Shelf"), 0.34, 0.26, 0.60
    ),
}
"""The 26 types by their AI2-THOR name."""
