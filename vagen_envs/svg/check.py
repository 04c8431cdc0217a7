"""Parse and clean an SVG that comes from outside, before a renderer sees it.

Nothing that reaches beyond the text survives: references other than `#id` and images in `data:`
URLs are removed, and so are scripts, processing instructions and document types. What a browser
ignores stays, for the renderer to ignore. Cost isn't estimated here; the limits of the drawing
process bound it.
"""

from __future__ import annotations

import base64
import io
import math
import re
import zlib
from collections.abc import Collection
from typing import Any
from urllib.parse import unquote_to_bytes
from xml.etree.ElementTree import Element, ParseError, register_namespace, tostring

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser
from PIL import Image

from vagen_envs.errors import SvgError

MAX_LENGTH = 32_768
"""Characters."""
_TRANSFORMS_OVER_HREF = (
    (("pattern",), "patternTransform"),
    (("linearGradient", "radialGradient"), "gradientTransform"),
)
MAX_DEPTH = 64
"""Elements within elements. resvg recurses on a stack of 8 MiB, which some 300 groups fill."""
MAX_IMAGE_PIXELS = 1 << 22
"""Pixels of an embedded image: a PNG of a few kilobytes can hold gigapixels."""
MAX_ENTITIES = 64
MAX_ENTITY_LENGTH = 256
"""Characters. Editors declare namespaces as entities; 32 kB of references then expand to 2 MB at
most.
"""
FIELD = (100.0, 100.0)
"""Size of an SVG that states neither `viewBox` nor size, as the prompt says. A browser takes 300 ×
150.
"""

SVG = "http://www.w3.org/2000/svg"
XML = "http://www.w3.org/XML/1998/namespace"
XLINK = "http://www.w3.org/1999/xlink"
register_namespace("", SVG)
register_namespace("xlink", XLINK)

URL = re.compile(r"""\s*url\(\s*["']?#([^\s"')]+)["']?\s*\)\s*(.*)""", re.IGNORECASE | re.DOTALL)
"""The id that a value refers to, and what follows."""
_DATA = re.compile(
    r"\s*data:(?:image/[\w+]+|text/plain)?(?:;charset=[\w-]+|;utf-?8)?(;base64)?,", re.IGNORECASE
)
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
_REMOVED = frozenset({"script", "foreignObject", "iframe", "video", "audio"})
_LENGTH = re.compile(r"\s*+([+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)\s*+([a-z]+|%)?\s*+")
_UNITS = {
    "pt": 4 / 3,
    "pc": 16.0,
    "mm": 96 / 25.4,
    "cm": 96 / 2.54,
    "in": 96.0,
    "em": 16.0,
    "rem": 16.0,
    "ex": 8.0,
}


def local_name(element: Element) -> str:
    """The element's name: `path` in SVG's namespace, `{namespace}name` in others."""
    return element.tag.removeprefix(f"{{{SVG}}}")


