"""Host memory of a training with pictures, beside that of its pictures as PNG.

    .venv/bin/python -m perf.rollout_memory [--episodes 16 48] [--turns 8] [--side 192] [--staleness
    0]

A model with random weights trains for two rollouts on an environment that shows a new noisy picture
in every turn. Each size runs in a process of its own. `growth` is the rise of the peak from the
size before, divided by the rise of the encoded pictures of one rollout: 1 if nothing but the PNGs
grows with a rollout. Asynchronous rollouts (`--staleness 1`) hold two rollouts at once.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from perf.processes import resident

ENV = "perf/NoisyPictures-v0"
OPTIONS = {"strategy": "no_think", "prompt_pack": "terse"}


def register(side: int) -> None:
    """Register FrozenLake with other pictures: a gradient with four bits of noise, as large in PNG
    as photographs.
    """
    from vagen_envs.frozen_lake.env import FrozenLakeEnv
    from vagen_envs.pictures import Picture

    class NoisyPictures(FrozenLakeEnv):
        id = ENV
        drawn = 0

        def _picture_shape(self) -> tuple[int, int, int]:
            return side, side, 3

        def _picture(self) -> Picture:
            NoisyPictures.drawn += 1
            noise = np.random.default_rng(NoisyPictures.drawn).integers(
                0, 16, (side, side, 3), np.uint8
            )
            return Picture(noise + (np.arange(side) * 200 // side).astype(np.uint8)[:, None, None])

    gym.register(ENV, NoisyPictures)


class Repeats:
    """A generation back-end that always gives the same reply, without an action, so that every turn
    is played.
    """

    def __init__(self, policy: Any, encoder: Any) -> None:
        self.ids = (*encoder.encode("Up"), encoder.end_id)

    def sync(self) -> None:
        """Nothing to do."""

    def sample(self, prompts: Any, sampling: Any, seeds: Any) -> Any:
        """See `Sampler.sample`."""
        from vagen_adapters.ppo.generation import SampledReply

        return [SampledReply(self.ids, (-1.0,) * len(self.ids))] * len(prompts)


def measure(episodes: int, turns: int, side: int, staleness: int) -> dict[str, float]:
    """Bytes of a rollout's encoded pictures, and how far the peak of this process rises while it
    trains.
    """
    import torch

    from vagen_adapters.parity.tiny_model import save_tiny, texts_of
    from vagen_adapters.ppo import picture_features
    from vagen_adapters.ppo.config import MultiTurnPPOConfig
    from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer

    torch.set_num_threads(1)
    picture_features.RECENT = 2**24  # one that small sizes don't fill would count as growth
    register(side)
    with tempfile.TemporaryDirectory() as folder:
        save_tiny(
            folder,
            texts_of(["vagen/FrozenLake-v0"], levels=3, **OPTIONS),
            layers=1,
            vision_layers=1,
        )
        config = MultiTurnPPOConfig(
            output_dir=str(Path(folder) / "out"),
            environments=[
                {"id": ENV, "options": {**OPTIONS, "max_turns": turns, "max_actions_per_turn": 1}}
            ],
            advantage="grpo",
            group_size=4,
            num_envs=4,
            rollouts=2,
            episodes_per_rollout=episodes,
            minibatches=2,
            per_device_train_batch_size=1,
            max_tokens=16,
            max_length=100_000,
            max_staleness=staleness,
            generation="vllm-server" if staleness else "transformers",
            sampler_correction="token" if staleness else "none",
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = MultiTurnPPOTrainer(folder, config, make_sampler=Repeats)
        before = resident()
        trainer.train()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert trainer._experience is not None
    turns_played = [
        turn.turn
        for episode in set(trainer._experience.sequences.episodes)
        for turn in episode.turns
    ]
    pictures = {
        picture.sha256: len(picture.png) for turn in turns_played for picture in turn.pictures
    }
    return {"pictures": len(pictures), "encoded": sum(pictures.values()), "peak": peak - before}


def main(arguments: list[str] | None = None) -> None:
    """Measure each size in a process of its own and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, nargs="+", default=[16, 48])
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--side", type=int, default=192, help="pixels, a multiple of 32")
    parser.add_argument(
        "--staleness", type=int, default=0, help="max_staleness; 1 plays rollouts asynchronously"
    )
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.one:
        print(json.dumps(measure(chosen.episodes[0], chosen.turns, chosen.side, chosen.staleness)))
        return
    print("| episodes | pictures | as PNG, MB | peak, MB | growth |\n|---|---|---|---|---|")
    before: dict[str, float] = {}
    for episodes in chosen.episodes:
        command = [
            sys.executable,
            "-m",
            "perf.rollout_memory",
            "--one",
            "--episodes",
            str(episodes),
        ]
        command += [
            "--turns",
            str(chosen.turns),
            "--side",
            str(chosen.side),
            "--staleness",
            str(chosen.staleness),
        ]
        # Memory in use is measured, without freed memory that glibc keeps: by default it keeps as
        # much again, since its threshold for blocks of their own rises to 32 MiB.
        malloc = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
        environment = {**os.environ, **malloc, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603
        found = json.loads(done.stdout.splitlines()[-1])
        growth = (
            f"{(found['peak'] - before['peak']) / (found['encoded'] - before['encoded']):.2f}"
            if before
            else ""
        )
        encoded, peak = found["encoded"] / 1e6, found["peak"] / 1e6
        print(
            f"| {episodes} | {found['pictures']} | {encoded:.0f} | {peak:.0f} | {growth} |",
            flush=True,
        )
        before = found


if __name__ == "__main__":
    main()
