"""Which of a rollout's episodes are shown to people, and what is written of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from vagen_adapters.ppo.episodes import PlayedTurn, PPOEpisode, groups_of
from vagen_adapters.ppo.experience import Experience
from vagen_envs import Turn
from vagen_envs.seeding import HashStream

Watch = Callable[[str, int, Mapping[str, PPOEpisode], Callable[[PPOEpisode], list[Turn]]], None]
"""Takes `rollout` or `evaluation`, its number (an evaluation's is that of updates), episodes by a
name in it, and what gives an episode's turns with all their rewards."""


def few_of(
    episodes: Sequence[PPOEpisode], seed: int, number: int, many: int = 3
) -> dict[str, PPOEpisode]:
    """The best episode of the group with the highest mean return, the worst of the one with the
    lowest, and one drawn from `seed` and the rollout's `number`; then the first others, up to
    `many`. Failed ones aren't among them.
    """
    sound = [episode for episode in episodes if episode.failure is None]
    if not sound:
        return {}
    groups = sorted(groups_of(sound), key=_mean_return)
    drawn = HashStream("watched", seed, number).below(len(sound))
    few = {
        "best": max(groups[-1], key=_return),
        "worst": min(groups[0], key=_return),
        "random": sound[drawn],
    }
    taken = {id(episode) for episode in few.values()}
    others = [episode for episode in sound if id(episode) not in taken]
    few |= {f"other {place}": episode for place, episode in enumerate(others)}
    return dict(list(few.items())[:many])


def turns_of(episode: PPOEpisode, experience: Experience | None = None) -> list[Turn]:
    """An episode's turns with all their reward terms, and with their mean `advantage` as a metric
    if they were learned from.
    """
    advantages = {} if experience is None else _advantages(episode, experience)
    found = []
    for number, step in enumerate(episode.steps):
        if isinstance(step, PlayedTurn):
            metrics = dict(step.turn.metrics)
            if number in advantages:
                metrics["advantage"] = advantages[number]
            found.append(replace(step.turn, rewards=step.rewards, metrics=metrics))
    return found


def _advantages(episode: PPOEpisode, experience: Experience) -> dict[int, float]:
    """The mean advantage of each step's tokens."""
    found: dict[int, list[float]] = {}
    for row, owner in enumerate(experience.sequences.episodes):
        if owner is not episode:
            continue
        ids = experience.sequences.turn_ids[row].tolist()
        entries = experience.advantages.advantages[row].tolist()
        for step, advantage in zip(ids, entries, strict=False):
            if step >= 0:
                found.setdefault(step, []).append(advantage)
    return {step: fmean(entries) for step, entries in found.items()}


def _return(episode: PPOEpisode) -> float:
    return episode.rewards


def _mean_return(group: Sequence[PPOEpisode]) -> float:
    return fmean(episode.rewards for episode in group)
