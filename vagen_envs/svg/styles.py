"""The CSS of an SVG as far as the ground truth needs it: cascade, inheritance and colours."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element

import cssselect2
import tinycss2
import tinycss2.color4

from vagen_envs.svg.check import local_name
from vagen_envs.svg.outlines import read_transform

Style = Mapping[str, str]

INHERITED = frozenset({
    "color", "fill", "fill-opacity", "font-size", "stroke", "stroke-opacity", "stroke-width", "text-anchor",
    "visibility",
})  # fmt: skip
"""Inherited properties that are read (SVG 2, property index)."""
_GEOMETRY = frozenset({"cx", "cy", "height", "r", "rx", "ry", "width", "x", "y"})
_PAINTS = frozenset({"color", "fill", "flood-color", "lighting-color", "stop-color", "stroke"})
_OWN = frozenset({"display", "opacity", "stop-opacity", "transform", "transform-origin"})
READ = INHERITED | _OWN | _PAINTS
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,([^()]*(?:\([^()]*\)[^()]*)*))?\)")
_KEYWORDS = ("none", "currentcolor", "inherit", "initial", "unset", "transparent")


def declarations(css: str) -> dict[str, str]:
    """The properties of a `style` attribute or of a rule's block that are read, custom ones included."""
    found: dict[str, str] = {}
    for each in tinycss2.parse_declaration_list(css, skip_comments=True, skip_whitespace=True):
        if each.type != "declaration":
            continue
        if each.name.startswith("--") or each.lower_name in READ or each.lower_name in _GEOMETRY:
            found[each.name if each.name.startswith("--") else each.lower_name] = tinycss2.serialize(each.value).strip()
    return found


def resolve(root: Element, sheets: Mapping[Element, Style]) -> None:
    """Write what resvg doesn't read of CSS as what it reads, in place.

    These are variables, newer colour functions, units in `transform`, and geometry in style sheets. A paint that is no
    colour is inherited, as in browsers.
    """
    todo: list[tuple[Element, Style]] = [(root, {})]
    while todo:
        element, variables = todo.pop()
        css = dict(sheets.get(element, {}))
        if "style" in element.attrib:
            css.update(declarations(element.attrib["style"]))
        if custom := {name: value for name, value in css.items() if name.startswith("--")}:
            variables = {**variables, **custom}
        todo += [(child, variables) for child in element]
        own = {**{name: element.attrib[name] for name in _PAINTS if name in element.attrib}, **css}
        changed = {}
        for name, value in own.items():
            new = _substituted(value, variables) if "var(" in value else value
            if name in _PAINTS:
                new = _paint(new)
            elif name == "transform" and new != "none":
                new = f"matrix({' '.join(map(repr, read_transform(new)))})"
            elif name in _GEOMETRY:
                element.set(name, new)
            if new != value:
                changed[name] = new
        if changed:
            words = [element.get("style", ""), *(f"{name}:{value}" for name, value in changed.items())]
            element.set("style", ";".join(word for word in words if word.strip()))  # resvg stops at an empty one


def _substituted(value: str, variables: Style) -> str:
    for _ in range(8):  # variables may name variables
        value, count = _VARIABLE.subn(lambda match: variables.get(match[1], match[2] or "").strip()[:200], value[:1000])
        if not count:
            break
    return value


def _paint(value: str) -> str:
    word = value.strip()
    if word.lower() in _KEYWORDS or word.lower().startswith(("url(", "context-")):
        return value
    rgba = colour(word)
    if rgba is None:
        return "inherit"
    if word.startswith("#"):
        return value
    return "#" + "".join(f"{round(255 * min(max(each, 0.0), 1.0)):02x}" for each in rgba)


def sheet_styles(root: Element) -> dict[Element, dict[str, str]]:
    """What the style sheets of a document set on its elements. Rules that begin with @ are left out, as in resvg."""
    sheets = ["".join(each.itertext()) for each in root.iter() if local_name(each) == "style"]
    matcher = cssselect2.Matcher()
    found: dict[Element, dict[str, str]] = {}
    for rule in tinycss2.parse_stylesheet("\n".join(sheets), skip_comments=True, skip_whitespace=True):
        if rule.type != "qualified-rule" or not (style := declarations(tinycss2.serialize(rule.content))):
            continue
        try:
            for selector in cssselect2.compile_selector_list(rule.prelude):
                matcher.add_selector(selector, style)
        except cssselect2.SelectorError:  # browsers ignore the rule
            continue
    if sheets:
        for wrapped in cssselect2.ElementWrapper.from_xml_root(root).iter_subtree():
            for *_, style in matcher.match(wrapped):
                found.setdefault(wrapped.etree_element, {}).update(style)
    return found


def style_of(element: Element, sheets: Mapping[Element, Style], parent: Style) -> dict[str, str]:
    """The properties of an element: attributes, then style sheets, then its `style`, over what it inherits."""
    style = {name: value for name, value in parent.items() if name in INHERITED}
    own = {name: value for name, value in element.attrib.items() if name in READ}
    own.update(sheets.get(element, {}))
    if "style" in element.attrib:
        own.update(declarations(element.attrib["style"]))
    for name, value in own.items():
        if value != "inherit":
            style[name] = value
        elif name in parent:
            style[name] = parent[name]
    return style


@functools.lru_cache(maxsize=1024)
def colour(text: str, current: str = "black") -> tuple[float, float, float, float] | None:
    """Red, green, blue and alpha of a CSS colour, from 0 to 1; `None` if it isn't one."""
    word = text.strip()
    if word.lower() == "currentcolor":
        word = current
    try:
        parsed = tinycss2.color4.parse_color(word)
        space = parsed.space
        red, green, blue = _from_oklab(parsed) if space.startswith("ok") else parsed.to("srgb").coordinates
    except (AttributeError, NotImplementedError, TypeError, ValueError):  # no colour, or of a space that isn't known
        return None
    return red, green, blue, parsed.alpha


def _from_oklab(parsed: Any) -> tuple[float, float, float]:
    """The sRGB of OKLab and OKLCH (B. Ottosson 2020, the matrices of CSS Color 4, section 17)."""
    lightness, a, b = parsed.coordinates
    if parsed.space == "oklch":
        a, b = a * math.cos(math.radians(b)), a * math.sin(math.radians(b))
    long, medium, short = (
        (lightness + i * a + j * b) ** 3
        for i, j in ((0.3963377774, 0.2158037573), (-0.1055613458, -0.0638541728), (-0.0894841775, -1.2914855480))
    )
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    red, green, blue = (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in linear)
    return red, green, blue


def opacity(text: str | None) -> float:
    """An opacity, as a number or in percent, from 0 to 1; 1 for what isn't one."""
    word = (text or "1").strip()
    try:
        share = float(word[:-1]) / 100 if word.endswith("%") else float(word)
    except ValueError:
        return 1.0
    return min(1.0, max(0.0, share))
