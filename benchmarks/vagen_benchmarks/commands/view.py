"""`vagen view`."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.report import write_overview, write_report
from vagen_benchmarks.results.together import Together
from vagen_benchmarks.runs.run_folder import RunFolder


def view(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Run folders; several of one protocol together. Or a folder of runs."),
    ],
    page: Annotated[
        Path | None,
        typer.Option("--out", help="The page to write; by default in the folder, or together.html."),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open it in a browser, or only write it.")] = True,
) -> None:
    """Write and open the report of a run, or an overview of a folder of runs.

    Several runs of one protocol share one report.

    Example: `vagen view runs/a`, `vagen view runs/a runs/b`, or `vagen view runs`
    """
    (first, *others) = runs
    if others or (first / "protocol.json").exists() or not first.is_dir():
        made = Together(runs) if others else RunFolder(first)
        with Meter("writing the report", len(made.index()), console=err) as meter:
            to = page or (Path("together.html") if others else None)
            report = write_report(made, to, progress=meter.advance).resolve()
    else:
        with Meter("reading runs", sum(1 for _ in first.rglob("protocol.json")), console=err) as meter:
            report = write_overview(first, page or first / "index.html", progress=meter.advance).resolve()
    out.print(f"report: {report}", soft_wrap=True)
    if browser and not webbrowser.open(report.as_uri()):
        err.print("no browser was found; open the file on a machine that has one")
