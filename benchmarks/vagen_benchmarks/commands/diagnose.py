"""`vagen diagnose`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.commands.options import (
    EXIT_FAILED_EPISODES,
    EXIT_INTERRUPTED,
    EXIT_STOPPED,
    Names,
    OptionPairs,
    parse_options,
)
from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.commands.running import print_failures, print_stop
from vagen_benchmarks.diagnosis import CAUSES, CONDITIONS, Diagnosis, diagnose
from vagen_benchmarks.diagnosis.page import write_page
from vagen_benchmarks.errors import RunFolderError
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.runs.protocol import resolve_id
from vagen_benchmarks.runs.run_folder import new_folder, storing


def diagnose_command(
    agent: Annotated[list[str], typer.Option("--agent", "-a", help="An agent of `vagen bench`; may be repeated.")],
    env: Annotated[Names, typer.Option("--env", "-e", help="An environment; may be repeated.")] = None,
    levels: Annotated[int, typer.Option("--levels", "-n", min=2, help="Levels per environment.")] = 64,
    split: Annotated[str, typer.Option(help="`train`, `val` or `test`.")] = "test",
    first_seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    option: OptionPairs = None,
    base_url: Annotated[str | None, typer.Option(help="Of an OpenAI-compatible endpoint.")] = None,
    models: Annotated[Path | None, typer.Option(help="A TOML file of your own models.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Levels in flight of an agent that calls a model.")] = 16,
    folder: Annotated[Path | None, typer.Option("--out", help="`runs/<time>-diagnosis` by default.")] = None,
) -> None:
    """Find out why an agent fails: perception, prediction, planning or format.

    Plays the same levels from the image and from the true state as text, and writes `diagnosis.html` and
    `diagnosis.json`.

    If the endpoint fails, complete levels are diagnosed. Exit codes are those of `vagen bench`.

    Example: `vagen diagnose -a gpt-5-mini -e sokoban -n 64`
    """
    ids = [resolve_id(name) for name in env or ["sokoban", "frozenlake"]]
    options = {"representation": "structured", **parse_options(option or [])}
    players = make_agents(agent, Asked(base_url=base_url), models)
    path = _new_folder(folder)
    found: list[Diagnosis] = []
    for player in players:
        for env_id in ids:
            with Meter(f"{player.name} on {env_id}", levels * len(CONDITIONS), console=err) as meter:
                one = diagnose(
                    player,
                    env_id,
                    options,
                    levels=levels,
                    split=split,
                    first_seed=first_seed,
                    at_once=concurrency if player.calls_a_model else 1,
                    told=meter.advance,
                )
            found.append(one)
            data = json.dumps([each.to_json() for each in found], indent=1)
            with storing(path):
                (path / "diagnosis.json").write_text(data, encoding="utf-8")
                write_page(found, path / "diagnosis.html")
            print_failures(one.failures, players, "plays of a level failed; their levels are left out")
            if one.stopped:
                print_stop(one.stopped, f"{one.levels} of {levels} levels are complete and diagnosed")
                _print(found)
                out.print(f"{path / 'diagnosis.html'}")
                raise typer.Exit(EXIT_INTERRUPTED if one.stopped == "interrupted" else EXIT_STOPPED)
    _print(found)
    out.print(f"{path / 'diagnosis.html'}")
    raise typer.Exit(EXIT_FAILED_EPISODES if any(one.failures for one in found) else 0)


def _new_folder(folder: Path | None) -> Path:
    if folder is None:
        return new_folder("-diagnosis")
    if (folder / "diagnosis.json").exists():
        raise RunFolderError(f"{folder} holds a diagnosis already; name another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"{folder} can't be written: {error.strerror}. Name another with --out") from error
    return folder


def _print(found: list[Diagnosis]) -> None:
    table = Table(box=None, header_style="bold")
    for name in ("agent", "environment", *CAUSES, "solved", "with symbols"):
        table.add_column(name, justify="left" if name in ("agent", "environment") else "right")
    for one in found:
        shares = [f"{one.causes[cause].value:.0%}" for cause in CAUSES]
        solved = [f"{one.success[condition].value:.0%}" for condition in ("picture", "truth")]
        table.add_row(one.agent, one.env_id, *shares, *solved)
    out.print(table)
