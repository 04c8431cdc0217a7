"""Compare the difficulty sampler with uniform sampling on Sokoban's ladder, with a model of a
million parameters.

    .venv/bin/python benchmarks/experiments/difficulty_sampler.py --out runs/difficulty

Every training starts from one checkpoint, made by imitation of scripted play on all rungs, and
differs in the seed and the sampler alone. The table shows the episodes until evaluations on the
ladder (equally many validation levels of each rung) reach a success for the first time, and the
last evaluation.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # more threads cost more than they bring for a model of this size

import torch

from vagen_adapters.context import ContextPolicy
from vagen_adapters.ppo.chat_encoder import load_policy
from vagen_adapters.ppo.episodes import LevelSeed
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_experiments import imitation
from vagen_experiments.experiment import CHECKPOINTS
from vagen_experiments.training import close_environments, tiny_recipe

ENV = "vagen/Sokoban-v0"
RUNGS = [0, 1, 2, 3, 4, 5]
OPTIONS = {"prompt_pack": "terse", "strategy": "no_think"}
SAMPLERS = ("uniform", "difficulty")
SUCCESSES = (0.03, 0.04, 0.05, 0.06)
FIRST_IMITATED = 1_000_000
"""First seed of the scripted play; training levels have other seeds."""


def make_checkpoint(folder: Path, episodes: int) -> None:
    """Imitate play in which the oracle takes every second turn, as many episodes of each rung."""
    model, encoder = load_policy(CHECKPOINTS / "sokoban")
    model.float()
    folder.mkdir(parents=True)
    encoder.save_pretrained(folder)
    model.save_pretrained(folder)
    each = episodes // len(RUNGS)
    by_rung = [
        list(
            imitation.demonstrations(
                ENV,
                {**OPTIONS, "difficulty": rung},
                folder,
                [LevelSeed(FIRST_IMITATED + each * rung + number) for number in range(each)],
                oracle_share=0.5,
            )
        )
        for rung in RUNGS
    ]
    played = [
        (episode, ContextPolicy()) for group in zip(*by_rung, strict=True) for episode in group
    ]
    imitation.imitate(
        model,
        encoder,
        iter(played),
        len(played) // 16,
        batch_size=16,
        learning_rate=1e-3,
        report=lambda *_: None,
    )
    model.save_pretrained(folder)


def train(start: Path, out: Path, sampler: str, seed: int, rollouts: int) -> list[dict[str, float]]:
    """Train once; returns the log."""
    config = tiny_recipe("rloo-turns").config(
        [{"id": ENV, "options": OPTIONS, "difficulties": RUNGS}],
        str(out),
        level_sampler=sampler,
        seed=seed,
        rollouts=rollouts,
        episodes_per_rollout=96,
        group_size=8,
        max_tokens=16,
        kl_loss_coef=0.01,
        eval_rollouts=5,
        eval_episodes=240,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    config.logging_steps = config.steps_per_rollout
    trainer = MultiTurnPPOTrainer(str(start), config)
    trainer.train()
    close_environments(trainer)
    names = ("rollout/", "levels/", "eval_")
    return [
        {"episodes": entry["step"] // config.steps_per_rollout * config.episodes_per_rollout}
        | {name: value for name, value in entry.items() if name.startswith(names)}
        for entry in trainer.state.log_history
    ]


def reached(log: list[dict[str, float]], success: float) -> int | None:
    """Episodes until an evaluation reached a success; None if none did."""
    return next(
        (int(entry["episodes"]) for entry in log if entry.get("eval_success", 0) >= success), None
    )


def table(results: dict[str, list[dict[str, float]]]) -> str:
    """Results by sampler and seed as Markdown."""
    titles = " | ".join(f"episodes to {success}" for success in SUCCESSES)
    lines = [
        f"| sampler | seed | {titles} | at the end | equal groups |",
        f"|---|---|{'---|' * len(SUCCESSES)}---|---|",
    ]
    for name, log in sorted(results.items(), reverse=True):
        sampler, seed = name.rsplit("-", 1)
        found = [reached(log, success) for success in SUCCESSES]
        last = [entry["eval_success"] for entry in log if "eval_success" in entry][-1]
        equal = statistics.fmean(
            entry["rollout/equal_groups"] for entry in log if "rollout/equal_groups" in entry
        )
        cells = ["–" if episodes is None else str(episodes) for episodes in found]
        lines.append(f"| {sampler} | {seed} | {' | '.join(cells)} | {last:.3f} | {equal:.2f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/difficulty"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rollouts", type=int, default=45)
    parser.add_argument("--imitated", type=int, default=1200, help="episodes of scripted play")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    start = chosen.out / "checkpoint"
    if not start.is_dir():
        make_checkpoint(start, chosen.imitated)
    results: dict[str, Any] = {}
    for seed in chosen.seeds:
        for sampler in SAMPLERS:
            file = chosen.out / f"{sampler}-{seed}.json"
            if not file.is_file():
                log = train(
                    start,
                    chosen.out / "models" / f"{sampler}-{seed}",
                    sampler,
                    seed,
                    chosen.rollouts,
                )
                file.write_text(json.dumps(log) + "\n", encoding="utf-8")
            results[f"{sampler}-{seed}"] = json.loads(file.read_text(encoding="utf-8"))
    sys.stdout.write(table(results) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
