"""Plays a stored run again without its model, and says whether it is what it claims to be.

Every episode is played from its level by its own replies. What can't be known from a run folder is who wrote the
replies.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

import vagen_envs
from vagen_benchmarks.endings import Stop
from vagen_benchmarks.episode import Episode
from vagen_benchmarks.errors import BenchError, RunFolderError
from vagen_benchmarks.plans import Plan
from vagen_benchmarks.protocol import Protocol, Task, differences, episode_key, make_task
from vagen_benchmarks.run_folder import RunFolder, link, read_episode
from vagen_benchmarks.summary import summarise
from vagen_envs.core import VagenEnv
from vagen_envs.errors import VagenError
from vagen_envs.pictures import Picture
from vagen_rewards.scores import PARTS

EXACT = frozenset({"vagen/Sokoban-v0", "vagen/FrozenLake-v0"})
"""The environments whose every byte is the same on every machine. The others' simulators and renderers may differ."""
CLOSE = 1e-5
"""The relative difference up to which another machine's simulator may have computed a number."""
SHOWN = 20
"""Findings of one kind that are told one by one."""


@dataclass
class Verdict:
    """What came of playing a run again.

    Attributes:
        episodes, turns: that were confirmed.
        failed: episodes that have no score; their turns were confirmed.
        wrong: what isn't as the run says, a line each.
        unknown: what couldn't be confirmed here, and why.
    """

    episodes: int = 0
    turns: int = 0
    failed: int = 0
    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


def verify(run: RunFolder, told: Callable[[Episode], None] = lambda _: None) -> Verdict:
    """Play every episode of a run again, and compare. `told` is called with each once it was played."""
    verdict = Verdict()
    verdict.wrong += [*_protocol_findings(run.protocol, verdict), *_chain_findings(run), *_key_findings(run)]
    verdict.wrong += _picture_findings(run)
    seat: dict[str, gym.Env[dict[str, Any], str]] = {}
    tasks = {task.label: task for task in run.protocol.tasks}
    options = {str(agent["name"]): agent.get("env_options") or {} for agent in run.protocol.agents}
    try:
        for episode in run.episodes():
            task = tasks.get(episode.task)
            if task is None:
                continue  # told already
            wrong, unknown = _replay(episode, task, options.get(episode.agent, {}), seat)
            verdict.wrong += [f"{episode.key}: {each}" for each in wrong]
            verdict.unknown += [f"{episode.key}: {each}" for each in unknown]
            if not wrong and not unknown:
                verdict.episodes += episode.failure is None
                verdict.failed += episode.failure is not None
                verdict.turns += len(episode.turns)
            told(episode)
    finally:
        for env in seat.values():
            env.close()
    verdict.wrong += _table_findings(run)
    if run.judged_by():
        verdict.unknown.append("the judge's verdicts and what they paid: judges aren't asked again")
    return verdict


def _protocol_findings(protocol: Protocol, verdict: Verdict) -> Iterator[str]:
    """What of the protocol isn't what this version of the package, or its own protocol file, makes of it."""
    here = {"vagen-envs": vagen_envs.__version__}
    if dict(protocol.versions) != here:
        verdict.unknown.append(f"played with {dict(protocol.versions)}, verified with {here}")
    for task in protocol.tasks:
        try:
            made = make_task(task.env_id, task.options, task.split, task.first_seed, task.episodes)
        except (VagenError, BenchError, ImportError, OSError) as error:
            verdict.unknown.append(f"{task.label} can't be made here: {error}")
            continue
        for name in ("config", "system_prompt", "prompts_sha256", "baselines"):
            for line in differences(_plain(getattr(task, name)), _plain(getattr(made, name)), name):
                yield f"{task.label}: {line} (stored / as it is made here)"
    if protocol.plan is not None:
        plan = Plan(str(protocol.plan["name"]), protocol.plan)
        if altered := plan.altered():
            yield f"this isn't the package's protocol {plan.name}: {altered}"
        named = {}
        for column, _, options, shown in plan.cells():
            label = " ".join([column["env"], *(f"{name}={options[name]}" for name in shown)])
            split, first = plan.data.get("split", "test"), plan.data.get("first_seed", 0)
            named[label] = (split, first, column["episodes"], _plain(options))
        for task in protocol.tasks:
            played = (task.split, task.first_seed, task.episodes, _plain(task.options))
            if named.get(task.label) != played:
                yield f"{task.label}: {played} isn't what protocol {plan.name} says, {named.get(task.label)}"


