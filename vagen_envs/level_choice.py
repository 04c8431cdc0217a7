"""Which levels the resets of an environment draw from.

Gymnasium's automatic resets call `reset()` without options, so what a reset names has to hold for
those after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from vagen_envs.config import EnvConfig
from vagen_envs.errors import ConfigError
from vagen_envs.seeding import SPLITS, Split


@dataclass(frozen=True)
class LevelChoice:
    """A split, and the number of one of its levels, or `None` where seeds choose among all of
    them.
    """

    split: Split
    level: int | None = None

    @classmethod
    def of(cls, config: EnvConfig) -> Self:
        """The choice before anything is named in a reset."""
        return cls(config.split, config.level)

    def renamed(
        self, named: Mapping[str, Any], seed: int | None, configured_level: int | None
    ) -> LevelChoice:
        """The choice of a reset that names these options, and of the resets after it.

        A level is held until another is named. A seed names one, and so does another split, whose
        levels are other ones: then the configured level counts again.
        """
        released = seed is not None or "split" in named
        level = configured_level if released else self.level
        return LevelChoice(named.get("split", self.split), named.get("level", level))

    def require(self, count: int | None, env_id: str) -> None:
        """Raise ConfigError unless the level is among the `count` levels of the split."""
        if self.level is not None and count is not None and self.level >= count:
            raise ConfigError(
                f"{env_id}: there is no level={self.level}: the split {self.split!r} has "
                f"{count}, counted from 0"
            )

    def to_json(self) -> list[Any]:
        """For a snapshot."""
        return [self.split, self.level]

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Raises ValueError or TypeError for anything that `to_json` doesn't give."""
        split, level = data
        if split not in SPLITS or not (level is None or (type(level) is int and level >= 0)):
            raise ValueError("a choice of levels that can't be")
        return cls(split, level)
