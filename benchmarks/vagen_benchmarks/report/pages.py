"""Self-contained HTML pages from the Jinja2 templates in `templates/`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


def _asset(name: str) -> Markup:
    """A style sheet or script of this package, to be inlined as it is."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704  (a file of this package)


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_ENVIRONMENT.globals["asset"] = _asset
_ENVIRONMENT.policies[
    "json.dumps_kwargs"
] = {}  # Jinja sorts keys by default; tables keep the order of the run


def render(template: str, file: TextIO, **context: Any) -> None:
    """Write a page to an open file, a piece at a time."""
    file.writelines(_ENVIRONMENT.get_template(template).generate(**context))


def relative_link(page: Path, target: Path) -> str:
    """A link from a page to a file that holds wherever both are moved together."""
    return quote(os.path.relpath(target.resolve(), page.parent.resolve()).replace(os.sep, "/"))
