"""What a browser would draw of an SVG and the renderer doesn't: named, so that nobody guesses."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.etree.ElementTree import Element

import cssselect2
import tinycss2
from fontTools.misc.transform import Identity

from vagen_envs.svg.check import SVG, XLINK, local_name, natural_size, pixels
from vagen_envs.svg.colours import colour
from vagen_envs.svg.outlines import read_transform
from vagen_envs.svg.style_sheets import MEDIA, flat_rules
from vagen_envs.svg.styles import Style, is_calculated

MOST_MATCHED = 2000
"""Elements whose rules are compared; more would take too long of a drawing's time."""
USE = f"{{{SVG}}}use"
XLINK_HREF = f"{{{XLINK}}}href"

_ELEMENTS = frozenset(
    {"animate", "animateMotion", "animateTransform", "set"}  # SMIL: the first frame is drawn
    | {"audio", "foreignObject", "iframe", "script", "video"}
    | {"feDisplacementMap", "feTile"}  # resvg 0.47 draws them elsewhere
)
_ATTRIBUTES = frozenset({"limitingConeAngle", "pathLength"})
_PROPERTIES: dict[str, frozenset[str] | None] = {
    # value(s) that change the picture; None: any but the initial one
    "all": None,
    "animation": None,
    "animation-name": None,
    "backdrop-filter": None,
    "border": None,
    "color-interpolation": frozenset({"linearrgb"}),
    "font-style": frozenset({"italic", "oblique"}),  # all text is drawn in one upright font
    "font-variant": None,
    "font-variant-caps": None,
    "font-weight": frozenset({"bold", "bolder", "600", "700", "800", "900"}),
    "image-rendering": frozenset({"pixelated", "crisp-edges"}),
    "mask-composite": None,
    "mask-image": None,
    "mask-mode": None,
    "mix-blend-mode": frozenset({"plus-lighter"}),
    "offset-path": None,
    "outline": None,
    "perspective": None,
    "rotate": None,
    "scale": None,
    "text-shadow": None,
    "text-transform": None,
    "transform-box": frozenset({"fill-box", "stroke-box", "content-box"}),
    "translate": None,
    "vector-effect": frozenset({"non-scaling-stroke"}),
    "white-space": frozenset({"pre", "pre-wrap", "pre-line", "break-spaces"}),
    "zoom": None,
}
_RESETS = frozenset({"inherit", "initial", "revert", "unset"})
_INITIAL = frozenset({"", "0", "auto", "inherit", "initial", "none", "normal", "revert", "unset"})
_SHAPES = ("circle(", "ellipse(", "inset(", "path(", "polygon(", "rect(", "xywh(")
"""Basic shapes of `clip-path`, which resvg takes for no clip."""
_FUNCTIONS = re.compile(
    r"(?<![\w-])(abs|acos|asin|atan2?|attr|clamp|cos|env|exp|hypot|if|light-dark|log|max|min|mod|pow|rem|"
    r"round|sign|sin|sqrt|tan)\("
)
_UNREAD_COLOURS = re.compile(
    r"color\(\s*(a98-rgb|prophoto-rgb|rec2020|xyz[\w-]*)|(rgba?|hsla?|hwb|lab|lch|oklab|oklch|color)\(\s*from\s"
)
_MIXED_ELSEWHERE = re.compile(r"color-mix\(\s*in\s+(?!srgb\s*,)([\w-]+)")
_UNITS = re.compile(r"(?<![\w#.-])[-+]?[\d.]+(ch|r?lh|rem|v[whib]|vmax|vmin|[sld]v[wh])\b")
_DEEP = re.compile(
    r"(matrix3d|perspective|rotate3d|rotate[xyz]|scale3d|scalez|translate3d|translatez)\("
)
_DIRECTED = re.compile(r"url\(|drop-shadow\(")
"""Filters that depend on directions, and are drawn along the picture's."""
_STRAIGHT = 1e-9
"""More than rounding leaves in a matrix without rotation."""
_MIXED_ANOTHER_WAY = ("color(", "lab(", "lch(", "oklab(", "oklch(")
"""Between colours of these kinds a browser's gradient doesn't go through sRGB."""
_TEXTS = frozenset({"class", "content", "d", "font-family", "href", "id", "points", "title"})
"""Attributes and properties whose value holds no function and no unit."""
_PAINTED = ("background", "background-color", "color", "fill", "stop-color", "stroke")
_SYSTEM = frozenset(
    {"accentcolor", "accentcolortext", "activetext", "buttonborder", "buttonface", "buttontext"}
    | {"graytext", "highlight", "highlighttext", "linktext", "mark", "selecteditem"}
    | {"selecteditemtext", "visitedtext"}
)
"""Colours of CSS that follow the system; those of plain pages, black and white, are drawn."""
_BOLD = re.compile(r"\b(bold|bolder|[6-9]00|italic|oblique|small-caps)\b")
_MASK = re.compile(r"(url\([^)]*\)|none|inherit|initial|unset)?")


