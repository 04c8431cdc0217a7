"""Draw the contact sheets of Navigation: docs/navigation-objects.png and docs/navigation-rooms.png.

Each object is a piece of a real 255-pixel frame with a field of view of 100 degrees, taken from 3 m
and enlarged three times.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from vagen_envs.navigation.config import NavigationConfig
from vagen_envs.navigation.furnishing import draw_house
from vagen_envs.navigation.house import ROOM_KINDS, House, HouseObject
from vagen_envs.navigation.levels import HouseLevels
from vagen_envs.navigation.objects import COLORS, FURNITURE, TARGETS
from vagen_envs.navigation.scene import Pose
from vagen_envs.navigation.simulator import EYE_Y, HouseSimulator
from vagen_envs.navigation.state import words
from vagen_envs.seeding import HashStream

CROP, ZOOM = 64, 3


def show_thing(kind: str) -> Image.Image:
    """One thing on the first furniture it may stand on, from 3 m."""
    target = TARGETS[kind]
    things = []
    wood, top, cloth = (0.55, 0.36, 0.20), (0.82, 0.80, 0.76), (0.45, 0.48, 0.42)
    place = next((name for name in target.places if name != "StoveTop"), "Stove")
    z = 0
    if place != "Floor":
        furniture = FURNITURE[place]
        soft = place in ("Sofa", "Bed", "ArmChair")
        things.append(HouseObject(place, 250, 350, 0, 0, "", cloth if soft else wood, top))
        z = furniture.surfaces[0].z
    color = target.colors[0]
    things.append(HouseObject(kind, 250, 350, z, 0, color, COLORS[color], COLORS[color]))
    house = House("kitchen", 500, 450, None, (0.82, 0.86, 0.78), "planks", None, tuple(things))
    frame = HouseSimulator(house, Pose(2.5, 0.5, 0), NavigationConfig()).frame()
    # 107 is the focal length in pixels, 3 m how far the thing is.
    middle = 127 - int((z / 100 + target.size[2] / 200 - EYE_Y) / 3 * 107)
    up = min(max(middle - CROP // 2, 0), 255 - CROP)
    piece = Image.fromarray(frame[up : up + CROP, 127 - CROP // 2 : 127 - CROP // 2 + CROP])
    return piece.resize((CROP * ZOOM, CROP * ZOOM), Image.Resampling.NEAREST)


def objects_sheet() -> Image.Image:
    side, columns = CROP * ZOOM, 6
    rows = -(-len(TARGETS) // columns)
    sheet = Image.new("RGB", (columns * (side + 6), rows * (side + 20)), "white")
    pen = ImageDraw.Draw(sheet)
    for i, kind in enumerate(sorted(TARGETS)):
        x, y = i % columns * (side + 6), i // columns * (side + 20)
        sheet.paste(show_thing(kind), (x, y + 16))
        pen.text((x + 2, y + 2), words(kind), fill="black")
    return sheet


def rooms_sheet() -> Image.Image:
    rows = []
    for i, kind in enumerate(ROOM_KINDS * 2):
        house = draw_house(HashStream("contact sheet", i), kind)
        middle = Pose(house.width / 200, house.depth / 200, 0)
        simulator = HouseSimulator(house, middle, NavigationConfig())
        views = [simulator.map_frame()]
        for rotation in (0, 120, 240):
            dx, dz = np.sin(np.radians(rotation)), np.cos(np.radians(rotation))
            simulator.teleport(Pose(middle.x - 1.2 * dx, middle.z - 1.2 * dz, rotation))
            views.append(simulator.frame())
        rows.append(np.hstack(views))
    return Image.fromarray(np.vstack(rows))


def houses_sheet() -> Image.Image:
    """Houses of rungs 2 to 5 of the ladder, from above."""
    maps = []
    for rooms, shortest, longest in ((2, 8, 20), (4, 16, 30), (6, 26, 44), (8, 40, 64)):
        lengths = {"min_solution_length": shortest, "max_solution_length": longest}
        levels = HouseLevels(NavigationConfig.create(rooms=rooms, resolution=380, **lengths))
        simulator, _ = levels.draw(HashStream("contact sheet", rooms), "train")
        maps.append(simulator.map_frame())
    return Image.fromarray(np.hstack(maps))


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    objects_sheet().save(folder / "navigation-objects.png", optimize=True)
    rooms_sheet().save(folder / "navigation-rooms.png", optimize=True)
    houses_sheet().save(folder / "navigation-houses.png", optimize=True)
