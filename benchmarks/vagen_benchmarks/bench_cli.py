"""`vagen bench` and `vagen resume`."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import typer

from vagen_benchmarks.advice import advise
from vagen_benchmarks.chat_agent import ChatAgent
from vagen_benchmarks.cores import run_on_cores
from vagen_benchmarks.errors import ProtocolError, RunFolderError
from vagen_benchmarks.jobs import Job, baselines_of, made_again, parse_headers
from vagen_benchmarks.lineup import FLOORS, Asked, make_agents
from vagen_benchmarks.output import Bar, err, out, print_bills, print_plan, print_table, say
from vagen_benchmarks.plans import load_plan
from vagen_benchmarks.protocol import Protocol, make_tasks
from vagen_benchmarks.report import write_report
from vagen_benchmarks.run_folder import RunFolder, RunWriter
from vagen_benchmarks.runner import Outcome, Policy, run
from vagen_benchmarks.scoring import make_scoring
from vagen_benchmarks.summary import summarise
from vagen_benchmarks.trackers import library
from vagen_benchmarks.trackers import track as track_run
from vagen_envs.chat import History

EXIT_FAILED_EPISODES, EXIT_BAD_INPUT, EXIT_STOPPED, EXIT_INTERRUPTED = 1, 2, 3, 130


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """`["max_turns=5", "split=val"]` to keyword options; values are JSON where they can be read as such.

    Raises:
        ProtocolError: one has no `=`.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name:
            raise ProtocolError(f"option {pair!r} is not valid: write NAME=VALUE, such as max_turns=5")
        try:
            options[name.strip()] = json.loads(value)
        except ValueError:
            options[name.strip()] = value
    return options


Names = list[str] | None
OptionPairs = Annotated[
    Names, typer.Option("--option", "-o", help="An option of the environments, NAME=VALUE; may be repeated.")
]


def bench(
    context: typer.Context,
    protocol: Annotated[
        str | None, typer.Option("--protocol", "-p", help="`paper`, `paper-representations`, `strategies` or a file.")
    ] = None,
    env: Annotated[Names, typer.Option("--env", "-e", help="An environment; may be repeated. All by default.")] = None,
    agent: Annotated[
        Names,
        typer.Option("--agent", "-a", help="`oracle`, `random`, `blind`, `text-only`, `tiny`, a model …"),
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
        Path | None, typer.Option("--out", help="The run folder; a run there is resumed. `runs/<time>` by default.")
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
    history: Annotated[int | None, typer.Option(min=0, help="Earlier turns in a prompt; all by default.")] = None,
    history_reasoning: Annotated[bool, typer.Option(help="Whether earlier replies keep their reasoning.")] = True,
    judge: Annotated[
        str | None, typer.Option(help="Judge what agents say: `rule`, `llm:MODEL` …, as `vagen judge` does.")
    ] = None,
    gate: Annotated[bool, typer.Option(help="Judge only turns of correct format with an executed action.")] = True,
    weighting: Annotated[
        str, typer.Option(help="`plain`: the judge's own score. `information`: what is said is worth what it tells.")
    ] = "plain",
    penalty: Annotated[str, typer.Option(help="Fine repeated wrong wordings: `masked`, or `paper`.")] = "",
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes in flight of an agent that calls a model.")] = 16,
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the episodes, for more cores.")] = 1,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request and its whole answer.")] = 120.0,
    attempts: Annotated[int, typer.Option(min=1, help="Requests for one reply before its episode fails.")] = 6,
    patience: Annotated[float, typer.Option(min=0.0, help="Seconds that an outage is waited for.")] = 3600.0,
    give_up_after: Annotated[int, typer.Option(min=1, help="Stop when so many episodes in a row have failed.")] = 20,
    track: Annotated[
        str | None, typer.Option(help="Write the run to `trackio`, `wandb` or `mlflow` when it ends.")
    ] = None,
) -> None:
    """Play agents on environments and write a report.

    Exit codes: 0 all played; 1 some episodes failed and have no score; 2 bad input; 3 stopped early; 130 interrupted.
    A run that stopped goes on with `vagen resume RUN`, or when the same command is given its `--out` folder.
    """
    if track:
        library(track)  # before anything is paid for
    plan = load_plan(protocol) if protocol else None
    if plan is not None:
        _refuse_beside_protocol(context)
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
        history=plan.history if plan else History(history, history_reasoning),
    )  # fmt: skip
    own = baselines_of(tasks)
    agents = make_agents(agent or ["oracle", *own, *FLOORS], asked, models, own)
    for player in agents:
        for task in tasks:
            player.check(task.env_id, task.config)
    named = {"name": plan.name, **plan.data} if plan else None
    own_scoring = {"judge": judge, "gate": gate, "weighting": weighting, "penalty": penalty} if judge else None
    said = plan.data.get("scoring") if plan else own_scoring
    path = folder or Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    policy = Policy(concurrency, give_up_after=give_up_after, max_dollars=max_dollars, max_tokens=max_total_tokens)
    scoring = make_scoring(said)
    made = Protocol(
        tuple(tasks), tuple(each.describe() for each in agents), repeats, named, scoring.describe() if scoring else None
    )
    how = {
        "base_url": base_url, "models": models, "timeout": timeout, "headers": header or None, "patience": patience,
        "attempts": attempts, "concurrency": concurrency, "give_up_after": give_up_after, "max_dollars": max_dollars,
        "track": track, "workers": workers, "max_tokens": max_total_tokens,
    }  # fmt: skip
    raise typer.Exit(_play(Job(path, made, agents, scoring, skipped, policy, how)))


