"""Kitchen things to look for: a builder each, which takes the colour and gives the parts.

Small things are a little larger than life: they must be told apart from 3 m.
"""

# ruff: noqa: D103, ARG001 - the names say it; all builders are called alike

from __future__ import annotations

import itertools

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


def bread(color: Color) -> list[Part]:
    crumb = (0.93, 0.80, 0.55)
    loaf = [box(0.30, 0.16, 0.10, (0, 0, 0), color), bar((-0.11, 0, 0.11), (0.15, 0, 0.11), 0.085, color)]
    cuts = [box(0.025, 0.10, 0.02, (x, 0, 0.185), crumb, (0, 0, 25)) for x in (-0.06, 0.02, 0.10)]
    slices = [box(0.03, 0.17, 0.17, (x, 0, 0), crumb, (0, lean, 0)) for x, lean in ((-0.19, -8), (-0.25, -22))]
    return loaf + cuts + slices


def pot(color: Color) -> list[Part]:
    dark = shade(color, 0.55)
    handles = [bar((x, -0.05, 0.15), (x, 0.05, 0.15), 0.018, BLACK) for x in (-0.205, 0.205)]
    arms = [bar((x * 0.8, y, 0.15), (x, y, 0.15), 0.012, BLACK) for x in (-0.2, 0.2) for y in (-0.05, 0.05)]
    body = [rod(0.165, 0.19, (0, 0, 0), color, shine=0.7), rod(0.175, 0.02, (0, 0, 0.19), dark)]
    lid = [ball((0, 0, 0.205), shade(color, 1.1), 0.16, 0.16, 0.035), rod(0.012, 0.05, (0, 0, 0.23), BLACK)]
    return [*body, *lid, ball((0, 0, 0.285), BLACK, 0.028), *handles, *arms]


def toaster(color: Color) -> list[Part]:
    toast = (0.66, 0.40, 0.15)
    body = [box(0.38, 0.22, 0.22, (0, 0, 0.02), color, shine=0.8), box(0.40, 0.24, 0.03, (0, 0, 0), BLACK)]
    slots = [box(0.30, 0.045, 0.006, (0, y, 0.24), BLACK) for y in (-0.055, 0.055)]
    slices = [box(0.22, 0.03, 0.10, (0, y, 0.22), toast) for y in (-0.055, 0.055)]
    crusts = [bar((-0.09, y, 0.32), (0.09, y, 0.32), 0.018, shade(toast, 0.7)) for y in (-0.055, 0.055)]
    lever = [box(0.03, 0.06, 0.025, (0.205, 0, 0.17), BLACK), box(0.012, 0.02, 0.16, (0.192, 0, 0.04), BLACK)]
    return [*body, *slots, *slices, *crusts, *lever, disc(0.03, 0.02, (0.11, -0.115, 0.09), BLACK)]


def cup(color: Color) -> list[Part]:
    tumbler = taper(0.06, 0.095, 0.22, (0, 0, 0), color, 5, shine=0.5)
    band = [rod(0.084, 0.05, (0, 0, 0.10), WHITE)]
    straw = [
        bar((0.01, 0, 0.12), (0.05, 0, 0.34), 0.011, (0.9, 0.1, 0.1)),
        bar((0.05, 0, 0.34), (0.11, 0, 0.37), 0.011, (0.9, 0.1, 0.1)),
    ]
    return [*tumbler, *band, rod(0.082, 0.004, (0, 0, 0.218), shade(color, 0.45)), *straw]


def tomato(color: Color) -> list[Part]:
    leaf = (0.12, 0.42, 0.10)
    leaves = [
        ball((dx, dy, 0.165), leaf, 0.05 if dx else 0.018, 0.018 if dx else 0.05, 0.008)
        for dx, dy in ((-0.035, 0), (0.035, 0), (0, -0.035), (0, 0.035))
    ]
    return [ball((0, 0, 0.085), color, 0.105, 0.105, 0.085, shine=0.6), *leaves, rod(0.012, 0.04, (0, 0, 0.16), leaf)]


def lettuce(color: Color) -> list[Part]:
    light, rim, dark = (0.74, 0.90, 0.45), (0.45, 0.74, 0.22), (0.16, 0.42, 0.10)
    leaves = [
        ball((x, y, z), tint, 0.055, 0.020, 0.095, turn)
        for x, y, z, tint, turn in (
            (-0.11, -0.01, 0.10, dark, (0, -48, 0)),
            (0.11, -0.01, 0.10, dark, (0, 48, 0)),
            (-0.075, -0.06, 0.14, rim, (0, -25, 0)),
            (0.075, -0.06, 0.14, rim, (0, 25, 0)),
            (-0.035, -0.10, 0.10, dark, (20, -12, 0)),
            (0.045, -0.105, 0.09, rim, (24, 14, 0)),
            (0.0, 0.10, 0.13, rim, (-25, 0, 0)),
            (-0.03, 0.02, 0.20, light, (0, -14, 0)),
            (0.035, 0.0, 0.20, rim, (0, 16, 0)),
        )
    ]
    ribs = [bar((0.0, -0.115, 0.03), (-0.012, -0.095, 0.15), 0.008, WHITE)]
    return [ball((0, 0, 0.12), light, 0.085, 0.085, 0.11), *leaves, *ribs]


