"""What models, editors and data sets write is drawn as browsers draw it.

The colours at points were read off Chromium.s pictures of the same SVGs.
"""

from __future__ import annotations

import base64
import gzip
import io

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("resvg")

from vagen_envs.svg.renderer import shared_renderer

NS = 'xmlns="http://www.w3.org/2000/svg"'
SIZE = 200
SQUARE = '<rect x="10" y="20" width="60" height="50"'
WHITE, RED, GREEN, BLUE, BLACK, LIME = "#ffffff", "#ff0000", "#008000", "#0000ff", "#000000", "#00ff00"


def draw(svg: str, size: int = SIZE) -> np.ndarray:
    drawing = shared_renderer().draw(svg, size)
    assert drawing.problem is None, drawing.problem
    return drawing.pixels


def in_field(body: str, box: str = "0 0 100 100") -> str:
    return f'<svg {NS} viewBox="{box}">{body}</svg>'


def png(width: int = 4, height: int = 4) -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


GRADIENT = '<linearGradient id="g"><stop stop-color="red"/></linearGradient>'
PICTURES = {
    "percent in 4:3": (
        in_field('<rect width="100%" height="100%" fill="lime"/><circle cx="50%" cy="50%" r="3" fill="red"/>', "0 0 40 30"),
        {(100, 100): RED, (10, 30): LIME, (190, 170): LIME, (100, 20): WHITE, (100, 180): WHITE},
    ),
    "percent in 1:2": (
        in_field('<rect width="50%" height="50%" fill="lime"/>', "0 0 50 100"),
        {(60, 50): LIME, (90, 90): LIME, (110, 50): WHITE, (60, 110): WHITE, (40, 50): WHITE},
    ),
    "size beside view box": (
        f'<svg {NS} width="200" height="100" viewBox="0 0 9 9"><rect width="9" height="9" fill="red"/></svg>',
        {(100, 100): RED, (60, 100): RED, (40, 100): WHITE, (100, 40): WHITE},
    ),
    "size in units": (
        f'<svg {NS} width="2in" height="96px"><rect width="1in" height="1in" fill="red"/></svg>',
        {(50, 100): RED, (150, 100): WHITE, (50, 40): WHITE},
    ),
    "use, faded and hidden": (
        in_field('<defs><rect id="a" width="40" height="40"/></defs><use href="#a" opacity=".5"/><use href="#a" x="50" '
                 'display="none"/>'),
        {(20, 20): "#808080", (120, 20): WHITE},
    ),
    "currentColor of an inner element": (
        in_field('<g color="red"><g color="blue"><rect width="50" height="50" fill="currentColor"/></g></g>'),
        {(20, 20): BLUE},
    ),
    "clip-rule": (
        in_field('<clipPath id="c"><path clip-rule="evenodd" d="M0 0h100v100h-100zM30 30h40v40h-40z"/></clipPath>'
                 '<rect width="100" height="100" fill="red" clip-path="url(#c)"/>'),
        {(20, 20): RED, (100, 100): WHITE},
    ),
    "a clip that is clipped": (
        in_field('<clipPath id="d"><rect width="50" height="100"/></clipPath><clipPath id="c" clip-path="url(#d)"><rect '
                 'width="100" height="50"/></clipPath><rect width="100" height="100" fill="red" clip-path="url(#c)"/>'),
        {(20, 20): RED, (150, 20): WHITE, (20, 150): WHITE, (150, 150): WHITE},
    ),
    "transform in a style, around an origin": (
        in_field('<rect x="40" y="10" width="20" height="80" style="transform:rotate(90deg);transform-origin:50px 50px" '
                 'fill="red"/>'),
        {(30, 100): RED, (100, 30): WHITE},
    ),
    "paint-order": (
        in_field('<rect x="20" y="20" width="60" height="60" fill="red" stroke="blue" stroke-width="20" '
                 'paint-order="stroke"/>'),
        {(50, 100): RED, (30, 100): BLUE},
    ),
    "mix-blend-mode": (
        in_field('<rect width="60" height="100" fill="red"/><rect x="30" width="70" height="100" fill="lime" '
                 'style="mix-blend-mode:multiply"/>'),
        {(20, 100): RED, (90, 100): BLACK, (180, 100): LIME},
    ),
    "a gradient's inner circle": (
        in_field('<radialGradient id="g" r=".5" fr=".4"><stop stop-color="red"/><stop offset="1" stop-color="blue"/>'
                 '</radialGradient><rect width="100" height="100" fill="url(#g)"/>'),
        {(100, 100): RED, (100, 30): RED, (100, 2): "#2000df"},
    ),
    "a pattern by bounding box": (
        in_field('<pattern id="p" width=".5" height=".5"><rect width="25" height="50" fill="red"/></pattern><rect '
                 'width="100" height="100" fill="url(#p)"/>'),
        {(25, 50): RED, (75, 50): WHITE, (125, 150): RED},
    ),
    "a filter in a mask": (
        in_field('<filter id="f"><feGaussianBlur stdDeviation="1"/></filter><mask id="m"><rect width="60" height="100" '
                 'fill="white" filter="url(#f)"/></mask><rect width="100" height="100" fill="red" mask="url(#m)"/>'),
        {(50, 100): RED, (180, 100): WHITE},
    ),
    "a clip by class": (
        in_field('<style>.cls-1{fill:none}.cls-2{clip-path:url(#clip-path)}</style><clipPath id="clip-path"><rect '
                 'class="cls-1" width="50" height="50"/></clipPath><g class="cls-2"><rect width="100" height="100" '
                 'fill="red"/></g>'),
        {(20, 20): RED, (150, 20): WHITE},
    ),
    "a pattern by class": (
        in_field('<style>.a{fill:url(#p)}</style><pattern id="p" width="9" height="9" patternUnits="userSpaceOnUse"><rect '
                 'width="9" height="9" fill="red"/></pattern><rect class="a" width="50" height="50"/>'),
        {(50, 50): RED},
    ),
    "variables": (
        in_field('<style>:root{--b:blue}</style><rect width="50" height="50" fill="var(--c, green)"/><rect x="50" '
                 'width="50" height="50" style="fill:var(--b)"/>'),
        {(50, 50): GREEN, (150, 50): BLUE},
    ),
    "newer colours": (
        in_field('<rect width="50" height="50" fill="oklch(0.7 0.1 120)"/><rect x="50" width="50" height="50" fill="rgb(200 '
                 '30 90 / 50%)"/><rect y="50" width="50" height="50" fill="rebeccapurple"/>'),
        {(50, 50): "#96a85e", (150, 50): "#e38eac", (50, 150): "#663399"},
    ),
    "selectors and importance": (
        in_field('<style>rect:not(.a){fill:red}.b{fill:lime!important}rect:nth-child(4){fill:green}</style><rect class="a" '
                 'width="50" height="50" fill="blue"/><rect x="50" width="50" height="50"/><rect class="b" y="50" '
                 'style="fill:blue" width="50" height="50"/>'),
        {(50, 50): BLUE, (150, 50): RED, (50, 150): LIME},
    ),
    "a sheet that is no CSS": (in_field(f'<style type="text/less">rect{{fill:blue}}</style>{SQUARE} fill="red"/>'), {(80, 90): RED}),
    "keywords in any case": (
        in_field('<g color="red" stroke="blue" stroke-width="20"><rect width="50" height="50" fill="currentcolor" stroke="NONE"/>'
                 '<rect x="60" y="60" width="30" height="30" stroke="unset"/></g>'),
        {(20, 20): RED, (98, 98): RED, (150, 150): BLACK, (120, 150): BLUE},
    ),
    "calc and color-mix": (
        in_field(f'{SQUARE} fill="red"/><rect style="x:calc(2px*5)" y="80" width="20" height="20" '
                 'fill="color-mix(in srgb, lime, blue)"/><rect x="80" y="80" height="20" style="width:calc(30px - 10px);fill:color-mix('
                 'in srgb, red 25%, blue)"/>'),
        {(80, 90): RED, (10, 180): WHITE, (40, 180): "#008080", (180, 180): "#4000bf"},
    ),
    "Lab and LCH": (
        in_field('<rect width="50" height="50" fill="lab(50% 40 30)"/><rect x="50" width="50" height="50" fill="lch(50% 40 30)"/>'),
        {(50, 50): "#bb5846", (150, 50): "#b25d57"},
    ),
    "a mixture in another space, which is inherited": (
        in_field('<g fill="red"><rect width="50" height="50" fill="color-mix(in hsl, lime, blue)"/></g>'), {(50, 50): RED}
    ),
    "a nested svg that is moved and faded": (
        in_field('<svg width="50" height="50" transform="translate(50 50)" opacity=".5"><rect width="99" height="99"/></svg>'),
        {(50, 50): WHITE, (150, 150): "#808080"},
    ),
    "href beside xlink:href": (
        f'<svg {NS} xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 100 100"><defs><rect id="a" width="50" height="50" '
        'fill="red"/><rect id="b" width="50" height="50" fill="lime"/></defs><use xlink:href="#a" href="#b"/></svg>',
        {(50, 50): LIME},
    ),
    "no colour": (in_field(f'<g fill="red">{SQUARE} fill="blurple"/></g>'), {(80, 90): RED}),
    "an unknown element, attribute, property and rule": (
        in_field(f'<frob/><style>@media print{{rect{{fill:blue}}}} rect{{frob:1;fill:red}}</style>{SQUARE} frob="1"/>'),
        {(80, 90): RED},
    ),
    "scripts and animations": (
        in_field(f'<script>alert(1)</script>{SQUARE} fill="red" onclick="f()"><set attributeName="fill" to="blue"/></rect>'),
        {(80, 90): RED},
    ),
    "an image as data": (
        in_field(f'<image width="50" height="50" href="data:image/png;base64,{png()}"/>'), {(50, 50): RED, (150, 50): WHITE}
    ),
    "an image in an SVG as data, compressed, without a type": (
        in_field('<image width="100" height="100" href="data:;base64,' + base64.b64encode(gzip.compress(in_field(
            f'<image width="50" height="50" href="data:image/png;base64,{png()}"/>').encode())).decode() + '"/>'),
        {(50, 50): RED, (150, 50): WHITE},
    ),
    "a reference with spaces": (in_field(f'{GRADIENT}{SQUARE} fill="url( #g )"/>'), {(80, 90): RED}),
    "no namespace": (f'<svg viewBox="0 0 100 100">{SQUARE} fill="red"/></svg>', {(80, 90): RED, (2, 2): WHITE}),
    "an editor's entities": (
        '<?xml version="1.0" encoding="iso-8859-1"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "svg11.dtd" [<!ENTITY '
        f'ns_x "http://x/">]><svg {NS} xmlns:x="&ns_x;" x:y="1" viewBox="0 0 100 100">{SQUARE} fill="red"/></svg>',
        {(80, 90): RED},
    ),
}  # fmt: skip
"""SVGs by what is in them, and the colour at points of a picture of 200 x 200 pixels."""


