"""`vagen view` and `vagen compare`."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.agents.base import Agent
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.commands.printing import err, make_table, out, print_findings
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.report import write_overview, write_report
from vagen_benchmarks.results.cell import FLAGGED
from vagen_benchmarks.results.compare import Side, read_side, sampling_differences
from vagen_benchmarks.results.compare import compare as compare_sides
from vagen_benchmarks.results.labels import task_titles
from vagen_benchmarks.results.summary import FLAG
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.files import edits


def view(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a folder of runs.")],
    page: Annotated[
        Path | None, typer.Option("--out", help="The page to write; by default in the folder.")
    ] = None,
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
        with Meter(
            "reading runs", sum(1 for _ in run.rglob("protocol.json")), console=err
        ) as meter:
            report = write_overview(
                run, page or run / "index.html", progress=meter.advance
            ).resolve()
    out.print(f"report: {report}", soft_wrap=True)
    if browser and not webbrowser.open(report.as_uri()):
        err.print("no browser was found; open the file on a machine that has one")


def compare(
    one: Annotated[
        str, typer.Argument(metavar="RUN[@AGENT]", help="A run folder, and which of its agents.")
    ],
    other: Annotated[str, typer.Argument(metavar="RUN[@AGENT]", help="The other.")],
) -> None:
    """Compare two agents on the same levels: wins, losses, and the difference with its interval and
    p-value.

    Both runs must follow the same protocol. p is from a paired permutation test on levels. Levels
    that one of the two failed to play widen the interval of success. Edited run files are reported;
    `vagen verify RUN` checks a run fully.

    Example: `vagen compare runs/gpt runs/claude`, or two agents of one run: `vagen compare
    runs/a@oracle runs/a@random`
    """
    first, second = read_side(one), read_side(other)
    for path, folder in {side.folder.path: side.folder for side in (first, second)}.items():
        print_findings(
            f"{path} was changed after it was written; see vagen verify {path}",
            edits(folder),
            "red",
        )
    print_comparison(first, second)


def print_contexts(path: Path, agents: Sequence[Agent]) -> None:
    """Print the paired difference of each context policy of a model to the first one, if a run has
    several.
    """
    models: dict[str, list[ChatAgent]] = {}
    for agent in agents:
        if isinstance(agent, ChatAgent):
            models.setdefault(agent.model.name, []).append(agent)
    for first, *others in models.values():
        for other in others:
            one = read_side(f"{path}@{first.name}")
            two = read_side(f"{path}@{other.name}")
            if one.episodes.keys() & two.episodes.keys():
                print_comparison(one, two)
            else:
                words = (
                    f"{first.name} and {other.name} have no level in common that both played to "
                    "the end"
                )
                err.print(words, style="yellow", soft_wrap=True)


def print_comparison(first: Side, second: Side) -> None:
    """Print the table of two sides, a row for each environment."""
    lines = compare_sides(first, second)
    titles = task_titles(first.folder.protocol)
    counts = ["pairs", "levels", "both", "only 1", "only 2", "neither", "lost"]
    figures = [*counts, "success 2 − 1", "95 %", "p", "return 2 − 1", "95 %"]
    title = f"1: {first.name}\n2: {second.name}"
    table = make_table(["environment"], figures, title=title, title_justify="left")
    for line in lines:
        flag = FLAG if line.lost > FLAGGED * (line.lost + line.count) else ""
        table.add_row(
            titles.get(line.task, line.task),
            *map(str, (line.count, line.levels, line.both, line.one, line.other, line.neither)),
            f"{line.lost}{flag}",
            f"{100 * line.solved.value:+.0f} %",
            f"{100 * line.solved.low:+.0f} to {100 * line.solved.high:+.0f}",
            f"{line.p_value:.3g}",
            f"{line.gain.value:+.2f}",
            f"{line.gain.low:+.2f} to {line.gain.high:+.2f}",
        )
    out.print(table)
    if any(line.lost for line in lines):
        out.print(LOST, style="yellow")
    if sampled := sampling_differences(first, second):
        out.print(
            f"the models were asked differently (1 / 2): {'; '.join(sampled)}", style="yellow"
        )


LOST = (
    "lost: levels that one of the two failed or never played; they widen the interval of "
    "success and are left out of p and the return"
)
