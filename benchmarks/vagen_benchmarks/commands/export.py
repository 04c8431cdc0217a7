"""`vagen export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from vagen_adapters.context import ContextPolicy
from vagen_benchmarks.commands.options import TrustModules
from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.results.summary import FLAG
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.tasks import import_environments
from vagen_benchmarks.sharing.export import Form, marked
from vagen_benchmarks.sharing.export import export as export_run
from vagen_envs.errors import did_you_mean


def export(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    path: Annotated[
        Path, typer.Argument(metavar="OUT", help="A file that ends with .csv, .parquet or .jsonl.")
    ],
    form: Annotated[
        str | None,
        typer.Option(
            help="`summary` (default for .csv): the rows of `vagen table`; `episodes`: a row "
            "each; `turns`: a row a turn; `chat` (default for others): samples to fine-tune "
            "on."
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="Only this agent's episodes.")
    ] = None,
    solved: Annotated[
        bool, typer.Option("--solved", help="Only episodes that were solved.")
    ] = False,
    min_return: Annotated[
        float | None, typer.Option(help="Only episodes of at least this return.")
    ] = None,
    context: Annotated[
        str, typer.Option(help="What chat samples show of the past: `all`, `last:2` …")
    ] = "all",
    trust: TrustModules = False,
) -> None:
    """Export a run as a table (`.csv`), as a table of turns, or as chat samples for fine-tuning
    (Hugging Face format).

    Episodes that failed are left out of turns and samples. To train on the samples, play the
    training split: `vagen bench -a oracle --split train`.

    Example: `vagen export runs/a samples.parquet --solved`
    """
    form = form or ("summary" if path.suffix == ".csv" else "chat")
    if form not in get_args(Form):
        raise ProtocolError(f"unknown form {form!r}.{did_you_mean(form, get_args(Form))}")
    run = RunFolder(run_folder)
    if trust:
        import_environments(run.protocol.tasks)
    policy = ContextPolicy.parse(context)
    with Meter("exporting episodes", len(run.index()), console=err) as meter:

        def keep(episode: Episode) -> bool:
            meter.advance()
            enough = min_return is None or episode.score >= min_return
            return enough and (not solved or episode.success) and agent in (None, episode.agent)

        count = export_run(run, path, form, keep=keep, context=policy)  # type: ignore[arg-type]
    out.print(f"{count} rows in {path}")
    for line in marked(run):
        err.print(f"{FLAG} {line}", style="yellow")
    splits = sorted({task.split for task in run.protocol.tasks} - {"train"})
    if form == "chat" and splits:
        err.print(f"these are levels of {' and '.join(splits)}:", style="yellow", end=" ")
        err.print("a model trained on them can't be tested on them; play with --split train")
