"""`vagen resume`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from vagen_benchmarks.commands.options import Names
from vagen_benchmarks.commands.running import play_job
from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.runs.job import made_again
from vagen_benchmarks.runs.run_folder import RunFolder


def resume(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    base_url: Annotated[str | None, typer.Option(help="Of an OpenAI-compatible endpoint.")] = None,
    models: Annotated[Path | None, typer.Option(help="A TOML file of your own models.")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Episodes in flight of a model.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0.1, help="Seconds for one request.")] = None,
    attempts: Annotated[int | None, typer.Option(min=1, help="Requests for one reply.")] = None,
    patience: Annotated[float | None, typer.Option(min=0.0, help="Seconds that an outage is waited for.")] = None,
    header: Annotated[Names, typer.Option(help="A further header, NAME=VALUE; may be repeated.")] = None,
    give_up_after: Annotated[int | None, typer.Option(min=1, help="Stop when so many in a row have failed.")] = None,
    max_dollars: Annotated[float | None, typer.Option(min=0.0, help="Begin no episode once so much is spent.")] = None,
    max_total_tokens: Annotated[int | None, typer.Option(min=1, help="Begin no episode once so many are used.")] = None,
) -> None:
    """Continue an interrupted run with its original options; options given here replace them.

    Agents, sampling and environments are read from the run folder. Exit codes are those of `vagen bench`.

    Example: `vagen resume runs/20260101-120000`
    """
    run_read = RunFolder(folder)
    if any(entry["event"] == "rescore" for entry in run_read.journal()):
        raise RunFolderError(f"{folder} was scored again from another run; resume that one, then rescore it")
    begun: Mapping[str, Any] = next((each for each in reversed(run_read.journal()) if each["event"] == "asked"), {})
    changed = {
        "base_url": base_url, "models": models, "concurrency": concurrency, "timeout": timeout,
        "attempts": attempts, "give_up_after": give_up_after, "max_dollars": max_dollars,
        "max_tokens": max_total_tokens, "patience": patience, "headers": header or None,
    }  # fmt: skip
    how = {name: begun.get(name) if value is None else value for name, value in changed.items()}
    raise typer.Exit(play_job(made_again(run_read, {name: value for name, value in how.items() if value is not None})))
