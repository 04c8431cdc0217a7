"""`vagen diagnose`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.agents.factory import make_agents
from vagen_benchmarks.commands import options
from vagen_benchmarks.commands.options import Names, OptionPairs, parse_options
from vagen_benchmarks.commands.printing import err, make_table, out
from vagen_benchmarks.commands.running import play_job
from vagen_benchmarks.diagnosis import CAUSES, CONDITIONS, Diagnosis, diagnose, diagnosis_tasks
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.report.pages import render
from vagen_benchmarks.runs.job import asked_by, make_job
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import storing
from vagen_benchmarks.runs.tasks import resolve_id


def diagnose_command(
    agent: Annotated[
        list[str], typer.Option("--agent", "-a", help="An agent of `vagen bench`; may be repeated.")
    ],
    env: Annotated[
        Names, typer.Option("--env", "-e", help="An environment; may be repeated.")
    ] = None,
    levels: Annotated[
        int, typer.Option("--levels", "-n", min=2, help="Levels per environment.")
    ] = 64,
    split: options.Split = "test",
    first_seed: options.FirstSeed = 0,
    option: OptionPairs = None,
    base_url: options.BaseUrl = None,
    key_from: options.KeyFrom = None,
    header: options.Header = None,
    max_tokens: options.MaxTokens = None,
    models: options.Models = None,
    concurrency: options.Concurrency = 16,
    folder: Annotated[
        Path | None, typer.Option("--out", help="The run folder; the same again continues it.")
    ] = None,
) -> None:
    """Find out why an agent fails: perception, prediction, planning or format.

    Plays the same levels from the image and from the true state as text, as `vagen bench` does, and
    writes `diagnosis.html` and `diagnosis.json` into the run folder.

    If the endpoint fails, complete levels are diagnosed. Exit codes are those of `vagen bench`.

    Example: `vagen diagnose -a gpt-5-mini -e sokoban -n 64`
    """
    ids = [resolve_id(name) for name in env or ["sokoban", "frozenlake"]]
    tasks = diagnosis_tasks(
        ids, {"representation": "structured", **parse_options(option)}, split, first_seed, levels
    )
    how = {
        "base_url": base_url,
        "key_from": key_from,
        "header": header,
        "models": models,
        "concurrency": concurrency,
    }
    asked = asked_by(how, sampling={"max_tokens": max_tokens})
    job = make_job(folder, tasks, make_agents(agent, asked, models), how=how)
    code = play_job(job)
    run = RunFolder(job.path)
    with Meter("diagnosing", len(run.index()), console=err) as meter:
        found = diagnose(run, progress=meter.advance)
    with storing(job.path):
        data = json.dumps([each.to_json() for each in found], indent=1)
        (job.path / "diagnosis.json").write_text(data, encoding="utf-8")
        with (job.path / "diagnosis.html").open("w", encoding="utf-8") as file:
            render("diagnosis.html", file, diagnoses=found, causes=CAUSES, conditions=CONDITIONS)
    _print(found)
    out.print(f"{job.path / 'diagnosis.html'}")
    raise typer.Exit(code)


def _print(found: list[Diagnosis]) -> None:
    figures = [
        *(f"lost by\n{cause}" for cause in CAUSES),
        "solved from\nimage",
        "solved from\ntext",
        "levels",
    ]
    table = make_table(["agent", "environment"], figures)
    for one in found:
        shares = [f"{one.causes[cause].value:.0%}" for cause in CAUSES]
        solved = [f"{one.success[condition].value:.0%}" for condition in CONDITIONS]
        table.add_row(one.agent, one.env_id, *shares, *solved, str(one.levels))
    out.print(table)
