"""`vagen view`."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.report import write_overview, write_report
from vagen_benchmarks.runs.run_folder import RunFolder


def view(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a folder of runs.")],
    page: Annotated[Path | None, typer.Option("--out", help="The page to write; by default in the folder.")] = None,
    browser: Annotated[bool, typer.Option(help="Open it in a browser, or only write it.")] = True,
) -> None:
    """Write and open the report of a run, or an overview of a folder of runs.

    Example: `vagen view runs/a`, or `vagen view runs`
    """
    if (run / "protocol.json").exists() or not run.is_dir():
        folder = RunFolder(run)
        with Meter("writing the report", len(folder.index()), console=err) as meter:
            report = write_report(folder, page, progress=meter.advance).resolve()
    else:
        with Meter("reading runs", sum(1 for _ in run.rglob("protocol.json")), console=err) as meter:
            report = write_overview(run, page or run / "index.html", progress=meter.advance).resolve()
    out.print(f"report: {report}", soft_wrap=True)
    if browser and not webbrowser.open(report.as_uri()):
        err.print("no browser was found; open the file on a machine that has one")
