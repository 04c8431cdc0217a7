"""`vagen new`: files to begin with."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.printing import out
from vagen_benchmarks.errors import ProtocolError

SCAFFOLD = Path(__file__).parent.parent / "scaffold"
SUFFIXES = (".py", ".txt", ".toml", ".md", ".yaml")

new = typer.Typer(
    no_args_is_help=True,
    help="Create an environment of your own. Example: `vagen new env treasure_hunt`",
)


@new.callback()
def _group() -> None:  # keeps `env` a subcommand, which Typer drops of a single command
    pass


@new.command()
def env(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the module, such as treasure_hunt.")
    ],
    folder: Annotated[
        Path | None, typer.Option("--out", help="A new folder; ./NAME by default.")
    ] = None,
    package: Annotated[
        bool,
        typer.Option(
            help="A package to install, with tasks for inspect_ai and verifiers, a server for "
            "OpenEnv, and sentences for the rule judge."
        ),
    ] = False,
) -> None:
    """Write a working environment: a module, its prompt files, and a test with the conformance
    suite and an oracle.

    Example: `vagen new env treasure_hunt && cd treasure_hunt && vagen bench -e
    treasure_hunt:example/TreasureHunt-v0`
    """
    _require_free(name)
    folder = folder or Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProtocolError(f"{folder} isn't empty; name a new folder with --out")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    for source, place in _files(package).items():
        target = folder / place.replace("my_env", name)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8").replace("my_env", name)
        text = text.replace("my-env", name.replace("_", "-")).replace("MyEnv", class_name)
        target.write_text(text, encoding="utf-8")
        out.print(target, soft_wrap=True)
    install = "pip install -e . && " if package else ""
    command = f"cd {folder} && {install}vagen bench -e {name}:example/{class_name}-v0"
    out.print(f"\nNext: {command}", soft_wrap=True)


def _require_free(name: str) -> None:
    """Raise ProtocolError for a name that can't be imported, or that is another module's."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise ProtocolError(
            f"name {name!r} is not valid: use lower-case letters, digits and _, such as "
            "treasure_hunt"
        )
    found = importlib.util.find_spec(name)  # a folder without modules has no origin
    if name in sys.stdlib_module_names or (found is not None and found.origin is not None):
        raise ProtocolError(
            f"name {name!r} is not valid: a module of that name can be imported here already; "
            f"choose another, such as {name}_env"
        )


def _files(package: bool) -> dict[Path, str]:
    """The files of the scaffold, and where each is written below the new folder."""
    module = SCAFFOLD / "my_env"
    places = {}
    for source in sorted(module.rglob("*")):
        place = source.relative_to(module).as_posix()
        if package and place == "my_env.py":
            place = "my_env/env.py"
        elif package and place.startswith("prompts/"):
            place = f"my_env/{place}"
        places[source] = place
    if package:
        extra = SCAFFOLD / "package"
        for source in sorted(extra.rglob("*")):
            places[source] = source.relative_to(extra).as_posix()
    return {source: place for source, place in places.items() if source.suffix in SUFFIXES}
