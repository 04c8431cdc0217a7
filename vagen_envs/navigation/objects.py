"""The 26 things that can be looked for: the target types of EB-Navigation (EmbodiedBench, 2025).

Small things are a little larger than life, so that they can be told apart from 3 m in a picture of 255
pixels. A builder takes the thing's colour; `TARGETS` says which it may have, where it may stand and how
much room it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vagen_envs.navigation.shapes import (
    BLACK,
    GRAPHITE,
    STEEL,
    WHITE,
    WOOD,
    Color,
    Part,
    ball,
    bar,
    box,
    disc,
    rod,
    shade,
    taper,
)

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


def _bread(color: Color) -> list[Part]:
    crumb = (0.93, 0.80, 0.55)
    loaf = [box(0.30, 0.16, 0.10, (0, 0, 0), color), bar((-0.11, 0, 0.11), (0.15, 0, 0.11), 0.085, color)]
    cuts = [box(0.025, 0.10, 0.02, (x, 0, 0.185), crumb, (0, 0, 25)) for x in (-0.06, 0.02, 0.10)]
    slices = [box(0.03, 0.17, 0.17, (x, 0, 0), crumb, (0, lean, 0)) for x, lean in ((-0.19, -8), (-0.25, -22))]
    return loaf + cuts + slices


def _pot(color: Color) -> list[Part]:
    dark = shade(color, 0.55)
    handles = [bar((x, -0.05, 0.15), (x, 0.05, 0.15), 0.018, BLACK) for x in (-0.205, 0.205)]
    arms = [bar((x * 0.8, y, 0.15), (x, y, 0.15), 0.012, BLACK) for x in (-0.2, 0.2) for y in (-0.05, 0.05)]
    body = [rod(0.165, 0.19, (0, 0, 0), color, shine=0.7), rod(0.175, 0.02, (0, 0, 0.19), dark)]
    lid = [ball((0, 0, 0.205), shade(color, 1.1), 0.16, 0.16, 0.035), rod(0.012, 0.05, (0, 0, 0.23), BLACK)]
    return [*body, *lid, ball((0, 0, 0.285), BLACK, 0.028), *handles, *arms]


def _toaster(color: Color) -> list[Part]:
    toast = (0.66, 0.40, 0.15)
    body = [box(0.38, 0.22, 0.22, (0, 0, 0.02), color, shine=0.8), box(0.40, 0.24, 0.03, (0, 0, 0), BLACK)]
    slots = [box(0.30, 0.045, 0.006, (0, y, 0.24), BLACK) for y in (-0.055, 0.055)]
    slices = [box(0.22, 0.03, 0.10, (0, y, 0.22), toast) for y in (-0.055, 0.055)]
    crusts = [bar((-0.09, y, 0.32), (0.09, y, 0.32), 0.018, shade(toast, 0.7)) for y in (-0.055, 0.055)]
    lever = [box(0.03, 0.06, 0.025, (0.205, 0, 0.17), BLACK), box(0.012, 0.02, 0.16, (0.192, 0, 0.04), BLACK)]
    return [*body, *slots, *slices, *crusts, *lever, disc(0.03, 0.02, (0.11, -0.115, 0.09), BLACK)]


def _cup(color: Color) -> list[Part]:
    tumbler = taper(0.06, 0.095, 0.22, (0, 0, 0), color, 5, shine=0.5)
    band = [rod(0.084, 0.05, (0, 0, 0.10), WHITE)]
    straw = [bar((0.01, 0, 0.12), (0.05, 0, 0.34), 0.011, (0.9, 0.1, 0.1)),
             bar((0.05, 0, 0.34), (0.11, 0, 0.37), 0.011, (0.9, 0.1, 0.1))]  # fmt: skip
    return [*tumbler, *band, rod(0.082, 0.004, (0, 0, 0.218), shade(color, 0.45)), *straw]


def _tomato(color: Color) -> list[Part]:
    leaf = (0.12, 0.42, 0.10)
    leaves = [ball((dx, dy, 0.165), leaf, 0.05 if dx else 0.018, 0.018 if dx else 0.05, 0.008)
              for dx, dy in ((-0.035, 0), (0.035, 0), (0, -0.035), (0, 0.035))]  # fmt: skip
    return [ball((0, 0, 0.085), color, 0.105, 0.105, 0.085, shine=0.6), *leaves, rod(0.012, 0.04, (0, 0, 0.16), leaf)]


def _lettuce(color: Color) -> list[Part]:
    light, rim, dark = (0.66, 0.86, 0.36), (0.40, 0.70, 0.20), (0.24, 0.52, 0.14)
    outer = [ball((x, y, 0.075), dark, 0.085, 0.04, 0.08, (0, 0, turn)) for x, y, turn in
             ((0, -0.11, 0), (0.11, -0.03, 75), (-0.11, -0.03, -75), (0.07, 0.09, 140), (-0.07, 0.09, -140))]  # fmt: skip
    middle = [ball((x, y, 0.12), rim, 0.065, 0.035, 0.085, (0, 0, turn)) for x, y, turn in
              ((0.06, -0.07, 35), (-0.06, -0.07, -35), (0.085, 0.03, 100), (-0.085, 0.03, -100))]  # fmt: skip
    return [ball((0, 0, 0.13), light, 0.105, 0.105, 0.13), *outer, *middle, bar((0, -0.09, 0.02), (0, -0.10, 0.19), 0.012, WHITE)]


def _garbage_can(color: Color) -> list[Part]:
    bag = [rod(0.228, 0.05, (0, 0, 0.52), (0.86, 0.87, 0.88)), rod(0.20, 0.004, (0, 0, 0.571), (0.05, 0.05, 0.05))]
    paper = [ball((x, y, z), WHITE, 0.07, 0.055, 0.06) for x, y, z in ((-0.08, -0.05, 0.59), (0.06, 0.05, 0.60))]
    scraps = [ball((0.07, -0.08, 0.58), (0.85, 0.72, 0.12), 0.09, 0.03, 0.035, (0, 0, 30)),
              box(0.09, 0.06, 0.11, (-0.02, 0.10, 0.56), (0.8, 0.2, 0.15), (15, 20, 0))]  # fmt: skip
    ribs = [rod(0.213 + 0.02 * k, 0.02, (0, 0, 0.14 + 0.16 * k), shade(color, 0.7)) for k in range(3)]
    return [*taper(0.18, 0.225, 0.52, (0, 0, 0), color, 4), *ribs, *bag, *paper, *scraps]


def _kettle(color: Color) -> list[Part]:
    body = [*taper(0.155, 0.105, 0.20, (0, 0, 0.02), color, 5, shine=0.8), rod(0.15, 0.02, (0, 0, 0), BLACK),
            ball((0, 0, 0.22), shade(color, 0.8), 0.10, 0.10, 0.03), ball((0, 0, 0.26), BLACK, 0.025)]  # fmt: skip
    spout = [bar((0.11, 0, 0.10), (0.20, 0, 0.19), 0.030, color), bar((0.20, 0, 0.19), (0.24, 0, 0.20), 0.022, color)]
    points = [(-0.13, 0.19), (-0.14, 0.30), (-0.08, 0.37), (0.04, 0.38), (0.10, 0.33)]
    handle = [bar((a, 0, b), (c, 0, d), 0.018, BLACK) for (a, b), (c, d) in zip(points, points[1:], strict=False)]
    return [*body, *spout, *handle]


def _stove_burner(color: Color) -> list[Part]:
    plate = [box(0.56, 0.50, 0.012, (0, 0, 0), GRAPHITE, shine=0.5)]
    rings: list[Part] = []
    for x in (-0.14, 0.14):
        for y in (-0.12, 0.12):
            rings += [rod(0.10, 0.018, (x, y, 0.01), BLACK), rod(0.075, 0.030, (x, y, 0.01), (1.0, 0.25, 0.05), 0.8),
                      rod(0.045, 0.036, (x, y, 0.01), BLACK),
                      box(0.22, 0.016, 0.02, (x, y, 0.04), BLACK), box(0.016, 0.22, 0.02, (x, y, 0.04), BLACK)]  # fmt: skip
            rings += [ball((x + dx, y + dy, 0.055), (0.25, 0.45, 1.0), 0.014, 0.014, 0.035, glow=1.0)
                      for dx, dy in ((0.065, 0.03), (-0.065, 0.03), (0.03, -0.065), (-0.03, -0.065))]  # fmt: skip
    return plate + rings


def _coffee_machine(color: Color) -> list[Part]:
    glass = (0.35, 0.20, 0.12)
    frame = [box(0.26, 0.34, 0.05, (0, 0, 0), color), box(0.26, 0.13, 0.42, (0, 0.105, 0), color),
             box(0.26, 0.34, 0.12, (0, 0, 0.34), color), box(0.27, 0.35, 0.02, (0, 0, 0.46), STEEL)]  # fmt: skip
    jug = [*taper(0.085, 0.07, 0.15, (0, -0.07, 0.06), glass, 3, shine=0.9), rod(0.075, 0.025, (0, -0.07, 0.21), BLACK),
           bar((0.10, -0.10, 0.10), (0.10, -0.10, 0.19), 0.013, BLACK),
           bar((0.07, -0.09, 0.19), (0.10, -0.10, 0.19), 0.013, BLACK)]  # fmt: skip
    panel = [box(0.20, 0.01, 0.06, (0, -0.172, 0.37), STEEL), disc(0.018, 0.02, (-0.06, -0.178, 0.40), (1, 0.1, 0.1), glow=0.9),
             disc(0.018, 0.02, (0.06, -0.178, 0.40), (0.1, 0.9, 0.2), glow=0.9), taper(0.05, 0.02, 0.05, (0, -0.07, 0.29), BLACK, 2)[0]]  # fmt: skip
    return [*frame, *jug, *panel]


def _tissue_box(color: Color) -> list[Part]:
    paper = [ball((0, 0, 0.155), WHITE, 0.075, 0.03, 0.09), ball((0.04, 0, 0.19), WHITE, 0.03, 0.02, 0.09, (0, 25, 0)),
             ball((-0.04, 0.01, 0.18), WHITE, 0.03, 0.02, 0.08, (0, -30, 0))]  # fmt: skip
    stripes = [box(0.305, 0.185, 0.02, (0, 0, z), shade(color, 1.6)) for z in (0.03, 0.07)]
    return [box(0.30, 0.18, 0.14, (0, 0, 0), color), *stripes, ball((0, 0, 0.14), BLACK, 0.10, 0.04, 0.004), *paper]


def _laptop(color: Color) -> list[Part]:
    base = [box(0.40, 0.28, 0.018, (0, -0.02, 0), color, shine=0.5), box(0.13, 0.07, 0.004, (0, -0.11, 0.017), shade(color, 0.7))]
    keys = [box(0.35, 0.028, 0.006, (0, y, 0.017), BLACK) for y in (-0.045, -0.005, 0.035, 0.075)]
    lid = [box(0.40, 0.016, 0.28, (0, 0.165, 0.005), color, (-18, 0, 0)),
           box(0.37, 0.010, 0.245, (0, 0.156, 0.023), (0.25, 0.55, 0.95), (-18, 0, 0), glow=0.8)]  # fmt: skip
    windows = [box(0.16, 0.010, 0.10, (-0.07, 0.157, 0.12), WHITE, (-18, 0, 0), glow=0.9),
               box(0.10, 0.010, 0.06, (0.10, 0.142, 0.08), (0.95, 0.85, 0.3), (-18, 0, 0), glow=0.9)]  # fmt: skip
    return [*base, *keys, *lid, *windows]


def _desk_lamp(color: Color) -> list[Part]:
    head = [Part("cylinder", (r, 0.02), (x, 0, z), color, (0, 35, 0), 0.0, 0.5)
            for r, x, z in ((0.045, 0.065, 0.505), (0.075, 0.088, 0.472), (0.105, 0.111, 0.439))]  # fmt: skip
    bulb = [ball((0.125, 0, 0.415), (1.0, 0.92, 0.55), 0.07, 0.07, 0.05, (0, 35, 0), glow=1.0)]
    arms = [bar((0, 0, 0.03), (-0.14, 0, 0.28), 0.014, STEEL), bar((-0.14, 0, 0.28), (0.05, 0, 0.52), 0.014, STEEL)]
    return [rod(0.115, 0.03, (0, 0, 0), color), *arms, ball((-0.14, 0, 0.28), BLACK, 0.026), *head, *bulb]


def _pillow(color: Color) -> list[Part]:
    stripe = shade(color, 0.6) if sum(color) > 1.5 else WHITE
    lean = (-18.0, 0.0, 0.0)
    corners = [ball((x, 0.30 * (z - 0.20), z), color, 0.075, 0.035, 0.030, (-18, turn, 0))
               for x, z, turn in ((-0.23, 0.05, -40), (0.23, 0.05, 40), (-0.23, 0.35, 40), (0.23, 0.35, -40))]  # fmt: skip
    stripes = [ball((x, 0, 0.20), stripe, 0.022, 0.097 - 0.10 * abs(x), 0.185 - 0.1 * abs(x), lean) for x in (-0.12, 0, 0.12)]
    return [ball((0, 0, 0.20), color, 0.29, 0.095, 0.19, lean), box(0.44, 0.09, 0.28, (0, 0, 0.06), color, lean), *corners, *stripes]


def _floor_lamp(color: Color) -> list[Part]:
    lampshade = taper(0.24, 0.16, 0.30, (0, 0, 1.38), (0.98, 0.90, 0.68), 4, glow=0.75)
    return [rod(0.17, 0.03, (0, 0, 0), color), rod(0.018, 1.40, (0, 0, 0.02), color), *lampshade,
            rod(0.245, 0.015, (0, 0, 1.375), color), rod(0.165, 0.015, (0, 0, 1.67), color), ball((0, 0, 1.71), color, 0.025)]  # fmt: skip


def _box(color: Color) -> list[Part]:
    tape = (0.90, 0.84, 0.66)
    dark = shade(color, 0.82)
    flaps = [box(0.42, 0.012, 0.13, (0, -0.20, 0.27), color, (48, 0, 0)), box(0.42, 0.012, 0.13, (0, 0.20, 0.27), color, (-48, 0, 0)),
             box(0.012, 0.30, 0.13, (-0.25, 0, 0.27), dark, (0, -48, 0)), box(0.012, 0.30, 0.13, (0.25, 0, 0.27), dark, (0, 48, 0))]  # fmt: skip
    marks = [box(0.06, 0.305, 0.20, (0, 0, 0.05), tape), box(0.10, 0.31, 0.07, (-0.12, 0, 0.08), WHITE)]
    inside = box(0.39, 0.27, 0.004, (0, 0, 0.299), shade(color, 0.4))
    return [box(0.42, 0.30, 0.30, (0, 0, 0), color), inside, *flaps, *marks]


def _plate(color: Color) -> list[Part]:
    stand = [bar((x, -0.07, 0.012), (x, 0.07, 0.012), 0.010, WOOD) for x in (-0.08, 0.08)]
    backs = [bar((x, 0.06, 0.012), (x, 0.10, 0.20), 0.010, WOOD) for x in (-0.08, 0.08)]
    pegs = [bar((x, -0.06, 0.012), (x, -0.07, 0.05), 0.010, WOOD) for x in (-0.08, 0.08)]
    face = [disc(0.175, 0.014, (0, 0.010, 0.19), color, 15), disc(0.150, 0.020, (0, 0.007, 0.19), WHITE, 15),
            disc(0.105, 0.025, (0, 0.004, 0.19), color, 15), disc(0.095, 0.030, (0, 0.001, 0.19), WHITE, 15)]  # fmt: skip
    return [*stand, *backs, *pegs, *face]


def _vase(color: Color) -> list[Part]:
    body = [*taper(0.06, 0.115, 0.12, (0, 0, 0), color, 3, shine=0.6), *taper(0.115, 0.05, 0.12, (0, 0, 0.12), color, 4, shine=0.6),
            *taper(0.045, 0.07, 0.06, (0, 0, 0.24), color, 2, shine=0.6)]  # fmt: skip
    green, parts = (0.15, 0.45, 0.15), []
    for x, y, z, bloom in ((-0.10, 0.02, 0.50, (0.95, 0.85, 0.2)), (0.11, 0, 0.49, (0.95, 0.35, 0.5)), (0.01, -0.05, 0.56, (0.95, 0.95, 0.98)),
                           (-0.03, 0.07, 0.45, (0.95, 0.35, 0.5))):  # fmt: skip
        parts += [bar((0, 0, 0.28), (x, y, z), 0.008, green), ball((x, y, z), bloom, 0.055, 0.055, 0.04), ball((x, y - 0.03, z), (0.5, 0.3, 0.05), 0.02)]
        parts += [ball((x * 0.6, y * 0.6, 0.37), green, 0.045, 0.012, 0.018, (0, 30, 0))]
    return [*body, *parts]


def _statue(color: Color) -> list[Part]:
    stone = (0.80, 0.79, 0.75)
    legs = [bar((x, 0, 0.14), (x * 0.6, 0, 0.32), 0.032, color) for x in (-0.05, 0.05)]
    torso = [ball((0, 0, 0.40), color, 0.085, 0.055, 0.12, shine=0.7), ball((0, 0, 0.48), color, 0.10, 0.05, 0.045, shine=0.7)]
    arms = [bar((0.10, 0, 0.48), (0.18, -0.02, 0.60), 0.024, color), bar((0.18, -0.02, 0.60), (0.15, -0.02, 0.70), 0.020, color),
            bar((-0.10, 0, 0.48), (-0.16, 0, 0.38), 0.024, color), bar((-0.16, 0, 0.38), (-0.07, -0.05, 0.34), 0.020, color)]  # fmt: skip
    head = [rod(0.022, 0.06, (0, 0, 0.51), color), ball((0, 0, 0.60), color, 0.052, 0.055, 0.065, shine=0.7)]
    plinth = [box(0.26, 0.22, 0.08, (0, 0, 0), stone), box(0.21, 0.17, 0.05, (0, 0, 0.08), shade(stone, 0.85))]
    return [*plinth, *legs, *torso, *arms, *head]


def _alarm_clock(color: Color) -> list[Part]:
    case = [disc(0.145, 0.09, (0, 0, 0.17), color), disc(0.122, 0.10, (0, -0.002, 0.17), WHITE)]
    hands = [bar((0, -0.056, 0.17), (0, -0.056, 0.255), 0.009, BLACK), bar((0, -0.056, 0.17), (0.06, -0.056, 0.20), 0.011, BLACK)]
    marks = [box(0.018, 0.008, 0.018, (x, -0.053, z), BLACK) for x, z in ((0, 0.265), (0, 0.057), (0.095, 0.161), (-0.095, 0.161))]
    bells = [ball((x, 0, 0.335), STEEL, 0.065, 0.06, 0.045, (0, turn, 0), shine=0.9) for x, turn in ((-0.085, -35), (0.085, 35))]
    rest = [bar((0, 0, 0.31), (0, 0, 0.37), 0.010, BLACK), ball((0, 0, 0.375), BLACK, 0.02)]
    feet = [bar((x * 0.7, 0, 0.06), (x, 0, 0.01), 0.014, BLACK) for x in (-0.12, 0.12)]
    return [*case, *hands, *marks, *bells, *rest, *feet]


def _mug(color: Color) -> list[Part]:
    points = [(0.10, 0.15), (0.155, 0.145), (0.165, 0.10), (0.15, 0.055), (0.10, 0.05)]
    handle = [bar((a, 0, b), (c, 0, d), 0.016, color) for (a, b), (c, d) in zip(points, points[1:], strict=False)]
    heart = [disc(0.03, 0.01, (0, -0.101, 0.10), WHITE)]
    steam = [bar((x, 0, 0.22), (x + 0.015, 0, 0.29), 0.007, WHITE) for x in (-0.03, 0.03)]
    return [rod(0.10, 0.19, (0, 0, 0), color), rod(0.088, 0.004, (0, 0, 0.188), (0.22, 0.11, 0.05)), *handle, *heart, *steam]


def _book(color: Color) -> list[Part]:
    pages, parts = (0.97, 0.95, 0.88), []
    for side in (-1, 1):
        turn = (-35.0, 0.0, side * 7.0)
        parts += [box(0.24, 0.016, 0.34, (side * 0.12, 0.02, -0.015), color, turn), box(0.20, 0.030, 0.28, (side * 0.105, 0.005, 0.015), pages, turn)]
        for i in range(5):
            up = 0.055 * (2 - i)  # along the page from its middle
            parts.append(box(0.14, 0.010, 0.022, (side * 0.105, 0.005 + 0.574 * up - 0.015, 0.144 + 0.819 * up + 0.011), GRAPHITE, turn))
    return [*parts, bar((0, 0.08, 0.29), (0.02, -0.11, 0.03), 0.009, (0.85, 0.1, 0.1))]


def _laundry_hamper(color: Color) -> list[Part]:
    weave = shade(color, 0.72)
    slats = [box(0.035, 0.435, 0.56, (x, 0, 0), weave) for x in (-0.16, -0.08, 0, 0.08, 0.16)]
    sides = [box(0.495, 0.035, 0.56, (0, y, 0), weave) for y in (-0.14, -0.05, 0.05, 0.14)]
    rims = [box(0.52, 0.46, 0.04, (0, 0, z), shade(color, 0.55)) for z in (0.0, 0.27, 0.55)]
    clothes = [ball((-0.10, -0.04, 0.61), (0.20, 0.35, 0.75), 0.14, 0.13, 0.08), ball((0.11, 0.04, 0.62), (0.85, 0.25, 0.25), 0.13, 0.14, 0.09),
               ball((0.02, -0.10, 0.63), WHITE, 0.10, 0.09, 0.06), box(0.13, 0.03, 0.26, (0.12, -0.235, 0.38), (0.85, 0.25, 0.25)),
               box(0.10, 0.03, 0.16, (-0.12, -0.235, 0.46), (0.20, 0.35, 0.75))]  # fmt: skip
    return [box(0.48, 0.42, 0.56, (0, 0, 0), color), *slats, *sides, *rims, *clothes]


def _cell_phone(color: Color) -> list[Part]:
    lean = (-20.0, 0.0, 0.0)
    icons = [box(0.028, 0.012, 0.028, (x, 0.008 + (z - 0.17) * 0.364, z - 0.014), tint, lean, glow=1.0)
             for (x, z), tint in zip([(x, z) for z in (0.12, 0.17, 0.22) for x in (-0.038, 0.0, 0.038)],
             [(0.95, 0.2, 0.2), (1, 1, 1), (0.2, 0.85, 0.3), (1, 0.8, 0.1), (0.9, 0.3, 0.8), (1, 1, 1), (0.2, 0.9, 0.9), (1, 0.5, 0.1), (0.3, 0.9, 0.3)], strict=True)]  # fmt: skip
    slab = [box(0.15, 0.018, 0.29, (0, 0.02, 0.03), color, lean, shine=0.6), box(0.135, 0.018, 0.245, (0, 0.013, 0.05), (0.12, 0.25, 0.60), lean, glow=0.9)]
    dock = [box(0.15, 0.12, 0.03, (0, 0.02, 0), STEEL), bar((0, 0.07, 0.03), (0, 0.06, 0.17), 0.012, STEEL)]
    return [*slab, *icons, *dock]


def _safe(color: Color) -> list[Part]:
    dark = shade(color, 0.6)
    door = [box(0.40, 0.03, 0.38, (0, -0.195, 0.06), dark), box(0.36, 0.03, 0.34, (0, -0.205, 0.08), color)]
    dial = [disc(0.062, 0.03, (-0.08, -0.225, 0.29), STEEL), disc(0.045, 0.05, (-0.08, -0.225, 0.29), BLACK), box(0.008, 0.008, 0.03, (-0.08, -0.254, 0.30), WHITE)]
    spokes = [bar((0.07 - dx, -0.245, 0.21 - dz), (0.07 + dx, -0.245, 0.21 + dz), 0.011, STEEL, 0.9)
              for dx, dz in ((0.085, 0), (0.0425, 0.0736), (-0.0425, 0.0736))]  # fmt: skip
    wheel = [disc(0.028, 0.06, (0.07, -0.23, 0.21), STEEL)]
    hinges = [rod(0.018, 0.07, (-0.205, -0.21, z), STEEL) for z in (0.10, 0.34)]
    feet = [box(0.06, 0.06, 0.02, (x, y, 0), BLACK) for x in (-0.18, 0.18) for y in (-0.14, 0.14)]
    return [box(0.46, 0.38, 0.46, (0, 0, 0.02), color), *door, *dial, *spokes, *wheel, *hinges, *feet]


def _bowl(color: Color) -> list[Part]:
    body = [*taper(0.07, 0.19, 0.12, (0, 0, 0.015), color, 6, shine=0.4), rod(0.08, 0.018, (0, 0, 0), shade(color, 0.7))]
    return [*body, rod(0.192, 0.014, (0, 0, 0.135), WHITE), rod(0.175, 0.004, (0, 0, 0.147), shade(color, 0.45))]


_COUNTER = ("CounterTop", "DiningTable")
_TABLES = ("CoffeeTable", "SideTable", "TVStand", "Shelf", "Dresser", "Desk")

TARGETS: Mapping[str, Target] = {
    "AlarmClock": Target(_alarm_clock, ("red", "turquoise", "yellow"), ("SideTable", "Dresser", "Desk"), 0.32, 0.16, 0.40),
    "Book": Target(_book, ("red", "blue", "green", "purple"), _TABLES, 0.50, 0.28, 0.32),
    "Bowl": Target(_bowl, ("blue", "orange", "turquoise", "pink"), ("DiningTable", "CounterTop", "CoffeeTable"), 0.39, 0.39, 0.15),
    "Box": Target(_box, ("cardboard brown",), ("Floor", "CoffeeTable", "Dresser"), 0.56, 0.46, 0.40),
    "Bread": Target(_bread, ("golden brown",), _COUNTER, 0.56, 0.20, 0.21),
    "CellPhone": Target(_cell_phone, ("black", "white"), ("SideTable", "Desk", "CoffeeTable", "Dresser"), 0.18, 0.16, 0.32),
    "CoffeeMachine": Target(_coffee_machine, ("black", "red", "grey"), ("CounterTop",), 0.28, 0.38, 0.48),
    "Cup": Target(_cup, ("turquoise", "yellow", "orange", "green"), _COUNTER, 0.20, 0.20, 0.38),
    "DeskLamp": Target(_desk_lamp, ("black", "red", "green", "white"), ("Desk", "SideTable", "Dresser"), 0.40, 0.24, 0.56),
    "FloorLamp": Target(_floor_lamp, ("black", "silver", "brown"), ("Floor",), 0.50, 0.50, 1.73),
    "GarbageCan": Target(_garbage_can, ("green", "grey", "blue", "black"), ("Floor",), 0.48, 0.48, 0.66),
    "Kettle": Target(_kettle, ("silver", "red", "white"), ("CounterTop",), 0.44, 0.32, 0.40),
    "Laptop": Target(_laptop, ("silver", "grey", "black"), ("Desk", "CoffeeTable", "DiningTable"), 0.42, 0.42, 0.29),
    "LaundryHamper": Target(_laundry_hamper, ("cardboard brown", "white", "brown"), ("Floor",), 0.54, 0.50, 0.70),
    "Lettuce": Target(_lettuce, ("green",), _COUNTER, 0.30, 0.30, 0.26),
    "Mug": Target(_mug, ("red", "blue", "white", "yellow"), ("CounterTop", "DiningTable", "Desk", "SideTable"), 0.30, 0.22, 0.30),
    "Pillow": Target(_pillow, ("red", "yellow", "white", "blue"), ("Sofa", "Bed", "ArmChair"), 0.60, 0.26, 0.39),
    "Plate": Target(_plate, ("blue", "red", "green"), ("DiningTable", "CounterTop", "Shelf"), 0.36, 0.24, 0.37),
    "Pot": Target(_pot, ("silver", "red", "blue"), _COUNTER, 0.46, 0.36, 0.31),
    "Safe": Target(_safe, ("grey", "green", "blue"), ("Floor", "Dresser"), 0.48, 0.48, 0.48),
    "Statue": Target(_statue, ("bronze", "white", "black"), ("SideTable", "TVStand", "CoffeeTable", "Shelf", "Dresser"), 0.40, 0.24, 0.72),
    "StoveBurner": Target(_stove_burner, ("black",), ("StoveTop",), 0.58, 0.52, 0.10),
    "TissueBox": Target(_tissue_box, ("pink", "blue", "green", "purple"), (*_TABLES, "DiningTable"), 0.32, 0.20, 0.28),
    "Toaster": Target(_toaster, ("silver", "red", "black", "white"), ("CounterTop",), 0.46, 0.25, 0.34),
    "Tomato": Target(_tomato, ("red",), _COUNTER, 0.22, 0.22, 0.20),
    "Vase": Target(_vase, ("blue", "white", "purple", "turquoise"), ("DiningTable", "CoffeeTable", "SideTable", "TVStand", "Shelf"), 0.34, 0.26, 0.60),
}  # fmt: skip
"""The 26 types by their AI2-THOR name."""
