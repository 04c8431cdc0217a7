"""The CSS of an SVG as far as the ground truth and resvg need it: cascade, variables and values."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Collection, Mapping, MutableMapping
from xml.etree.ElementTree import Element

from vagen_envs.svg.check import URL, local_name, pixels
from vagen_envs.svg.colours import Rgba, colour, decoded, hexadecimal
from vagen_envs.svg.outlines import read_transform
from vagen_envs.svg.style_sheets import declarations, sheet_styles

Style = Mapping[str, str]

_PAINTS = frozenset({"color", "fill", "flood-color", "lighting-color", "stop-color", "stroke"})
_PLACED = frozenset({"height", "width", "x", "y"})
_GEOMETRY: dict[str, frozenset[str]] = {
    "circle": frozenset({"cx", "cy", "r"}),
    "ellipse": frozenset({"cx", "cy", "rx", "ry"}),
    "image": _PLACED,
    "rect": _PLACED | {"rx", "ry"},
    "use": frozenset({"x", "y"}),
}
"""What CSS says of an element's place and size, as far as browsers listen."""
_GEOMETRY_OF_ROOT = frozenset({"height", "width"})
_TRANSFORMS = {
    "linearGradient": "gradientTransform",
    "radialGradient": "gradientTransform",
    "pattern": "patternTransform",
}
"""Attributes that the property `transform` stands for (SVG 2, section 8.5)."""
_LIGHTS = ("feDiffuseLighting", "feSpecularLighting")
INHERITED = frozenset(
    {
        "color",
        "fill",
        "fill-opacity",
        "font-size",
        "stroke",
        "stroke-opacity",
        "stroke-width",
        "text-anchor",
        "visibility",
    }
)
"""Inherited properties that are read (SVG 2, property index)."""
_PATH = re.compile(r"""path\(\s*(["'])([^"']*)\1\s*\)""", re.IGNORECASE)
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,([^()]*(?:\([^()]*\)[^()]*)*))?\)")
_DEGREES = {"deg": 1.0, "grad": 0.9, "rad": 180 / math.pi, "turn": 360.0}
_UNIT = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(deg|grad|rad|turn|cm|mm|in|pt|pc|em|rem|ex)\b", re.IGNORECASE
)
"""A number of a transform with a unit that isn't the one of the attribute."""
_CALC = re.compile(r"calc\(([\d.\s+*/px-]{1,100})\)")
_KEYWORDS = {
    word.lower(): word for word in ("none", "currentColor", "inherit", "initial", "transparent")
}

_RESETS = ("revert", "revert-layer", "unset")
"""Keywords that mean the inherited value of an inherited property, since no sheet is older."""


def resolve(root: Element) -> dict[Element, Style]:
    """The properties of each element: its attributes, then style sheets, then its `style`.

    CSS that resvg doesn't read is rewritten in place: sheets become `style` attributes, variables
    and newer colour functions are replaced, and so are units in `transform`. A paint that is no
    colour is inherited, as in browsers, and a filter that isn't there is left out: resvg wouldn't
    draw the element.
    """
    sheets = sheet_styles(root)
    filters = {each.get("id") for each in root.iter() if local_name(each) == "filter"}
    found: dict[Element, Style] = {}
    todo: list[tuple[Element, Style]] = [(root, {})]
    while todo:
        element, variables = todo.pop()
        for name, value in element.attrib.items():
            # resvg reads no number with blanks around it, and no calc()
            element.set(name, _CALC.sub(_calculated, value.strip()))
        declared = sheets.get(element, []) + declarations(element.get("style", ""))
        css = {
            name: value
            for _, name, value in sorted(declared, key=operator.itemgetter(0))
            if _is_valid(name, value)
        }
        if css or "style" in element.attrib:
            own_variables = {name: value for name, value in css.items() if name.startswith("--")}
            variables = {**variables, **own_variables}
            css = {name: _resolved(name, value, variables) for name, value in css.items()}
            _leave_out_missing(css, filters)
            kept = [f"{name}:{value}" for name, value in css.items() if name[:2] != "--"]
            element.set("style", ";".join(kept))
        _leave_out_missing(element.attrib, filters)
        for name in _PAINTS & element.attrib.keys():
            element.set(name, _resolved(name, element.attrib[name], variables))
        _as_attributes(element, css, element is root)
        todo += [(child, variables) for child in element]
        found[element] = {**element.attrib, **css}
    for element in root.iter():
        if local_name(element) == "filter":
            _make_lights_linear(element, found)
    return found


def _as_attributes(element: Element, css: Style, is_root: bool) -> None:
    """Write properties that resvg reads from attributes alone as those."""
    name = local_name(element)
    placed = _GEOMETRY_OF_ROOT if is_root else _GEOMETRY.get(name, frozenset())
    for each in placed & css.keys():
        element.set(each, css[each])
    if "transform" in css and name in _TRANSFORMS:
        element.set(_TRANSFORMS[name], css["transform"].replace("none", ""))
    if path := _PATH.fullmatch(css.get("d", "")):
        element.set("d", path[2])
    elif css.get("d") == "none":
        element.attrib.pop("d", None)


