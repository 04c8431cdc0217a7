"""Commands about runs that were played: reports, comparisons, data and animations."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from vagen_benchmarks.animation import find_episode, write_gif
from vagen_benchmarks.compare import compare as compare_sides
from vagen_benchmarks.compare import read_side, sampling_differences
from vagen_benchmarks.episode import Episode
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.export import export as export_run
from vagen_benchmarks.export import marked
from vagen_benchmarks.output import FLAG, err, out
from vagen_benchmarks.report import write_report
from vagen_benchmarks.run_folder import RunFolder
from vagen_benchmarks.summary import FLAGGED
from vagen_benchmarks.together import Together
from vagen_envs.chat import History
from vagen_envs.errors import did_you_mean


def compare(
    one: Annotated[str, typer.Argument(metavar="RUN[@AGENT]", help="A run folder, and which of its agents.")],
    other: Annotated[str, typer.Argument(metavar="RUN[@AGENT]", help="The other.")],
) -> None:
    """Compare two agents pair by pair on the levels that both played, under one protocol.

    p: the paired permutation test on levels. Pairs that one of the two lost to a failure widen the interval of success.
    """
    first, second = read_side(one), read_side(other)
    lines = compare_sides(first, second)
    table = Table(box=None, header_style="bold", title=f"1: {first.name}\n2: {second.name}", title_justify="left")
    table.add_column("environment")
    names = (
        "pairs",
        "levels",
        "both",
        "only 1",
        "only 2",
        "neither",
        "lost",
        "success 2 − 1",
        "95 %",
        "p",
        "return 2 − 1",
        "95 %",
    )
    for name in names:
        table.add_column(name, justify="right")
    for line in lines:
        counts = (line.count, line.levels, line.both, line.one, line.other, line.neither)
        flag = FLAG if line.lost > FLAGGED * (line.lost + line.count) else ""
        table.add_row(
            line.task, *map(str, counts), f"{line.lost}{flag}",
            f"{100 * line.solved.value:+.0f} %", f"{100 * line.solved.low:+.0f} to {100 * line.solved.high:+.0f}",
            f"{line.p_value:.3g}", f"{line.gain.value:+.2f}", f"{line.gain.low:+.2f} to {line.gain.high:+.2f}",
        )  # fmt: skip
    out.print(table)
    if any(line.lost for line in lines):
        out.print("lost: one of the two failed there or never played it; these count against either in the interval of "
                  "success, and for nothing in p and in the return", style="yellow")  # fmt: skip
    if sampled := sampling_differences(first, second):
        out.print(f"their models were sampled differently (1 / 2): {'; '.join(sampled)}", style="yellow")


def export(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    path: Annotated[Path, typer.Argument(metavar="OUT", help="A file, .parquet or .jsonl, or a new folder.")],
    form: Annotated[str, typer.Option(help="`chat`: samples to fine-tune on; `turns`: a table for analysis.")] = "chat",
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Only this agent's episodes.")] = None,
    solved: Annotated[bool, typer.Option("--solved", help="Only episodes that were solved.")] = False,
    min_return: Annotated[float | None, typer.Option(help="Only episodes of at least this return.")] = None,
    history: Annotated[int | None, typer.Option(min=0, help="Earlier turns in a chat sample; a sample a turn.")] = None,
) -> None:
    """Write a run's scored episodes as chat samples (Hugging Face form) or as a table of turns.

    For samples to train on, play the split `train`: `vagen bench -a oracle --split train`.
    """
    if form not in ("chat", "turns"):
        raise ProtocolError(f"unknown form {form!r}.{did_you_mean(form, ['chat', 'turns'])}")

    def keep(episode: Episode) -> bool:
        enough = min_return is None or episode.score >= min_return
        return enough and (not solved or episode.success) and agent in (None, episode.agent)

    count = export_run(RunFolder(run_folder), path, form, keep=keep, history=History(history))  # type: ignore[arg-type]
    out.print(f"{count} rows in {path}")
    for line in marked(RunFolder(run_folder)):
        err.print(f"{FLAG} {line}", style="yellow")
    splits = sorted({task.split for task in RunFolder(run_folder).protocol.tasks} - {"train"})
    if form == "chat" and splits:
        err.print(f"these are levels of {' and '.join(splits)}:", style="yellow", end=" ")
        err.print("a model trained on them can't be tested on them; play with --split train")


def gif(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    path: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    seed: Annotated[int, typer.Option(help="The episode's seed.")] = 0,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Its agent; the run's first by default.")] = None,
    env: Annotated[str | None, typer.Option("--env", "-e", help="Its environment; the run's first by default.")] = None,
    seconds: Annotated[float, typer.Option(min=0.05, help="How long each picture stays.")] = 1.5,
) -> None:
    """Write an episode as an animated GIF."""
    run_read = RunFolder(run_folder)
    count = write_gif(run_read, find_episode(run_read, agent, env, seed), path, seconds)
    out.print(f"{count} pictures in {path}")


def view(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders; several of one protocol together.")],
    page: Annotated[
        Path | None,
        typer.Option("--out", help="The page to write; by default in the run, or together.html."),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open it in a browser, or only write it.")] = True,
) -> None:
    """Write a run's report anew and open it; of several runs that differ only in who played, one page for all."""
    together = len(runs) > 1
    made = Together(runs) if together else RunFolder(runs[0])
    report = write_report(made, page or (Path("together.html") if together else None)).resolve()
    out.print(f"report: {report}", soft_wrap=True)
    if browser and not webbrowser.open(report.as_uri()):
        err.print("no browser was found; copy the file to where one is")
