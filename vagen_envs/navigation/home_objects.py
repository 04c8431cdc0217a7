"""Things of living rooms and bedrooms to look for: a builder each, which takes the colour and gives the parts.

Small things are a little larger than life: they must be told apart from 3 m.
"""

# ruff: noqa: D103 - the names say it; all builders are called alike

from __future__ import annotations

from vagen_envs.navigation.shapes import (
    BLACK,
    GRAPHITE,
    STEEL,
    WHITE,
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


def garbage_can(color: Color) -> list[Part]:
    bag = [rod(0.228, 0.05, (0, 0, 0.52), (0.86, 0.87, 0.88)), rod(0.20, 0.004, (0, 0, 0.571), (0.05, 0.05, 0.05))]
    paper = [ball((x, y, z), WHITE, 0.07, 0.055, 0.06) for x, y, z in ((-0.08, -0.05, 0.59), (0.06, 0.05, 0.60))]
    scraps = [
        ball((0.07, -0.08, 0.58), (0.85, 0.72, 0.12), 0.09, 0.03, 0.035, (0, 0, 30)),
        box(0.09, 0.06, 0.11, (-0.02, 0.10, 0.56), (0.8, 0.2, 0.15), (15, 20, 0)),
    ]
    ribs = [rod(0.213 + 0.02 * k, 0.02, (0, 0, 0.14 + 0.16 * k), shade(color, 0.7)) for k in range(3)]
    return [*taper(0.18, 0.225, 0.52, (0, 0, 0), color, 4), *ribs, *bag, *paper, *scraps]


def tissue_box(color: Color) -> list[Part]:
    paper = [
        ball((0, 0, 0.155), WHITE, 0.075, 0.03, 0.09),
        ball((0.04, 0, 0.19), WHITE, 0.03, 0.02, 0.09, (0, 25, 0)),
        ball((-0.04, 0.01, 0.18), WHITE, 0.03, 0.02, 0.08, (0, -30, 0)),
    ]
    stripes = [box(0.305, 0.185, 0.02, (0, 0, z), shade(color, 1.6)) for z in (0.03, 0.07)]
    return [box(0.30, 0.18, 0.14, (0, 0, 0), color), *stripes, ball((0, 0, 0.14), BLACK, 0.10, 0.04, 0.004), *paper]


def laptop(color: Color) -> list[Part]:
    base = [
        box(0.40, 0.28, 0.018, (0, -0.02, 0), color, shine=0.5),
        box(0.13, 0.07, 0.004, (0, -0.11, 0.017), shade(color, 0.7)),
    ]
    keys = [box(0.35, 0.028, 0.006, (0, y, 0.017), BLACK) for y in (-0.045, -0.005, 0.035, 0.075)]
    lid = [
        box(0.40, 0.016, 0.28, (0, 0.165, 0.005), color, (-18, 0, 0)),
        box(0.37, 0.010, 0.245, (0, 0.156, 0.023), (0.25, 0.55, 0.95), (-18, 0, 0), glow=0.8),
    ]
    windows = [
        box(0.16, 0.010, 0.10, (-0.07, 0.157, 0.12), WHITE, (-18, 0, 0), glow=0.9),
        box(0.10, 0.010, 0.06, (0.10, 0.142, 0.08), (0.95, 0.85, 0.3), (-18, 0, 0), glow=0.9),
    ]
    return [*base, *keys, *lid, *windows]


def desk_lamp(color: Color) -> list[Part]:
    head = [
        Part("cylinder", (r, 0.02), (x, 0, z), color, (0, 35, 0), 0.0, 0.5)
        for r, x, z in ((0.045, 0.065, 0.505), (0.075, 0.088, 0.472), (0.105, 0.111, 0.439))
    ]
    bulb = [ball((0.125, 0, 0.415), (1.0, 0.92, 0.55), 0.07, 0.07, 0.05, (0, 35, 0), glow=1.0)]
    arms = [bar((0, 0, 0.03), (-0.14, 0, 0.28), 0.014, STEEL), bar((-0.14, 0, 0.28), (0.05, 0, 0.52), 0.014, STEEL)]
    return [rod(0.115, 0.03, (0, 0, 0), color), *arms, ball((-0.14, 0, 0.28), BLACK, 0.026), *head, *bulb]


def pillow(color: Color) -> list[Part]:
    stripe = shade(color, 0.6) if sum(color) > 1.5 else WHITE
    lean = (-18.0, 0.0, 0.0)
    stripes = [
        ball((x, 0, 0.20), stripe, 0.022, 0.112 - 0.12 * abs(x), 0.185 - 0.12 * abs(x), lean) for x in (-0.13, 0, 0.13)
    ]
    seam = box(0.56, 0.05, 0.36, (0, 0, 0.02), shade(color, 0.9), lean)
    return [seam, ball((0, 0, 0.20), color, 0.29, 0.11, 0.19, lean), *stripes]


def floor_lamp(color: Color) -> list[Part]:
    lampshade = taper(0.24, 0.16, 0.30, (0, 0, 1.38), (0.98, 0.90, 0.68), 4, glow=0.75)
    return [
        rod(0.17, 0.03, (0, 0, 0), color),
        rod(0.018, 1.40, (0, 0, 0.02), color),
        *lampshade,
        rod(0.245, 0.015, (0, 0, 1.375), color),
        rod(0.165, 0.015, (0, 0, 1.67), color),
        ball((0, 0, 1.71), color, 0.025),
    ]


def carton(color: Color) -> list[Part]:
    tape = (0.90, 0.84, 0.66)
    dark = shade(color, 0.82)
    flaps = [
        box(0.42, 0.012, 0.13, (0, -0.20, 0.27), color, (48, 0, 0)),
        box(0.42, 0.012, 0.13, (0, 0.20, 0.27), color, (-48, 0, 0)),
        box(0.012, 0.30, 0.13, (-0.25, 0, 0.27), dark, (0, -48, 0)),
        box(0.012, 0.30, 0.13, (0.25, 0, 0.27), dark, (0, 48, 0)),
    ]
    marks = [box(0.06, 0.305, 0.20, (0, 0, 0.05), tape), box(0.10, 0.31, 0.07, (-0.12, 0, 0.08), WHITE)]
    inside = box(0.39, 0.27, 0.004, (0, 0, 0.299), shade(color, 0.4))
    return [box(0.42, 0.30, 0.30, (0, 0, 0), color), inside, *flaps, *marks]


def vase(color: Color) -> list[Part]:
    body = [
        *taper(0.06, 0.115, 0.12, (0, 0, 0), color, 3, shine=0.6),
        *taper(0.115, 0.05, 0.12, (0, 0, 0.12), color, 4, shine=0.6),
        *taper(0.045, 0.07, 0.06, (0, 0, 0.24), color, 2, shine=0.6),
    ]
    green, parts = (0.15, 0.45, 0.15), []
    for x, y, z, bloom in (
        (-0.10, 0.02, 0.50, (0.95, 0.85, 0.2)),
        (0.11, 0, 0.49, (0.95, 0.35, 0.5)),
        (0.01, -0.05, 0.56, (0.95, 0.95, 0.98)),
        (-0.03, 0.07, 0.45, (0.95, 0.35, 0.5)),
    ):
        parts += [
            bar((0, 0, 0.28), (x, y, z), 0.008, green),
            ball((x, y, z), bloom, 0.055, 0.055, 0.04),
            ball((x, y - 0.03, z), (0.5, 0.3, 0.05), 0.02),
        ]
        parts += [ball((x * 0.6, y * 0.6, 0.37), green, 0.045, 0.012, 0.018, (0, 30, 0))]
    return [*body, *parts]


def statue(color: Color) -> list[Part]:
    stone = (0.80, 0.79, 0.75)
    legs = [bar((x, 0, 0.14), (x * 0.6, 0, 0.32), 0.032, color) for x in (-0.05, 0.05)]
    torso = [
        ball((0, 0, 0.40), color, 0.085, 0.055, 0.12, shine=0.7),
        ball((0, 0, 0.48), color, 0.10, 0.05, 0.045, shine=0.7),
    ]
    arms = [
        bar((0.10, 0, 0.48), (0.18, -0.02, 0.60), 0.024, color),
        bar((0.18, -0.02, 0.60), (0.15, -0.02, 0.70), 0.020, color),
        bar((-0.10, 0, 0.48), (-0.16, 0, 0.38), 0.024, color),
        bar((-0.16, 0, 0.38), (-0.07, -0.05, 0.34), 0.020, color),
    ]
    head = [rod(0.022, 0.06, (0, 0, 0.51), color), ball((0, 0, 0.60), color, 0.052, 0.055, 0.065, shine=0.7)]
    plinth = [box(0.26, 0.22, 0.08, (0, 0, 0), stone), box(0.21, 0.17, 0.05, (0, 0, 0.08), shade(stone, 0.85))]
    return [*plinth, *legs, *torso, *arms, *head]


def alarm_clock(color: Color) -> list[Part]:
    case = [disc(0.145, 0.09, (0, 0, 0.17), color), disc(0.122, 0.10, (0, -0.002, 0.17), WHITE)]
    hands = [
        bar((0, -0.056, 0.17), (0, -0.056, 0.255), 0.009, BLACK),
        bar((0, -0.056, 0.17), (0.06, -0.056, 0.20), 0.011, BLACK),
    ]
    marks = [
        box(0.018, 0.008, 0.018, (x, -0.053, z), BLACK)
        for x, z in ((0, 0.265), (0, 0.057), (0.095, 0.161), (-0.095, 0.161))
    ]
    bells = [
        ball((x, 0, 0.335), STEEL, 0.065, 0.06, 0.045, (0, turn, 0), shine=0.9)
        for x, turn in ((-0.085, -35), (0.085, 35))
    ]
    rest = [bar((0, 0, 0.31), (0, 0, 0.37), 0.010, BLACK), ball((0, 0, 0.375), BLACK, 0.02)]
    feet = [bar((x * 0.7, 0, 0.06), (x, 0, 0.01), 0.014, BLACK) for x in (-0.12, 0.12)]
    return [*case, *hands, *marks, *bells, *rest, *feet]


def book(color: Color) -> list[Part]:
    pages, parts = (0.97, 0.95, 0.88), []
    for side in (-1, 1):
        turn, x = (-35.0, 0.0, side * 7.0), side * 0.105
        parts += [
            box(0.24, 0.016, 0.34, (side * 0.12, 0.02, -0.015), color, turn),
            box(0.20, 0.030, 0.28, (x, 0.005, 0.015), pages, turn),
        ]
        parts += [
            box(
                0.14,
                0.010,
                0.022,
                (x, 0.005 + 0.574 * up - 0.015, 0.144 + 0.819 * up + 0.011),
                GRAPHITE,
                turn,
            )
            for up in (0.11, 0.055, 0.0, -0.055, -0.11)  # along the page from its middle
        ]
    return [*parts, bar((0, 0.08, 0.29), (0.02, -0.11, 0.03), 0.009, (0.85, 0.1, 0.1))]


def laundry_hamper(color: Color) -> list[Part]:
    weave = shade(color, 0.72)
    slats = [box(0.035, 0.435, 0.56, (x, 0, 0), weave) for x in (-0.16, -0.08, 0, 0.08, 0.16)]
    sides = [box(0.495, 0.035, 0.56, (0, y, 0), weave) for y in (-0.14, -0.05, 0.05, 0.14)]
    rims = [box(0.52, 0.46, 0.04, (0, 0, z), shade(color, 0.55)) for z in (0.0, 0.27, 0.55)]
    clothes = [
        ball((-0.10, -0.04, 0.61), (0.20, 0.35, 0.75), 0.14, 0.13, 0.08),
        ball((0.11, 0.04, 0.62), (0.85, 0.25, 0.25), 0.13, 0.14, 0.09),
        ball((0.02, -0.10, 0.63), WHITE, 0.10, 0.09, 0.06),
        box(0.13, 0.03, 0.26, (0.12, -0.235, 0.38), (0.85, 0.25, 0.25)),
        box(0.10, 0.03, 0.16, (-0.12, -0.235, 0.46), (0.20, 0.35, 0.75)),
    ]
    return [box(0.48, 0.42, 0.56, (0, 0, 0), color), *slats, *sides, *rims, *clothes]


def cell_phone(color: Color) -> list[Part]:
    lean = (-20.0, 0.0, 0.0)
    screen = {
        0.12: ((0.95, 0.2, 0.2), (1, 1, 1), (0.2, 0.85, 0.3)),
        0.17: ((1, 0.8, 0.1), (0.9, 0.3, 0.8), (1, 1, 1)),
        0.22: ((0.2, 0.9, 0.9), (1, 0.5, 0.1), (0.3, 0.9, 0.3)),
    }
    icons = [
        box(0.028, 0.012, 0.028, (x, 0.008 + (z - 0.17) * 0.364, z - 0.014), tint, lean, glow=1.0)
        for z, tints in screen.items()
        for x, tint in zip((-0.038, 0.0, 0.038), tints, strict=True)
    ]
    slab = [
        box(0.15, 0.018, 0.29, (0, 0.02, 0.03), color, lean, shine=0.6),
        box(0.135, 0.018, 0.245, (0, 0.013, 0.05), (0.12, 0.25, 0.60), lean, glow=0.9),
    ]
    dock = [box(0.15, 0.12, 0.03, (0, 0.02, 0), STEEL), bar((0, 0.07, 0.03), (0, 0.06, 0.17), 0.012, STEEL)]
    return [*slab, *icons, *dock]


def safe(color: Color) -> list[Part]:
    dark = shade(color, 0.6)
    door = [box(0.40, 0.03, 0.38, (0, -0.195, 0.06), dark), box(0.36, 0.03, 0.34, (0, -0.205, 0.08), color)]
    dial = [
        disc(0.062, 0.03, (-0.08, -0.225, 0.29), STEEL),
        disc(0.045, 0.05, (-0.08, -0.225, 0.29), BLACK),
        box(0.008, 0.008, 0.03, (-0.08, -0.254, 0.30), WHITE),
    ]
    spokes = [
        bar((0.07 - dx, -0.245, 0.21 - dz), (0.07 + dx, -0.245, 0.21 + dz), 0.011, STEEL, 0.9)
        for dx, dz in ((0.085, 0), (0.0425, 0.0736), (-0.0425, 0.0736))
    ]
    wheel = [disc(0.028, 0.06, (0.07, -0.23, 0.21), STEEL)]
    hinges = [rod(0.018, 0.07, (-0.205, -0.21, z), STEEL) for z in (0.10, 0.34)]
    feet = [box(0.06, 0.06, 0.02, (x, y, 0), BLACK) for x in (-0.18, 0.18) for y in (-0.14, 0.14)]
    return [box(0.46, 0.38, 0.46, (0, 0, 0.02), color), *door, *dial, *spokes, *wheel, *hinges, *feet]
