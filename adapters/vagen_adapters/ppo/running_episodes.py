"""Rollouts of a number of turns, whose episodes go on in the next rollout (Verlog, batch
environment).

Each place plays `rollout_turns` turns in a rollout. An episode that is still running then is
paused: its turns are trained on with the value of the observation after them, and the next rollout
restores its environment from a snapshot. A place whose episode has ended begins another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vagen_adapters.ppo.episodes import LevelSeed, PPOEpisode
from vagen_adapters.ppo.generation import SampledReply
from vagen_adapters.ppo.rollout import Rollout
from vagen_envs import RewardTerm

Play = Callable[[Sequence[PPOEpisode]], Sequence[PPOEpisode]]
"""Plays episodes until they end or are paused."""


class RunningEpisodes:
    """The episodes that go on from rollout to rollout, one a place.

    Args:
        places: episodes that run at once, over all processes.
        turns: of each place in a rollout.
    """

    def __init__(self, places: int, turns: int) -> None:
        self.turns = turns
        self._begun = [0] * places
        self._running: list[PPOEpisode | None] = [None] * places

    def play(self, play: Play, level_of: Callable[[int], LevelSeed]) -> list[PPOEpisode]:
        """A rollout's episodes: those that ended in it, those that are paused, those that failed.

        `level_of` gives the level of the n-th episode that is begun; the n-th of each place has the
        same number, however long others take.
        """
        left = dict.fromkeys(range(len(self._running)), self.turns)
        found: list[PPOEpisode] = []
        while waiting := [place for place in left if left[place]]:
            episodes = [self._next(place, left[place], level_of) for place in waiting]
            for place, episode in zip(waiting, play(episodes), strict=True):
                found.append(episode)
                left[place] -= len(episode.new_turns)
                if episode.failure is not None:  # others might fail for the same reason, for ever
                    left[place] = 0
                self._running[place] = episode.continued() if episode.is_paused else None
        return found

    def _next(self, place: int, turns: int, level_of: Callable[[int], LevelSeed]) -> PPOEpisode:
        episode = self._running[place]
        if episode is None:
            number = self._begun[place] * len(self._begun) + place
            self._begun[place] += 1
            episode = PPOEpisode(level_of(number))
        episode.pause_at = len(episode.turns) + turns
        return episode

    def state(self) -> list[dict[str, Any]]:
        """What a checkpoint keeps, as JSON: levels, and the sampled replies to play again."""
        return [
            {"begun": begun, "episode": None if episode is None else _written(episode)}
            for begun, episode in zip(self._begun, self._running, strict=True)
        ]

    def restore(self, state: Sequence[Mapping[str, Any]], rollout: Rollout) -> None:
        """Go on from `state`: environments play the replies again, which gives the same
        observations.
        """
        self._begun = [entry["begun"] for entry in state]
        self._running = [
            None if entry["episode"] is None else _played_again(entry["episode"], rollout)
            for entry in state
        ]


def _written(episode: PPOEpisode) -> dict[str, Any]:
    turns = []
    for turn in episode.turns:
        rewards = [[term.name, term.value] for term in turn.rewards]
        reply = dataclasses.asdict(turn.reply)
        turns.append({"reply": reply, "rewards": rewards, "version": turn.version})
    return {"level": dataclasses.asdict(episode.level), "turns": turns}


def _played_again(written: Mapping[str, Any], rollout: Rollout) -> PPOEpisode:
    turns = []
    for turn in written["turns"]:
        parts: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part
            for name, part in turn["reply"].items()
        }
        rewards = tuple(RewardTerm(name, value) for name, value in turn["rewards"])
        turns.append((SampledReply(**parts), rewards, turn["version"]))
    return rollout.replay(LevelSeed(**written["level"]), turns).continued()
