"""`vagen bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.commands.options import Names, OptionPairs, parse_options, read_temperature
from vagen_benchmarks.commands.printing import err
from vagen_benchmarks.commands.running import play_job
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.runs.job import baselines_of, make_job, parse_headers
from vagen_benchmarks.runs.plans import load_plan
from vagen_benchmarks.runs.protocol import make_tasks
from vagen_benchmarks.runs.runner import Policy
from vagen_envs.context import ContextPolicy


def bench(
    given: typer.Context,
    protocol: Annotated[
        str | None, typer.Option("--protocol", "-p", help="`paper`, `paper-representations`, `strategies` or a file.")
    ] = None,
    env: Annotated[Names, typer.Option("--env", "-e", help="An environment; may be repeated. All by default.")] = None,
    agent: Annotated[
        Names, typer.Option("--agent", "-a", help="`oracle`, `random`, `blind`, a model, `FILE.py:NAME` …")
    ] = None,
    split: Annotated[str, typer.Option(help="`train`, `val` or `test`.")] = "test",
    episodes: Annotated[
        int | None,
        typer.Option("--episodes", "-n", min=1, help="Seeds a task; each environment's own number by default."),
    ] = None,
    first_seed: Annotated[int, typer.Option(min=0, help="The first of the seeds.")] = 0,
    repeats: Annotated[int, typer.Option(min=1, help="How often each agent plays each seed.")] = 1,
    strategy: Annotated[Names, typer.Option(help="A reasoning strategy; may be repeated.")] = None,
    option: OptionPairs = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="The run folder, new or empty. `runs/<time>` by default.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Of an OpenAI-compatible endpoint.")] = None,
    models: Annotated[Path | None, typer.Option(help="A TOML file of your own models.")] = None,
    profile: Annotated[
        str | None, typer.Option(help="How the model writes: `tagged`, `thinking`, `untagged`, `native`.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Of a reply; 400 unless the registry says.")] = None,
    reasoning_tokens: Annotated[
        int | None, typer.Option(min=0, help="What it may think beyond its reply; the registry says.")
    ] = None,
    temperature: Annotated[
        str | None, typer.Option(help="Of sampling; `none` leaves it to the endpoint. The registry says.")
    ] = None,
    top_p: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Of sampling.")] = None,
    effort: Annotated[str | None, typer.Option(help="How hard it thinks, as its provider says it: `low` …")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the endpoint's sampling, not of the levels.")] = None,
    extra: Annotated[Names, typer.Option(help="A further field of each request, NAME=JSON; may be repeated.")] = None,
    header: Annotated[
        Names, typer.Option(help="A further header, NAME=VALUE; `$VARIABLE` is filled in when it is sent.")
    ] = None,
    max_dollars: Annotated[float | None, typer.Option(min=0.0, help="Begin no request that could cost more.")] = None,
    max_total_tokens: Annotated[int | None, typer.Option(min=1, help="Begin no request that could take more.")] = None,
    context: Annotated[
        Names, typer.Option(help="What prompts show of earlier turns: `all`, `last:2`, `answers` …; may be repeated.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="Judge what agents say: `rule`, `llm:MODEL` …, as `vagen judge` does.")
    ] = None,
    gate: Annotated[bool, typer.Option(help="Judge only turns of correct format with an executed action.")] = True,
    weighting: Annotated[
        str, typer.Option(help="`plain`: the judge's own score. `contrast`: paid in contrast to peer states.")
    ] = "plain",
    penalty: Annotated[str, typer.Option(help="`paper`: fine frequent sentences with a low score.")] = "",
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes in flight of an agent that calls a model.")] = 16,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request and its whole answer.")] = 120.0,
    attempts: Annotated[int, typer.Option(min=1, help="Requests for one reply before its episode fails.")] = 6,
    patience: Annotated[float, typer.Option(min=0.0, help="Seconds that an outage is waited for.")] = 3600.0,
    give_up_after: Annotated[int, typer.Option(min=1, help="Stop when so many episodes in a row have failed.")] = 20,
) -> None:
    """Play agents on environments and write a report.

    Exit codes: 0 all played; 1 some episodes failed and have no score; 2 bad input; 3 stopped early; 130 interrupted.
    A run that stopped goes on with `vagen resume RUN`.

    Example: `vagen bench -e sokoban -e frozenlake -a gpt-5-mini -a random -n 32`
    """
    plan = load_plan(protocol) if protocol else None
    if plan is not None:
        _refuse_beside_protocol(given)
        tasks, skipped = plan.tasks()
    else:
        tasks, skipped = make_tasks(
            env or [], strategies=strategy or [], options=parse_options(option or []), split=split,
            first_seed=first_seed, episodes=episodes,
        )  # fmt: skip
    for each in skipped:
        err.print("skipped", style="yellow", end=" ")
        err.print(f"{each.env_id}: {each.reason}")
    if not tasks:
        raise ProtocolError("no environment can be made here; see above for what each lacks")
    sampling = {
        "max_tokens": max_tokens, "temperature": read_temperature(temperature), "top_p": top_p, "effort": effort,
        "reasoning_tokens": reasoning_tokens, "seed": seed, "extra": parse_options(extra or []) or None,
    }  # fmt: skip
    if plan:
        sampling = {
            **plan.data.get("sampling", {}),
            **{name: value for name, value in sampling.items() if value is not None},
        }
    asked = Asked(
        base_url=base_url, timeout=timeout, attempts=attempts, patience=patience, profile=profile,
        headers=parse_headers(header or []), sampling=sampling,
        contexts=[plan.context] if plan else [ContextPolicy.parse(text) for text in dict.fromkeys(context or ["all"])],
    )  # fmt: skip
    own = baselines_of(tasks)
    judged = {"judge": judge, "gate": gate, "weighting": weighting, "penalty": penalty} if judge else None
    how = {
        "base_url": base_url, "models": models, "timeout": timeout, "headers": header or None, "patience": patience,
        "attempts": attempts, "concurrency": concurrency, "give_up_after": give_up_after, "max_dollars": max_dollars,
        "max_tokens": max_total_tokens,
    }  # fmt: skip
    job = make_job(
        folder,
        tasks,
        make_agents(agent or ["oracle", *own, "random", "blind"], asked, models, own),
        repeats=repeats,
        plan={"name": plan.name, **plan.data} if plan else None,
        scoring=plan.data.get("scoring") if plan else judged,
        skipped=skipped,
        policy=Policy(concurrency, give_up_after=give_up_after, max_dollars=max_dollars, max_tokens=max_total_tokens),
        how=how,
    )
    raise typer.Exit(play_job(job, new=True))


SAID_BY_PROTOCOL = ("env", "split", "episodes", "first_seed", "strategy", "option", "max_tokens", "temperature",
                    "top_p", "context", "judge", "gate", "weighting", "penalty")  # fmt: skip


def _refuse_beside_protocol(given: typer.Context) -> None:
    """Raise ProtocolError if an option is given that the protocol file says; not who takes no temperature."""
    for name in SAID_BY_PROTOCOL:
        source = given.get_parameter_source(name)
        if name == "temperature" and given.params[name] == "none":
            continue
        if source is not None and source.name != "DEFAULT":
            option = "--" + name.replace("_", "-")
            raise ProtocolError(
                f"{option} is set by the protocol; leave it out, or copy the protocol file and change it there"
            )
