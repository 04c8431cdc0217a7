"""The environments of a training: their settings, the tasks that they are played as, and the
simulators in use.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_type_hints

import gymnasium as gym

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.episodes import LevelSeed
from vagen_adapters.ppo.setting_types import Above0, check_entries
from vagen_envs.core import VagenEnv
from vagen_envs.extras import need
from vagen_envs.prompting import Prompts
from vagen_envs.sample.env import SampleEnv


@dataclass(frozen=True, kw_only=True)
class TrainingEnvironment:
    """An environment of a training: an entry of `environments` in the settings, or a table
    `[[environments]]` in TOML.

    Attributes:
        id: as in `gym.make`.
        name: in logs and evaluations; the id by default. Unique in a training.
        options: of the environment.
        weight: share of the groups of episodes that are played in it, relative to the other
            environments.
        reward_scale: factor for its rewards before advantages and value targets are computed.
        prompt_packs: each training level is played with one drawn from these (V-Triune, appendix
            B). Evaluations use the first.
        difficulties: rungs of the environment's ladder that it is played on, as its option
            `difficulty`.

    Raises:
        TrainingConfigError: an entry repeats itself, or says twice what is played.
    """

    id: str
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    weight: Above0 = 1.0
    reward_scale: Above0 = 1.0
    prompt_packs: Sequence[str] = ()
    difficulties: Sequence[int] = ()

    def __post_init__(self) -> None:
        for name, option in (("prompt_packs", "prompt_pack"), ("difficulties", "difficulty")):
            entries = getattr(self, name)
            self._require(len(set(entries)) == len(entries), name, "a list of different entries")
            self._require(
                not entries or option not in self.options, name, f"left out beside {option}"
            )
        object.__setattr__(self, "name", self.name or self.id)

    @classmethod
    def read(cls, entry: Mapping[str, Any] | str) -> TrainingEnvironment:
        """Read an entry of the settings; text is the id alone."""
        table = {"id": entry} if isinstance(entry, str) else entry
        if not isinstance(table, Mapping) or "id" not in table:
            raise TrainingConfigError(
                f"environments: {entry!r} must be a table with an id, or an id"
            )
        check_entries("environments", table, get_type_hints(cls, include_extras=True))
        for name in ("name", "prompt_packs", "difficulties"):
            if name in table and not table[name]:
                raise TrainingConfigError(
                    f"environments: {name}={table[name]!r} is not valid: leave it out"
                )
        return cls(**table)

    def tasks(self) -> list[TrainingTask]:
        """The environment on each of its difficulties, with equal shares of its weight."""
        if not self.difficulties:
            return [TrainingTask(self.name, self, self._plain_options, self.weight)]
        weight = self.weight / len(self.difficulties)
        return [
            TrainingTask(
                f"{self.name}:{rung}", self, {**self._plain_options, "difficulty": rung}, weight
            )
            for rung in self.difficulties
        ]

    @property
    def _plain_options(self) -> dict[str, Any]:
        return {
            **self.options,
            **({"prompt_pack": self.prompt_packs[0]} if self.prompt_packs else {}),
        }

    def _require(self, condition: bool, name: str, must_be: str) -> None:
        if not condition:
            raise TrainingConfigError(
                f"environments: {name}={getattr(self, name)!r} of {self.id} is not valid: it "
                f"must be {must_be}"
            )


@dataclass(frozen=True)
class TrainingTask:
    """What groups of episodes are drawn from: an environment with one set of options and a share of
    the weight.

    `name`, in logs, is the environment's, with the difficulty where it has several.
    """

    name: str
    environment: TrainingEnvironment
    options: Mapping[str, Any]
    weight: float

    def make(self, **changes: Any) -> gym.Env[Any, Any]:
        """Make the environment, with `changes` to its options."""
        return gym.make(self.environment.id, **{**self.options, **changes})

    def prompts(self) -> list[Prompts]:
        """The prompt texts of its prompt packs."""
        found = []
        for pack in self.environment.prompt_packs:
            with contextlib.closing(self.make(prompt_pack=pack)) as env:
                found.append(cast(VagenEnv, env.unwrapped).prompts)
        return found


def read_environments(entries: Sequence[Mapping[str, Any] | str]) -> list[TrainingEnvironment]:
    """Read the setting `environments`.

    Raises:
        TrainingConfigError: there is none, an entry is wrong, or two have one name.
    """
    if not entries or isinstance(entries, str | Mapping):
        raise TrainingConfigError(
            f"environments={entries!r} is not valid: it must be a list of at least one"
        )
    found = [TrainingEnvironment.read(entry) for entry in entries]
    names = [task.name for environment in found for task in environment.tasks()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TrainingConfigError(
            f"environments: two are called {twice}; give each a name of its own"
        )
    return found


class EnvironmentPool:
    """Simulators for `size` episodes at once, made when an episode needs one and used again.

    One simulator of each task is made at the start, so that errors in options show early.

    `scheduled` names the tasks whose IoU threshold a training moves, with the threshold that they
    have otherwise: those of samples whose options don't fix it.
    """

    def __init__(self, size: int, tasks: Sequence[TrainingTask]) -> None:
        self.size = size
        self._tasks = {task.name: task for task in tasks}
        self._prompts = {task.name: task.prompts() for task in tasks}
        self._made: dict[str, list[gym.Env[Any, Any]]] = {
            task.name: [task.make()] for task in tasks
        }
        for name, (env,) in self._made.items():
            if not hasattr(env.unwrapped, "system_prompt"):
                raise TrainingConfigError(
                    f"{name} shows no prompts; train on environments derived from VagenEnv"
                )
        self.scheduled = {
            name: env.unwrapped.config.iou_threshold
            for name, (env,) in self._made.items()
            if isinstance(env.unwrapped, SampleEnv)
            and "iou_threshold" not in self._tasks[name].options
        }
        if self.scheduled:
            need("mAP in a training's log", "verify", "pycocotools")
        self.reclaim()

    @classmethod
    def of(cls, envs: Sequence[gym.Env[Any, Any]]) -> EnvironmentPool:
        """A pool of these, which are alike, for levels that name no task."""
        pool = cls(len(envs), [])
        pool._made[""] = list(envs)
        return pool

    @property
    def level_counts(self) -> dict[str, int]:
        """The number of levels of each task that has no endless supply of them."""
        counts = {name: envs[0].unwrapped.level_count for name, envs in self._made.items()}  # type: ignore[attr-defined]
        return {name: count for name, count in counts.items() if count}

    def check_levels(self, splits: Sequence[str]) -> None:
        """Raise TrainingConfigError for a task without levels in one of these splits: published
        data often has no `val`.
        """
        for name, envs in self._made.items():
            if envs[0].unwrapped.level_count is None:  # type: ignore[attr-defined]
                continue
            for split in splits:
                with contextlib.closing(self._tasks[name].make(split=split)) as env:
                    if not env.unwrapped.level_count:  # type: ignore[attr-defined]
                        raise TrainingConfigError(
                            f"{name}: its data has no level in the split {split!r}, which "
                            f"{'eval_rollouts plays' if split == 'val' else 'is trained on'}; add "
                            'some, or set its option split_by="content"'
                        )

    def take(self, level: LevelSeed) -> gym.Env[Any, Any]:
        """A simulator for a level's task, with the level's prompts and IoU threshold."""
        name = level.environment
        if not self._free[name]:
            self._made[name].append(self._tasks[name].make())
            self._free[name].append(self._made[name][-1])
        env = self._free[name].popleft()
        if prompts := self._prompts.get(name):
            env.unwrapped.prompts = prompts[level.prompts]  # type: ignore[attr-defined]
        if name in self.scheduled:
            threshold = level.iou_threshold or self.scheduled[name]
            cast(SampleEnv, env.unwrapped).set_iou_threshold(threshold)
        return env

    def give_back(self, level: LevelSeed, env: gym.Env[Any, Any]) -> None:
        """Let other episodes use the simulator of a level's task."""
        self._free[level.environment].append(env)

    def reclaim(self) -> None:
        """Take back all simulators: what was played in them is not played on."""
        self._free = {name: deque(envs) for name, envs in self._made.items()}
