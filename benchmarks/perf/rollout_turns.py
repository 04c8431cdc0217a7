"""CPU seconds of a rollout by its number of turns, with and without kept conversations.

    python -m perf.rollout_turns

Each row is a rollout of eight Sokoban episodes by the parity kit's model, which seldom solves any.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from vagen_adapters.parity import ReferenceModel
from vagen_adapters.parity import tiny_model as tiny
from vagen_adapters.ppo.environments import EnvironmentPool, read_environments
from vagen_adapters.ppo.episodes import LevelSeed, PPOEpisode
from vagen_adapters.ppo.generation import SampleSettings, TransformersSampler
from vagen_adapters.ppo.kept_conversations import KeepingSampler
from vagen_adapters.ppo.rollout import Rollout
from vagen_adapters.ppo.token_sequences import training_sequences

EPISODES = 8
SAMPLING = SampleSettings(temperature=1.0, top_p=1.0, max_tokens=24)


def played(model: ReferenceModel, kind: type[TransformersSampler], turns: int) -> tuple[float, int]:
    """CPU seconds of a rollout, and the tokens of its sequences."""
    options = {"strategy": "no_think", "max_turns": turns, "prompt_pack": tiny.PROMPTS}
    (environment,) = read_environments([{"id": "vagen/Sokoban-v0", "options": options}])
    tasks = environment.tasks()
    sampler = kind(model.model, model.encoder)
    rollout = Rollout(
        EnvironmentPool(EPISODES, tasks), model.encoder, sampler, SAMPLING, max_length=8192
    )
    levels = [LevelSeed(seed, environment=tasks[0].name) for seed in range(EPISODES)]
    began = time.process_time()
    episodes: list[PPOEpisode] = rollout.play(levels, 0)
    spent = time.process_time() - began
    sequences = [sequence for episode in episodes for sequence in training_sequences(episode)]
    return spent, sum(len(sequence.prompt.ids) for sequence in sequences)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print("turns  tokens  kept: s per 1,000 tokens, ms per turn   read anew: the same")
    with tempfile.TemporaryDirectory() as folder:
        model = ReferenceModel(Path(folder) / "tiny")
        for turns in asked.turns:
            line = f"{turns:5}"
            for kind in (KeepingSampler, TransformersSampler):
                rounds = [played(model, kind, turns) for _ in range(asked.rounds)]
                seconds, tokens = statistics.median(spent for spent, _ in rounds), rounds[0][1]
                per_turn = 1000 * seconds / (EPISODES * turns)
                if kind is KeepingSampler:
                    line += f"  {tokens:6}"
                line += f"  {1000 * seconds / tokens:10.3f}  {per_turn:8.1f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
