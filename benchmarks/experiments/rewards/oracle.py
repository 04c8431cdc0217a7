"""What the oracle's words earn: every environment, strategy and representation, on fresh levels.

    python benchmarks/experiments/rewards/oracle.py [vagen/Sokoban-v0 …] [--levels 12]

Prints for each part the mean pay of the default reward, the lowest, and how many statements
`rule-direct` accepts.
"""

from __future__ import annotations

import argparse
import statistics

import gymnasium as gym

import vagen_envs  # noqa: F401
from vagen_rewards import ReasoningReward, RuleJudge, score_turn
from vagen_rewards.scores import PARTS

ENVIRONMENTS = (
    "Sokoban",
    "FrozenLake",
    "Navigation",
    "PrimitiveSkillPlace",
    "PrimitiveSkillStack",
    "PrimitiveSkillDrawer",
    "PrimitiveSkillAlign",
    "SVGReconstruction",
)
STRATEGIES = ("grounding_world_modeling", "grounding", "world_modeling")
REPRESENTATIONS = ("natural_language", "structured", "symbolic")


def measure(env_id: str, strategy: str, representation: str, levels: int) -> str:
    """The figures of one configuration."""
    with gym.make(
        env_id, observation="text", strategy=strategy, representation=representation
    ) as env:
        reward, direct = ReasoningReward().of(env), RuleJudge("direct")
        paid: dict[str, list[float]] = {part: [] for part in PARTS}
        accepted = []
        for seed in range(2_000_000, 2_000_000 + levels):
            env.reset(seed=seed)
            over = False
            while not over:
                *_, terminated, truncated, info = env.step(env.unwrapped.oracle_reply())
                over = terminated or truncated or info["turn"].index == 3
                accepted += [
                    score.value == 1.0 for _, score in score_turn(info["turn"], direct).by_part()
                ]
                for part, score in reward.paid(info["turn"])[1].by_part():
                    paid[part].append(score.value if score.value is not None else -9.0)
    lines = [
        f"{part} {statistics.fmean(found):.2f} (lowest {min(found):.2f})"
        for part, found in paid.items()
        if found
    ]
    return f"{', '.join(lines) or 'nothing judged'}; accepted {sum(accepted)} of {len(accepted)}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("env_ids", nargs="*", default=[f"vagen/{name}-v0" for name in ENVIRONMENTS])
    parser.add_argument("--levels", type=int, default=12)
    options = parser.parse_args()
    for env_id in options.env_ids:
        for representation in REPRESENTATIONS:
            for strategy in STRATEGIES:
                try:
                    told = measure(env_id, strategy, representation, options.levels)
                except (ValueError, NotImplementedError) as error:
                    told = f"not offered ({' '.join(str(error).split())[:70]})"
                print(f"{env_id} {representation} {strategy}: {told}", flush=True)


if __name__ == "__main__":
    main()
