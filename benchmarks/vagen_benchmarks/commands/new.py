"""`vagen new`: files to begin with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.printing import out
from vagen_benchmarks.errors import ProtocolError

SCAFFOLD = Path(__file__).parent.parent / "scaffold" / "my_env"

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
) -> None:
    """Write a working environment: a module, its prompt files, and a test with the conformance
    suite and an oracle.

    Example: `vagen new env treasure_hunt && cd treasure_hunt && vagen bench -e
    treasure_hunt:example/TreasureHunt-v0`
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise ProtocolError(
            f"name {name!r} is not valid: use lower-case letters, digits and _, such as "
            "treasure_hunt"
        )
    folder = folder or Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProtocolError(f"{folder} isn't empty; name a new folder with --out")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    for source in sorted(SCAFFOLD.rglob("*")):
        if source.suffix not in (".py", ".txt", ".toml"):
            continue
        target = folder / str(source.relative_to(SCAFFOLD)).replace("my_env", name)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (
            source.read_text(encoding="utf-8").replace("my_env", name).replace("MyEnv", class_name)
        )
        target.write_text(text, encoding="utf-8")
        out.print(target, soft_wrap=True)
    out.print(
        f"\nNext: cd {folder} && vagen bench -e {name}:example/{class_name}-v0", soft_wrap=True
    )
