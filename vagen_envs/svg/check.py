"""What an SVG may contain: the pre-check that every text passes before it is drawn.

It bounds length, depth, numbers and the cost of drawing with all references followed, and refuses
whatever could reach beyond the text. What merely can't be drawn here (see `leaving_out`) has been taken
away before. The messages are written for the model that wrote the SVG.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, ParseError, tostring

from vagen_envs.svg.leaving_out import leave_out, local_name, without_doctype

MAX_LENGTH = 32_768
"""Characters."""
MAX_DEPTH = 64
"""Elements within elements, references followed."""
MAX_NUMBER = 1e6
"""Largest absolute value of any number."""
MAX_COST = 20_000
"""Elements to draw, references followed; 16 characters of a path and one of a text count as an element."""

_SHAPES = frozenset({"path", "rect", "circle", "ellipse", "line", "polyline", "polygon"})
_GRADIENTS = frozenset({"linearGradient", "radialGradient"})
_ALLOWED = _SHAPES | _GRADIENTS | {
    "svg", "g", "defs", "symbol", "use", "a", "switch", "text", "tspan", "textPath", "stop", "clipPath", "mask",
    "pattern", "marker", "style", "view",
}  # fmt: skip
_NOT_NUMBERS = frozenset({"id", "class", "href", "font-family", "lang", "name", "type", "version", "label", "role"})

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:\b(?:nan|inf|infinity)\b)")
_NO_NUMBER = re.compile(r"nan|inf", re.IGNORECASE)
# What Python, and so cairosvg, reads as a number and SVG doesn't: 1_000, and digits of other scripts.
_ODD_NUMBER = re.compile(r"(?<![\w.-])[+-]?\.?[0-9][\w.]*?_|(?![0-9])\d")
# Neither pattern looks past the next bracket or tries a start within a match again: that would take the
# square of an attribute's length, which is the author's to choose.
_COLOUR_OR_REFERENCE = re.compile(r"#[0-9a-fA-F]{3,8}\b|url\([^()]*\)", re.IGNORECASE)
_LENGTH = re.compile(r"\s*\+?(\d++(?:\.\d*+)?|\.\d++)[a-z]*\s*")
_URL = re.compile(r"url\s*\(\s*([^)]*)\)?", re.IGNORECASE)
_FRAGMENT = re.compile(r"""(["']?)#([^\s"'()\\]+)\1\s*""")


class Refused(Exception):  # noqa: N818 - it says what happened to the text
    """The SVG may not be drawn; the message tells its author why."""


def check(text: str) -> str:
    """The SVG to draw, without what can be left out. Takes time linear in the length of the text.

    Raises:
        Refused: it isn't safe and cheap to draw; the message is for the text's author.
    """
    if len(text) > MAX_LENGTH:
        raise Refused(f"the SVG has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    text = without_doctype(text)
    root = _parse(text)
    if local_name(root) != "svg":
        raise Refused(f"the outermost element is <{_shown(local_name(root))}>; it must be <svg>")
    changed = leave_out(root)
    ids: dict[str, Element] = {}
    for element, depth in _walk(root):
        if depth > MAX_DEPTH:
            raise Refused(f"elements are nested more than {MAX_DEPTH} deep")
        if "id" in element.attrib:
            ids.setdefault(element.attrib["id"], element)
    for element, _ in _walk(root):
        _check_element(element, ids)
    _check_size(root)
    cost = _Costs(ids).of(root, 0)[0]
    if cost > MAX_COST:
        raise Refused(f"drawing it would take about {cost:.0f} elements; at most {MAX_COST} are allowed")
    return tostring(root, encoding="unicode") if changed else text


def _parse(text: str) -> Element:
    from defusedxml import DefusedXmlException  # here, since `Renderer` is what says that the extra is missing
    from defusedxml import ElementTree as DefusedTree

    try:
        root: Element = DefusedTree.fromstring(text.encode(), forbid_dtd=True)
    except UnicodeEncodeError:
        raise Refused("the SVG has characters that are not Unicode text") from None
    except ParseError as error:
        hint = '; add xmlns:xlink="http://www.w3.org/1999/xlink" to <svg>' if "unbound prefix" in str(error) else ""
        raise Refused(f"the SVG is not well-formed XML ({error}{hint})") from None
    except DefusedXmlException:
        raise Refused("the SVG has a DOCTYPE or entities, which are not allowed") from None
    except (ValueError, LookupError) as error:  # an encoding declaration that doesn't fit
        raise Refused(f"the SVG can't be read as UTF-8 XML ({error})") from None
    return root


def _walk(root: Element) -> Iterator[tuple[Element, int]]:
    """Every element with its depth, the root's being 1."""
    todo = [(root, 1)]
    while todo:
        element, depth = todo.pop()
        yield element, depth
        todo += [(child, depth + 1) for child in element if isinstance(child.tag, str)]


def _check_element(element: Element, ids: Mapping[str, Element]) -> None:
    name = local_name(element)
    if name not in _ALLOWED:
        raise Refused(f"the element {_shown(name)} is not allowed; draw with shapes, paths, gradients and text")
    for full_name, value in element.attrib.items():
        attribute = full_name.rpartition("}")[2]
        if attribute in ("href", "src", "base") and not (attribute == "href" and re.fullmatch(r"#[^\s]+", value)):
            raise Refused(f'{attribute}="{_shown(value)}" is not allowed: only "#id" of an element in the same SVG')
        _check_urls(attribute, value)
        if attribute == "style" and ("\\" in value or "@" in value):
            raise Refused("styles must not contain backslashes or @ rules")
        if attribute not in _NOT_NUMBERS and not attribute.startswith(("data-", "aria-")):
            _check_numbers(attribute, value)
    if name == "style":
        _check_sheet("".join(element.itertext()), ids)


def _check_sheet(sheet: str, ids: Mapping[str, Element]) -> None:
    """A sheet without its comments and @ rules: what is left is what the renderer will read."""
    if "\\" in sheet or "@import" in sheet.lower():
        raise Refused("style sheets must not contain backslashes or an @import that isn't a rule of its own")
    _check_urls("style", sheet)
    _check_numbers("style", sheet)
    for target in _references(sheet):
        if target in ids and local_name(ids[target]) not in _GRADIENTS:
            raise Refused(f"the style sheet uses url(#{_shown(target)}): only gradients may be used there")


def _check_urls(attribute: str, value: str) -> None:
    for match in _URL.finditer(value):
        if not _FRAGMENT.fullmatch(match[1]):
            raise Refused(f"{attribute} uses url({_shown(match[1])}): only url(#id) of the same SVG is allowed")


def _check_numbers(attribute: str, value: str) -> None:
    if attribute in ("d", "points") and (word := _NO_NUMBER.search(value)):
        raise Refused(f"{attribute} has {word[0]!r}, which is not a number")
    value = _COLOUR_OR_REFERENCE.sub(" ", value)
    if odd := _ODD_NUMBER.search(value):
        raise Refused(f"{attribute} has {_shown(odd[0])!r}, which is not a number of SVG")
    for match in _NUMBER.finditer(value):
        if not abs(float(match[0])) <= MAX_NUMBER:  # NaN compares false
            raise Refused(f"{attribute} has the number {_shown(match[0])}; numbers may go up to {MAX_NUMBER:.0f}")


def _check_size(root: Element) -> None:
    box = root.attrib.get("viewBox")
    if box is not None:
        words = re.split(r"[\s,]+", box.strip())
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            numbers = []
        if len(numbers) != 4 or not all(map(math.isfinite, numbers)) or min(numbers[2:]) <= 0:
            raise Refused(f'viewBox="{_shown(box)}" is not four numbers with a positive width and height')
        return
    for side in ("width", "height"):
        match = _LENGTH.fullmatch(root.attrib.get(side, ""))
        if match is None or float(match[1]) <= 0:
            raise Refused(f'the <svg> has {side}="{_shown(root.attrib.get(side, ""))}"; give it viewBox="0 0 100 100"')


@dataclass
class _Costs:
    """What elements cost to draw, references followed; each is worked out once."""

    ids: Mapping[str, Element]
    _known: dict[Element, tuple[float, int, int]] = field(default_factory=dict)
    _open: set[Element] = field(default_factory=set)

    def of(self, element: Element, depth: int) -> tuple[float, int, int]:
        """Cost, number of elements and height of a subtree. Raises Refused for a cycle or a long chain."""
        known = self._known.get(element)
        if known is not None:
            if depth + known[2] > 2 * MAX_DEPTH:
                raise Refused(f"elements refer to each other more than {MAX_DEPTH} deep")
            return known
        if element in self._open:
            raise Refused(f'elements refer to each other in a circle, at id="{_shown(element.attrib.get("id", ""))}"')
        if depth > 2 * MAX_DEPTH:
            raise Refused(f"elements refer to each other more than {MAX_DEPTH} deep")
        self._open.add(element)
        cost, count, height = self._own(element), 1, 0
        for child in element:
            if isinstance(child.tag, str):
                below = self.of(child, depth + 1)
                cost, count, height = cost + below[0], count + below[1], max(height, below[2])
        for target, times in self._targets(element):
            below = self.of(target, depth + 1)
            # What is referred to may be inherited by all elements below.
            cost, height = cost + (below[0] + 20) * times * count, max(height, below[2])
        self._open.discard(element)
        self._known[element] = cost, count, height + 1
        return self._known[element]

    def _own(self, element: Element) -> float:
        drawn = len(element.attrib.get("d", "")) + len(element.attrib.get("points", ""))
        return 1 + drawn / 16 + len((element.text or "").strip()) + len((element.tail or "").strip())

    def _targets(self, element: Element) -> Iterator[tuple[Element, float]]:
        """What an element refers to, and how often it is drawn for that."""
        for full_name, value in element.attrib.items():
            name = full_name.rpartition("}")[2]
            names = [value[1:]] if name == "href" else _references(value)
            marks = name.startswith("marker") or (name == "style" and "marker" in value)
            times = 1 + (len(element.attrib.get("d", "")) + len(element.attrib.get("points", ""))) / 4 if marks else 1
            for target in names:
                if target in self.ids:
                    yield self.ids[target], times


def _references(value: str) -> list[str]:
    found = (_FRAGMENT.fullmatch(match[1]) for match in _URL.finditer(value))
    return [match[2] for match in found if match]


def _shown(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 40 else words[:40] + "…"
