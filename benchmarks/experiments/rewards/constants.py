"""Search for constant statements that earn: claims of states' own sentences, alone and combined, on
fresh states.

    python benchmarks/experiments/rewards/constants.py vagen/FrozenLake-v0 [--tries 20000] [--always
    Down]

The best of one draw of states are measured again on another draw, since the best of many tries was
lucky in the first.
"""

from __future__ import annotations

import argparse
import heapq
import json
import re
import statistics

import gymnasium as gym

import vagen_envs  # noqa: F401
from vagen_envs.core import Turn
from vagen_envs.seeding import HashStream
from vagen_rewards.contrast import LEAST, LOWEST, Contrast, ContrastStep, contrast_for
from vagen_rewards.reader import Fact, read
from vagen_rewards.scores import PARTS

LAST = 3
"""Index of the last turn of an episode that is played: simulators take half a second a turn."""


def play(env: gym.Env, first: int, count: int, always: str) -> dict[int, list[Turn]]:
    """Turns of fresh levels by stage, at random or always with one action."""
    core, found = env.unwrapped, {0: [], 1: []}
    for seed in range(first, first + count):
        stream = HashStream("constants", seed)
        env.reset(seed=seed)
        over = False
        while not over:
            actions = always.split(",") if always else core.random_actions(stream, 1)
            words = dict.fromkeys(("observation", "reasoning", "prediction"), "-")
            *_, terminated, truncated, info = env.step(core.grammar.render(list(actions), **words))
            found[min(info["turn"].index, 1)].append(info["turn"])
            over = terminated or truncated or info["turn"].index == LAST
    return {stage: turns[:count] for stage, turns in found.items()}


def main() -> None:
    """Print the best constant of each stage and part, as picked and measured again."""
    parser = argparse.ArgumentParser()
    parser.add_argument("env_id")
    parser.add_argument("--tries", type=int, default=20_000)
    parser.add_argument("--states", type=int, default=120)
    parser.add_argument("--always", default="")
    options = parser.parse_args()
    env = gym.make(options.env_id, observation="text")
    contrast = contrast_for(options.env_id, json.dumps({}))
    draws = [play(env, first, options.states, options.always) for first in (2_000_000, 3_000_000)]
    stream = HashStream("constants", "tries")
    for stage in (0, 1):
        for part in PARTS:
            turns, again = (draw[stage] for draw in draws)
            if not turns or contrast.norm(part, stage)[0] < LEAST:
                continue
            kind = turns[0].before.kind
            texts = {
                piece.strip()
                for turn in turns
                for piece in re.split(r"(?<=\.)\s", turn.before.natural_language())
            }
            facts = sorted(
                {claim.key for text in texts for claim in read(kind, text, part).claims}, key=repr
            )

            def table(some: list[Turn], facts: list = facts, part: str = part) -> dict:
                """The gain, count and falseness of each single fact in each turn."""
                return {
                    fact: [_cell(contrast, part, fact, turn) for turn in some] for fact in facts
                }

            mean, most = contrast.norm(part, stage)

            def earned(chosen: tuple, rows: dict, mean: float = mean, most: int = most) -> float:
                values = []
                for cells in zip(*[rows[fact] for fact in chosen], strict=True):
                    count = sum(cell[1] for cell in cells)
                    gain = sum(cell[0] for cell in cells)
                    gain = min(gain, 0.0) if any(cell[2] for cell in cells) else gain
                    values.append(
                        max(LOWEST, gain / mean * min(1.0, most / count)) if count else 0.0
                    )
                return statistics.fmean(values)

            first, second = table(turns), table(again)
            tried = {(fact,) for fact in facts}
            while len(tried) < options.tries:
                tried.add(tuple(stream.sample(facts, min(len(facts), 1 + stream.below(4)))))
            scored = [(earned(chosen, first), chosen) for chosen in tried]
            best = heapq.nlargest(20, scored, key=lambda pair: pair[0])
            measured = max((earned(chosen, second), str(chosen)) for _, chosen in best)
            print(
                f"stage {stage} {part}: picked {best[0][0]:.3f}, fresh {measured[0]:.3f} of "
                f"{len(tried)}",
                flush=True,
            )


def _cell(contrast: Contrast, part: str, fact: Fact, turn: Turn) -> tuple[float, int, bool]:
    step = ContrastStep(turn.before, turn.after)
    gain, count = contrast._sum(
        part, [fact], step, turn.index, tuple(action.text for action in turn.executed)
    )
    return gain, count, fact.holds(turn.before if part == "grounding" else turn.after) is False


if __name__ == "__main__":
    main()
