"""Plays a stored run again without its model, and says whether it is what it claims to be.

Every episode is played from its level by its own replies. What can't be known from a run folder is
who wrote the replies.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

import vagen_envs
from vagen_adapters.permission import permitted
from vagen_benchmarks.errors import BenchError, ProtocolError
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.plans import Plan
from vagen_benchmarks.runs.protocol import Task, agent_options, differences
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.tasks import import_environments, make_task
from vagen_benchmarks.sharing.files import HERE, edits, missing_findings, picture_findings, plain
from vagen_benchmarks.sharing.replay import replay
from vagen_envs.errors import ConfigError, VagenError

LAYOUT = frozenset({"preset", "layout", "tags", "reasoning", "native_thinking", "parsing"})
"""What a model's profile may set of an environment: how replies are written, and nothing of the
task.
"""


@dataclass
class Verdict:
    """What came of playing a run again.

    Attributes:
        episodes, turns: that were confirmed.
        failed: episodes that have no score; their turns were confirmed.
        wrong: what isn't as the run says, a line each.
        unknown: what couldn't be confirmed here, and why.
        unplayed: episodes that couldn't be played again at all.
    """

    episodes: int = 0
    turns: int = 0
    failed: int = 0
    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    unplayed: int = 0

    def add(self, episode: Episode, wrong: Sequence[str], unknown: Sequence[str]) -> None:
        """Count an episode that was played again, with what was found."""
        self.wrong += [f"{episode.key}: {each}" for each in wrong]
        self.unknown += [f"{episode.key}: {each}" for each in unknown]
        if not wrong and not unknown:
            self.episodes += episode.failure is None
            self.failed += episode.failure is not None
            self.turns += len(episode.turns)

    @property
    def ok(self) -> bool:
        """Whether every episode was played again, and nothing is wrong."""
        return not self.wrong and not self.unplayed


def verify(
    run: RunFolder, *, trusted: bool = False, progress: Callable[[], None] = lambda: None
) -> Verdict:
    """Play every episode of a run again, and compare.

    Args:
        run: may be untrusted: only environments of this package are made, and only with options
            that a remote client may set (`vagen_adapters.permission`) or that the package's
            protocol file sets.
        trusted: make whatever the run names. An id may import a module, and an option be a path.
        progress: called after each episode.
    """
    verdict = Verdict()
    makeable = _makeable(run, trusted, verdict)
    if dict(run.protocol.versions) != HERE:
        verdict.unknown.append(f"played with {dict(run.protocol.versions)}, verified with {HERE}")
    verdict.wrong += [*edits(run), *missing_findings(run), *picture_findings(run)]
    _replay_all(run, makeable, verdict, progress)
    if run.judged_by():
        verdict.unknown.append("the judge's verdicts and what they paid: judges aren't asked again")
    return verdict


def _makeable(run: RunFolder, trusted: bool, verdict: Verdict) -> dict[str, Task]:
    """The tasks that may be made here, by label. What is wrong with tasks goes into the verdict."""
    plan = Plan.of(run.protocol)
    altered = plan.altered() if plan else ""
    named = _named(plan) if plan else {}
    makeable: dict[str, Task] = {}
    for task in run.protocol.tasks:
        is_named = named.get(task.label) == _asked(task)
        if plan and not is_named:
            claimed = named.get(task.label)
            verdict.wrong.append(
                f"{task.label}: {_asked(task)} isn't what protocol {plan.name} says, {claimed}"
            )
        is_trusted = trusted or (is_named and not altered)
        closed = _unimportable(task) if is_trusted else _closed(task)
        if closed:
            verdict.unknown.append(f"{task.label}: {closed}")
        else:
            makeable[task.label] = task
            verdict.wrong += _task_findings(task, verdict)
    if plan and altered:
        verdict.wrong.append(f"this isn't the package's protocol {plan.name}: {altered}")
    return makeable


def _replay_all(
    run: RunFolder,
    makeable: Mapping[str, Task],
    verdict: Verdict,
    progress: Callable[[], None],
) -> None:
    """Play every episode again whose task can be made, in one environment for each agent's task."""
    described = {str(agent["name"]): agent for agent in run.protocol.agents}
    there = run.pictures.names()
    judged = run.judged_by() is not None
    by_agent_and_task = itertools.groupby(run.episodes(), key=lambda each: (each.agent, each.task))
    for (agent, label), episodes in by_agent_and_task:
        here = makeable.get(label)
        env = None
        if here is not None:
            env, why = _made(here, agent_options(described.get(agent, {}), here.env_id))
            if why:
                verdict.unknown.append(f"{agent} on {label}: {why}")
        for episode in episodes:
            lost = len(episode.picture_names() - there)
            if lost:
                verdict.wrong.append(f"{episode.key}: {lost} of its pictures are missing")
            if here is None or env is None:
                verdict.unplayed += 1
            else:
                verdict.add(episode, *replay(episode, here, env, judged))
            progress()
        if env is not None:
            env.close()


def _made(
    task: Task, options: Mapping[str, Any]
) -> tuple[gym.Env[dict[str, Any], str] | None, str]:
    """An environment of a task with what an agent sets of it, or why there is none."""
    config = plain(task.config)
    beyond = sorted({*options} - LAYOUT)
    unfitting = [name for name in beyond if config.get(name) != options[name]]
    if unfitting:
        why = f"its agent sets {', '.join(unfitting)}, which isn't how a reply is written"
        return None, why
    try:
        return task.make(options), ""
    except (VagenError, gym.error.Error, ImportError, OSError, TypeError) as error:
        return None, f"its environment can't be made here: {type(error).__name__}: {error}"


def _unimportable(task: Task) -> str:
    """Return why the module of a trusted task can't be imported, or an empty string."""
    try:
        import_environments([task])
    except ProtocolError as error:
        return str(error)
    return ""


def _closed(task: Task) -> str:
    """Return why an untrusted task isn't made, or an empty string."""
    if task.env_id not in vagen_envs.ENV_IDS:
        return "it isn't an environment of this package; if the run is yours, --trust makes it"
    try:
        permitted(task.env_id, task.options, {})
    except ConfigError as error:
        return f"{error}; if the run is yours, --trust makes it"
    return ""


def _asked(task: Task) -> tuple[Any, ...]:
    """What of a task a protocol file says."""
    return task.env_id, task.split, task.first_seed, task.episodes, plain(task.options)


def _named(plan: Plan) -> dict[str, tuple[Any, ...]]:
    """What a protocol file says of each task, by label."""
    return {
        label: (column["env"], *plan.levels(column), plain(options))
        for column, _, label, options, _ in plan.cells()
    }


def _task_findings(task: Task, verdict: Verdict) -> Iterator[str]:
    """What of a task isn't what this version of the package makes of it."""
    try:
        made = make_task(task.env_id, task.options, task.split, task.first_seed, task.episodes)
    except (VagenError, BenchError, ImportError, OSError) as error:
        verdict.unknown.append(f"{task.label} can't be made here: {error}")
        return
    for name in ("config", "system_prompt", "prompts_sha256", "baselines"):
        for line in differences(plain(getattr(task, name)), plain(getattr(made, name)), name):
            if line.startswith("config.prompt_pack:"):
                continue  # where its folder lies here; `prompts_sha256` says what is in it
            yield f"{task.label}: {line} (stored / as it is made here)"
