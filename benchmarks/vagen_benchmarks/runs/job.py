"""A run as it is to be played: made at first by `vagen bench`, and made again from its folder."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vagen_adapters.context import ContextPolicy
from vagen_benchmarks.agents.base import Agent
from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.redaction import WITHHELD
from vagen_benchmarks.runs.protocol import Protocol, Task
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import new_folder
from vagen_benchmarks.runs.runner import Policy
from vagen_benchmarks.runs.scoring import RunScoring, make_scoring
from vagen_benchmarks.runs.tasks import Skipped, make_task


@dataclass(frozen=True)
class Job:
    """A run to be played, and how (`HOW`)."""

    path: Path
    protocol: Protocol
    agents: Sequence[Agent]
    scoring: RunScoring | None
    skipped: Sequence[Skipped]
    policy: Policy
    how: Mapping[str, Any]


def make_job(
    path: Path | None,
    tasks: Sequence[Task],
    agents: Sequence[Agent],
    *,
    repeats: int = 1,
    plan: Mapping[str, Any] | None = None,
    scoring: Mapping[str, Any] | None = None,
    skipped: Sequence[Skipped] = (),
    policy: Policy | None = None,
    how: Mapping[str, Any] | None = None,
) -> Job:
    """A run of these agents on these tasks, in a new folder `runs/<time>` if no path is given.

    Raises:
        ProtocolError: an agent can't play a task, two have the same name, or the scoring isn't
            valid.
    """
    if len({agent.name for agent in agents}) < len(agents):
        raise ProtocolError(
            f"two agents have the same name: {', '.join(each.name for each in agents)}; rename one"
        )
    judge = make_scoring(scoring)
    how = how or {}
    limits = {name: how[name] for name in LIMITS if how.get(name) is not None}
    described = tuple(agent.describe() for agent in agents)
    protocol = Protocol(tuple(tasks), described, repeats, plan, judge.describe() if judge else None)
    for agent in agents:
        for task in protocol.tasks_of(agent.name) or tasks:
            agent.check(task.env_id, task.config)
    return Job(
        path or new_folder(), protocol, agents, judge, skipped, policy or Policy(**limits), how
    )


def made_again(
    run_read: RunFolder, how: Mapping[str, Any], extra: Mapping[str, Any] | None = None
) -> Job:
    """The run of a folder, made as it was made at first. What has become different since is met by
    RunWriter.

    `extra` are the secret fields of requests, which a run folder doesn't hold.
    """
    protocol = run_read.protocol
    tasks = [
        dataclasses.replace(
            make_task(task.env_id, task.options, task.split, task.first_seed, task.episodes),
            label=task.label,
        )
        for task in protocol.tasks
    ]
    models = Path(how["models"]) if how.get("models") else None
    agents: list[Agent] = []
    for each in protocol.agents:
        sampling = dict(each.get("sampling", {}))
        if sampling and sampling["temperature"] is None:
            sampling["temperature"] = "none"
        if extra and sampling:
            sampling["extra"] = {**(sampling["extra"] or {}), **extra}
        context = ContextPolicy.parse(each.get("context", "all"))
        profile = each.get("profile", {}).get("name")
        name = each["name"].removesuffix(f"+{context}") if "context" in each else each["name"]
        asked = asked_by(
            how,
            sampling=sampling,
            profile=profile,
            contexts=(context,),
            labelled=name != each["name"],
        )
        agents += make_agents([name], asked, models, baselines_of(tasks))
    starts = [entry for entry in run_read.journal() if entry["event"] == "start"]
    return make_job(
        run_read.path,
        tasks,
        agents,
        repeats=protocol.repeats,
        plan=protocol.plan,
        scoring=protocol.scoring,
        skipped=[Skipped(**each) for each in starts[-1]["skipped"]] if starts else [],
        how=how,
    )


ASKED = ("base_url", "key_from", "timeout", "attempts", "patience")
LIMITS = ("concurrency", "give_up_after", "max_dollars", "max_total_tokens")
HOW = (*ASKED, *LIMITS, "models", "header")
"""What may change from one call of a run to the next: options of `vagen bench` and `vagen
resume`.
"""


def asked_by(how: Mapping[str, Any], **more: Any) -> Asked:
    """Parameters of the models by what a call says, and by what belongs to the protocol."""
    given = {name: how[name] for name in ASKED if how.get(name) is not None}
    return Asked(**given, headers=parse_headers(how.get("header") or []), **more)


def baselines_of(tasks: Sequence[Task]) -> list[str]:
    """The agents that the environments offer."""
    return list(dict.fromkeys(name for task in tasks for name in task.baselines))


def parse_headers(pairs: Sequence[str]) -> dict[str, str]:
    """`["api-version=1"]` to headers. Raises ProtocolError if one is none."""
    headers = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not HEADER_NAME.fullmatch(name) or not value.isprintable():
            raise ProtocolError(
                f"header {re.split('[=:]', pair)[0]!r} is not valid: write NAME=VALUE, such as "
                "api-key=$AZURE_KEY"
            )
        if name.lower() in SENDING:
            raise ProtocolError(
                f"header {name} is not valid: it says how a request is sent, which is not to be "
                "chosen"
            )
        if value == WITHHELD:
            raise ProtocolError(
                f"header {name} was no variable, so the run folder doesn't hold its value; give "
                f"it again: --header {name}=…"
            )
        headers[name] = value
    return headers


SENDING = frozenset(
    {
        "content-length",
        "transfer-encoding",
        "connection",
        "accept-encoding",
        "expect",
        "te",
        "upgrade",
    }
)
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