def without_effect(
    root: Element, drawn: Element, styles: Mapping[Element, Style]
) -> tuple[str, ...]:
    """The names of elements, properties, functions and at-rules that aren't drawn as in a browser,
    sorted.

    Args:
        root: of the SVG as it was written, before anything is removed from it.
        drawn: the root of what is drawn, cleaned.
        styles: of its elements, resolved.
    """
    found: set[str] = set()
    if "transform" in root.attrib:
        found.add("transform of <svg>")
    if _has_selectors_across_use(root):
        found.add("selector across <use>")
    if _is_stretched(drawn):
        found.add('preserveAspectRatio="none" of <svg>')
    found |= _of_filters(drawn, styles)
    for element in root.iter():
        name = local_name(element)
        if name in _ELEMENTS:
            found.add(f"<{name}>")
        if name == "mask" and "mask" in element.attrib:
            found.add("mask of <mask>")
        found |= _ATTRIBUTES & element.attrib.keys()
        attributes = [(key, value) for key, value in element.attrib.items() if key != "style"]
        # `rotate` is an attribute of text, `scale` one of filters: only CSS means a transform
        found |= set(_unread(attributes, but=("border", "rotate", "scale")))
        found |= set(_unread(_declared(tinycss2.parse_blocks_contents(element.get("style", "")))))
        if name == "style":
            found |= set(_of_sheet("".join(element.itertext())))
            media = element.get("media", "").strip().lower()
            found |= {"media of <style>"} if media not in (*MEDIA, "print") else set()
    return tuple(sorted(found))


def _is_stretched(root: Element) -> bool:
    """Whether a browser stretches the SVG to its `<img>`: it has no proportions of its own."""
    kept = root.get("preserveAspectRatio", "").split()[:1]
    has_size = all(math.isfinite(pixels(root.get(side))) for side in ("width", "height"))
    width, height = natural_size(root)
    return kept == ["none"] and not has_size and width != height


def _of_filters(root: Element, styles: Mapping[Element, Style]) -> set[str]:
    """Filters on turned elements, and blurs that their filter's region cuts."""
    found: set[str] = set()
    todo = [(root, Identity)]
    while todo:
        element, outer = todo.pop()
        style = styles[element]
        matrix = outer.transform(read_transform(style.get("transform")))
        if _DIRECTED.search(style.get("filter", "")) and max(map(abs, matrix[1:3])) > _STRAIGHT:
            found.add("filter of a rotated element")
        if local_name(element) == "filter" and _cuts_blur(element):
            found.add("<feGaussianBlur> at the edge of its filter")
        todo += [(child, matrix) for child in element]
    return found


def _cuts_blur(element: Element) -> bool:
    """Whether a filter's region ends at the box of what it blurs, or within."""
    if all(local_name(each) != "feGaussianBlur" for each in element.iter()):
        return False
    if element.get("filterUnits") == "userSpaceOnUse":
        return False
    left, top = (pixels(element.get(name, "-10%"), 1.0) for name in ("x", "y"))
    wide, high = (pixels(element.get(name, "120%"), 1.0) for name in ("width", "height"))
    return left >= 0 or top >= 0 or left + wide <= 1 or top + high <= 1


