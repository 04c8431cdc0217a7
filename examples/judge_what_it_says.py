"""Judge the statements of two replies with the same actions: one true, one made up.

The task rewards are equal; the terms `grounding` and `world_modeling` differ.
"""

from __future__ import annotations

import gymnasium as gym

import vagen_envs
from vagen_rewards import RuleJudge, VisualReasoningReward


def main() -> None:
    gym.register_envs(vagen_envs)
    env = VisualReasoningReward(gym.make("vagen/Sokoban-v0", split="test"), RuleJudge())
    for honest in (True, False):
        env.reset(seed=3)
        oracle = env.unwrapped
        actions = oracle.plan()[:3]
        reply = oracle.oracle_reply()
        if not honest:
            reply = oracle.grammar.render(
                actions,
                observation="The box is below and on the right side of the player.",
                reasoning="I go on.",
                prediction="The box is on the target.",
            )
        *_, info = env.step(reply)
        print(reply)
        print({term.name: round(term.value, 3) for term in info["turn"].rewards}, "\n")


if __name__ == "__main__":
    main()
