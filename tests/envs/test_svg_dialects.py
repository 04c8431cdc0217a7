"""What models, editors and data sets write is drawn as browsers draw it.

The colours at points were read off Chromium's pictures of the same SVGs.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("resvg")

from vagen_envs.svg.renderer import shared_renderer
from vagen_envs.svg.state import elements

NS = 'xmlns="http://www.w3.org/2000/svg"'
SIZE = 200
SQUARE = '<rect x="10" y="20" width="60" height="50"'


def draw(svg: str, size: int = SIZE) -> np.ndarray:
    drawing = shared_renderer().draw(svg, size)
    assert drawing.problem is None, drawing.problem
    return drawing.pixels


def box_of(pixels: np.ndarray) -> list[int]:
    """Left, top, right and bottom of what is dark."""
    rows, columns = np.nonzero((pixels < 128).all(axis=2))
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


def in_field(body: str, box: str = "0 0 100 100") -> str:
    return f'<svg {NS} viewBox="{box}">{body}</svg>'


with Path(__file__).with_name("data").joinpath("svg_dialects.toml").open("rb") as file:
    DIALECTS = tomllib.load(file)
PICTURES = DIALECTS["pictures"]


@pytest.mark.parametrize("what", PICTURES)
def test_it_is_drawn_as_browsers_draw_it(what):
    pixels, found = draw(PICTURES[what]["svg"]), {}
    for place, colour in PICTURES[what]["colours"].items():
        column, row = map(int, place.split())
        found[place] = "#" + bytes(pixels[row, column]).hex()
        assert _near(found[place], colour), found


def _near(one: str, other: str) -> bool:
    return (
        max(
            abs(a - b)
            for a, b in zip(bytes.fromhex(one[1:]), bytes.fromhex(other[1:]), strict=True)
        )
        <= 3
    )


@pytest.mark.parametrize("size", ["", 'width="100%" height="100%"', 'width="100%"', 'width="auto"'])
def test_a_picture_without_a_size_has_the_field_of_the_prompt(size):
    svg = f'<svg {NS} {size}>{SQUARE} fill="red"/></svg>'
    assert np.array_equal(draw(svg), draw(in_field(f'{SQUARE} fill="red"/>')))


def test_texts_are_drawn_in_one_font_everywhere():
    text = '<text x="50" y="50" font-size="40" text-anchor="middle" font-family="{}">Hi</text>'
    drawing = shared_renderer().draw(in_field(text.format("Helvetica")), SIZE)
    assert box_of(draw(in_field(text.format("Times")))) == pytest.approx(
        drawing.marks[0][3:], abs=4
    )


@pytest.mark.parametrize("painted", DIALECTS["boxes"], ids=lambda painted: painted["body"])
def test_the_state_has_the_boxes_that_are_painted(painted):
    drawing = shared_renderer().draw(in_field(painted["body"], painted["box"]), SIZE)
    assert box_of(drawing.pixels) == painted["mark"]
    assert drawing.marks[0][3:] == pytest.approx(painted["mark"], abs=1)


@pytest.mark.parametrize("painted", DIALECTS["shapes"], ids=lambda painted: painted["body"])
def test_shapes_are_told_apart(painted):
    drawing = shared_renderer().draw(in_field(painted["body"]), SIZE)
    assert list(elements(drawing.marks, SIZE)[0]) == painted["element"]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("<rect width='9' height='9'/>", ()),
        (
            "<foreignObject><p xmlns='http://www.w3.org/1999/xhtml'>x</p></foreignObject>",
            ("<foreignObject>",),
        ),
        ("<rect width='9' height='9'><animate attributeName='x'/></rect>", ("<animate>",)),
        ("<style>@media (min-width: 1px){rect{fill:red}}</style>", ("@media",)),
        ("<style>g{rect{vector-effect:non-scaling-stroke}}</style>", ("vector-effect",)),
        ("<path vector-effect='none' style='transform-box:fill-box'/>", ("transform-box",)),
        ("<text font-weight='700' rotate='5'>a</text>", ("font-weight",)),
        (
            "<image image-rendering='pixelated'/><g clip-path='circle(5px)'/>",
            ("clip-path: circle()", "image-rendering"),
        ),
        ("<rect width='min(4px, 5px)' style='width:calc(50% - 1px)'/>", ("calc()", "min()")),
        ("<rect width='2rem' id='a1rem' d='M1rem'/>", ("unit rem",)),
        (
            "<rect fill='color(rec2020 0 1 0)' stroke='rgb(from red r g b)'/>",
            ("color(rec2020)", "rgb(from …)"),
        ),
        ("<rect style='mask:url(#m) alpha' mask='url(#m)'/>", ("mask with more than url()",)),
        ("<rect style='transform:rotateX(9deg)'/>", ("transform: rotatex()",)),
        (
            "<stop stop-color='oklch(0.5 0.1 30)'/><path pathLength='3'/>",
            ("pathLength", "stop-color: oklch()"),
        ),
        (
            "<style>g rect{fill:red}</style><g><rect id='r'/></g><use href='#r'/>",
            ("selector across <use>",),
        ),
        ("<style>g rect{fill:red}</style><g id='g'><rect/></g><use href='#g'/>", ()),
        (
            "<text style='font:bold 9px serif' text-anchor='end'>rem(2) 5vw</text>",
            ("font-weight or style",),
        ),
        ("<image href='data:image/png;base64,A(5vw)'/><g class='min(1)'/>", ()),
    ],
)
def test_what_a_browser_would_draw_and_this_does_not_is_named(body, names):
    assert shared_renderer().draw(in_field(body), SIZE).without_effect == names


def test_the_turn_says_what_was_not_drawn():
    env = gym.make("vagen/SVGReconstruction-v0", scorer="classical", strategy="no_think")
    env.reset(seed=0)
    svg = in_field("<rect width='50' height='50'/><foreignObject/>")
    *_, info = env.step(f"<answer>{svg}</answer>")
    assert "Not drawn as in a browser: <foreignObject>." in info["turn"].executed[0].feedback
    assert info["turn"].metrics["svg_without_effect"] == 1
