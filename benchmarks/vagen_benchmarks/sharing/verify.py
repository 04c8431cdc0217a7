"""Plays a stored run again without its model, and says whether it is what it claims to be.

Every episode is played from its level by its own replies. What can't be known from a run folder is
who wrote the replies.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

import vagen_envs
from vagen_adapters.permission import permitted
from vagen_benchmarks.errors import BenchError, ProtocolError
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.plans import Plan
from vagen_benchmarks.runs.playing import is_quick
from vagen_benchmarks.runs.protocol import Task, agent_options, differences, differing
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.tasks import import_environments, make_task
from vagen_benchmarks.sharing.files import HERE, edits, missing_findings, picture_findings, plain
from vagen_benchmarks.stop_reasons import ENDING_STOPS, Stop
from vagen_envs.errors import ConfigError, VagenError
from vagen_envs.spaces import MAX_TEXT_LENGTH
from vagen_rewards.scores import PARTS

LAYOUT = frozenset({"preset", "layout", "tags", "reasoning", "native_thinking", "parsing"})
"""What a model's profile may set of an environment: how replies are written, and nothing of the
task.
"""
JUDGED = frozenset({*PARTS, "repetition"})
"""The reward terms of judges."""
LONGEST_REPLY = 1 << 28
"""Characters beyond which a stored length is taken to be wrong: padding costs memory."""
CLOSE = 1e-5
"""The relative difference up to which another machine's simulator may have computed a number."""


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
        closed = _unimportable(task) if trusted or (is_named and not altered) else _closed(task)
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
    there, judged = run.pictures.names(), run.judged_by() is not None
    for (agent, label), episodes in itertools.groupby(
        run.episodes(), key=lambda each: (each.agent, each.task)
    ):
        here, env = makeable.get(label), None
        if here is not None:
            env, why = _made(here, agent_options(described.get(agent, {}), here.env_id))
            verdict.unknown += [f"{agent} on {label}: {why}"] if why else []
        for episode in episodes:
            lost = len(episode.picture_names() - there)
            verdict.wrong += [f"{episode.key}: {lost} of its pictures are missing"] if lost else []
            if here is None or env is None:
                verdict.unplayed += 1
            else:
                verdict.add(episode, *_replay(episode, here, env, judged))
            progress()
        if env is not None:
            env.close()


def _made(
    task: Task, options: Mapping[str, Any]
) -> tuple[gym.Env[dict[str, Any], str] | None, str]:
    """An environment of a task with what an agent sets of it, or why there is none."""
    config = plain(task.config)
    unfitting = sorted(each for each in {*options} - LAYOUT if config.get(each) != options[each])
    if unfitting:
        return (
            None,
            f"its agent sets {', '.join(unfitting)}, which isn't how a reply is written",
        )
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


def _replay(
    episode: Episode, task: Task, env: gym.Env[dict[str, Any], str], judged: bool
) -> tuple[list[str], list[str]]:
    """What of an episode is wrong, and what is off by no more than another machine's arithmetic."""
    try:
        _, info = env.reset(seed=episode.seed)
    except VagenError as error:
        return [] if episode.failure else [f"its level can't be made: {error}"], []
    if episode.content != info["level"]["content"] and (episode.content or episode.failure is None):
        return ["it was played on another level than its seed makes"], []
    exact = is_quick(
        task.env_id
    )  # without simulator and renderer every byte is the same on every machine
    found: list[tuple[str, Any, Any]] = []
    over = False
    for i, stored in enumerate(episode.turns):
        if over:
            return [f"turn {i + 1} comes after the episode's end"], []
        _, _, terminated, truncated, info = env.step(_original_reply(stored))
        over = terminated or truncated
        mine = plain(info["turn"].to_json())
        here = [*differing(mine, _unjudged(stored, mine) if judged else stored, f"turn {i + 1}")]
        found += here
        if any(exact or not _is_close(*each) for each in here):
            break  # what comes after only follows
    lines = [
        f"{path} is {claimed!r:.60} and should be {mine!r:.60}" for path, mine, claimed in found
    ]
    if any(exact or not _is_close(*each) for each in found):
        return lines, []
    return _ending_findings(episode, over), lines


def _original_reply(stored: Mapping[str, Any]) -> str:
    """A stored reply at its original length: of a longer one than is read only the end is
    stored.
    """
    reply: str = stored["reply"]
    messages = [
        str(problem["message"])
        for problem in stored["parsed"]["problems"]
        if problem["code"] == "too_long"
    ]
    length = re.search(r"\d{1,9}", messages[0]) if messages else None
    if length is None or len(reply) != MAX_TEXT_LENGTH or int(length[0]) > LONGEST_REPLY:
        return reply
    return reply.rjust(int(length[0]), "x")


def _ending_findings(episode: Episode, over: bool) -> list[str]:
    """Whether the turns bear the ending out."""
    by_rules = episode.ended.kind in (Stop.SOLVED, Stop.LOST, Stop.BUDGET)
    if by_rules and not over:
        return [f"it is recorded as ended by {episode.ended.kind}, but the environment went on"]
    if not over:
        return []
    last, call = episode.turns[-1], episode.calls[-1]
    stop = ENDING_STOPS.get(call["ending"]) if call else None
    if stop is episode.ended.kind and not last["metrics"]["success"]:
        return []
    rules = (
        Stop.SOLVED
        if last["metrics"]["success"]
        else Stop.LOST
        if last["terminated"]
        else Stop.BUDGET
    )
    return (
        []
        if rules is episode.ended.kind
        else [f"it ended as {rules}, and {episode.ended.kind} is stored"]
    )


def _unjudged(stored: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
    """A stored turn of a judged run, with those metrics and reward terms alone that the environment
    gives.
    """
    metrics = {name: value for name, value in stored["metrics"].items() if name in mine["metrics"]}
    rewards = [term for term in stored["rewards"] if term["name"] not in JUDGED]
    return {**stored, "metrics": metrics, "rewards": rewards}


def _is_close(path: str, mine: Any, claimed: Any) -> bool:
    """Whether a difference may be another machine's: a number's last digits, or a picture of
    another renderer.
    """
    if path.endswith("picture.sha256"):
        return True
    numbers = isinstance(mine, float) and isinstance(claimed, float)
    return numbers and math.isclose(mine, claimed, rel_tol=CLOSE, abs_tol=CLOSE)
