"""`vagen push`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.printing import out
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.hub import push as push_run


def push(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    repo: Annotated[str, typer.Option(help="OWNER/NAME of a data set on the hub; made if it isn't there.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
) -> None:
    """Upload a run folder with a data set card to the Hugging Face Hub.

    Reads `HF_TOKEN` and `HF_ENDPOINT`.

    Example: `vagen push runs/a --repo me/my-run`
    """
    out.print(f"pushed: {push_run(RunFolder(run_folder), repo, private=private)}", soft_wrap=True)
