"""What pages of tables are made of: text made safe, links to where a file lies, and templates."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote


def safe(text: str) -> str:
    """Anybody's words, as text of a page or a value of an attribute."""
    return html.escape(text, quote=True)


def link(page: Path, target: Path) -> str:
    """The value of a link from a page to a file, wherever both are moved together."""
    return safe(quote(os.path.relpath(target.resolve(), page.parent.resolve()).replace(os.sep, "/")))


def filled(template: Path, parts: Mapping[str, str]) -> str:
    """A template in which each `<!-- name -->` is replaced, in this order, by what is said for it."""
    text = template.read_text(encoding="utf-8")
    for name, value in parts.items():
        text = text.replace(f"<!-- {name} -->", value, 1)
    return text
