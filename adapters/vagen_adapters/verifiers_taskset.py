"""verifiers: a taskset of levels.

On the command line it is called `vagen-adapters`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from vagen_adapters.errors import not_importable
from vagen_adapters.rows import levels
from vagen_envs.seeding import Split

try:
    import verifiers.v1 as vf
except ImportError as error:
    raise not_importable(
        "vagen_adapters.verifiers_taskset", "verifiers", "verifiers", error
    ) from error

TASKSET_ID = "vagen-adapters"
"""verifiers finds plug-ins by the name of a top-level package, so `vagen_adapters` exports these
classes.
"""


class LevelsConfig(vf.TasksetConfig):
    """Environment and levels of a taskset. Task `i` is the level of seed `first_seed + i`."""

    env_id: str = "vagen/Sokoban-v0"
    """An id of this package, or of your own `VagenEnv`."""
    split: Split = "train"
    """`"train"`, `"val"` or `"test"`; splits share no level."""
    first_seed: int = Field(0, ge=0)
    num_levels: int | None = Field(None, ge=1)
    """100 by default, or all levels of published data."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the environment, as for `gym.make`."""


class LevelData(vf.TaskData):
    """The arguments that recreate a level."""

    env_id: str
    split: Split
    seed: int
    options: dict[str, Any]
    prompt_hash: str | None = None
    """What the system prompt says, see `vagen_adapters.prompt_check`."""


class LevelTask(vf.Task[LevelData]):
    """A level. `record` derives rewards and metrics from the turns."""


class Levels(vf.Taskset[LevelTask, LevelsConfig]):
    """The levels of a `LevelsConfig`."""

    def load(self) -> Iterator[LevelTask]:
        config = self.config
        named = {
            "split": config.split,
            "first_seed": config.first_seed,
            "num_levels": config.num_levels,
        }
        for (system,), row in levels(config.env_id, **named, **config.options):
            name = f"{config.env_id}/{config.split}/{row['seed']}"
            yield LevelTask(
                LevelData(name=name, system_prompt=system["content"], **row), config.task
            )


def taskset_of(env_id: str) -> type[Levels]:
    """Return a taskset whose levels are, by default, those of `env_id`. A package that exports it
    in `__all__`, beside `Play`, is a plug-in of its own: `vf-eval PACKAGE`.
    """
    named = env_id  # a class body can't read a variable of the name it assigns

    class OwnConfig(LevelsConfig):
        env_id: str = named

    class OwnLevels(Levels, vf.Taskset[LevelTask, OwnConfig]):
        pass

    return OwnLevels