def _has_selectors_across_use(root: Element) -> bool:
    """Whether a rule applies to what `<use>` shows by an element outside of it, which a browser's
    copy doesn't have around it.
    """
    used = {(each.get("href") or each.get(XLINK_HREF) or "")[1:] for each in root.iter(USE)}
    shown = [each for each in root.iter() if used and each.get("id") in used]
    if not shown or all(local_name(each) != "style" for each in root.iter()):
        return False
    pairs = itertools.chain.from_iterable(element.iter() for element in [root, *shown])
    if next(itertools.islice(pairs, MOST_MATCHED, None), None) is not None:
        return False
    rules = _selectors(root)
    whole = _matched(cssselect2.ElementWrapper.from_xml_root(root), rules)
    for element in shown:
        alone = _matched(cssselect2.ElementWrapper.from_xml_root(element), rules)
        if any(whole[each] != found for each, found in alone.items()):
            return True
    return False


def _selectors(root: Element) -> cssselect2.Matcher:
    """The rules of all style sheets, numbered."""
    matcher = cssselect2.Matcher()
    css = "\n".join(
        ["".join(each.itertext()) for each in root.iter() if local_name(each) == "style"]
    )
    for number, (selectors, _) in enumerate(flat_rules(css)):
        with contextlib.suppress(cssselect2.SelectorError):
            for selector in cssselect2.compile_selector_list(selectors):
                matcher.add_selector(selector, number)
    return matcher


def _matched(
    tree: cssselect2.ElementWrapper, rules: cssselect2.Matcher
) -> dict[Element, list[int]]:
    """The numbers of the rules that apply to each element."""
    found = {}
    for each in tree.iter_subtree():
        found[each.etree_element] = sorted([number for *_, number in rules.match(each)])
    return found


def _of_sheet(css: str) -> Iterator[str]:
    todo: list[Any] = tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True)
    while todo:
        rule = todo.pop()
        if rule.type == "at-rule" and rule.lower_at_keyword != "charset":
            yield f"@{rule.lower_at_keyword}"
        elif rule.type == "qualified-rule":
            parts = tinycss2.parse_blocks_contents(rule.content, True, True)
            todo += [part for part in parts if part.type != "declaration"]
            yield from _unread(_declared(parts))


def _declared(parts: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for part in parts:
        if part.type == "declaration":
            yield part.lower_name, tinycss2.serialize(part.value).strip()


def _unread(declared: Iterable[tuple[str, str]], but: tuple[str, ...] = ()) -> Iterator[str]:
    for name, value in declared:
        word = value.strip().lower()
        yield from _of_value(name, word)
        if name not in _PROPERTIES or name in but:
            continue
        values = _PROPERTIES[name]
        if name == "all" and word in _RESETS:
            yield name
        if word in values if values is not None else word not in _INITIAL:
            yield name


def _of_value(name: str, word: str) -> Iterator[str]:
    """What of a value in lower case isn't read."""
    if name == "clip-path" and word.startswith(_SHAPES):
        yield f"clip-path: {word.partition('(')[0]}()"
    elif name in ("rx", "ry") and word == "auto":
        yield f"{name}: auto"
    elif name in ("background", "background-image") and word not in _INITIAL and not colour(word):
        yield name
    elif name in ("mask", "-webkit-mask") and not _MASK.fullmatch(word):
        yield "mask with more than url()"
    elif name == "font" and _BOLD.search(word):
        yield "font-weight or style"
    elif name == "transform":
        yield from _of_transform(word)
    elif name in _PAINTED and word in _SYSTEM:
        yield f"system colour {word}"
    elif name == "stop-color" and word.startswith(_MIXED_ANOTHER_WAY):
        yield f"stop-color: {word.partition('(')[0]}()"
    if name not in _TEXTS and not name.endswith("}href"):
        yield from _of_functions(word)


def _of_transform(word: str) -> Iterator[str]:
    if deep := _DEEP.search(word):
        yield f"transform: {deep[1]}()"
    if "%" in word:
        yield "transform in percent"


def _of_functions(word: str) -> Iterator[str]:
    """Functions and units of a value that aren't read."""
    yield from [f"{function}()" for function in _FUNCTIONS.findall(word)]
    if unread := _UNREAD_COLOURS.search(word):
        yield f"color({unread[1]})" if unread[1] else f"{unread[2]}(from …)"
    if mixed := _MIXED_ELSEWHERE.search(word):
        yield f"color-mix(in {mixed[1]})"
    if "calc(" in word and not is_calculated(word):
        yield "calc()"
    if units := _UNITS.search(word):
        yield f"unit {units[1]}"
