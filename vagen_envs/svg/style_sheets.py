"""Style sheets of an SVG: their rules, flat, and what they declare of each element."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

import cssselect2
import tinycss2

from vagen_envs.svg.check import local_name

MEDIA = ("", "all", "screen")
"""Values of `media` with which a style sheet is read."""
_DEEPEST_NESTING = 8
_LONGEST_SELECTOR = 2000
"""Characters of a nested rule's selector: each level repeats the selectors around it."""
Declaration = tuple[bool, str, str]
"""Whether it is `!important`, the property and its value."""


def declarations(css: str | list[Any]) -> list[Declaration]:
    """The declarations of a `style` attribute or of a rule's block."""
    found: list[Declaration] = []
    for part in tinycss2.parse_blocks_contents(css, skip_comments=True, skip_whitespace=True):
        if part.type == "declaration":
            name = part.name if part.name.startswith("--") else part.lower_name
            found.append((part.important, name, tinycss2.serialize(part.value).strip()))
    return found


def sheet_styles(root: Element) -> dict[Element, list[Declaration]]:
    """Read what style sheets declare of each element, and empty the sheets. Rules that begin with
    @ are left out, as in resvg.
    """
    sheets = [element for element in root.iter() if local_name(element) == "style"]
    if not sheets:
        return {}
    css = "\n".join(
        "".join(sheet.itertext())
        for sheet in sheets
        if sheet.get("type", "text/css") in ("", "text/css")
        and sheet.get("media", "all").strip().lower() in MEDIA
    )
    matcher = cssselect2.Matcher()
    for selectors, declared in flat_rules(css):
        with contextlib.suppress(cssselect2.SelectorError):  # browsers ignore the rule
            for selector in cssselect2.compile_selector_list(selectors):
                matcher.add_selector(selector, declared)
    found: dict[Element, list[Declaration]] = {}
    for wrapped in cssselect2.ElementWrapper.from_xml_root(root).iter_subtree():
        if matched := matcher.match(wrapped):
            found[wrapped.etree_element] = [
                declaration for *_, declared in matched for declaration in declared
            ]
    for sheet in sheets:
        sheet.text = None
        del sheet[:]
    return found


def flat_rules(css: str) -> Iterator[tuple[str, list[Declaration]]]:
    """The rules of a style sheet as selectors with their declarations; nested rules come after the
    one around them (CSS Nesting 1).
    """
    sheet = tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True)
    todo = [(rule, "", 1) for rule in reversed(sheet)]
    while todo:
        rule, around, depth = todo.pop()
        if rule.type != "qualified-rule" or depth > _DEEPEST_NESTING:
            continue
        selectors = tinycss2.serialize(rule.prelude).strip()
        if around:
            parent = f":is({around})"
            has_parent = "&" in selectors
            selectors = selectors.replace("&", parent) if has_parent else f"{parent} {selectors}"
        if len(selectors) > _LONGEST_SELECTOR:
            continue
        yield selectors, declarations(rule.content)
        parts = tinycss2.parse_blocks_contents(rule.content, True, True)
        todo += [(part, selectors, depth + 1) for part in reversed(parts)]
