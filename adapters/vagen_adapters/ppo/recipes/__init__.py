"""Named settings: the rows of VAGEN's tables 2 and 4, Turn-PPO and Verlog. The files beside this one, a recipe each.

>>> load_recipe("vagen-base").config("vagen/Sokoban-v0", output_dir="runs/sokoban")
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vagen_adapters.errors import TrainingConfigError
from vagen_envs.errors import did_you_mean

if TYPE_CHECKING:
    from vagen_adapters.ppo.config import MultiTurnPPOConfig

FOLDER = Path(__file__).parent
TINY = "tiny-"


@dataclass(frozen=True)
class Recipe:
    """A recipe.

    Attributes:
        name: as in `load_recipe`.
        model: the policy that the paper starts from; None for a tiny recipe, which trains a folder of yours.
        settings: of `MultiTurnPPOConfig`.
        environments: further settings for environments, by id.
        reasoning_reward: options of `ReasoningReward`, and `not_for`, the environments without. Where it isn't empty,
            the recipe is what it says only with a `score` that gives this.
    """

    name: str
    model: str | None
    settings: Mapping[str, Any]
    environments: Mapping[str, Mapping[str, Any]]
    reasoning_reward: Mapping[str, Any]

    def reward_options(self, env_id: str) -> dict[str, Any]:
        """Options of the reward for reasoning in an environment; none where the recipe has none."""
        options = dict(self.reasoning_reward)
        return {} if env_id in options.pop("not_for", ()) else options

    def config(self, env_id: str, output_dir: str, **changes: Any) -> MultiTurnPPOConfig:
        """The trainer's settings for an environment, with `changes` over them."""
        from vagen_adapters.ppo.config import MultiTurnPPOConfig

        return MultiTurnPPOConfig(**self.settings_for(env_id, output_dir, **changes))

    def settings_for(self, env_id: str, output_dir: str, **changes: Any) -> dict[str, Any]:
        """The same as keywords."""
        settings = _merged(self.settings, self.environments.get(env_id, {}))
        settings = {**settings, "env_id": env_id, "output_dir": output_dir, **changes}
        options = {**self.settings.get("env_options", {}), **changes.get("env_options", {})}
        return {**settings, "env_options": options}


def recipe_names() -> list[str]:
    """All recipes, without their tiny twins."""
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem not in ("common", "tiny"))


def load_recipe(name: str) -> Recipe:
    """A recipe, or with `tiny-` before its name its twin for the tiny model.

    Raises:
        TrainingConfigError: there is no such recipe.
    """
    names = recipe_names()
    plain = name.removeprefix(TINY)
    if plain not in names:
        known = [*names, *(TINY + each for each in names)]
        raise TrainingConfigError(f"unknown recipe {name!r}.{did_you_mean(name, known)}")
    merged = _merged(_read("common"), _read(plain))
    if name != plain:
        merged = {**_merged(merged, _read("tiny")), "model": None}
    return Recipe(
        name, merged["model"], merged["settings"], merged.get("environments", {}), merged.get("reasoning_reward", {})
    )


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both, tables within tables too; `over` counts where they differ."""
    merged = dict(under)
    for key, entry in over.items():
        both = isinstance(entry, Mapping) and isinstance(under.get(key), Mapping)
        merged[key] = _merged(under[key], entry) if both else entry
    return merged
