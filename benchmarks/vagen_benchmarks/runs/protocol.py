"""The protocol of a run: episodes, environments with their options, agents. It is stored with its
hash.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import gymnasium as gym

import vagen_envs
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.redaction import redacted

SCHEMA = 1


@dataclass(frozen=True)
class Task:
    """Episodes of one environment as configured.

    Attributes:
        label: short and unique in a run, such as `vagen/Sokoban-v0 strategy=no_think`.
        options: what `gym.make` is called with.
        config: every option with its value, for the record.
        prompts_sha256: of the prompt files that were read.
        baselines: names of the environment's own agents, which play nothing else.
    """

    label: str
    env_id: str
    options: Mapping[str, Any]
    split: str
    first_seed: int
    episodes: int
    config: Mapping[str, Any]
    system_prompt: str
    prompts_sha256: str
    baselines: Sequence[str] = ()

    def make(self, profile: Mapping[str, Any] | None = None) -> gym.Env[dict[str, Any], str]:
        """A new environment; the options of a model's `profile` give way to the task's own."""
        options = {**(profile or {}), **self.options}
        return gym.make(self.env_id, disable_env_checker=True, split=self.split, **options)


@dataclass(frozen=True)
class Protocol:
    """Everything that a result depends on.

    Attributes:
        tasks: the episodes.
        agents: the descriptions of the agents (`Agent.describe`), by which they can be made again.
        repeats: how often each agent plays each episode.
        plan: name and content of the protocol file, if the run follows one.
        scoring: the judge of what agents say (`Scoring.describe`), if there is one.
        versions: of this package.
    """

    tasks: tuple[Task, ...]
    agents: tuple[Mapping[str, Any], ...]
    repeats: int = 1
    plan: Mapping[str, Any] | None = None
    scoring: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"vagen-envs": vagen_envs.__version__}
    )

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with a schema version and the hash of all else."""
        data = redacted({"schema": SCHEMA, **dataclasses.asdict(self)})
        return {**data, "sha256": _sha256(data)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a protocol back. Raises ProtocolError if it was written by another schema or changed
        by hand.
        """
        if data.get("schema") != SCHEMA:
            raise ProtocolError(
                f"protocol of schema {data.get('schema')!r}; this version reads {SCHEMA}"
            )
        body = {name: value for name, value in data.items() if name != "sha256"}
        if _sha256(body) != data.get("sha256"):
            raise ProtocolError(
                "the protocol doesn't match its hash; it was changed after the run began"
            )
        tasks = tuple(Task(**task) for task in body["tasks"])
        rest = body["plan"], body.get("scoring")
        return cls(tasks, tuple(body["agents"]), body["repeats"], *rest, body["versions"])

    def tasks_of(self, agent: str) -> list[Task]:
        """The tasks that an agent plays.

        An environment's own agent plays at home. In a plan of `trained` models each plays the
        environments that it was trained on.
        """
        if any(agent in task.baselines for task in self.tasks):
            return [task for task in self.tasks if agent in task.baselines]
        is_of_trained = bool(self.plan and self.plan.get("trained"))
        described = next((found for found in self.agents if found["name"] == agent), {})
        known = described.get("trained_on")
        if not is_of_trained or not known:
            return list(self.tasks)
        return [task for task in self.tasks if task.env_id in known]

    def keys(self, agent: str) -> Iterator[tuple[str, Task, int, int]]:
        """Key, task, seed and repeat of every episode that an agent plays."""
        for task in self.tasks_of(agent):
            for seed in range(task.first_seed, task.first_seed + task.episodes):
                for repeat in range(self.repeats):
                    yield episode_key(agent, task, seed, repeat), task, seed, repeat


def episode_key(agent: str, task: Task, seed: int, repeat: int) -> str:
    """The name of an episode within a run."""
    again = f" #{repeat}" if repeat else ""
    return f"{agent} | {task.label} | {task.split} {seed}{again}"


def task_label(env_id: str, options: Mapping[str, Any], shown: Iterable[str]) -> str:
    """The name of a task within a run, with the options that tell the run's tasks apart."""
    return " ".join([env_id, *(f"{name}={options[name]}" for name in shown)])


def agent_options(described: Mapping[str, Any], env_id: str) -> dict[str, Any]:
    """What an agent sets of an environment, by its description: of its profile, or of its training
    there.
    """
    return {
        **(described.get("profile") or {}).get("options", {}),
        **(described.get("options") or {}),
        **(described.get("options_by_env") or {}).get(env_id, {}),
    }


def _sha256(data: Any) -> str:
    return hashlib.sha256(
        json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def differing(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ: the path, such as `tasks.0.split`, and both."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other}):
            where = f"{path}.{name}" if path else name
            yield from differing(one.get(name), other.get(name), where)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, pair in enumerate(zip(one, other, strict=True)):
            yield from differing(*pair, f"{path}.{i}")
    elif type(one) is not type(other) or one != other:
        yield path, one, other


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """In what two JSON values differ, hashes aside, a line each: `tasks.0.split: 'test' /
    'val'`.
    """
    found = [each for each in differing(one, other, path) if each[0].rpartition(".")[2] != "sha256"]
    return [f"{where}: {mine!r:.80} / {theirs!r:.80}" for where, mine, theirs in found]
