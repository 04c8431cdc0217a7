"""Make `>>> code` in docstrings a block of code on the API pages.

Markdown takes it for nested quotations.
"""

from __future__ import annotations

import itertools
from typing import Any

import griffe


class DoctestFences(griffe.Extension):
    """Rewrites docstrings as they are read for the pages (see mkdocs.yml)."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Runs of lines from a prompt to the next blank line, in fences and without prompts."""
    lines: list[str] = []
    for is_blank, run in itertools.groupby(text.splitlines(), key=lambda line: not line.strip()):
        block = list(run)
        if not is_blank and block[0].startswith(">>> "):
            # what Python answers is a comment, so that the block can be copied
            block = [line[4:] if line[:4] in (">>> ", "... ") else f"# {line}" for line in block]
            block = ["```python", *block, "```"]
        lines += block
    return "\n".join(lines)