def read_temperature(said: str | None) -> float | str | None:
    """A number, or `none` for leaving it to the endpoint. Raises ProtocolError for anything else."""
    if said is None or said.lower() == "none":
        return said and "none"
    try:
        heat = float(said)
    except ValueError:
        heat = -1.0
    if not 0.0 <= heat < math.inf:
        raise ProtocolError(f"temperature {said!r} is not valid: give a number of at least 0, or none")
    return heat


SAID_BY_PROTOCOL = ("env", "split", "episodes", "first_seed", "strategy", "option", "max_tokens", "temperature",
                    "top_p", "history", "history_reasoning", "judge", "gate", "weighting", "penalty")  # fmt: skip


def _refuse_beside_protocol(context: typer.Context) -> None:
    """Raise ProtocolError if an option is given that the protocol file says; not who takes no temperature."""
    for name in SAID_BY_PROTOCOL:
        source = context.get_parameter_source(name)
        if name == "temperature" and context.params[name] == "none":
            continue
        if source is not None and source.name != "DEFAULT":
            option = "--" + name.replace("_", "-")
            raise ProtocolError(f"{option} is said by the protocol; leave it out, or copy the file and change it there")


def resume(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    base_url: Annotated[str | None, typer.Option(help="Of an OpenAI-compatible endpoint.")] = None,
    models: Annotated[Path | None, typer.Option(help="A TOML file of your own models.")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Episodes in flight of a model.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes that share the episodes.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0.1, help="Seconds for one request.")] = None,
    attempts: Annotated[int | None, typer.Option(min=1, help="Requests for one reply.")] = None,
    patience: Annotated[float | None, typer.Option(min=0.0, help="Seconds that an outage is waited for.")] = None,
    header: Annotated[Names, typer.Option(help="A further header, NAME=VALUE; may be repeated.")] = None,
    give_up_after: Annotated[int | None, typer.Option(min=1, help="Stop when so many in a row have failed.")] = None,
    max_dollars: Annotated[float | None, typer.Option(min=0.0, help="Begin no episode once so much is spent.")] = None,
    max_total_tokens: Annotated[int | None, typer.Option(min=1, help="Begin no episode once so many are used.")] = None,
    track: Annotated[
        str | None, typer.Option(help="Write the run to `trackio`, `wandb` or `mlflow` when it ends.")
    ] = None,
) -> None:
    """Go on with a run that stopped, as it was begun; what is said here is changed. Exit codes as of `vagen bench`.

    What was asked for, agents, sampling and environments, is read from the run folder.
    """
    run_read = RunFolder(folder)
    if any(entry["event"] == "rescore" for entry in run_read.journal()):
        raise RunFolderError(f"{folder} was scored again from another run; resume that one, then rescore it")
    begun: Mapping[str, Any] = next((each for each in reversed(run_read.journal()) if each["event"] == "asked"), {})
    changed = {
        "base_url": base_url, "models": models, "concurrency": concurrency, "timeout": timeout,
        "attempts": attempts, "give_up_after": give_up_after, "max_dollars": max_dollars,
        "track": track, "workers": workers,
        "max_tokens": max_total_tokens, "patience": patience, "headers": header or None,
    }  # fmt: skip
    how = {name: begun.get(name) if value is None else value for name, value in changed.items()}
    raise typer.Exit(_play(made_again(run_read, {name: value for name, value in how.items() if value is not None})))