@pytest.mark.parametrize("what", PICTURES)
def test_it_is_drawn_as_browsers_draw_it(what):
    svg, colours = PICTURES[what]
    pixels = draw(svg)
    found = {(x, y): "#" + bytes(pixels[y, x]).hex() for x, y in colours}
    near = {place: _near(found[place], colour) for place, colour in colours.items()}
    assert all(near.values()), found


def _near(one: str, other: str) -> bool:
    return max(abs(a - b) for a, b in zip(bytes.fromhex(one[1:]), bytes.fromhex(other[1:]), strict=True)) <= 3


@pytest.mark.parametrize("size", ["", 'width="100%" height="100%"', 'width="100%"', 'width="auto"'])
def test_a_picture_without_a_size_has_the_field_of_the_prompt(size):
    svg = f'<svg {NS} {size}>{SQUARE} fill="red"/></svg>'
    assert np.array_equal(draw(svg), draw(in_field(f'{SQUARE} fill="red"/>')))


def test_texts_are_drawn_in_one_font_everywhere():
    pixels = draw(in_field('<text x="50" y="50" font-size="40" text-anchor="middle" font-family="Times">Hi</text>'))
    rows, columns = np.nonzero((pixels < 128).all(axis=2))
    left, top, right, bottom = (
        shared_renderer()
        .draw(in_field('<text x="50" y="50" font-size="40" text-anchor="middle">Hi</text>'), SIZE)
        .marks[0][3:]
    )
    assert np.allclose(
        (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1), (left, top, right, bottom), atol=4
    )


