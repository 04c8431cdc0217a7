"""A room as MJCF, MuJoCo's scene format: one body a thing, primitives as its geoms."""

from __future__ import annotations

import functools
import io
import math

import numpy as np
from PIL import Image

from vagen_envs.navigation.furniture import FURNITURE
from vagen_envs.navigation.house import FLOORS, House, Rect, Thing
from vagen_envs.navigation.objects import TARGETS
from vagen_envs.navigation.shapes import Color, Part

WALL_HEIGHT = 2.6  # metres, as of usual rooms and doors
_DOOR_HEIGHT = 2.05
AGENT_RADIUS = 0.198
"""Metres; AI2-THOR's agent has 0.2. All stands on whole centimetres, so 2 mm less keep rounding from deciding whether
something is only just touched."""
AGENT_HEIGHT = 1.8  # metres
_CORNERS = 16  # of the prism around the agent's circle, which it exceeds by 2 % at its corners


def scene(house: House, step: float, field_of_view: float, cast_shadows: bool = False) -> tuple[str, dict[str, bytes]]:
    """MJCF of a room with an agent that sweeps `step` metres, and the files it names.

    Shadows where things touch the floor are part of the scene; `cast_shadows` has lamps throw them as well.
    Group 2 is the ceiling, which lets light through if there are shadows; group 5 is the agent. Body `i + 1` is
    `house.things[i]`. Walls and floor follow, since what is drawn behind something else costs next to nothing; the
    last body is the agent, with two slides and a hinge.
    """
    wide, deep = house.width / 100, house.depth / 100
    middle = f"{wide / 2} {deep / 2}"
    bodies = "".join(_thing(i, thing) for i, thing in enumerate(house.things))
    text = f"""<mujoco model="{house.kind}">
<compiler angle="degree" autolimits="true"/>
<option gravity="0 0 0"/>
<size memory="256K"/>
<statistic center="{middle} 1" extent="4"/>
<visual>
  <global fovy="{field_of_view}"/>
  <headlight ambient="0.52 0.52 0.52" diffuse="0.20 0.20 0.20" specular="0.1 0.1 0.1"/>
  <map znear="0.01" zfar="8" shadowclip="1"/>
</visual>
<asset>
{_MATERIALS}
  <mesh name="sweep" vertex="{_sweep(step)}"/>
</asset>
<worldbody>
  <light directional="true" pos="{middle} 4" dir="-0.28 0.36 -1" diffuse="0.40 0.39 0.37"
    castshadow="{str(cast_shadows).lower()}"/>
  <light directional="true" pos="{middle} 4" dir="0.62 -0.55 -0.55" diffuse="0.24 0.24 0.25" castshadow="false"/>
{bodies}<body name="building">
  <geom type="box" group="2" size="{middle} 0.02" pos="{middle} {WALL_HEIGHT + 0.02}"
    rgba="0.97 0.97 0.96 {0.99 if cast_shadows else 1}" material="lit" contype="0" conaffinity="0"/>
  <geom type="box" size="{middle} 0.05" pos="{middle} -0.05" material="{house.floor}" contype="0" conaffinity="0"/>
{_walls(house)}{_rug(house)}{_contact_shadows(house)}</body>
<body name="agent">
  <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="hinge" axis="0 0 1"/>
  <geom type="mesh" mesh="sweep" contype="1" conaffinity="0" group="5" mass="1"/>
</body>
</worldbody>
</mujoco>"""
    return text, floor_files()


_MATERIALS = (
    """  <texture name="sky" type="skybox" builtin="flat" rgb1="0.95 0.95 0.94" rgb2="0.95 0.95 0.94" width="8"
    height="48"/>
"""
    + "\n".join(
        f'  <texture name="{floor}" type="2d" file="{floor}.png"/>\n'
        f'  <material name="{floor}" texture="{floor}" texuniform="true" texrepeat="0.625 0.625" specular="0.05"/>'
        for floor in FLOORS
    )
    + """
  <material name="shiny" specular="0.9" shininess="0.7"/>
  <material name="matt" specular="0.15" shininess="0.2"/>
  <material name="lit" emission="0.8" specular="0"/>"""
)
"""Of every room alike, so that what was made to draw one room draws any. A floor's pattern is 1.6 m wide."""


def empty_scene(largest: int, cast_shadows: bool) -> tuple[str, dict[str, bytes]]:
    """MJCF of nothing but the materials, for pictures of up to `largest` pixels, and the files it names."""
    text = f"""<mujoco>
<visual>
  <global offwidth="{largest}" offheight="{largest}"/>
  <quality shadowsize="{1024 if cast_shadows else 0}" offsamples="0" numslices="18" numstacks="10"/>
</visual>
<asset>
{_MATERIALS}
</asset>
<worldbody/>
</mujoco>"""
    return text, floor_files()


def _sweep(step: float) -> str:
    """Corners of what the agent passes through in one move along y: an upright prism around two circles.

    The circles are drawn around, not within, so a move is never allowed that would touch something.
    """
    radius = AGENT_RADIUS / math.cos(math.pi / _CORNERS)
    corners = []
    for i in range(_CORNERS):
        angle = 2 * math.pi * (i + 0.5) / _CORNERS
        x, y = radius * math.sin(angle), radius * math.cos(angle)
        corners.append((x, y + (step if y > 0 else 0.0)))
    return " ".join(f"{x:.6f} {y:.6f} {z}" for z in (0.04, AGENT_HEIGHT) for x, y in corners)


def _box(name: str, x0: float, y0: float, x1: float, y1: float, z0: float, z1: float, color: Color) -> str:
    return (
        f'<geom name="{name}" type="box" size="{(x1 - x0) / 2} {(y1 - y0) / 2} {(z1 - z0) / 2}" '
        f'pos="{(x0 + x1) / 2} {(y0 + y1) / 2} {(z0 + z1) / 2}" rgba="{_rgb(color)} 1" material="matt" '
        'contype="0" conaffinity="1"/>\n'
    )