def _chain_findings(run: RunFolder) -> Iterator[str]:
    """Lines that were changed, taken out, put in or moved."""
    before = str(run.protocol.to_json()["sha256"])
    for number, (_, line, data) in enumerate(run.lines(), 1):
        if data is None:
            yield f"line {number} of episodes.jsonl is damaged"
            continue
        text, found, rest = line.decode().rstrip("\n").rpartition(',"chain":"')
        said = rest.removesuffix('"}')
        if not found:
            yield f"line {number} of episodes.jsonl has no chain; it wasn't written by a run"
            continue
        if link(before, text + "}") != said:
            where = f"line {number} of episodes.jsonl ({data['key']})"
            yield f"{where}, or the one before it, was changed, put in or taken out"
        before = said


def _key_findings(run: RunFolder) -> Iterator[str]:
    """Episodes that the protocol doesn't name, and those that were scored more than once."""
    agents = [str(agent["name"]) for agent in run.protocol.agents]
    planned = {key for agent in agents for key, *_ in run.protocol.keys(agent)}
    scored: Counter[str] = Counter()
    for _, line, data in run.lines():
        if data is None:
            continue
        episode = read_episode(line)
        task = next((task for task in run.protocol.tasks if task.label == episode.task), None)
        made = task and episode_key(episode.agent, task, episode.seed, episode.repeat)
        if episode.key not in planned or episode.key != made or (task and episode.split != task.split):
            yield f"{episode.key}: the protocol names no such episode"
        scored[episode.key] += episode.failure is None
    for key, times in scored.items():
        if times > 1:
            yield f"{key}: it was scored {times} times, and the last counts"
    missing = len(planned - scored.keys())
    ends = [entry for entry in run.journal() if entry["event"] == "end"]
    starts = [entry for entry in run.journal() if entry["event"] == "start"]
    if ends and len(ends) == len(starts) and sum(entry["played"] for entry in ends) != sum(scored.values()):
        said = sum(entry["played"] for entry in ends)
        yield f"the journal says that {said} episodes were scored, and {sum(scored.values())} are there"
    if missing:
        yield f"{missing} episodes that the protocol names are missing"


def _picture_findings(run: RunFolder) -> Iterator[str]:
    """Pictures whose content isn't what their name says."""
    for file in sorted(run.pictures.glob("*/*.png")):
        try:
            sha256 = Picture.from_png(file.read_bytes()).sha256
        except (VagenError, OSError, ValueError) as error:
            yield f"picture {file.stem[:16]}… can't be read: {error}"
            continue
        if sha256 != file.stem:
            yield f"picture {file.stem[:16]}… shows something else than when it was stored"


