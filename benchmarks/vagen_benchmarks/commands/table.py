"""`vagen table`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.results.table import results_table
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import storing
from vagen_benchmarks.sharing.table_files import ENDINGS, FORMS
from vagen_envs.errors import did_you_mean


def table(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders.")],
    form: Annotated[
        str | None,
        typer.Option("--format", help="`markdown`, `latex`, `csv` or `json`; by OUT's ending."),
    ] = None,
    path: Annotated[
        Path | None, typer.Option("--out", help="The file; the terminal by default.")
    ] = None,
    failed_as_misses: Annotated[
        bool, typer.Option(help="Count failed episodes as not solved instead of as unscored.")
    ] = False,
) -> None:
    """Make one table of several runs: models by environments, difficulties, strategies and
    contexts.

    Rows of one environment, difficulty and strategy are compared by a paired test on the same
    levels. Where the runs' protocols differ beyond that, the column is left out, and the option
    that differs is named.

    Example: `vagen table runs/a runs/b --out results.tex`
    """
    form = form or (ENDINGS.get(path.suffix, "") if path else "markdown")
    if form not in FORMS:
        suffix = path.suffix if path else ""
        given = repr(form) if form else f"ending {suffix!r}"
        raise ProtocolError(f"unknown format {given}.{did_you_mean(form, FORMS)}")
    made = results_table([RunFolder(run) for run in runs], failed_as_misses=failed_as_misses)
    for line in made.refused:
        err.print("left out:", style="yellow", end=" ")
        err.print(line, soft_wrap=True)
    if not made.rows:
        raise ProtocolError("no column is left: play the runs with the same options")
    text = FORMS[form](made)
    if path is None:
        sys.stdout.write(text)
        return
    with storing(path):
        path.write_text(text, encoding="utf-8")
    out.print(f"{len(made.rows)} rows in {path}", soft_wrap=True)
