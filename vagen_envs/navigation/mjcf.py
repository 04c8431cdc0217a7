"""A room as MJCF, MuJoCo's scene format: one body per object, primitives as its geoms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from vagen_envs.navigation.decor import painting_of, style_of, textures
from vagen_envs.navigation.floor_plan import Rect
from vagen_envs.navigation.house import FLOORS, House, HouseObject
from vagen_envs.navigation.objects import Color, Tint, geoms, model_file

WALL_HEIGHT = 2.6  # metres, as of usual rooms and doors
_DOOR_HEIGHT = 2.05
AGENT_RADIUS = 0.198
"""Metres; AI2-THOR's agent has 0.2. Everything stands on whole centimetres: 2 mm less keep rounding
errors from deciding whether a move touches something."""
AGENT_HEIGHT = 1.8  # metres
_CORNERS = 16  # of the prism around the agent's circle, which it exceeds by 2 % at its corners
_LAMPS_APART = 320  # cm
_SKIRTING: Color = (0.96, 0.96, 0.95)
_SIDE_SHADES = (0.93, 0.93, 1.0, 0.97, 0.95)
"""Brightness of the north, south, west and east wall and of all others: adjoining walls differ in a
flat light.
"""


def scene(
    house: House, step: float, field_of_view: float, cast_shadows: bool = False
) -> tuple[str, dict[str, bytes]]:
    """MJCF of a room with an agent that sweeps `step` metres, and the files that it refers to.

    Body `i + 1` is `house.objects[i]`. The building follows, and the agent is the last body, with
    two slides and a hinge. Group 2 is the ceiling, which lets light through if lamps cast shadows;
    group 5 is the agent.
    """
    materials, files = textures()
    text = model_file("room.xml").decode()
    text = text.format(
        textures=materials,
        kind=house.kind,
        middle=f"{house.width / 200} {house.depth / 200}",
        field_of_view=field_of_view,
        shadow_size=1024 if cast_shadows else 0,
        cast_shadows=str(cast_shadows).lower(),
        ceiling=WALL_HEIGHT + 0.02,
        ceiling_alpha=0.99 if cast_shadows else 1,
        floor=house.floor,
        sweep=_sweep(step),
        objects="".join(_body(i, placed) for i, placed in enumerate(house.objects)),
        building="".join(_building(house)),
    )
    return text, files | {f"{floor}.png": model_file(f"{floor}.png") for floor in FLOORS}


def _sweep(step: float) -> str:
    """Corners of what the agent passes through in one move along y: an upright prism around two
    circles.

    The prism encloses the circles, so a move is never allowed that would touch something.
    """
    radius = AGENT_RADIUS / math.cos(math.pi / _CORNERS)
    angles = [2 * math.pi * (i + 0.5) / _CORNERS for i in range(_CORNERS)]
    corners = [(radius * math.sin(angle), radius * math.cos(angle)) for angle in angles]
    swept = [(x, y + step if y > 0 else y) for x, y in corners]
    low = [f"{x:.6f} {y:.6f} 0.04" for x, y in swept]
    high = [f"{x:.6f} {y:.6f} {AGENT_HEIGHT}" for x, y in swept]
    return " ".join([*low, *high])


def _body(index: int, thing: HouseObject) -> str:
    at = f"{thing.x / 100} {thing.y / 100} {thing.z / 100}"
    return (
        f'<body name="{index} {thing.kind}" childclass="solid" pos="{at}" euler="0 0 '
        f'{thing.turn}">\n'
        f"{geoms(thing.kind, thing.main, thing.second, painting_of(thing))}</body>\n"
    )


def _building(house: House) -> Iterator[str]:
    """Walls, skirting, rug and shadows."""
    wide = house.width
    deep = house.depth
    thick = 10
    wall = Tint(house.wall)
    sides = [
        (-thick, deep, wide + thick, deep + thick),
        (-thick, -thick, wide + thick, 0),
        (-thick, 0, 0, deep),
        (wide, 0, wide + thick, deep),
        *([house.notch] if house.notch else []),
        *house.walls,
    ]
    style = style_of(house)
    for door in house.doors:
        yield _box("solid", door, 0, _DOOR_HEIGHT, WALL_HEIGHT, f"{wall} 1", "plaster")
    for i, side in enumerate(sides):
        shade = f"{wall:{_SIDE_SHADES[min(i, 4)]}} 1"
        yield _box("solid", side, 0, 0, WALL_HEIGHT, shade, style)
        yield _box("solid", side, 1.2, 0, 0.09, f"{Tint(_SKIRTING)} 1")
    if house.rug is not None:
        rect, color = house.rug
        yield _box("sheet", rect, 0, 0, 0.008, f"{Tint(color):0.7} 1", "fabric")
        yield _box("sheet", rect, -9, 0, 0.011, f"{Tint(color)} 1", "fabric")
    yield from _lamps(wide, deep)
    # Dark, see-through sheets under what stands on the floor: shadows that cost nothing.
    for rect in (thing.rect for thing in house.objects if thing.z <= 0):
        for grown, high, alpha in ((7, 0.012, 0.16), (3, 0.0125, 0.20), (-1, 0.013, 0.25)):
            yield _box(
                "sheet", rect, grown, high - 0.0002, high + 0.0002, f"0.05 0.04 0.04 {alpha}"
            )


def _lamps(wide: int, deep: int) -> Iterator[str]:
    """Lamps at the ceiling, some three metres apart."""
    columns = max(1, round(wide / _LAMPS_APART))
    rows = max(1, round(deep / _LAMPS_APART))
    for i, j in itertools.product(range(columns), range(rows)):
        x = wide * (i + 0.5) / columns / 100
        y = deep * (j + 0.5) / rows / 100
        for radius, high, look in (
            (0.19, 0.012, 'rgba="0.55 0.5 0.42 1" material="matt"'),
            (0.16, 0.05, 'rgba="0.98 0.92 0.78 1" material="glow"'),
        ):
            yield (
                f'<geom class="lamp" size="{radius} {high}" pos="{x} {y} {WALL_HEIGHT - high}" '
                f"{look}/>\n"
            )


def _box(
    kind: str,
    rect: Rect,
    grown: float,
    low: float,
    high: float,
    rgba: str,
    material: str = "",
) -> str:
    """A box over `rect`, `grown` cm larger on each side, between two heights in metres."""
    x0, y0, x1, y1 = rect
    cover = f' material="{material}"' if material else ""
    return (
        f'<geom class="{kind}" size="{(x1 - x0 + 2 * grown) / 200} {(y1 - y0 + 2 * grown) / 200} '
        f'{(high - low) / 2}" '
        f'pos="{(x0 + x1) / 200} {(y0 + y1) / 200} {(low + high) / 2}" rgba="{rgba}"{cover}/>\n'
    )