def clean(text: str, nested: bool = False) -> Element:
    """The root element of an SVG without anything that reaches outside; has a `viewBox`.

    Args:
        text: the SVG.
        nested: whether it is an image in another SVG, in which no third one stays.

    Raises:
        SvgError: it isn't well-formed, isn't an SVG, or exceeds a bound.
    """
    if len(text) > MAX_LENGTH:
        raise SvgError(f"the SVG has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    root = parse(text)
    if local_name(root) != "svg":
        raise SvgError(f"the outermost element is <{local_name(root):.40}>; it must be <svg>")
    ids = {element.get("id") for element in root.iter()}
    todo = [(root, 1)]
    while todo:
        element, depth = todo.pop()
        if depth > MAX_DEPTH:
            raise SvgError(f"elements are nested more than {MAX_DEPTH} deep")
        _remove_references(element, ids, nested)
        _remove_children(element)
        todo += [(child, depth + 1) for child in element]
    for kinds, name in _TRANSFORMS_OVER_HREF:
        _inherit_over_href(root, kinds, name)
    _give_view_box(root)
    return root


def pixels(length: str | None, whole: float = math.nan) -> float:
    """A length in pixels, percent being of `whole`; NaN if it isn't a length."""
    if (match := _LENGTH.fullmatch(length or "")) is None:
        return math.nan
    return float(match[1]) * (whole / 100 if match[2] == "%" else _UNITS.get(match[2], 1.0))


def natural_size(root: Element) -> tuple[float, float]:
    """Width and height of a cleaned SVG as a browser shows it; only their proportion matters.

    A side that isn't stated, or in percent, follows from the view box.
    """
    _, _, across, down = view_box(root) or (0.0, 0.0, *FIELD)
    width, height = (pixels(root.get(side)) for side in ("width", "height"))
    has_width = 0 < width < math.inf
    has_height = 0 < height < math.inf
    if not has_width:
        width = height * across / down if has_height else across
    return width, height if has_height else width * down / across


def view_box(element: Element) -> tuple[float, float, float, float] | None:
    """Left, top, width and height of an element's view box; `None` without one that can be used."""
    try:
        left, top, width, height = map(
            float, re.split(r"[\s,]+", element.get("viewBox", "").strip())
        )
    except ValueError:
        return None
    finite = all(map(math.isfinite, (left, top, width, height)))
    return (left, top, width, height) if finite and width > 0 and height > 0 else None


class _Parser(DefusedXMLParser):  # type: ignore[misc]
    """Allows entities that are plain short text."""

    entities = 0

    def defused_entity_decl(
        self, name: str, is_parameter: Any, value: str | None, *rest: Any
    ) -> None:
        self.entities += 1
        plain = value is not None and not is_parameter and not set(value) & set("&%")
        if not plain or len(value or "") > MAX_ENTITY_LENGTH or self.entities > MAX_ENTITIES:
            super().defused_entity_decl(name, is_parameter, value, *rest)


def parse(text: str) -> Element:
    """The root element of an SVG as it is written, in SVG's namespace. Raises SvgError."""
    parser = _Parser(encoding="utf-8", forbid_dtd=False, forbid_entities=True, forbid_external=True)
    try:
        parser.feed(text.encode())
        root: Element = parser.close()
    except UnicodeEncodeError:
        raise SvgError("the SVG has characters that are not Unicode text") from None
    except ParseError as error:
        hint = ""
        if "unbound prefix" in str(error):
            hint = '; add xmlns:xlink="http://www.w3.org/1999/xlink" to <svg>'
        raise SvgError(f"the SVG is not well-formed XML ({error}{hint})") from None
    except DefusedXmlException:
        raise SvgError(
            "the SVG declares entities other than short plain text, which are not allowed"
        ) from None
    except (ValueError, LookupError) as error:  # an encoding declaration that doesn't fit
        raise SvgError(f"the SVG can't be read as UTF-8 XML ({error})") from None
    if root.tag == "svg":  # models often forget xmlns; a browser that parses HTML doesn't need it
        for element in root.iter():
            if isinstance(element.tag, str) and not element.tag.startswith("{"):
                element.tag = f"{{{SVG}}}{element.tag}"
    return root


def _remove_children(element: Element) -> None:
    """Remove scripts and the like; the text after them stays."""
    for i in reversed(range(len(element))):
        child = element[i]
        if local_name(child) in _REMOVED:
            if i:
                element[i - 1].tail = (element[i - 1].tail or "") + (child.tail or "")
            else:
                element.text = (element.text or "") + (child.tail or "")
            del element[i]
        elif local_name(child) == "svg" and (
            moved := sorted(child.attrib.keys() & {"opacity", "transform"})
        ):
            # resvg 0.47 doesn't read them there.
            element[i] = child.makeelement(
                f"{{{SVG}}}g", {name: child.attrib.pop(name) for name in moved}
            )
            element[i].append(child)


def _inherit_over_href(root: Element, kinds: Collection[str], name: str) -> None:
    """Write a transform out where a pattern or gradient has it from the one that it refers to.

    resvg inherits their other attributes over `href`, and not these.
    """
    servers = {each.get("id"): each for each in root.iter() if local_name(each) in kinds}
    for server in servers.values():
        origin: Element | None = server
        for _ in range(MAX_DEPTH):
            if origin is None or name in origin.attrib:
                break
            href = origin.get("href") or origin.get(f"{{{XLINK}}}href") or ""
            origin = servers.get(href.removeprefix("#"))
        if origin is not None and name in origin.attrib:
            server.set(name, origin.attrib[name])


def _remove_references(element: Element, ids: Collection[str | None], nested: bool) -> None:
    """By permission: an attribute that can name a resource is `#id`, or an image as data.

    resvg opens a file for whatever else an image names, `#x` without such an element included.
    """
    name = local_name(element)
    if "href" in element.attrib:  # it goes before the older name
        element.attrib.pop(f"{{{XLINK}}}href", None)
    for full_name, value in list(element.attrib.items()):
        space, _, attribute = full_name.rpartition("}")
        attribute = attribute.lower()
        if (
            space[1:] not in ("", XLINK, XML)
            or attribute in ("src", "base", "srcset", "requiredfeatures")  # browsers have all
            or attribute.startswith("on")
        ):
            del element.attrib[full_name]
        elif attribute == "href" and not (
            name != "image" and value[:1] == "#" and value[1:] in ids
        ):
            del element.attrib[full_name]
            if name in ("image", "feImage") and (data := _image(value, nested)):
                element.set(full_name, data)


def _image(url: str, nested: bool) -> str | None:
    """An image's `data:` URL with the kind that its content has; an SVG is cleaned, too. `None` for
    anything else.
    """
    if (match := _DATA.match(url)) is None:
        return None
    data = unquote_to_bytes(url[match.end() :])
    try:
        if match[1]:
            data = base64.b64decode(b"".join(data.split()))
        if data[:2] == b"\x1f\x8b":
            data = zlib.decompressobj(wbits=31).decompress(data, MAX_LENGTH)
        if data.lstrip()[:1] == b"<":
            if nested:
                return None
            data = tostring(clean(data.decode(), nested=True))
            kind = "svg+xml"
        else:
            with Image.open(io.BytesIO(data), formats=_FORMATS) as image:  # reads the header only
                kind = str(image.format).lower()
                if image.width * image.height > MAX_IMAGE_PIXELS:
                    return None
    except (OSError, ValueError, SyntaxError, zlib.error, Image.DecompressionBombError):
        return None
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _give_view_box(root: Element) -> None:
    if view_box(root):
        return
    box = root.attrib.pop("viewBox", "")
    if len(re.findall(r"[^\s,]+", box)) == 4:
        # Browsers draw nothing here; the author had better know.
        raise SvgError(f'viewBox="{box:.40}" is not four numbers with a positive width and height')
    width, height = natural_size(root)
    if any(pixels(root.get(side)) in (0, math.inf) for side in ("width", "height")):
        raise SvgError('the <svg> has no width or no height; give it viewBox="0 0 100 100"')
    root.set("viewBox", f"0 0 {width!r} {height!r}")
