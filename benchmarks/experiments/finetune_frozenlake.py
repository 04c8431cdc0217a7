"""Fine-tune a pretrained language model on replies of the oracle: does it then play FrozenLake by
sight?

    .venv-vllm/bin/python benchmarks/experiments/finetune_frozenlake.py --out runs/finetuning

`make test-real` installs what this needs. First the random vision tower and connector of
`vagen_experiments.pretrained` learn to see. Then everything learns the oracle's replies: tower and
connector in full, the language model by LoRA. A control learns them beside pictures of other turns.
A stage whose weights are in the output folder isn't repeated. Forty to fifty minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import torch

from vagen_adapters.context import ContextPolicy
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import LevelSeed
from vagen_adapters.ppo.generation import SampleSettings, TransformersSampler
from vagen_adapters.ppo.rollout import Rollout
from vagen_benchmarks.agents.blind_baselines import search
from vagen_benchmarks.agents.scripted import WORDS
from vagen_benchmarks.agents.trained import CARD
from vagen_benchmarks.results.stats import wilson
from vagen_experiments import imitation
from vagen_experiments.evaluation import ShuffledImages, figures
from vagen_experiments.fine_tuning import FineTuning

ENV = "vagen/FrozenLake-v0"
OPTIONS: dict[str, Any] = {  # those of configs/solve-frozenlake.toml
    "prompt_pack": "terse",
    "strategy": "no_think",
    "max_turns": 6,
    "max_actions_per_turn": 1,
    "min_solution_length": 2,
    "max_solution_length": 5,
}
MAX_TOKENS = 16
UPDATES = {"sight": 540, "replies": 550, "replies-blind": 140}


def play(
    model: Any, encoder: ChatEncoder, levels: Sequence[LevelSeed], *, shuffled: bool = False
) -> dict[str, Any]:
    """Figures of the most likely replies on `levels`."""
    envs = [gym.make(ENV, **OPTIONS) for _ in range(min(64, len(levels)))]
    sampling = SampleSettings(temperature=0.0, top_p=1.0, max_tokens=MAX_TOKENS)
    players = [ShuffledImages(env) for env in envs] if shuffled else envs
    rollout = Rollout(
        players,
        encoder,
        TransformersSampler(model, encoder),
        sampling,
        context=ContextPolicy(turns=0),
    )
    with torch.autocast("cpu", torch.bfloat16):
        return figures(rollout.play(levels, seed=0), None)


def save_merged(tuning: FineTuning) -> None:
    """Write the fine-tuned model to `model`, for `vagen bench --agent`."""
    folder = tuning.out / "model"
    tuning.save_merged(folder)
    card = {
        "environments": [{"id": ENV, "options": OPTIONS}],
        "max_tokens": MAX_TOKENS,
        "context": "last:0",
    }
    (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def play_blind(levels: Sequence[LevelSeed]) -> dict[str, Any]:
    """Success of the best replies that are the same for every level."""
    env, solved = gym.make(ENV, **OPTIONS), 0
    best = search(env.unwrapped)
    for level in levels:
        env.reset(seed=level.seed, options={"split": level.split})
        for actions in best:
            *_, terminated, truncated, info = env.step(
                env.unwrapped.grammar.render(actions, **WORDS)
            )
            if terminated or truncated:
                break
        solved += info["turn"].success
    return {"episodes": len(levels), "successes": solved}


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/finetuning"))
    parser.add_argument("--seed", type=int, default=0, help="of the adapters")
    parser.add_argument(
        "--levels", type=int, default=256, help="held-out levels of each evaluation"
    )
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    tuning = FineTuning(chosen.out, ENV, OPTIONS, UPDATES, chosen.seed)
    levels = [LevelSeed(seed, "test") for seed in range(chosen.levels)]
    _, encoder = tuning.policy("start")
    env = gym.make(ENV, **OPTIONS)
    random = [imitation.demonstrate(env, encoder, level, oracle_share=0.0) for level in levels]
    found = {"random": figures(random, None), "best blind": play_blind(levels)}
    for stage in ("replies", "replies-blind", "start"):
        model, encoder = tuning.policy(stage)
        found[stage] = play(model, encoder, levels)
        if stage == "replies":
            found["replies, pictures of other levels"] = play(model, encoder, levels, shuffled=True)
        (chosen.out / "results.json").write_text(
            json.dumps(found, indent=1) + "\n", encoding="utf-8"
        )
    save_merged(tuning)
    for name, figure in found.items():
        low, high = wilson(figure["successes"], figure["episodes"])
        more = [
            f"{figure[key]:.2f}" if key in figure else "–"
            for key in ("format", "fatal_moves", "idle_moves")
        ]
        rate = figure["successes"] / figure["episodes"]
        sys.stdout.write(f"| {name} | {rate:.3f} | {low:.2f}–{high:.2f} | {' | '.join(more)} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
