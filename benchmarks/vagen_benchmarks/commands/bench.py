"""`vagen bench` and `vagen resume`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from vagen_adapters.context import ContextPolicy
from vagen_benchmarks.agents.factory import make_agents
from vagen_benchmarks.commands import options
from vagen_benchmarks.commands.options import (
    Names,
    OptionPairs,
    parse_extra,
    parse_options,
    read_temperature,
)
from vagen_benchmarks.commands.printing import err
from vagen_benchmarks.commands.running import play_job
from vagen_benchmarks.errors import ProtocolError, RunFolderError
from vagen_benchmarks.runs.job import HOW, Job, asked_by, baselines_of, made_again, make_job
from vagen_benchmarks.runs.plans import load_plan
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.tasks import make_tasks

SAMPLING = ("max_tokens", "reasoning_tokens", "temperature", "top_p", "effort", "seed", "extra")
JUDGING = ("judge", "gate", "weighting", "penalty")


def bench(
    given: typer.Context,
    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol",
            "-p",
            help="`paper`, `paper-trained`, `strategies`, `ladder-ENV`, `sample` … or a file.",
        ),
    ] = None,
    env: Annotated[
        Names, typer.Option("--env", "-e", help="An environment; may be repeated. All by default.")
    ] = None,
    agent: Annotated[
        Names,
        typer.Option(
            "--agent", "-a", help="`oracle`, `random`, `blind`, a model, `FILE.py:NAME` …"
        ),
    ] = None,
    split: options.Split = "test",
    episodes: Annotated[
        int | None,
        typer.Option(
            "--episodes",
            "-n",
            min=1,
            help="Seeds a task; each environment's own number by default.",
        ),
    ] = None,
    first_seed: options.FirstSeed = 0,
    repeats: Annotated[int, typer.Option(min=1, help="How often each agent plays each seed.")] = 1,
    strategy: Annotated[Names, typer.Option(help="A reasoning strategy; may be repeated.")] = None,
    option: OptionPairs = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="The run folder, new or empty. `runs/<time>` by default."),
    ] = None,
    base_url: options.BaseUrl = None,
    key_from: options.KeyFrom = None,
    models: options.Models = None,
    profile: Annotated[
        str | None,
        typer.Option(help="How the model writes: `tagged`, `thinking`, `untagged`, `native`."),
    ] = None,
    max_tokens: options.MaxTokens = None,
    reasoning_tokens: Annotated[
        int | None,
        typer.Option(min=0, help="What it may think beyond its reply; the registry says."),
    ] = None,
    temperature: Annotated[
        str | None,
        typer.Option(help="Of sampling; `none` leaves it to the endpoint. The registry says."),
    ] = None,
    top_p: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Of sampling.")] = None,
    effort: Annotated[
        str | None, typer.Option(help="How hard it thinks, as its provider says it: `low` …")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the endpoint's sampling, not of the levels.")
    ] = None,
    extra: options.Extra = None,
    header: options.Header = None,
    max_dollars: options.MaxDollars = None,
    max_total_tokens: options.MaxTotalTokens = None,
    context: Annotated[
        Names,
        typer.Option(
            help="What prompts show of earlier turns: `all`, `last:2`, `answers` …; may be "
            "repeated."
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            help="Judge what agents say: `rule`, `llm:MODEL`, `FILE.py:CLASS` …, as `vagen "
            "judge` does."
        ),
    ] = None,
    gate: options.Gate = True,
    weighting: options.Weighting = "plain",
    penalty: options.Penalty = "",
    concurrency: options.Concurrency = 16,
    timeout: options.Timeout = 120.0,
    attempts: options.Attempts = 6,
    patience: options.Patience = 3600.0,
    give_up_after: options.GiveUpAfter = 20,
) -> None:
    """Play agents on environments and write a report.

    Exit codes: 0 all played; 1 some episodes failed and have no score; 2 bad input; 3 stopped
    early; 130 interrupted. A run that stopped goes on with `vagen resume RUN`.

    Example: `vagen bench -e sokoban -e frozenlake -a gpt-5-mini -a random -n 32`
    """
    arguments = {
        **locals(),
        "temperature": read_temperature(temperature),
        "extra": parse_extra(extra) or None,
    }
    plan = load_plan(protocol) if protocol else None
    if plan is not None:
        _refuse_beside_protocol(given)
        tasks, skipped = plan.tasks()
    else:
        tasks, skipped = make_tasks(
            env or [],
            strategies=strategy or [],
            options=parse_options(option),
            split=split,
            first_seed=first_seed,
            episodes=episodes,
        )
    for each in skipped:
        err.print("skipped", style="yellow", end=" ")
        err.print(f"{each.env_id}: {each.reason}")
    if not tasks:
        raise ProtocolError("no environment can be made here; see above for what each lacks")
    own = baselines_of(tasks)
    how = {name: arguments[name] for name in HOW}
    sampling = {name: arguments[name] for name in SAMPLING if arguments[name] is not None}
    if plan:
        contexts = [plan.context]
    else:
        contexts = [ContextPolicy.parse(text) for text in dict.fromkeys(context or ["all"])]
    asked = asked_by(
        how,
        profile=profile,
        sampling={**(plan.data.get("sampling", {}) if plan else {}), **sampling},
        contexts=contexts,
    )
    judged = {name: arguments[name] for name in JUDGING} if judge else None
    job = make_job(
        folder,
        tasks,
        make_agents(agent or ["oracle", *own, "random", "blind"], asked, models, own),
        repeats=repeats,
        plan={"name": plan.name, **plan.data} if plan else None,
        scoring=plan.data.get("scoring") if plan else judged,
        skipped=skipped,
        how=how,
    )
    _print_remarks(job)
    raise typer.Exit(play_job(job, new=True))


def _print_remarks(job: Job) -> None:
    for agent in job.agents:
        for task in job.protocol.tasks_of(agent.name):
            if remarks := agent.remarks(task.env_id, task.options, task.config):
                err.print(f"{agent.name} on {task.label}:", style="yellow", end=" ")
                err.print("; ".join(remarks), soft_wrap=True)


SAID_BY_PROTOCOL = frozenset(
    {
        "env",
        "split",
        "episodes",
        "first_seed",
        "strategy",
        "option",
        "max_tokens",
        "temperature",
        "top_p",
        "context",
    }
).union(JUDGING)


def _refuse_beside_protocol(given: typer.Context) -> None:
    """Raise ProtocolError if an option is given that the protocol file says; not who takes no
    temperature.
    """
    for name, value in given.params.items():
        source = given.get_parameter_source(name)
        if name not in SAID_BY_PROTOCOL or (name == "temperature" and value == "none"):
            continue
        if source is not None and source.name != "DEFAULT":
            raise ProtocolError(
                f"--{name.replace('_', '-')} is set by the protocol; leave it out, or copy the "
                "protocol file and change it there"
            )


def resume(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    base_url: options.BaseUrl = None,
    key_from: options.KeyFrom = None,
    models: options.Models = None,
    header: options.Header = None,
    extra: options.Extra = None,
    max_dollars: options.MaxDollars = None,
    max_total_tokens: options.MaxTotalTokens = None,
    concurrency: options.Concurrency = None,
    timeout: options.Timeout = None,
    attempts: options.Attempts = None,
    patience: options.Patience = None,
    give_up_after: options.GiveUpAfter = None,
) -> None:
    """Continue an interrupted run with its original options; options given here replace them.

    Agents, sampling and environments are read from the run folder. It holds no secrets: keys are
    read from the environment again, and `--header` and `--extra` that were given as they are must
    be given again. Exit codes are those of `vagen bench`.

    Example: `vagen resume runs/20260101-120000`
    """
    changed = {name: value for name, value in locals().items() if name in HOW and value is not None}
    run_read = RunFolder(folder)
    if any(entry["event"] == "rescore" for entry in run_read.journal()):
        raise RunFolderError(
            f"{folder} was scored again from another run; resume that one, then rescore it"
        )
    begun: Mapping[str, Any] = next(
        (each for each in reversed(run_read.journal()) if each["event"] == "asked"), {}
    )
    how = {name: begun.get(name) for name in HOW} | changed
    raise typer.Exit(play_job(made_again(run_read, how, parse_extra(extra))))
