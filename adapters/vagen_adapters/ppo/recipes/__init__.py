"""Named settings: the rows of VAGEN's tables 2 and 4, Turn-PPO, Verlog and V-Triune. The files
beside this one, a recipe each.

>>> load_recipe("vagen-base").config(["vagen/Sokoban-v0"], output_dir="runs/sokoban")

A TOML file of your own is a recipe too, as docs/training.md shows. It names in `extends` the recipe
that it changes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.setting_types import check_entries
from vagen_envs.errors import did_you_mean

if TYPE_CHECKING:
    from vagen_adapters.ppo.config import MultiTurnPPOConfig

FOLDER = Path(__file__).parent
ENTRIES = {
    **dict.fromkeys(("extends", "model"), str),
    "environments": list[dict[str, Any] | str],
    "overrides": dict[str, dict[str, Any]],
    **dict.fromkeys(("settings", "environment", "reasoning_reward"), dict[str, Any]),
}
"""The entries of a recipe's file, and their types."""


@dataclass(frozen=True)
class Recipe:
    """A recipe.

    Attributes:
        name: as in `load_recipe`.
        model: the policy that training starts from.
        settings: of `MultiTurnPPOConfig`.
        environments: what is trained on, unless others are given; see `TrainingEnvironment` for the
            entries.
        environment: entries that every environment has unless it has its own.
        overrides: further settings for environments, by id. With several environments those count
            that all of them have, and the largest `max_tokens`.
        reasoning_reward: options of `ReasoningReward`, and `not_for`, the environments without.
            Where it isn't empty, the recipe is complete only with a `score` that gives this reward.
    """

    name: str
    model: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    environments: Sequence[Mapping[str, Any] | str] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reasoning_reward: Mapping[str, Any] = field(default_factory=dict)

    def reward_options(self, env_id: str) -> dict[str, Any]:
        """Options of the reward for reasoning in an environment; none where the recipe has none."""
        options = dict(self.reasoning_reward)
        return {} if env_id in options.pop("not_for", ()) else options

    def config(
        self, environments: Sequence[Mapping[str, Any] | str], output_dir: str, **changes: Any
    ) -> MultiTurnPPOConfig:
        """The trainer's settings for environments (none: the recipe's own), with `changes` over
        them.
        """
        from vagen_adapters.ppo.config import MultiTurnPPOConfig

        return MultiTurnPPOConfig(**self.settings_for(environments, output_dir, **changes))

    def settings_for(
        self, environments: Sequence[Mapping[str, Any] | str], output_dir: str, **changes: Any
    ) -> dict[str, Any]:
        """The same as keywords.

        Raises:
            TrainingConfigError: there are no environments, here or in the recipe.
        """
        if isinstance(environments, str):
            raise TrainingConfigError(
                f"environments={environments!r} is not valid: it must be a list"
            )
        tables = [
            {"id": entry} if isinstance(entry, str) else entry
            for entry in environments or self.environments
        ]
        if not tables:
            raise TrainingConfigError(
                f"recipe {self.name} names no environments; give at least one"
            )
        tables = [_merged(self.environment, table) for table in tables]
        settings = _merged(
            self.settings, self._overrides([str(table.get("id")) for table in tables])
        )
        settings = _for_estimator(settings, changes.get("advantage"))
        return {**settings, "environments": tables, "output_dir": output_dir, **changes}

    def _overrides(self, ids: Sequence[str]) -> dict[str, Any]:
        first, *others = [self.overrides.get(env_id, {}) for env_id in ids]
        found = dict(first)
        for other in others:
            found = {name: entry for name, entry in found.items() if other.get(name) == entry}
        default = self.settings.get("max_tokens", 0)
        longest = max(overrides.get("max_tokens", default) for overrides in (first, *others))
        if longest:
            found["max_tokens"] = longest
        return found


def recipe_names() -> list[str]:
    """The recipes of this package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != "common")


def load_recipe(name: str) -> Recipe:
    """A recipe of this package by name, or any file by path.

    Raises:
        TrainingConfigError: there is no such recipe, or its file can't be read.
    """
    return Recipe(name, **_load(name))


def _load(name: str, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """The entries of a recipe that the last of `above` extends, itself extended by the one before
    it.
    """
    if name in recipe_names():
        return _merged(_read(FOLDER / "common.toml"), _read(FOLDER / f"{name}.toml"))
    if not name.endswith(".toml"):
        raise TrainingConfigError(f"unknown recipe {name!r}.{did_you_mean(name, recipe_names())}")
    name = str(Path(name).resolve())
    if name in above:
        raise TrainingConfigError(
            f"recipe {name} extends itself: {' → '.join((*above, name))}; change an `extends`"
        )
    own = _read(Path(name))
    extended = own.pop("extends", None)
    if extended is None:
        return own
    beside = extended if not extended.endswith(".toml") else str(Path(name).parent / extended)
    under = _load(beside, (*above, name))
    advantage = own.get("settings", {}).get("advantage")
    for settings in (under.get("settings", {}), *under.get("overrides", {}).values()):
        settings.update(_for_estimator(settings, advantage))
    return _merged(under, own)


def _for_estimator(settings: Mapping[str, Any], advantage: Any) -> dict[str, Any]:
    """A recipe's settings where another estimator is chosen: what that doesn't take is left out of
    its own.
    """
    own = settings.get("advantage_settings")
    if advantage is None or own is None:
        return dict(settings)
    from vagen_adapters.ppo.estimators import ESTIMATORS, entries_of

    known = entries_of(advantage) if advantage in [*ESTIMATORS] else {}
    return {
        **settings,
        "advantage_settings": {name: entry for name, entry in own.items() if name in known},
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrainingConfigError(f"recipe {path} can't be read: {error}") from error
    check_entries(f"recipe {path}", found, ENTRIES)
    return found


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both, tables within tables too; `over` counts where they differ."""
    merged = dict(under)
    for key, entry in over.items():
        both = isinstance(entry, Mapping) and isinstance(under.get(key), Mapping)
        merged[key] = _merged(under[key], entry) if both else entry
    return merged
