"""`vagen view`."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.report import Overview, write_report
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
    watch: Annotated[
        bool, typer.Option("--watch", help="Of a folder of runs: keep the page up to date while they are played.")
    ] = False,
) -> None:
    """Write a run's report anew and open it; of a folder of runs one page that leads to all of them.

    Of several runs that differ only in who played, one report for all.
    """
    (first, *others) = runs
    overview = None
    if others or (first / "protocol.json").exists() or not first.is_dir():
        if watch:
            raise ProtocolError(f"--watch keeps the page of a folder of runs; name one, such as {first.parent}")
        made = Together(runs) if others else RunFolder(first)
        report = write_report(made, page or (Path("together.html") if others else None)).resolve()
    else:
        overview = Overview(first, page or first / "index.html")
        overview.refresh(live=watch)
        report = overview.page.resolve()
    out.print(f"report: {report}", soft_wrap=True)
    if browser and not webbrowser.open(report.as_uri()):
        err.print("no browser was found; copy the file to where one is")
    if overview and watch:
        overview.watch(err.print)
