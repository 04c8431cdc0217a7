"""The list of recipes and settings in `vagen train --help`, read from their files: importing them
takes seconds.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from pathlib import Path

import vagen_adapters

PPO = Path(vagen_adapters.__file__).parent / "ppo"
SHOWN_DEFAULT = 40
"""Characters up to which a default is shown."""


def train_epilog() -> str:
    """Markdown for `--help`: recipes with the comment at the top of each file, then settings with
    their defaults.
    """
    recipes = [path for path in sorted((PPO / "recipes").glob("*.toml")) if path.stem != "common"]
    settings = _settings(PPO / "config.py", "MultiTurnPPOConfig")
    parts = [
        "**Recipes** (`--recipe`)",
        *(f"- `{path.stem}`: {_top_comment(path)}" for path in recipes),
        "**Settings** (`--set NAME=VALUE`), beside those of `transformers.TrainingArguments`",
        *(f"- {entry}" for entry in settings),
    ]
    return "\n\n".join(parts)


def _top_comment(path: Path) -> str:
    lines = itertools.takewhile(
        lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines()
    )
    return " ".join(line.lstrip("# ") for line in lines)


def _settings(path: Path, class_name: str) -> list[str]:
    """`name` (default): description, for each entry under `Attributes:` in the docstring of a
    dataclass.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = next(
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name
    )
    defaults = {
        node.target.id: ast.unparse(node.value)
        for node in found.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.value is not None
    }
    text = inspect.cleandoc(ast.get_docstring(found) or "").partition("Attributes:\n")[2]
    section = re.split(r"\n(?=\S)", text, maxsplit=1)[0]
    entries = [
        " ".join(entry.split())
        for entry in re.split(r"\n {4}(?=\S)", "\n" + section)
        if entry.strip()
    ]
    return [_entry(entry, defaults) for entry in entries]


def _entry(entry: str, defaults: dict[str, str]) -> str:
    names, _, description = entry.partition(": ")
    shown = []
    for name in names.split(", "):
        default = defaults.get(name, "")
        is_shown = 0 < len(default) <= SHOWN_DEFAULT and not default.startswith(
            ("field", "dataclasses")
        )
        shown.append(f"`{name}={default}`" if is_shown else f"`{name}`")
    return f"{', '.join(shown)}: {description}"
