"""Playing many episodes at once, token in and token out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.codec import Codec, Shown
from vagen_adapters.ppo.episodes import Episode, Level, PlayedTurn, lay_out, remembered
from vagen_adapters.ppo.generation import Prompt, Reply, Sampler, Sampling
from vagen_envs import RewardTerm, Turn

Score = Callable[[Turn], Sequence[RewardTerm]]
"""Reward terms of a turn beside the environment's own, such as those of `vagen_rewards`."""


class Rollout:
    """Plays episodes in a fixed number of environments; an environment that is done takes the next level.

    Args:
        envs: alike; each is reset for every level it plays.
        codec: of the model that plays.
        sampler: where replies come from.
        sampling: how they are drawn.
        window: turns of history before the present one; None keeps the whole episode (paper 003 uses 1 or 2).
        max_length: tokens that the model may read and write in one sequence. An episode is cut at the last
            turn after which this still holds, and counts as truncated.
        max_turns: cuts episodes after so many turns (`e_len` of paper 003); None leaves that to the environment.
        score: further reward terms.
    """

    def __init__(
        self,
        envs: Sequence[gym.Env[Any, Any]],
        codec: Codec,
        sampler: Sampler,
        sampling: Sampling,
        *,
        window: int | None = None,
        max_length: int = 4096,
        max_turns: int | None = None,
        score: Score | None = None,
    ) -> None:
        if not envs:
            raise TrainingConfigError("a rollout needs at least one environment")
        if window is not None and window < 0:
            raise TrainingConfigError(f"window={window} is not valid: it must be at least 0 turns, or None for all")
        if max_turns is not None and max_turns < 1:
            raise TrainingConfigError(f"max_turns={max_turns} is not valid: it must be at least 1, or None")
        self.envs = list(envs)
        self.codec, self.sampler, self.sampling = codec, sampler, sampling
        self.window, self.max_length, self.max_turns, self.score = window, max_length, max_turns, score

    def play(self, levels: Sequence[Level], seed: int) -> list[Episode]:
        """Play every level once; `seed` is the sampler's.

        Failed episodes are among the result, marked by `failure`: the caller counts them and trains on the rest.
        """
        episodes = [Episode(level) for level in levels]
        waiting = deque(episodes)
        playing: dict[int, Episode] = {}  # by the number of the environment
        for step in range(1 << 31):
            for number, env in enumerate(self.envs):
                while number not in playing and waiting:
                    episode = waiting.popleft()
                    if self._begin(env, episode):
                        playing[number] = episode
            if not playing:
                break
            prompts = [self._prompt(episode) for episode in playing.values()]
            replies = self.sampler.sample(prompts, self.sampling, seed + step)
            for number, reply in zip(list(playing), replies, strict=True):
                if self._advance(self.envs[number], playing[number], reply):
                    del playing[number]
        return episodes

    def _begin(self, env: gym.Env[Any, Any], episode: Episode) -> bool:
        """Reset to the episode's level. False if it can't be played."""
        try:
            observation, _ = env.reset(seed=episode.level.seed, options={"split": episode.level.split})
            episode.last_shown = self._show(env, observation)
        except Exception as error:  # an environment may raise anything: it costs its episode
            episode.failure = f"{type(error).__name__} at reset: {error}"
        else:
            if not self._has_room(episode):
                episode.failure = f"no room for the first reply in {self.max_length} tokens; raise max_length"
        return episode.failure is None

    def _advance(self, env: gym.Env[Any, Any], episode: Episode, reply: Reply) -> bool:
        """Play a reply. True if the episode is over."""
        if not reply.ids:
            episode.failure = f"the sampler gave no token in turn {len(episode.turns)}"
            return True
        shown = episode.last_shown
        assert shown is not None  # noqa: S101 - for the type checker
        try:
            observation, _, terminated, truncated, info = env.step(self.codec.read(reply.ids))
            turn: Turn = info["turn"]
            rewards = (*turn.rewards, *(self.score(turn) if self.score else ()))
            last_shown = self._show(env, observation)
        except Exception as error:  # as above, and a judge too
            episode.failure = f"{type(error).__name__} in turn {len(episode.turns)}: {error}"
            return True
        for term in rewards:
            if not math.isfinite(term.value):
                episode.failure = f"reward {term.name!r} of turn {turn.index} is {term.value}"
                return True
        episode.turns.append(PlayedTurn(shown, reply, turn, rewards))
        episode.last_shown = last_shown
        episode.terminated = terminated
        if terminated:
            return True
        if not self._fits(episode):  # the value of what comes next couldn't be read: go back one turn
            episode.last_shown = episode.turns.pop().shown
            episode.truncated = True
            if not episode.turns:
                episode.failure = f"no room for the first turn in {self.max_length} tokens; raise max_length"
            return True
        episode.truncated = truncated or len(episode.turns) == self.max_turns or not self._has_room(episode)
        return episode.truncated

    def _show(self, env: gym.Env[Any, Any], observation: dict[str, Any]) -> Shown:
        return self.codec.show(env.unwrapped.system_prompt, observation)  # type: ignore[attr-defined]

    def _prompt(self, episode: Episode) -> Prompt:
        history = remembered(episode.turns, len(episode.turns), self.window)
        return lay_out(history, (), episode.last_shown).prompt

    def _has_room(self, episode: Episode) -> bool:
        """Whether another reply can be read and written."""
        return len(self._prompt(episode).ids) + self.sampling.max_tokens <= self.max_length

    def _fits(self, episode: Episode) -> bool:
        """Whether the last turn with its history and the observation after it can be read."""
        history = remembered(episode.turns, len(episode.turns) - 1, self.window)
        return len(lay_out(history, episode.turns[-1:], episode.last_shown).prompt.ids) <= self.max_length