def _walls(house: House) -> str:
    wide, deep, thick = house.width / 100, house.depth / 100, 0.1
    sides = [
        (-thick, deep, wide + thick, deep + thick),
        (-thick, -thick, wide + thick, 0),
        (-thick, 0, 0, deep),
        (wide, 0, wide + thick, deep),
    ]
    if house.notch:
        x0, y0, x1, y1 = (side / 100 for side in house.notch)
        sides.append((x0, y0, x1, y1))
    sides += [(x0 / 100, y0 / 100, x1 / 100, y1 / 100) for x0, y0, x1, y1 in house.walls]
    skirting: Color = (0.96, 0.96, 0.95)
    text = ""
    for i, (x0, y0, x1, y1) in enumerate(house.doors):
        text += _box(f"lintel{i}", x0 / 100, y0 / 100, x1 / 100, y1 / 100, _DOOR_HEIGHT, WALL_HEIGHT, house.wall)
    for i, (x0, y0, x1, y1) in enumerate(sides):
        tint = tuple(channel * (0.93, 0.93, 1.0, 0.97, 0.95)[min(i, 4)] for channel in house.wall)
        text += _box(f"wall{i}", x0, y0, x1, y1, 0, WALL_HEIGHT, tint)  # type: ignore[arg-type]
        text += _box(f"skirting{i}", x0 - 0.012, y0 - 0.012, x1 + 0.012, y1 + 0.012, 0, 0.09, skirting)
    return text


def _rug(house: House) -> str:
    if house.rug is None:
        return ""
    rect, color = house.rug
    rim: Color = (color[0] * 0.7, color[1] * 0.7, color[2] * 0.7)
    layers = ((0, 0.008, rim), (-9, 0.011, color))
    return "".join(_sheet(rect, grown, high / 2, high / 2, f"{_rgb(tint)} 1") for grown, high, tint in layers)


def _contact_shadows(house: House) -> str:
    """Dark, see-through sheets under what stands on the floor: shadows that cost nothing."""
    return "".join(
        _sheet(thing.rect, grown, 0.0002, high, f"0.05 0.04 0.04 {alpha}")
        for thing in house.things
        if thing.z <= 0
        for grown, high, alpha in ((7, 0.012, 0.16), (3, 0.0125, 0.20), (-1, 0.013, 0.25))
    )


def _sheet(rect: Rect, grown: int, half: float, z: float, rgba: str) -> str:
    """What lies on the floor and nothing touches: `grown` cm beyond `rect`; half its height and its middle in m."""
    x0, y0, x1, y1 = rect
    return (
        f'<geom type="box" size="{(x1 - x0 + 2 * grown) / 200} {(y1 - y0 + 2 * grown) / 200} {half}" '
        f'pos="{(x0 + x1) / 200} {(y0 + y1) / 200} {z}" rgba="{rgba}" contype="0" conaffinity="0"/>\n'
    )


def _thing(index: int, thing: Thing) -> str:
    target = TARGETS.get(thing.kind)
    parts = target.build(thing.main) if target else FURNITURE[thing.kind].build(thing.main, thing.second)
    geoms = "".join(map(_geom, parts))
    at = f"{thing.x / 100} {thing.y / 100} {thing.z / 100}"
    return f'<body name="{index} {thing.kind}" pos="{at}" euler="0 0 {thing.turn}">\n{geoms}</body>\n'


def _geom(part: Part) -> str:
    material = "lit" if part.glow > 0.3 else "shiny" if part.shine > 0.45 else "matt"
    where = f'pos="{_numbers(part.at)}" euler="{_numbers(part.turn)}"'
    if part.shape == "capsule":
        where = f'fromto="{_numbers(part.at)} {_numbers(part.turn)}"'
    return (
        f'<geom type="{part.shape}" size="{_numbers(part.size)}" {where} rgba="{_rgb(part.color)} 1" '
        f'material="{material}" contype="0" conaffinity="1"/>\n'
    )


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.4f}" for value in values)


def _rgb(color: Color) -> str:
    return " ".join(f"{min(1.0, channel):.3f}" for channel in color)


@functools.cache
def floor_files() -> dict[str, bytes]:
    """The pattern of each floor."""
    return {f"{floor}.png": floor_png(floor) for floor in FLOORS}


def floor_png(pattern: str) -> bytes:
    """A floor of 1.6 m by 1.6 m as PNG: `planks`, `tiles` or `carpet`."""
    row, column = np.mgrid[0:256, 0:256]
    if pattern == "planks":
        plank = row // 32
        shift = (plank * 97) % 256
        board = plank * 7 + ((column + shift) // 128) % 2 * 3
        grain = 5 * np.sin(column * 0.05 + 3 * np.sin(row * 0.9) + board)
        tone = np.array([168, 126, 84]) + ((board * 37) % 29 - 14)[..., None] + grain[..., None]
        seam = (row % 32 == 0) | ((column + shift) % 128 == 0)
        tone[seam] *= 0.7
    elif pattern == "tiles":
        tile = (row // 64 + column // 64) % 2
        tone = np.array([205, 202, 195]) - 26 * tile[..., None] * np.ones(3)
        tone[(row % 64 < 2) | (column % 64 < 2)] = (150, 148, 142)
    else:
        mixed = (row * 374761393 + column * 668265263) % 1013
        tone = np.array([164, 156, 146]) + (mixed % 17 - 8)[..., None] * np.ones(3)
    buffer = io.BytesIO()
    Image.fromarray(np.clip(tone, 0, 255).astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()