def _play(job: Job) -> int:
    with RunWriter(job.path, job.protocol) as folder:
        total = sum(1 for agent in job.agents for _ in job.protocol.keys(agent.name))
        done = len(folder.finished)
        if done:
            out.print(f"{job.path}: {done} of {total} episodes are there already")
        folder.note("asked", **_written(job.how))
        outcome = Outcome()
        interrupted = False
        with Bar(total, done) as told:
            try:
                workers = job.how.get("workers") or 1
                outcome = (
                    run_on_cores(folder, job, workers, told, say)
                    if workers > 1
                    else run(
                        folder,
                        job.agents,
                        policy=job.policy,
                        skipped=job.skipped,
                        scoring=job.scoring,
                        told=told,
                        say=say,
                    )
                )
            except KeyboardInterrupt:
                interrupted = True
        report = write_report(folder)
        summary = summarise(folder)
    print_table(summary)
    if job.protocol.plan:
        print_plan(job.protocol.plan, summary)
    print_bills(outcome.bills)
    print_failures(outcome, job)
    if interrupted or outcome.reason:
        why = outcome.reason or "interrupted"
        err.print("stopped:", style="red", end=" ")
        err.print(f"{why}; go on with: vagen resume {job.path}", soft_wrap=True)
    out.print(f"report: {report.resolve()}", soft_wrap=True)
    if interrupted:
        return EXIT_INTERRUPTED
    if job.how.get("track"):
        track_run(job.how["track"], RunFolder(job.path))
    return EXIT_STOPPED if outcome.reason else EXIT_FAILED_EPISODES if outcome.failed else 0


def print_failures(outcome: Outcome, job: Job) -> None:
    """Say what went wrong, how often, what mends it, and whether to resume."""
    if not outcome.failed:
        return
    err.print(f"{outcome.failed} episode(s) failed and have no score:", style="red")
    keys = {each.model.provider.key for each in job.agents if isinstance(each, ChatAgent)}
    advice = advise(outcome.failures, " or ".join(sorted(filter(None, keys))) or "the key")
    for each in advice:
        err.print(f"  {each.count} × {each.what}", soft_wrap=True)
        err.print(f"    {each.mend}", style="yellow", soft_wrap=True)
    if outcome.reason:  # which says how to go on
        return
    if all(each.resume_helps for each in advice):
        err.print(f"vagen resume {job.path} plays them again", soft_wrap=True)
    else:
        err.print(f"that mended, vagen resume {job.path} plays them again", soft_wrap=True)


def _written(how: Mapping[str, Any]) -> dict[str, Any]:
    """What the journal keeps: a URL without its password, and a file by a path that holds elsewhere, too."""
    url, models = how.get("base_url"), how.get("models")
    if url is not None:
        parts = urlsplit(url)
        query = urlencode([each for each in parse_qsl(parts.query) if "version" in each[0]])  # others may hold a key
        url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))
    headers = [pair for pair in how.get("headers") or () if "$" in pair]  # others may hold a key
    return {**how, "base_url": url, "models": models and str(Path(models).resolve()), "headers": headers or None}
