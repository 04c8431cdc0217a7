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
from vagen_benchmarks.extras import extras_of

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
    class_name = _class_of(name)
    folder = folder or Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "isn't empty" if folder.is_dir() else "is a file"
        raise ProtocolError(f"{folder} {what}; name a new folder with --out")
    for source, place in _files(package).items():
        target = folder / place.replace("my_env", name)
        text = source.read_text(encoding="utf-8").replace("my_env", name)
        text = text.replace("my-env", name.replace("_", "-")).replace("MyEnv", class_name)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ProtocolError(
                f"can't write {target} ({error.strerror}); name another folder with --out"
            ) from error
        out.print(target, soft_wrap=True)
    install = "pip install -e . && " if package else ""
    command = f"cd {folder} && {install}vagen bench -e {name}:example/{class_name}-v0"
    out.print(f"\nNext: {command}", soft_wrap=True)


def _class_of(name: str) -> str:
    """The class of an environment's name. Raises ProtocolError for a name that can't be imported,
    that is another module's, or whose class would hide one that the template uses.
    """
    if reason := _why_not(name):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name)
        other = words.lower().strip("_0123456789") or "treasure_hunt"
        other = f"{other}_game" if _why_not(other) else other
        raise ProtocolError(
            f"name {name!r} is not valid: {reason}; choose another, such as {other}"
        )
    return _as_class(name)


def _as_class(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _why_not(name: str) -> str:
    """Why an environment can't have this name; empty if it can."""
    class_name = _as_class(name)
    if keyword.iskeyword(name) or keyword.iskeyword(class_name):
        return "it is a word of Python's grammar"
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        return "use the letters a to z, digits and single _, beginning with a letter"
    if name in sys.stdlib_module_names or _is_importable(name):
        return "a module of that name can be imported here already"
    if extras := extras_of(name):
        return f"it is the name of a library, which the extra {extras[0]} brings"
    if _is_used(class_name):
        return f"its class {class_name} would hide one that the environment imports"
    return ""


def _is_importable(name: str) -> bool:
    found = importlib.util.find_spec(name)  # a folder without modules has no origin
    return found is not None and found.origin is not None


def _is_used(class_name: str) -> bool:
    """Whether the template imports a class of the names that the new environment's would have."""
    text = (SCAFFOLD / "my_env" / "my_env.py").read_text(encoding="utf-8")
    made = "|".join((class_name, f"{class_name}Config", f"{class_name}State"))
    return re.search(rf"import .*\b({made})\b", text) is not None


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
