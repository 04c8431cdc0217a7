"""The protocol of a run: episodes, environments with their options, agents. It is stored with its
hash.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import hashlib
import importlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import gymnasium as gym

import vagen_envs
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.redaction import redacted
from vagen_envs.core import VagenEnv
from vagen_envs.errors import VagenError, did_you_mean, place_of
from vagen_envs.seeding import SPLITS

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
        described = next((each for each in self.agents if each["name"] == agent), {})
        known = described.get("trained_on") if (self.plan or {}).get("trained") else None
        return [task for task in self.tasks if not known or task.env_id in known]

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
            yield from differing(one.get(name), other.get(name), f"{path}.{name}" if path else name)
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


def short_name(env_id: str) -> str:
    """As a person writes it: `sokoban` for `vagen/Sokoban-v0`."""
    return env_id.partition("/")[2].rpartition("-v")[0].lower()


def resolve_id(name: str) -> str:
    """A registered id for what a person may write: `vagen/Sokoban-v0`, `Sokoban-v0` or
    `sokoban`.
    """
    if name in gym.registry or ":" in name:
        if ":" in name and "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.append(
                str(Path.cwd())
            )  # a console script's path lacks the folder that it is called in
        return name
    wanted = name.lower()
    for env_id in reversed(vagen_envs.ENV_IDS):
        if wanted in (env_id.lower(), env_id.partition("/")[2].lower(), short_name(env_id)):
            return env_id
    known = [short_name(env_id) for env_id in vagen_envs.ENV_IDS]
    near = [each for each in known if wanted and wanted in each]
    # Of a short name for a long one difflib makes nothing: `svgg` and `svgreconstruction` share
    # three letters of 21.
    near = (
        near
        or difflib.get_close_matches(wanted, known, 1)
        or [each for each in known if each[:3] == wanted[:3]]
    )
    meant = (
        f" Did you mean {' or '.join(map(repr, near))}?" if near else did_you_mean(wanted, known)
    )
    own = "An environment of your own is named MODULE:ID, such as my_env:example/MyEnv-v0"
    raise ProtocolError(f"unknown environment {name!r}.{meant} {own}")


def import_environments(tasks: Iterable[Task]) -> None:
    """Import the modules that `MODULE:ID` names in a run of one's own, which define the kinds of
    its states.

    Raises:
        ProtocolError: a module can't be imported.
    """
    for env_id in {task.env_id for task in tasks if ":" in task.env_id}:
        module = resolve_id(env_id).partition(":")[0]
        try:
            importlib.import_module(module)
        except ImportError as error:
            fix = "call vagen in its folder or add it to PYTHONPATH"
            raise ProtocolError(
                f"{env_id}: the module {module!r} can't be imported ({error}); {fix}"
            ) from error


@contextlib.contextmanager
def _own_code(env_id: str) -> Iterator[None]:
    """Turn a fault in the module of an environment `MODULE:ID` into one error that says where it
    is.
    """
    try:
        yield
    except VagenError:
        raise
    except gym.error.Error as error:
        module = sys.modules.get(env_id.rpartition(":")[0])
        is_folder = (
            module is not None and getattr(module, "__file__", None) is None
        )  # a namespace package
        fix = " Its module is a folder here; call vagen in that folder" if is_folder else ""
        raise ProtocolError(f"{env_id} can't be made: {error}{fix}") from error
    except TypeError as error:
        raise ProtocolError(
            f"{env_id} isn't an environment of this contract ({error!s:.200})"
        ) from error
    except Exception as error:
        if ":" not in env_id:  # such as an extra that isn't installed
            raise
        raise ProtocolError(
            f"{env_id} can't be made: {type(error).__name__}: {error}{place_of(error)}"
        ) from error


def make_task(
    env_id: str,
    options: Mapping[str, Any],
    split: str,
    first_seed: int,
    episodes: int | None,
    shown: Sequence[str] = (),
) -> Task:
    """A task whose environment was made and reset once, so that what is missing shows before the
    run.

    Without `episodes`, the environment's own `test_episodes` are meant.

    `shown` names those options that tell the run's tasks of one environment apart.

    Raises:
        VagenError: the environment can't be made or reset here, or refuses an option.
        ProtocolError: the id isn't an environment of this contract.
    """
    if split not in SPLITS:
        raise ProtocolError(f"unknown split {split!r}.{did_you_mean(split, SPLITS)}")
    if "split" in options:
        raise ProtocolError("split is no option of an environment here; it is the run's: --split")
    with _own_code(env_id):
        env = gym.make(env_id, disable_env_checker=True, split=split, **options)
    inner = env.unwrapped
    try:
        if not isinstance(inner, VagenEnv):
            raise ProtocolError(
                f"{env_id} is a {type(inner).__name__}, not a VagenEnv; use one of `vagen envs`"
            )
        with _own_code(env_id):
            env.reset(seed=first_seed)
        return Task(
            label=task_label(env_id, options, shown),
            env_id=env_id,
            options=dict(options),
            split=split,
            first_seed=first_seed,
            episodes=episodes or inner.test_episodes,
            config=dataclasses.asdict(inner.config),
            system_prompt=inner.system_prompt,
            prompts_sha256=inner.prompts.pack.sha256(),
            baselines=tuple(inner.baselines),
        )
    finally:
        env.close()


@dataclass(frozen=True)
class Skipped:
    """An environment that can't be made here, and why."""

    env_id: str
    reason: str


def make_tasks(
    env_ids: Sequence[str],
    *,
    strategies: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    split: str = "test",
    first_seed: int = 0,
    episodes: int | None = None,
) -> tuple[list[Task], list[Skipped]]:
    """A task for each environment and strategy.

    Without `env_ids`, all environments of this package are meant, and those that can't be made here
    are returned as skipped with the reason.

    Raises:
        ProtocolError: an environment that was asked for can't be made.
    """
    tasks: list[Task] = []
    skipped: list[Skipped] = []
    known: list[tuple[Mapping[str, Any], str]] = []
    for env_id in [resolve_id(name) for name in env_ids] or vagen_envs.ENV_IDS:
        for strategy in strategies or [None]:  # type: ignore[list-item]
            chosen = {**(options or {}), **({"strategy": strategy} if strategy else {})}
            shown = ["strategy"] if len(strategies) > 1 else []
            try:
                task = make_task(env_id, chosen, split, first_seed, episodes, shown)
                # Two ids may stand for one environment with the same options; without ids it is
                # played once.
                if env_ids or (task.config, task.system_prompt) not in known:
                    tasks.append(task)
                    known.append((task.config, task.system_prompt))
            except (VagenError, ImportError, OSError) as error:
                if env_ids:
                    raise ProtocolError(str(error)) from error
                skipped.append(Skipped(env_id, str(error)))
                break
    return tasks, skipped