def kettle(color: Color) -> list[Part]:
    body = [
        *taper(0.155, 0.105, 0.20, (0, 0, 0.02), color, 5, shine=0.8),
        rod(0.15, 0.02, (0, 0, 0), BLACK),
        ball((0, 0, 0.22), shade(color, 0.8), 0.10, 0.10, 0.03),
        ball((0, 0, 0.26), BLACK, 0.025),
    ]
    spout = [bar((0.11, 0, 0.10), (0.20, 0, 0.19), 0.030, color), bar((0.20, 0, 0.19), (0.24, 0, 0.20), 0.022, color)]
    points = [(-0.13, 0.19), (-0.14, 0.30), (-0.08, 0.37), (0.04, 0.38), (0.10, 0.33)]
    handle = [bar((a, 0, b), (c, 0, d), 0.018, BLACK) for (a, b), (c, d) in itertools.pairwise(points)]
    return [*body, *spout, *handle]


def stove_burner(color: Color) -> list[Part]:
    plate = [box(0.56, 0.50, 0.012, (0, 0, 0), GRAPHITE, shine=0.5)]
    rings: list[Part] = []
    for x in (-0.14, 0.14):
        for y in (-0.12, 0.12):
            rings += [
                rod(0.10, 0.018, (x, y, 0.01), BLACK),
                rod(0.075, 0.030, (x, y, 0.01), (1.0, 0.25, 0.05), 0.8),
                rod(0.045, 0.036, (x, y, 0.01), BLACK),
                box(0.22, 0.016, 0.02, (x, y, 0.04), BLACK),
                box(0.016, 0.22, 0.02, (x, y, 0.04), BLACK),
            ]
            rings += [
                ball((x + dx, y + dy, 0.055), (0.25, 0.45, 1.0), 0.014, 0.014, 0.035, glow=1.0)
                for dx, dy in ((0.065, 0.03), (-0.065, 0.03), (0.03, -0.065), (-0.03, -0.065))
            ]
    return plate + rings


def coffee_machine(color: Color) -> list[Part]:
    glass = (0.35, 0.20, 0.12)
    frame = [
        box(0.26, 0.34, 0.05, (0, 0, 0), color),
        box(0.26, 0.13, 0.42, (0, 0.105, 0), color),
        box(0.26, 0.34, 0.12, (0, 0, 0.34), color),
        box(0.27, 0.35, 0.02, (0, 0, 0.46), STEEL),
    ]
    jug = [
        *taper(0.085, 0.07, 0.15, (0, -0.07, 0.06), glass, 3, shine=0.9),
        rod(0.075, 0.025, (0, -0.07, 0.21), BLACK),
        bar((0.10, -0.10, 0.10), (0.10, -0.10, 0.19), 0.013, BLACK),
        bar((0.07, -0.09, 0.19), (0.10, -0.10, 0.19), 0.013, BLACK),
    ]
    panel = [
        box(0.20, 0.01, 0.06, (0, -0.172, 0.37), STEEL),
        disc(0.018, 0.02, (-0.06, -0.178, 0.40), (1, 0.1, 0.1), glow=0.9),
        disc(0.018, 0.02, (0.06, -0.178, 0.40), (0.1, 0.9, 0.2), glow=0.9),
        taper(0.05, 0.02, 0.05, (0, -0.07, 0.29), BLACK, 2)[0],
    ]
    return [*frame, *jug, *panel]


def plate(color: Color) -> list[Part]:
    stand = [bar((x, -0.07, 0.012), (x, 0.07, 0.012), 0.010, WOOD) for x in (-0.08, 0.08)]
    backs = [bar((x, 0.06, 0.012), (x, 0.10, 0.20), 0.010, WOOD) for x in (-0.08, 0.08)]
    pegs = [bar((x, -0.06, 0.012), (x, -0.07, 0.05), 0.010, WOOD) for x in (-0.08, 0.08)]
    face = [
        disc(0.175, 0.014, (0, 0.010, 0.19), color, 15),
        disc(0.150, 0.020, (0, 0.007, 0.19), WHITE, 15),
        disc(0.105, 0.025, (0, 0.004, 0.19), color, 15),
        disc(0.095, 0.030, (0, 0.001, 0.19), WHITE, 15),
    ]
    return [*stand, *backs, *pegs, *face]


def mug(color: Color) -> list[Part]:
    points = [(0.10, 0.15), (0.155, 0.145), (0.165, 0.10), (0.15, 0.055), (0.10, 0.05)]
    handle = [bar((a, 0, b), (c, 0, d), 0.016, color) for (a, b), (c, d) in itertools.pairwise(points)]
    heart = [disc(0.03, 0.01, (0, -0.101, 0.10), WHITE)]
    steam = [bar((x, 0, 0.22), (x + 0.015, 0, 0.29), 0.007, WHITE) for x in (-0.03, 0.03)]
    return [
        rod(0.10, 0.19, (0, 0, 0), color),
        rod(0.088, 0.004, (0, 0, 0.188), (0.22, 0.11, 0.05)),
        *handle,
        *heart,
        *steam,
    ]


def bowl(color: Color) -> list[Part]:
    body = [
        *taper(0.07, 0.19, 0.12, (0, 0, 0.015), color, 6, shine=0.4),
        rod(0.08, 0.018, (0, 0, 0), shade(color, 0.7)),
    ]
    return [*body, rod(0.192, 0.014, (0, 0, 0.135), WHITE), rod(0.175, 0.004, (0, 0, 0.147), shade(color, 0.45))]
