"""`vagen diagnose`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.commands.completion import complete_agent, complete_env
from vagen_benchmarks.commands.options import Names, OptionPairs, parse_options
from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.diagnosis import CAUSES, CONDITIONS, Diagnosis, diagnose
from vagen_benchmarks.diagnosis.page import write_page
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.runs.protocol import resolve_id


def diagnose_command(
    agent: Annotated[
        list[str],
        typer.Option(
            "--agent", "-a", autocompletion=complete_agent, help="An agent of `vagen bench`; may be repeated."
        ),
    ],
    env: Annotated[
        Names, typer.Option("--env", "-e", autocompletion=complete_env, help="An environment; may be repeated.")
    ] = None,
    levels: Annotated[int, typer.Option("--levels", "-n", min=2, help="Levels an environment.")] = 64,
    split: Annotated[str, typer.Option(help="`train`, `val` or `test`.")] = "test",
    first_seed: Annotated[int, typer.Option(min=0, help="The first of the seeds.")] = 0,
    option: OptionPairs = None,
    base_url: Annotated[str | None, typer.Option(help="Of an OpenAI-compatible endpoint.")] = None,
    models: Annotated[Path | None, typer.Option(help="A TOML file of your own models.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Levels in flight of an agent that calls a model.")] = 16,
    folder: Annotated[Path | None, typer.Option("--out", help="`runs/<time>-diagnosis` by default.")] = None,
) -> None:
    """Say where an agent fails: at seeing, at foreseeing, or at planning.

    Plays the same levels with the picture, with the true symbols and with the agent's own words for the picture, asks
    one-step questions between, and writes `diagnosis.html` and `diagnosis.json`. A level takes some four times the
    calls of a level in `vagen bench`. Example: `vagen diagnose -a gpt-5-mini -e sokoban -n 64`
    """
    ids = [resolve_id(name) for name in env or ["sokoban", "frozenlake"]]
    options = {"representation": "structured", **parse_options(option or [])}
    path = folder or Path("runs") / (time.strftime("%Y%m%d-%H%M%S") + "-diagnosis")
    found: list[Diagnosis] = []
    for player in make_agents(agent, Asked(base_url=base_url), models):
        for env_id in ids:
            with Meter(f"{player.name} on {env_id}", levels * len(CONDITIONS), console=err) as meter:
                found.append(
                    diagnose(
                        player, env_id, options, levels=levels, split=split, first_seed=first_seed,
                        at_once=concurrency if player.calls_a_model else 1,
                        told=meter.advance,
                    )
                )  # fmt: skip
    path.mkdir(parents=True, exist_ok=True)
    (path / "diagnosis.json").write_text(json.dumps([each.to_json() for each in found], indent=1), encoding="utf-8")
    write_page(found, path / "diagnosis.html")
    _print(found)
    out.print(f"{path / 'diagnosis.html'}")


def _print(found: list[Diagnosis]) -> None:
    table = Table(box=None, header_style="bold")
    for name in ("agent", "environment", *CAUSES, "solved", "with symbols"):
        table.add_column(name, justify="left" if name in ("agent", "environment") else "right")
    for one in found:
        shares = [f"{one.causes[cause].value:.0%}" for cause in CAUSES]
        solved = [f"{one.success[condition].value:.0%}" for condition in ("picture", "truth")]
        table.add_row(one.agent, one.env_id, *shares, *solved)
    out.print(table)
