"""`vagen prove`: recipes compared on a tiny model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.warmstart import EXTRA
from vagen_benchmarks.proofs import proving
from vagen_benchmarks.proofs.proof import HERE, check_asked, load_proofs
from vagen_envs.extras import need

PROOFS = ", ".join(f"`{path.stem}`" for path in sorted(HERE.glob("*.toml")))
ABOUT = f"{PROOFS}, a file, or `credit` for all whose names begin so, each in a folder of its own."


def prove(
    proof: Annotated[str, typer.Argument(metavar="PROOF", help=ABOUT)],
    out: Annotated[
        Path, typer.Option(help="The folder of this proof's results; what is there already isn't done again.")
    ],
    recipe: Annotated[list[str] | None, typer.Option(help="Only this recipe; may be repeated.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Only this seed; may be repeated.")] = None,
) -> None:
    """Train a tiny model by several recipes and seeds, measure it on held-out levels, and draw the curves."""
    need("vagen prove", *EXTRA)
    asked = load_proofs(proof)
    check_asked(asked, recipe or [], seed or [])
    folders = [out / each.name if len(asked) > 1 else out for each in asked]
    if len(asked) > 1:  # hours lie between the first and the last
        for each, folder in zip(asked, folders, strict=True):
            proving.check(each, folder)
    for each, folder in zip(asked, folders, strict=True):
        proving.prove(each, folder, typer.echo, recipes=recipe or [], seeds=seed or [])
        typer.echo(proving.report(each, folder).read_text(encoding="utf-8"))