def _make_lights_linear(filter_element: Element, styles: Mapping[Element, Style]) -> None:
    """Write the colours of lights in linear light where their filter works in it, as it does by
    default: resvg takes them as they are.
    """
    of_filter = styles[filter_element].get("color-interpolation-filters", "linearRGB")
    for light in filter_element:
        style = styles[light]
        space = style.get("color-interpolation-filters", of_filter)
        lit = colour(style.get("lighting-color", "white"), style.get("color", "black"))
        if local_name(light) in _LIGHTS and space.lower() == "linearrgb" and lit:
            linear = hexadecimal(tuple(map(decoded, lit[:3])))
            declared = [light.get("style", ""), f"lighting-color:{linear}"]
            light.set("style", ";".join(filter(None, declared)))


def _leave_out_missing(style: MutableMapping[str, str], filters: Collection[str | None]) -> None:
    """Remove `filter` where it refers to none of these ids."""
    asked = URL.fullmatch(style.get("filter", ""))
    if asked and not asked[2] and asked[1] not in filters:
        del style["filter"]


def background_of(root: Element) -> Rgba | None:
    """The colour that a browser paints the SVG's rectangle with, once its styles are resolved;
    `None` for none.
    """
    css = {name: value for _, name, value in declarations(root.get("style", ""))}
    word = css.get("background-color") or css.get("background") or "none"
    return colour(word, css.get("color", "black"))


def style_of(own: Style, parent: Style) -> Style:
    """The properties of an element over those that it inherits; `font-size` is always there, in
    pixels alone.
    """
    kept = {
        name: value
        for name, value in parent.items()
        if name in INHERITED or own.get(name) == "inherit"
    }
    inherited = float(parent.get("font-size", 16.0))
    high = pixels(own.get("font-size"), inherited)
    size = {"font-size": repr(high if math.isfinite(high) else inherited)}
    return kept | {name: value for name, value in own.items() if value != "inherit"} | size


def _is_valid(name: str, value: str) -> bool:
    """Whether a declaration counts: browsers ignore a paint that is none, and an earlier one
    stands.
    """
    word = value.strip().lower()
    if name not in _PAINTS or word in _KEYWORDS or word in _RESETS:
        return True
    if word.startswith(("url(", "context-")):
        return True
    return "var(" in word or colour(word) is not None


def _resolved(name: str, value: str, variables: Style) -> str:
    if "var(" in value:
        for _ in range(8):  # variables may name variables
            value = _VARIABLE.sub(
                lambda match: variables.get(match[1], match[2] or "").strip()[:200], value[:1000]
            )
    if "calc(" in value:
        value = _CALC.sub(_calculated, value)
    if name == "transform" and value != "none":
        plain = _UNIT.sub(_without_unit, value)
        return f"matrix({' '.join(map(repr, read_transform(plain)))})"
    word = value.strip()
    if name not in _PAINTS or word.lower().startswith(("url(", "context-")):
        return value
    if word.lower() in _KEYWORDS:
        return _KEYWORDS[word.lower()]
    rgba = colour(word)
    if rgba is None:
        return "inherit"
    # resvg itself bounds the saturation in the older syntax.
    is_older = word.lower().startswith("hsl(") and "," in word
    if word.startswith("#") or is_older:
        return value
    return hexadecimal(rgba)


def _without_unit(match: re.Match[str]) -> str:
    """The number of degrees or pixels."""
    degrees = _DEGREES.get(match[2].lower())
    length = pixels(match[0].lower()) if degrees is None else float(match[1]) * degrees
    return repr(length)


def is_calculated(value: str) -> bool:
    """Whether every `calc` of a value is one that is worked out here."""
    return "calc(" not in _CALC.sub(_calculated, value)


def _calculated(match: re.Match[str]) -> str:
    """A sum of products of pixels or numbers, or the text itself where it is none."""
    terms = ["+", *re.split(r"\s([+-])\s", match[1].replace("px", "").strip())]
    total = 0.0
    try:
        for sign, term in zip(terms[::2], terms[1::2], strict=True):
            factors = ["*", *re.split(r"\s*([*/])\s*", term)]
            product = float(f"{sign}1")
            for operator_sign, number in zip(factors[::2], factors[1::2], strict=True):
                product *= float(number) if operator_sign == "*" else 1 / float(number)
            total += product
    except (ValueError, ZeroDivisionError):
        return match[0]
    return f"{total:g}"


def opacity(text: str | None) -> float:
    """An opacity, as a number or in percent, from 0 to 1; 1 for what isn't one."""
    share = pixels(text, 1.0)
    return 1.0 if math.isnan(share) else min(1.0, max(0.0, share))
