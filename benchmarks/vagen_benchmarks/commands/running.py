"""Play a run and print its results, for `vagen bench`, `vagen resume` and `vagen play`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from rich.console import Console

from vagen_benchmarks.agents.base import Agent
from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.human import Human
from vagen_benchmarks.commands.options import EXIT_FAILED_EPISODES, EXIT_INTERRUPTED, EXIT_STOPPED
from vagen_benchmarks.commands.printing import (
    err,
    out,
    print_plan,
    print_served,
    print_table,
    print_unread,
    print_usage,
    tally,
)
from vagen_benchmarks.commands.results import print_contexts
from vagen_benchmarks.meter import Meter
from vagen_benchmarks.redaction import WITHHELD, is_reference
from vagen_benchmarks.report import write_report
from vagen_benchmarks.results.advice import advise
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.job import Job
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.runs.runner import Outcome, run


def play_job(job: Job, *, new: bool = False) -> int:
    """Play the remaining episodes, print the tables and write the report. Return the exit code."""
    with RunWriter(job.path, job.protocol, new=new) as folder:
        total = sum(1 for agent in job.agents for _ in job.protocol.keys(agent.name))
        if done := len(folder.finished):
            out.print(f"{job.path}: {done} of {total} episodes are there already")
        folder.note("asked", **_written(job.how))
        print_withheld_keys(job.agents)
        outcome = Outcome()
        interrupted = False
        say = functools.partial(err.print, style="yellow", soft_wrap=True)
        # A bar would disturb the input.
        by_hand = any(isinstance(agent, Human) for agent in job.agents)
        with Meter(
            "episodes", total, done=done, console=Console(quiet=True) if by_hand else err
        ) as meter:
            try:
                told = tally(meter)
                outcome = run(
                    folder,
                    job.agents,
                    policy=job.policy,
                    skipped=job.skipped,
                    scoring=job.scoring,
                    told=told,
                    say=say,
                )
            except KeyboardInterrupt:
                interrupted = True
        report = write_report(folder)
        summary = summarise(folder)
    print_table(summary)
    print_plan(summary)
    if not (interrupted or outcome.reason):
        print_contexts(job.path, job.agents)
    print_usage(outcome.usage)
    print_served(summary)
    print_unread(summary, outcome.usage)
    resume_helps = _print_failures(outcome.failures, job.agents)
    if interrupted or outcome.reason:
        err.print("stopped:", style="red", end=" ")
        err.print(
            f"{outcome.reason or 'interrupted'}; go on with: vagen resume {job.path}",
            soft_wrap=True,
        )
    elif outcome.failed:
        again = (
            "vagen resume {} plays them again"
            if resume_helps
            else "then play them again: vagen resume {}"
        )
        err.print(again.format(job.path), soft_wrap=True)
    out.print(f"report: {report.resolve()}", soft_wrap=True)
    if interrupted:
        return EXIT_INTERRUPTED
    if outcome.reason:
        return EXIT_STOPPED
    return EXIT_FAILED_EPISODES if outcome.failed else 0


def _print_failures(failures: Mapping[tuple[str, str], int], agents: Sequence[Agent]) -> bool:
    """Print each cause of failure with its count and fix. Return whether a second attempt alone may
    help.
    """
    advice = advise(failures, key_named(agents))
    if advice:
        err.print(f"{sum(failures.values())} episode(s) failed and have no score:", style="red")
    for cause in advice:
        err.print(f"  {cause.count} × {cause.what}", soft_wrap=True)
        err.print(f"    {cause.fix}", style="yellow", soft_wrap=True)
    return all(cause.resume_helps for cause in advice)


def print_withheld_keys(agents: Sequence[Agent]) -> None:
    """Say which keys are set and not sent, since the host isn't their provider's."""
    models = [agent for agent in agents if isinstance(agent, ChatAgent)]
    for words in dict.fromkeys(agent.withheld_key for agent in models if agent.withheld_key):
        err.print(words, style="yellow", soft_wrap=True)


def key_named(agents: Sequence[Agent]) -> str:
    """The environment variable of the agents' key, for advice."""
    models = [agent for agent in agents if isinstance(agent, ChatAgent)]
    keys = {agent.model.provider.key for agent in models}
    named = " or ".join(sorted(filter(None, keys))) or "the key"
    how = next((agent.withheld_key for agent in models if agent.withheld_key), "")
    return f"{named} ({how})" if how else named


def _written(how: Mapping[str, Any]) -> dict[str, Any]:
    """What the journal keeps: a URL without its password, and a file by a path that holds
    elsewhere, too.
    """
    url = how.get("base_url")
    models = how.get("models")
    if url is not None:
        parts = urlsplit(url)
        # Other parameters may hold a key.
        query = urlencode([each for each in parse_qsl(parts.query) if "version" in each[0]])
        url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))
    pairs = [pair.partition("=") for pair in how.get("header") or ()]
    headers = [f"{name}={value if is_reference(value) else WITHHELD}" for name, _, value in pairs]
    return {
        **how,
        "base_url": url,
        "models": models and str(Path(models).resolve()),
        "header": headers or None,
    }
