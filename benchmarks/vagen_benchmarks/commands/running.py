"""A run is played, and what came out is printed: what `vagen bench` and `vagen resume` share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.commands.options import EXIT_FAILED_EPISODES, EXIT_INTERRUPTED, EXIT_STOPPED
from vagen_benchmarks.commands.printing import Bar, err, out, print_plan, print_table, print_unread, print_usage, say
from vagen_benchmarks.report import write_report
from vagen_benchmarks.results.advice import advise
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.job import Job
from vagen_benchmarks.runs.run_folder import RunFolder, RunWriter
from vagen_benchmarks.runs.runner import Outcome, run
from vagen_benchmarks.sharing.trackers import track as track_run


def play_job(job: Job, *, new: bool = False) -> int:
    """Play the remaining episodes, print the tables and write the report. Return the exit code."""
    with RunWriter(job.path, job.protocol, new=new) as folder:
        total = sum(1 for agent in job.agents for _ in job.protocol.keys(agent.name))
        done = len(folder.finished)
        if done:
            out.print(f"{job.path}: {done} of {total} episodes are there already")
        folder.note("asked", **_written(job.how))
        outcome = Outcome()
        interrupted = False
        with Bar(total, done) as told:
            try:
                outcome = run(
                    folder, job.agents, policy=job.policy, skipped=job.skipped, scoring=job.scoring, told=told, say=say
                )
            except KeyboardInterrupt:
                interrupted = True
        report = write_report(folder)
        summary = summarise(folder)
    print_table(summary)
    if job.protocol.plan:
        print_plan(job.protocol.plan, summary)
    print_usage(outcome.usage)
    print_unread(summary, outcome.usage)
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
    """Print each cause of failure with its count and fix, and whether to resume."""
    if not outcome.failed:
        return
    err.print(f"{outcome.failed} episode(s) failed and have no score:", style="red")
    keys = {each.model.provider.key for each in job.agents if isinstance(each, ChatAgent)}
    advice = advise(outcome.failures, " or ".join(sorted(filter(None, keys))) or "the key")
    for each in advice:
        err.print(f"  {each.count} × {each.what}", soft_wrap=True)
        err.print(f"    {each.fix}", style="yellow", soft_wrap=True)
    if outcome.reason:  # which says how to go on
        return
    if all(each.resume_helps for each in advice):
        err.print(f"vagen resume {job.path} plays them again", soft_wrap=True)
    else:
        err.print(f"then play them again: vagen resume {job.path}", soft_wrap=True)


def _written(how: Mapping[str, Any]) -> dict[str, Any]:
    """What the journal keeps: a URL without its password, and a file by a path that holds elsewhere, too."""
    url, models = how.get("base_url"), how.get("models")
    if url is not None:
        parts = urlsplit(url)
        query = urlencode([each for each in parse_qsl(parts.query) if "version" in each[0]])  # others may hold a key
        url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))
    headers = [pair for pair in how.get("headers") or () if "$" in pair]  # others may hold a key
    return {**how, "base_url": url, "models": models and str(Path(models).resolve()), "headers": headers or None}
