"""The trainer's settings and reward for one recipe of an experiment."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
from transformers import TrainerCallback

from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.estimators import WITHOUT_CRITIC
from vagen_adapters.ppo.reasoning import ReasoningScore, make_reward
from vagen_adapters.ppo.recipes import Recipe, load_recipe
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_experiments.critics import StudyConfig
from vagen_experiments.experiment import ROOT, Experiment

CRITIC = "eval_critic_"


def close_environments(trainer: MultiTurnPPOTrainer) -> None:
    """Close the simulators of a training, which hold windows and processes until then."""
    for envs in trainer.worker.rollout.environments._made.values():
        for env in envs:
            env.close()


def tiny_recipe(name: str, changes: str = "tiny.toml") -> Recipe:
    """A recipe with the settings for tiny models, or of another file of this folder, over its
    own.
    """
    recipe, tiny = load_recipe(name), load_recipe(str(ROOT / changes))
    return dataclasses.replace(
        recipe,
        model=None,
        settings={**recipe.settings, **tiny.settings},
        environment={**recipe.environment, **tiny.environment},
    )


def recipe_of(experiment: Experiment, name: str) -> Recipe:
    """The recipe of a variant, for models of the experiment's size."""
    changes = "language.toml" if experiment.checkpoint.is_pretrained else "tiny.toml"
    return tiny_recipe(experiment.variant(name).recipe, changes)


def options_of(experiment: Experiment, name: str) -> dict[str, Any]:
    """The environment's options in a variant."""
    return {**experiment.options, **experiment.variant(name).options}


def training_config(experiment: Experiment, name: str, seed: int, out: Path) -> StudyConfig:
    """The settings of one training, whose model is saved to `out`.

    The critic is a head over the policy's states that doesn't teach its backbone. A tiny model's is
    the one that the initial checkpoint has: it pools over the image tokens of the frozen policy, or
    is given the state.
    """
    given = {**experiment.settings, **experiment.variant(name).settings}
    fixed = {"report_to": "none", "save_strategy": "no", "use_cpu": True}
    settings = recipe_of(experiment, name).settings_for(
        [{"id": experiment.env, "options": options_of(experiment, name)}],
        str(out),
        seed=seed,
        **{**fixed, **given},
    )
    config = StudyConfig(**settings)
    if experiment.checkpoint.is_pretrained:
        return config
    config.logging_steps = config.steps_per_rollout
    if config.critic_kind != "none":
        config.shared_backbone = True
        config.critic_reads = not config.critic_told
        config.critic_convolutions = (
            experiment.checkpoint.critic_convolutions if config.critic_reads else 0
        )
    return config


def uses_privileged_critic(experiment: Experiment, name: str) -> bool:
    """Whether a recipe's critic is given the ground-truth state (asymmetric actor-critic)."""
    return bool(experiment.variant(name).settings.get("critic_told", False))


def has_reading_critic(experiment: Experiment) -> bool:
    """Whether a recipe's critic reads the picture instead of being given the state."""
    for name in experiment.recipes:
        given = {**experiment.settings, **experiment.variant(name).settings}
        advantage = given.get("advantage", recipe_of(experiment, name).settings["advantage"])
        if advantage not in WITHOUT_CRITIC and not given.get("critic_told", False):
            return True
    return False


def reward_of(experiment: Experiment, name: str, config: MultiTurnPPOConfig) -> Any:
    """The `score` of the trainer; None where reasoning is not rewarded."""
    options = (
        recipe_of(experiment, name).reward_options(experiment.env)
        if experiment.reasoning_reward
        else {}
    )
    if not options:
        return None
    options = {**options, **experiment.variant(name).reward}
    with contextlib.closing(gym.make(experiment.env, **options_of(experiment, name))) as env:
        return ReasoningScore(make_reward(options, env), config.reasoning_credit)


class Evaluations(TrainerCallback):  # type: ignore[misc]
    """Records every evaluation of a training.

    Attributes:
        cpu_seconds: of this process, spent on rollouts and updates. Simulators' worker processes
            are not included.
        found: episodes, CPU seconds and success of each evaluation.
        critic: what each evaluation measured of the critic.
    """

    def __init__(self, config: MultiTurnPPOConfig) -> None:
        self.cpu_seconds = 0.0
        self.found: list[tuple[int, float, float]] = []
        self.critic: list[dict[str, float]] = []
        self._episodes, self._steps = config.episodes_per_rollout, config.steps_per_rollout
        self._started = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._started = time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.cpu_seconds += time.process_time() - self._started

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any
    ) -> None:
        metrics = metrics or {}
        episodes = state.global_step // self._steps * self._episodes
        self.found.append((episodes, self.cpu_seconds, metrics["eval_success"]))
        of_critic = {
            key.removeprefix(CRITIC): value
            for key, value in metrics.items()
            if key.startswith(CRITIC)
        }
        if of_critic:
            self.critic.append(of_critic)
