"""Measure how much better a model foresees held-out scripted play if it is shown more of the past.

    .venv/bin/python benchmarks/experiments/measure_memory.py runs/experiments/memory/checkpoint

Prints for each policy of memory of the experiment `memory` the cross-entropy of a turn's reply in
nats, and how it differs from that under `all` on the same episodes, with the 95 % interval over
episodes. Summaries aren't counted.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from pathlib import Path

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # more threads cost more than they bring for a model of this size

import gymnasium as gym
import torch

from vagen_adapters.context import ContextPolicy
from vagen_adapters.ppo.chat_encoder import load_policy
from vagen_adapters.ppo.episodes import LevelSeed, PlayedTurn
from vagen_adapters.ppo.generation import TILE, model_inputs
from vagen_adapters.ppo.token_sequences import training_sequences
from vagen_experiments.experiment import load_experiment
from vagen_experiments.imitation import Read, demonstrate
from vagen_experiments.memory import read_under

FIRST_SEED = 3_000_000
"""Of the episodes; no imitation has read them."""


@torch.no_grad()
def nats(model: torch.nn.Module, encoder: object, read: Read) -> float:
    """The mean over the turns of an episode of their replies' cross-entropy."""
    episode, context = read
    sequences = training_sequences(episode, context)
    inputs = model_inputs([each.prompt for each in sequences], encoder, model.device, multiple=TILE)
    logprobs = model(**inputs, use_cache=False).logits[:, :-1].float().log_softmax(-1)
    of_tokens = logprobs.gather(2, inputs["input_ids"][:, 1:, None]).squeeze(2)
    steps, total = episode.steps, 0.0
    for row, sequence in enumerate(sequences):
        for place, step in enumerate(sequence.turn_ids):
            if step >= 0 and isinstance(steps[step], PlayedTurn):
                total -= float(of_tokens[row, place - 1])
    return total / len(episode.turns)


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, help="folder of the model")
    parser.add_argument("--episodes", type=int, default=200)
    chosen = parser.parse_args(arguments)
    experiment, (model, encoder) = load_experiment("memory"), load_policy(chosen.model)
    env, share = gym.make(experiment.env, **experiment.options), experiment.checkpoint.oracle_share
    levels = [LevelSeed(FIRST_SEED + number) for number in range(chosen.episodes)]
    played = [demonstrate(env, encoder, level, oracle_share=share) for level in levels]
    system, first = env.unwrapped.system_prompt, list[float]()
    for context in map(ContextPolicy.parse, experiment.evaluation.contexts):
        found = [
            nats(model, encoder, read_under(episode, context, encoder, system))
            for episode in played
        ]
        first = first or found
        more = [own - base for own, base in zip(found, first, strict=True)]
        half = 1.96 * statistics.stdev(more) / math.sqrt(len(more))
        sys.stdout.write(
            f"{context!s:14} {statistics.fmean(found):.3f}  {statistics.fmean(more):+.3f} ± "
            f"{half:.3f}\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
