"""What models and data sets write into an SVG that can't be drawn here, and does no harm to leave out.

A still picture has no animation, no links and no events; cairosvg knows no filters. Without them the rest is
drawn as its author meant it, which a refusal would deny.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

SVG = "http://www.w3.org/2000/svg"
FIELD = "0 0 100 100"
"""The view box of a picture that states neither a view box nor a size: percent, as the prompt counts."""

_DOCTYPE = re.compile(r"""<!DOCTYPE\s+svg(?:\s+(?:PUBLIC|SYSTEM|"[^"<>\[\]]*"|'[^'<>\[\]]*'))*+\s*>""", re.IGNORECASE)
_LEFT_OUT = frozenset({"animate", "animateColor", "animateMotion", "animateTransform", "set", "mpath", "discard",
                       "filter", "title", "desc", "metadata"})  # fmt: skip
_LEFT_OUT_SHEETS = re.compile(r"@[\w-]++[^{};]*+(?:;|\{(?:[^{}]++|\{[^{}]*+\})*+\}|\Z)")
COMMENT = re.compile(r"/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)")
_FILTER = re.compile(r"(?<![\w-])filter\s*:[^;}]*+;?", re.IGNORECASE)
_OPACITY = re.compile(r"(?<![\w])((?:fill-|stroke-|stop-)?opacity\s*:\s*)([^;}!]*+)", re.IGNORECASE)
_OPACITIES = frozenset({"opacity", "fill-opacity", "stroke-opacity", "stop-opacity"})
_SHARE = re.compile(r"\s*([+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:e[+-]?\d++)?)\s*(%?)\s*", re.IGNORECASE | re.ASCII)
_LOOSE_REFERENCE = re.compile(
    r"""url\(\s++(["']?)(#[^\s"'()]++)\1\s*+\)|url\((["']?)(#[^\s"'()]++)\3\s++\)""", re.IGNORECASE
)
"""With spaces, which cairosvg takes for a part of the name."""
_NO_SIZE = re.compile(r"\s*(?:auto|[\d.]*%)?\s*")


def without_doctype(text: str) -> str:
    """The text without a document type that declares nothing. One with declarations stays, and is refused."""
    start = text.lower().find("<!doctype")
    if start < 0 or "<" in _without_prolog(text[:start]):
        return text
    return text[:start] + _DOCTYPE.sub("", text[start:], count=1)


def _without_prolog(text: str) -> str:
    return re.sub(r"<\?[^<>]*\?>|<!--(?:[^-]|-(?!-))*-->", "", text)


def local_name(element: Element) -> str:
    """The name of an SVG element; with its namespace in braces if that is another one."""
    return element.tag.removeprefix(f"{{{SVG}}}")


def leave_out(root: Element) -> bool:
    """Take away what can't be drawn and needn't be, in place. Whether there was any."""
    changed = _give_size(root)
    todo = [root]
    while todo:
        element = todo.pop()
        changed |= _leave_out_children(element) | _leave_out_attributes(element)
        if local_name(element) == "style":
            changed |= _leave_out_rules(element)
        todo += element
    return changed


def _leave_out_children(element: Element) -> bool:
    kept = [child for child in element if isinstance(child.tag, str) and not _is_left_out(local_name(child))]
    if len(kept) == len(element):
        return False
    before = None  # whose text after it goes on with that of what is left out
    keeps = set(kept)
    for child in element:
        if child in keeps:
            before = child
        elif child.tail and before is None:
            element.text = (element.text or "") + child.tail
        elif child.tail and before is not None:
            before.tail = (before.tail or "") + child.tail
    element[:] = kept
    return True


def _is_left_out(name: str) -> bool:
    """Whether an element is; those of an editor's own namespace are, too."""
    return name in _LEFT_OUT or name.startswith("{")


def _leave_out_attributes(element: Element) -> bool:
    before = dict(element.attrib)
    link = local_name(element) == "a"
    for name, value in before.items():
        attribute = name.rpartition("}")[2]
        if attribute.lower().startswith("on") or attribute == "filter" or (link and attribute == "href"):
            del element.attrib[name]
        elif attribute in _OPACITIES:
            share = _opacity(value)
            if share is None:
                del element.attrib[name]
            else:
                element.attrib[name] = share
        elif attribute == "style":
            element.attrib[name] = _mended_style(value)
        elif "url(" in value:
            element.attrib[name] = _LOOSE_REFERENCE.sub(_reference, value)
    return element.attrib != before


def _leave_out_rules(sheet: Element) -> bool:
    text = "".join(sheet.itertext())
    mended = _mended_style(_LEFT_OUT_SHEETS.sub("", COMMENT.sub("", text)))
    sheet.text = mended
    return mended != text


def _mended_style(text: str) -> str:
    return _LOOSE_REFERENCE.sub(_reference, _OPACITY.sub(_mended_opacity, _FILTER.sub("", text)))


def _reference(match: re.Match[str]) -> str:
    return f"url({match[2] or match[4]})"


def _mended_opacity(match: re.Match[str]) -> str:
    share = _opacity(match[2])
    return "" if share is None else match[1] + share


def _opacity(value: str) -> str | None:
    """From 0 to 1, also where it is written in percent; None for what isn't a number."""
    match = _SHARE.fullmatch(value)
    if match is None:
        return None
    if not match[2] and 0 <= float(match[1]) <= 1:
        return value
    return f"{min(1.0, max(0.0, float(match[1]) / (100 if match[2] else 1))):g}"


def _give_size(root: Element) -> bool:
    sides = [side for side in ("width", "height") if side in root.attrib]
    if "viewBox" in root.attrib:
        sides = [side for side in sides if root.attrib[side].strip() == "auto"]  # which would be nothing
    elif all(_NO_SIZE.fullmatch(root.attrib[side]) for side in sides):
        root.attrib["viewBox"] = FIELD
    else:
        return False
    for side in sides:
        del root.attrib[side]
    return bool(sides) or root.attrib["viewBox"] is FIELD
