"""What skills are paid, by each option of `payment`."""

from __future__ import annotations

from collections.abc import Mapping

from vagen_envs.primitive_skill import tasks
from vagen_envs.primitive_skill.cabinets import Vector
from vagen_envs.primitive_skill.config import PrimitiveSkillConfig
from vagen_envs.turn import RewardTerm

_ON_TABLE = 50
"""Height in millimetres up to which the released code takes a cube to lie on the table."""


def of_skill(
    config: PrimitiveSkillConfig, best_before: int, stage: int, *, done: bool
) -> tuple[RewardTerm, ...]:
    """The terms of one skill: the stages that it reached first, and success or the step.

    Args:
        config: options of the environment.
        best_before: the highest stage of the episode before the skill.
        stage: the stage after it.
        done: whether the task is done.
    """
    if config.payment == "released":
        return ()
    terms: list[RewardTerm] = []
    reached = sum(config.stage_rewards[best_before + 1 : stage + 1])
    if reached:
        terms.append(RewardTerm("stage", reached))
    if done:
        terms.append(RewardTerm("success", config.success_reward))
    elif config.step_reward:
        terms.append(RewardTerm("step", config.step_reward))
    return tuple(terms)


def of_episode(
    config: PrimitiveSkillConfig, positions: Mapping[str, Vector], steps: int, *, done: bool
) -> tuple[RewardTerm, ...]:
    """What the released code pays for a whole episode once it is over, beside its stages.

    Args:
        config: options of the environment.
        positions: where things are at the end.
        steps: skills that were carried out.
        done: whether the task is done.
    """
    terms: list[RewardTerm] = []
    if done:
        terms.append(RewardTerm("success", config.success_reward))
    elif config.task == "align":
        red = _is_lined_up(positions["red_cube"])
        green = _is_lined_up(positions["green_cube"])
        if red or green:
            terms.append(RewardTerm("stage", config.stage_rewards[1 if green else 0]))
    if steps:
        terms.append(RewardTerm("step", config.step_reward * steps))
    return tuple(terms)


def _is_lined_up(at: Vector) -> bool:
    return abs(at[0]) <= tasks.ALIGNED and at[2] <= _ON_TABLE
