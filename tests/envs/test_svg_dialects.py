"""What models and data sets write beside plain shapes is drawn as resvg, another renderer, draws it, or is left out."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("cairosvg")
pytest.importorskip("resvg_py")

import resvg_py

from vagen_envs.svg.dataset import load_dataset
from vagen_envs.svg.renderer import shared_renderer

NS = 'xmlns="http://www.w3.org/2000/svg"'
SIZE = 128
SQUARE = '<rect x="10" y="20" width="60" height="50"'

DRAWN = {
    "hsl": f'{SQUARE} fill="hsl(210, 80%, 40%)"/>',
    "hsla": f'{SQUARE} fill="hsla(210, 80%, 40%, 0.5)"/>',
    "rgb with spaces": f'{SQUARE} fill="rgb(200 30 90)"/>',
    "rgb in percent": f'{SQUARE} fill="rgb(80%, 10%, 30%)"/>',
    "hexadecimal alpha": f'{SQUARE} fill="#c81e5a80"/>',
    "short hexadecimal alpha": f'{SQUARE} fill="#c158"/>',
    "opacity in percent": f'{SQUARE} fill="red" opacity="50%"/>',
    "fill-opacity in percent, in a style": f'{SQUARE} style="fill:red; fill-opacity: 25%"/>',
    "stroke-opacity in percent, in a sheet": "<style>rect{stroke:blue;stroke-opacity:40%;stroke-width:9;fill:none}"
    f"</style>{SQUARE}/>",
    "stop-color": '<linearGradient id="g"><stop offset="0" stop-color="hsl(0 90% 50%)"/><stop offset="100%" '
    f'stop-color="#0000ff" stop-opacity="30%"/></linearGradient>{SQUARE} fill="url(#g)"/>',
    "hsl in a style": f'{SQUARE} style="fill:hsl(120,50%,50%)"/>',
    "hsl in a sheet": f"<style>.a{{fill:hsl(300 50% 50%)}}</style>{SQUARE} class='a'/>",
    "no such colour": f'{SQUARE} fill="blurple" stroke="red"/>',
    "no number": f'{SQUARE} fill="red" fill-opacity="half"/>',
    "a mask of white": f'<mask id="m"><rect width="50" height="100" fill="white"/></mask>{SQUARE} fill="red" mask="url(#m)"/>',
    "a mask of black on white": '<mask id="m"><rect width="100" height="100" fill="white"/><circle cx="40" cy="45" r="15" '
    f'fill="black"/></mask>{SQUARE} fill="green" mask="url(#m)"/>',
    "a mask of grey": f'<mask id="m"><rect width="100" height="100" fill="#808080"/></mask>{SQUARE} mask="url(#m)"/>',
    "a mask over a group, moved": '<mask id="m"><rect width="40" height="90" fill="#fff"/></mask><g mask="url(#m)" '
    f'transform="translate(15 5) scale(.8)">{SQUARE} fill="purple"/><circle cx="60" cy="70" r="20" fill="orange"/></g>',
    "a mask with a gradient": '<linearGradient id="g"><stop offset="0" stop-color="#fff"/><stop offset="1" stop-color="#000"/>'
    f'</linearGradient><mask id="m"><rect width="100" height="100" fill="url(#g)"/></mask>{SQUARE} mask="url(#m)"/>',
    "a mask in boxes": '<mask id="m" maskContentUnits="objectBoundingBox"><rect width=".5" height="1" fill="#fff"/></mask>'
    f'{SQUARE} fill="teal" mask="url(#m)"/>',
    "a mask's place": '<mask id="m" maskUnits="userSpaceOnUse" x="0" y="0" width="40" height="40"><rect width="100" '
    f'height="100" fill="#fff"/></mask>{SQUARE} fill="teal" mask="url(#m)"/>',
    "an alpha mask": f'<mask id="m" mask-type="alpha"><rect width="40" height="99" opacity=".5"/></mask>{SQUARE} mask="url(#m)"/>',
    "a masked and faded group": f'<mask id="m"><circle cx="40" cy="40" r="30" fill="#fff"/></mask><g mask="url(#m)" '
    f'opacity=".5">{SQUARE} fill="navy"/></g>',
    "a link": f'<a href="https://example.org/x">{SQUARE} fill="red"/></a>',
    "an animation": f'{SQUARE} fill="red"><animate attributeName="x" from="0" to="90" dur="1s"/></rect>',
    "a script's attribute": f'{SQUARE} fill="red" onclick="alert(1)"/>',
    "a media rule": f"<style>@media print{{rect{{fill:blue}}}} rect{{fill:red}}</style>{SQUARE}/>",
    "keyframes": f"<style>@keyframes a{{from{{fill:blue}}to{{fill:red}}}} rect{{fill:lime}}</style>{SQUARE}/>",
    "a title": f"<title>A square</title><desc>red</desc><metadata><a/></metadata>{SQUARE} fill='red'/>",
}
"""Pictures on a field of 100 × 100 by what is in them."""


def in_field(body: str) -> str:
    return f'<svg {NS} viewBox="0 0 100 100">{body}</svg>'


def ours(svg: str) -> np.ndarray:
    drawing = shared_renderer().draw(svg, SIZE)
    assert drawing.problem is None, drawing.problem
    return drawing.pixels.astype(int)


def resvg(svg: str) -> np.ndarray:
    png = resvg_py.svg_to_bytes(
        svg_string=svg,
        background="white",
        width=SIZE,
        height=SIZE,
        skip_system_fonts=True,
        shape_rendering="geometric_precision",
    )
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def differing(one: np.ndarray, other: np.ndarray) -> float:
    """The share of pixels that differ visibly; edges are smoothed differently by the two."""
    return float((np.abs(one - other).max(axis=2) > 40).mean())


@pytest.mark.parametrize("what", DRAWN)
def test_it_is_drawn_as_another_renderer_draws_it(what):
    svg = in_field(DRAWN[what])
    assert differing(ours(svg), resvg(svg)) < 0.005


@pytest.mark.parametrize(
    ("colour", "older"),
    [
        ("rgb(200 30 90 / 50%)", "rgba(200, 30, 90, 0.5)"),
        ("hsl(210deg 80% 40%)", "#1466b8"),
        ("RGB(1,2,3)", "#010203"),
        ("rebeccapurple", "#663399"),
    ],  # resvg_py 0.5 draws it black
)
def test_newer_forms_of_colours_are_the_older_ones(colour, older):
    one, other = (in_field(f'{SQUARE} fill="{each}"/>') for each in (colour, older))
    assert np.array_equal(ours(one), ours(other))


def test_a_colour_that_cannot_be_converted_is_no_other_colour():
    drawing = shared_renderer().draw(in_field(f'{SQUARE} fill="oklch(0.7 0.1 120)"/>'), SIZE)
    assert "write #rrggbb" in drawing.problem


def test_icons_are_drawn_alike():
    for icon in load_dataset("builtin", 8000).splits["test"][:40]:
        assert differing(ours(icon.svg), resvg(icon.svg)) < 0.01, icon.name


@pytest.mark.parametrize(
    "prolog",
    [
        '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">',
        '<?xml version="1.0" encoding="UTF-8"?>\n<!-- made by hand -->\n<!DOCTYPE svg>\n',
        "<!doctype svg SYSTEM 'about:legacy-compat'>",
    ],
)
def test_a_plain_doctype_is_passed_over(prolog):
    svg = in_field(f'{SQUARE} fill="red"/>')
    assert np.array_equal(ours(prolog + svg), ours(svg))


def test_a_doctype_with_declarations_is_refused():
    svg = '<!DOCTYPE svg [<!ENTITY a "b">]>' + in_field(f'{SQUARE} fill="red"/>')
    assert "DOCTYPE" in shared_renderer().draw(svg, SIZE).problem


@pytest.mark.parametrize("size", ["", 'width="100%" height="100%"', 'width="100%"', 'width="auto"'])
def test_a_picture_without_a_size_has_the_field_that_the_prompt_speaks_of(size):
    svg = f'<svg {NS} {size}>{SQUARE} fill="red"/></svg>'
    assert np.array_equal(ours(svg), ours(in_field(f'{SQUARE} fill="red"/>')))
    boxed = svg.replace("<svg", '<svg viewBox="0 0 100 100"')
    assert np.array_equal(ours(boxed), ours(svg))


@pytest.mark.parametrize(
    "body",
    [
        '<filter id="f"><feGaussianBlur stdDeviation="3"/></filter>{} fill="red" filter="url(#f)"/>',
        '<filter id="f"><feDropShadow dx="3" dy="3"/></filter><g filter="url(#f)">{} fill="red"/></g>',
        '{} fill="red" style="filter: blur(3px); opacity: 1"/>',
        "<style>rect{{filter:drop-shadow(1px 1px 2px black);fill:red}}</style>{}/>",
        '<filter id="f"><feOffset dx="30"/><feFlood flood-color="blue"/></filter>{} fill="red" filter="url(#f)"/>',
    ],
)
def test_filters_are_left_out(body):
    assert np.array_equal(ours(in_field(body.format(SQUARE))), ours(in_field(f'{SQUARE} fill="red"/>')))


@pytest.mark.parametrize(
    "body", ["<style>\\40import url(a.css);</style>",
             "<style>rect{fill:url(a.css)}</style>", "<script/>", "<image/>", "<foreignObject/>"]
)  # fmt: skip
def test_what_could_reach_out_is_refused(body):
    assert shared_renderer().draw(in_field(body + f'{SQUARE} fill="red"/>'), SIZE).pixels is None


@pytest.mark.parametrize(
    "rule", ["@import 'a.css';", "@import url(http://a/a.css) screen;", "@im/**/port url(a.css);", "@charset 'utf-8';",
             "@font-face{font-family:x;src:url(x.woff)}", "@media print{rect{fill:blue}}", "@IMPORT url(a.css)"]
)  # fmt: skip
def test_rules_of_sheets_are_left_out_as_the_prompt_says(rule):
    last = rule if rule.startswith("@IMPORT") else ""  # one that is never closed takes what follows with it
    sheet = f"<style>{'' if last else rule} rect{{fill:red}}{last}</style>"
    assert np.array_equal(ours(in_field(f"{sheet}{SQUARE}/>")), ours(in_field(f'{SQUARE} fill="red"/>')))


LINE = '<path d="M10 50H90" stroke="red" stroke-width="9" marker-end="url(#m)"/>'


@pytest.mark.parametrize(
    ("marker", "line"),
    [
        ("", LINE), ('<marker id="m" orient="auto"/>', LINE),
        ('<marker id="m" orient="auto"><path d="M0 0"/></marker>', LINE),
        ('<marker id="m" orient="auto"><circle r="3"/></marker>', '<path d="M10 80" marker-end="url(#m)"/>'),
    ],
)  # fmt: skip
def test_markers_that_show_nothing_leave_the_line(marker, line):
    plain = line.replace(' marker-end="url(#m)"', "")
    assert np.array_equal(ours(in_field(marker + line)), ours(in_field(plain)))


def test_a_reference_may_have_spaces():
    gradient = '<linearGradient id="g"><stop stop-color="red"/></linearGradient>'
    for written in ("url( #g )", "url(#g )", "url( '#g' )"):
        body = f'{gradient}{SQUARE} fill="{written}"/>{SQUARE} style="fill:{written}" transform="translate(9)"/>'
        assert np.array_equal(ours(in_field(body)), ours(in_field(body.replace(written, "url(#g)"))))


def test_a_refused_element_is_named():
    assert "element image " in shared_renderer().draw(in_field("<image/>"), SIZE).problem


def test_a_comment_may_say_what_a_sheet_may_not():
    body = "<style>/* no @import, no url(a.css) */ rect{fill:red}</style>"
    assert np.array_equal(ours(in_field(body + f"{SQUARE}/>")), ours(in_field(f'{SQUARE} fill="red"/>')))


@pytest.mark.parametrize(("number", "refused"), [("1e1_0", True), ("1_000", True), ("١٢", True), ("1e1", False)])
def test_only_numbers_of_svg_are_numbers(number, refused):
    """Python reads more as a number than SVG does, and cairosvg reads with Python."""
    drawing = shared_renderer().draw(in_field(f'<circle cx="50" cy="50" r="{number}" fill="red"/>'), SIZE)
    assert (drawing.pixels is None) == refused
    assert not refused or re.search("number", drawing.problem)


def test_the_state_tells_the_colour_that_is_seen():
    marks = shared_renderer().draw(in_field(f'{SQUARE} fill="hsl(210 80% 40%)"/>'), SIZE).marks
    assert marks[0][2] == "#1466b8"
