"""Self-contained HTML pages from the Jinja2 templates in `templates/`."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

TEMPLATES = Path(__file__).parent / "templates"


def _asset(name: str) -> Markup:
    """A style sheet or script of this package, to be inlined as it is."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704  (a file of this package)


def _script(names: Sequence[str]) -> str:
    """The text of a page's one inline script."""
    return "\n" + "\n".join(_asset(name) for name in names)


def _scripts(*names: str) -> Markup:
    """Scripts of this package, inlined."""
    return Markup("<script>{}</script>").format(Markup(_script(names)))  # noqa: S704


def _policy(names: Sequence[str], beside: bool) -> str:
    """The Content-Security-Policy of a page: no network, and no script but this package's, by hash.

    Args:
        names: of the page's scripts.
        beside: whether the page reads files of its own folder, which `'strict-dynamic'` lets its
            script ask for; from a file, a browser doesn't count them as `'self'`.
    """
    digest = base64.b64encode(hashlib.sha256(_script(names).encode()).digest()).decode()
    dynamic = " 'strict-dynamic'" if beside else ""
    own = " 'self' file:" if beside else ""
    parts = ["default-src 'none'", "style-src 'unsafe-inline'", f"img-src data:{own}"]
    parts += [f"script-src 'sha256-{digest}'{dynamic}"] if names else []
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def breakable(name: object) -> Markup:
    """A name that lines may break behind `/`, as in `openrouter:meta-llama/Llama-4`."""
    return Markup(re.sub("(/)", r"\1<wbr>", str(escape(str(name)))))  # noqa: S704


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_ENVIRONMENT.globals.update(asset=_asset, scripts=_scripts, policy=_policy)
_ENVIRONMENT.filters["breakable"] = breakable
_ENVIRONMENT.policies[
    "json.dumps_kwargs"
] = {}  # Jinja sorts keys by default; tables keep the order of the run


def render(template: str, file: TextIO, **context: Any) -> None:
    """Write a page to an open file, a piece at a time."""
    file.writelines(_ENVIRONMENT.get_template(template).generate(**context))


def relative_link(page: Path, target: Path) -> str:
    """A link from a page to a file that holds wherever both are moved together."""
    return quote(os.path.relpath(target.resolve(), page.parent.resolve()).replace(os.sep, "/"))