def _replay(
    episode: Episode, task: Task, options: Mapping[str, Any], seat: dict[str, gym.Env[dict[str, Any], str]]
) -> tuple[list[str], list[str]]:
    """What of an episode is wrong, and what couldn't be confirmed."""
    name = f"{task.label} {sorted(options.items())}"
    try:
        if name not in seat:
            for env in seat.values():
                env.close()
            seat.clear()
            seat[name] = gym.make(
                task.env_id, disable_env_checker=True, split=task.split, **{**options, **task.options}
            )
        env = seat[name]
        _, info = env.reset(seed=episode.seed)
    except (VagenError, ImportError, OSError) as error:
        return [], [f"its level can't be made here: {type(error).__name__}: {error}"]
    inner = env.unwrapped
    assert isinstance(inner, VagenEnv)
    if episode.content != info["level"]["content"] and (episode.content or episode.failure is None):
        return ["it was played on another level than its seed makes"], []
    found: list[tuple[str, Any, Any]] = []
    over = False
    for i, stored in enumerate(episode.turns):
        if over:
            return [f"turn {i + 1} comes after the episode's end"], []
        _, _, terminated, truncated, info = env.step(stored["reply"])
        over = terminated or truncated
        differing = [*_apart(_plain(_unjudged(info["turn"].to_json())), _unjudged(stored))]
        found += [(f"turn {i + 1}, {path}", mine, said) for path, mine, said in differing]
        if found:
            break  # what comes after only follows
    wrong = _ending_findings(episode, over)
    lines = [f"{path} is {said!r:.60} and should be {mine!r:.60}" for path, mine, said in found]
    close = task.env_id not in EXACT and all(_is_close(path, mine, said) for path, mine, said in found)
    return (wrong, lines) if close else (wrong + lines, [])


def _ending_findings(episode: Episode, over: bool) -> list[str]:
    """Whether the turns bear the ending out."""
    if episode.ended.kind in (Stop.SOLVED, Stop.LOST, Stop.BUDGET):
        if not over:
            return [f"it is said to have ended as {episode.ended.kind}, and the environment went on"]
        last = episode.turns[-1]
        rules = Stop.SOLVED if last["metrics"]["success"] else Stop.LOST if last["terminated"] else Stop.BUDGET
        return [] if rules is episode.ended.kind else [f"it ended as {rules}, and {episode.ended.kind} is stored"]
    return [f"it ended by the environment's rules, and {episode.ended.kind} is stored"] if over else []


def _table_findings(run: RunFolder) -> Iterator[str]:
    """Whether the report's table is that of the episodes."""
    if not run.report.is_file():
        return
    found = re.search(r'id="page">(.*?)</script>', run.report.read_text(encoding="utf-8"), re.DOTALL)
    try:
        shown = json.loads(found[1])["rows"] if found else None
    except (ValueError, KeyError, TypeError):
        shown = None
    if shown is None:
        yield "report.html has no table; make it anew with vagen view"
        return
    try:
        own = _plain(summarise(run).rows())
    except (RunFolderError, KeyError, TypeError, ValueError) as error:
        yield f"the table can't be made from the episodes: {type(error).__name__}: {error}"
        return
    yield from (f"table of report.html, {line} (of the episodes / shown)" for line in differences(own, shown)[:SHOWN])


def _plain(value: Any) -> Any:
    """As it is once it was stored."""
    return json.loads(json.dumps(value))


def _unjudged(turn: Mapping[str, Any]) -> dict[str, Any]:
    """A turn without a judge's verdicts."""
    metrics = {name: value for name, value in turn["metrics"].items() if not name.startswith(PARTS)}
    rewards = [term for term in turn["rewards"] if term["name"] not in PARTS]
    return {**turn, "metrics": metrics, "rewards": rewards}


def _apart(mine: Any, said: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ: path and both."""
    if isinstance(mine, dict) and isinstance(said, dict):
        for name in sorted({*mine, *said}):
            yield from _apart(mine.get(name), said.get(name), f"{path}.{name}" if path else name)
    elif isinstance(mine, list) and isinstance(said, list) and len(mine) == len(said):
        for i, (each, other) in enumerate(zip(mine, said, strict=True)):
            yield from _apart(each, other, f"{path}.{i}")
    elif type(mine) is not type(said) or mine != said:
        yield path, mine, said


def _is_close(path: str, mine: Any, said: Any) -> bool:
    """Whether a difference may be another machine's: a number's last digits, or a picture of another renderer."""
    if path.endswith("picture.sha256"):
        return True
    numbers = isinstance(mine, float) and isinstance(said, float)
    return numbers and math.isclose(mine, said, rel_tol=CLOSE, abs_tol=CLOSE)
