"""Measure how much of GRPO's gradient is signal, at the initial checkpoint of an experiment.

    .venv/bin/python benchmarks/experiments/measure_signal.py sample-iou fixed-0.85

It prints the cosines between the gradients of several rollouts of different levels, at the same
weights, and by how much the advantages of one of them ask for sharper sampling: the mean of an
episode's advantage times the derivative of its log-probability by 1/T.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor

from vagen_adapters.ppo.experience import Experience
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_experiments.critics import StudyTrainer
from vagen_experiments.experiment import load_experiment
from vagen_experiments.training import close_environments, training_config

ROLLOUTS = 4
SHARPER = 0.02
"""By how much 1/T is raised for its derivative."""


def gradient(trainer: MultiTurnPPOTrainer, experience: Experience) -> Tensor:
    """(P,) The gradient of all of a rollout's episodes, by the P weights of the policy."""
    trainer.model.zero_grad()
    rows = torch.arange(len(experience.sequences.rows))
    trainer.backward(experience, rows, only_critic=False)
    weights = trainer.model.trainable(critic=False)
    return torch.cat([weight.grad.flatten() for weight in weights]).clone()


def cosines(vectors: Tensor) -> list[float]:
    """Of each pair of the (N, P) vectors."""
    unit = torch.nn.functional.normalize(vectors, dim=1)
    return [float(one @ other) for one, other in itertools.combinations(unit, 2)]


def over_rms(gradients: Tensor) -> Tensor:
    """(N, P) → (N, P) Each weight's gradients over their root mean square, as Adam's steps are."""
    return gradients / gradients.square().mean(0).sqrt().clamp(min=1e-12)


def by_sharpness(trainer: MultiTurnPPOTrainer, experience: Experience) -> Tensor:
    """(B,) The derivatives of the log-probabilities of a rollout's sequences by 1/T."""
    temperature = trainer.args.temperature
    found = []
    for inverse in (1.0, 1.0 + SHARPER):
        trainer.args.temperature = temperature / inverse
        with torch.no_grad():
            scored = trainer._scores(experience.sequences, ["logprobs"])["logprobs"]
        found.append((scored * experience.advantages.mask).sum(1))
    trainer.args.temperature = temperature
    return (found[1] - found[0]) / SHARPER


def signal(experience: Experience, slopes: Tensor) -> tuple[float, float]:
    """The mean of advantage times slope, (B,), and its standard error over groups."""
    mask = experience.advantages.mask
    advantages = (experience.advantages.advantages * mask).sum(1) / mask.sum(1).clamp(min=1)
    groups = torch.tensor([episode.level.group for episode in experience.sequences.episodes])
    of_groups = [float((advantages * slopes)[groups == group].mean()) for group in groups.unique()]
    return statistics.fmean(of_groups), statistics.stdev(of_groups) / len(of_groups) ** 0.5


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("experiment", help="its name, or the path of a TOML file")
    parser.add_argument("recipe", help="one of the experiment's recipes or variants")
    parser.add_argument("--checkpoint", type=Path, help="of the experiment's --out by default")
    chosen = parser.parse_args()
    experiment = load_experiment(chosen.experiment)
    out = Path("runs/experiments") / experiment.name
    config = training_config(experiment, chosen.recipe, 0, out / "signal")
    trainer = StudyTrainer(str(chosen.checkpoint or out / "checkpoint"), config)
    gradients = []
    for number in range(ROLLOUTS):
        experience = trainer.collect_experience(number)
        if experience is None:
            parser.error("an episode of every group failed; look at the environment")
        gradients.append(gradient(trainer, experience))
    slopes = by_sharpness(trainer, experience)
    close_environments(trainer)
    for name, vectors in (
        ("gradients", torch.stack(gradients)),
        ("gradients over their RMS", over_rms(torch.stack(gradients))),
    ):
        found = cosines(vectors)
        print(
            f"cosines of {name}: {min(found):.2f} to {max(found):.2f}, "
            f"mean {statistics.fmean(found):.2f}"
        )
    mean, error = signal(experience, slopes)
    print(f"advantage times derivative by 1/T: {mean:.2f}, standard error {error:.2f}")


if __name__ == "__main__":
    main()