@pytest.mark.parametrize(
    ("box", "body", "mark"),
    [
        ("0 0 40 20", '<rect width="50%" height="50%"/>', (0, 50, 100, 100)),
        ("0 0 100 100", '<rect style="transform:translate(50px)" width="20" height="20"/>', (100, 0, 140, 40)),
        (
            "0 0 100 100",
            '<style>g > .a{width:30px}</style><g><rect class="a" width="1" height="20"/></g>',
            (0, 0, 60, 40),
        ),
        (
            "0 0 100 100",
            '<symbol id="s" viewBox="0 0 10 10"><rect width="5" height="5"/></symbol><use href="#s" x="20" '
            'y="20" width="40" height="40"/>',
            (40, 40, 80, 80),
        ),
        (
            "0 0 100 100",
            '<svg x="50" width="50" height="50" viewBox="0 0 2 2"><rect width="1" height="1"/></svg>',
            (100, 0, 150, 50),
        ),
        ("0 0 100 100", '<path d="M10 10h20v20h-20z zz top"/>', (20, 20, 60, 60)),
        ("0 0 100 100", '<switch><g requiredExtensions="x"/><rect width="50" height="50"/></switch>', (0, 0, 100, 100)),
        ("0 0 100 100", '<rect fill="var(--none)" width="50" height="50"/>', (0, 0, 100, 100)),
    ],
)
def test_the_state_has_the_boxes_that_are_painted(box, body, mark):
    svg = in_field(body, box)
    drawing = shared_renderer().draw(svg, SIZE)
    rows, columns = np.nonzero((drawing.pixels < 128).all(axis=2))
    assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == mark
    assert drawing.marks[0][3:] == pytest.approx(mark, abs=1)
