"""What a proof trains by: each recipe's settings and reward, and all that can be known wrong of them beforehand."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from vagen_adapters.errors import TrainingConfigError
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.proofs.proof import Proof
from vagen_benchmarks.proofs.settings import check_settings
from vagen_benchmarks.runs.protocol import make_task
from vagen_envs.errors import did_you_mean, shown

if TYPE_CHECKING:
    from vagen_adapters.ppo.recipes import Recipe

OF_THE_PROOF = {
    "env_id": "env", "env_options": "[options]", "output_dir": "--out", "seed": "seeds",
    "logging_steps": "a rollout's updates",
}  # fmt: skip
"""Settings that a proof makes itself, and of what."""
OF_THE_START = ("shared_backbone", "critic_heads_only", "critic_reads", "critic_convolutions")
"""Settings of the critic that follow from `critic_reads` of the start."""


def check(proof: Proof) -> None:
    """Make the environment and the settings of every recipe once, before minutes are spent on a start.

    Raises:
        ProtocolError: a recipe, a setting or the environment isn't known, or they don't go together.
        VagenError: the environment can't be made here, or refuses an option.
    """
    check_trainings(proof)
    split, episodes = proof.evaluation["split"], proof.evaluation["episodes"]
    try:
        make_task(proof.env, proof.options, split, 0, episodes)
    except ProtocolError as error:
        raise ProtocolError(f"{proof.name}: {error}") from error
    paying = [name for name in proof.recipes if reward_options(proof, recipe_of(proof, name))]
    if isinstance(proof.reasoning_reward, Mapping) and not paying:
        raise ProtocolError(
            f"{proof.name}: [reasoning_reward] changes a reward that none of its recipes has in {proof.env}; "
            "leave it out"
        )
    for name in paying:
        try:
            reward_of(proof, recipe_of(proof, name), training_config(proof, name, proof.seeds[0], Path()))
        except TrainingConfigError as error:
            raise ProtocolError(
                f"{proof.name}: {name} is paid for reasoning, but {error}, in a proof reasoning_reward = false"
            ) from error


def check_trainings(proof: Proof) -> None:
    """The part of `check` that needs no environment."""
    for name in dict.fromkeys([*proof.recipes, *proof.variants]):
        training_config(proof, name, proof.seeds[0], Path())


def recipe_of(proof: Proof, name: str) -> Recipe:
    """The tiny twin of the recipe that a name of `recipes` means. Raises ProtocolError if there is none."""
    from vagen_adapters.ppo.recipes import TINY, load_recipe, recipe_names

    wanted = proof.trains(name).recipe
    if wanted not in recipe_names():
        known = [*recipe_names(), *(() if name in proof.variants else proof.variants)]
        whose = f"variant {name}: " if name in proof.variants else ""
        raise ProtocolError(f"{proof.name}: {whose}unknown recipe {shown(wanted)}.{did_you_mean(wanted, known)}")
    return load_recipe(TINY + wanted)


def training_config(proof: Proof, name: str, seed: int, out: Path) -> Any:
    """The trainer's settings for one of the recipes or variants, whose model goes to `out`.

    Raises:
        ProtocolError: they can't be made of what the proof says, or something it says would be left aside.
    """
    recipe, variant = recipe_of(proof, name), proof.trains(name)
    given = {**proof.settings, **variant.settings}
    try:
        for settings, where in ((proof.settings, "[settings]"), (variant.settings, f"[variants.{name}] settings")):
            for each in settings:
                if each in OF_THE_PROOF:
                    raise TrainingConfigError(f"{where} {each} is made of {OF_THE_PROOF[each]}; leave it out")
            check_settings(settings, where)
        config = recipe.config(
            proof.env, str(out / "models" / f"{name}-{seed}"), env_options=dict(proof.options), seed=seed,
            **{"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, **given},
        )  # fmt: skip
        config.logging_steps = config.steps_per_rollout
        _fit_critic(proof, config, given)
        if math.isfinite(proof.target) and not config.eval_rollouts:
            raise TrainingConfigError(
                f"target={proof.target} is looked for in evaluations, and there are none; "
                "add eval_rollouts to [settings], or leave target out"
            )
    except TrainingConfigError as error:
        raise ProtocolError(f"{proof.name}: {name}: {error}") from error
    except (TypeError, ValueError, OverflowError) as error:  # transformers' and Python's, of values that can't be read
        said = ", ".join(f"{each}={shown(setting)}" for each, setting in given.items())
        raise ProtocolError(
            f"{proof.name}: {name}: settings that can't be taken ({said}): {' '.join(str(error).split())}"
        ) from error
    return config


def begins_told(proof: Proof, name: str) -> bool:
    """Whether a recipe or variant begins with a critic that was told states, as the start's was shown them."""
    told: bool = training_config(proof, name, proof.seeds[0], Path()).critic_told
    return told and proof.start.critic_reads


def _fit_critic(proof: Proof, config: Any, given: Mapping[str, Any]) -> None:
    """Make the critic the one that the start has taught."""
    if config.critic_kind == "none":
        return
    if not proof.start.critic_reads:
        if config.shared_backbone:
            raise TrainingConfigError(
                "shared_backbone=True would be another critic than the start's; add critic_reads = true to [start]"
            )
        return
    config.shared_backbone = config.critic_heads_only = True
    config.critic_reads = not config.critic_told
    config.critic_convolutions = proof.start.critic_convolutions if config.critic_reads else 0
    for name in OF_THE_START:
        if name in given and given[name] != getattr(config, name):
            raise TrainingConfigError(
                f"{name}={given[name]} would be {getattr(config, name)}, as [start] has critic_reads = true; "
                "leave it out"
            )


def reward_options(proof: Proof, recipe: Recipe) -> dict[str, Any]:
    """Options of the reward for reasoning; none where it isn't paid."""
    options = {} if proof.reasoning_reward is False else recipe.reward_options(proof.env)
    changes = proof.reasoning_reward if isinstance(proof.reasoning_reward, Mapping) else {}
    return {**options, **changes} if options else {}


def reward_of(proof: Proof, recipe: Recipe, config: Any) -> Any:
    """The `score` of a trainer; None where reasoning isn't paid. Raises VagenError if it can't be paid there."""
    from vagen_adapters.ppo.reasoning import make_reward, reasoning_score

    options = reward_options(proof, recipe)
    if not options:
        return None
    with contextlib.closing(gym.make(proof.env, **proof.options)) as env:
        return reasoning_score(make_reward(options, env), config.reasoning_credit)
