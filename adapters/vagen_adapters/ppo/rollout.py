"""Playing many episodes at once, token in and token out."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.chat_encoder import ChatEncoder, Shown
from vagen_adapters.ppo.environments import EnvironmentPool
from vagen_adapters.ppo.episodes import Episode, Level, PlayedTurn, lay_out, remembered
from vagen_adapters.ppo.generation import Prompt, Reply, Sampler, Sampling
from vagen_adapters.ppo.span_credit import Judged
from vagen_envs import RewardTerm, Turn
from vagen_envs.seeding import HashStream
from vagen_rewards.credit import Words

Score = Callable[[Turn], Sequence[RewardTerm] | Turn | Judged]
"""Reward terms of a turn beside the environment's own, such as those of `vagen_rewards`; or the turn with them, and
with metrics that are logged; or that and which of its words are true."""


@dataclass(frozen=True, eq=False)
class Step:
    """The results of an environment and a judge for a reply, and the seconds that they took."""

    before: bytes
    observation: dict[str, Any]
    terminated: bool
    truncated: bool
    turn: Turn
    rewards: tuple[RewardTerm, ...]
    words: tuple[Words, ...]
    environment_time: float
    judge_time: float


class Rollout:
    """Plays episodes in a fixed number of environments; an environment that is done takes the next level.

    Args:
        envs: alike, or a pool; an environment is reset for every level it plays.
        encoder: of the model that plays.
        sampler: where replies come from, a batch of a turn of all environments at a time.
        sampling: how they are drawn.
        window: turns of history before the present one; None keeps the whole episode (Verlog uses 1 or 2).
        max_length: tokens that the model may read and write in one sequence. An episode is cut at the last
            turn after which this still holds, and counts as truncated.
        score: further reward terms, or those of each task by name.
        threads: environments that are reset, or stepped and scored, at the same time, for those and judges that wait
            for a simulator or a server. 1 takes one after the other in the calling thread.

    Attributes:
        times: seconds since `play` began that went into `generation`, `environment` and `judge`. With several
            threads those of the latter two are shared out as they would be one after the other.
        calls: how often replies have been sampled since.
        version: of the sampler's weights, which turns are marked with.
    """

    def __init__(
        self,
        envs: Sequence[gym.Env[Any, Any]] | EnvironmentPool,
        encoder: ChatEncoder,
        sampler: Sampler,
        sampling: Sampling,
        *,
        window: int | None = None,
        max_length: int = 4096,
        score: Score | Mapping[str, Score] | None = None,
        threads: int = 1,
    ) -> None:
        self.environments = envs if isinstance(envs, EnvironmentPool) else EnvironmentPool.of(envs)
        if not self.environments.size:
            raise TrainingConfigError("a rollout needs at least one environment")
        if window is not None and window < 0:
            raise TrainingConfigError(f"window={window} is not valid: it must be at least 0 turns, or None for all")
        if threads < 1:
            raise TrainingConfigError(f"threads={threads} is not valid: it must be at least 1")
        self.encoder, self.sampler, self.sampling = encoder, sampler, sampling
        self.window, self.max_length, self.score = window, max_length, score
        self._takes_snapshots = False
        self.pool = ThreadPoolExecutor(threads, "environment") if threads > 1 else None
        self.times: dict[str, float] = {}
        self.calls = self.version = 0

    def play(self, levels: Sequence[Level], seed: int) -> list[Episode]:
        """Play every level once. A reply is drawn from `seed`, its level and its turn.

        Failed episodes are among the result, marked by `failure`: the caller counts them and trains on the rest.
        """
        return self.play_on([Episode(level) for level in levels], seed)

    def play_on(self, episodes: list[Episode], seed: int, *, snapshots: bool = False) -> list[Episode]:
        """Play episodes to their ends, those of `Episode.fork` from where they begin.

        Args:
            episodes: changed and returned.
            seed: as for `play`.
            snapshots: whether each turn keeps the environment before it, so that its episode can be forked there.
        """
        for _ in self.turns(episodes, seed, snapshots=snapshots):
            pass
        return episodes

    def turns(self, episodes: Sequence[Episode], seed: int, *, snapshots: bool = False) -> Iterator[None]:
        """As `play_on`, a reply of each environment at a time: what gives replies may change between them."""
        self._prepare(snapshots)
        waiting = deque(episodes)
        playing: list[tuple[gym.Env[Any, Any], Episode]] = []
        while True:
            while waiting and (free := self.environments.size - len(playing)):
                next_ones = [waiting.popleft() for _ in range(min(free, len(waiting)))]
                begun = [(self.environments.take(episode.level), episode) for episode in next_ones]
                self._begin_all(begun)
                playing += self._give_back_unless(begun, [episode.failure is None for _, episode in begun])
            if not playing:
                return
            self.calls += 1
            replies = self._sample([episode for _, episode in playing], seed)
            steps = self._step_all([(env, reply) for (env, _), reply in zip(playing, replies, strict=True)])
            over = [
                self.advance(env, episode, reply, step)
                for (env, episode), reply, step in zip(playing, replies, steps, strict=True)
            ]
            playing = self._give_back_unless(playing, [not ended for ended in over])
            yield

    def _give_back_unless(
        self, pairs: Sequence[tuple[gym.Env[Any, Any], Episode]], playing: Sequence[bool]
    ) -> list[tuple[gym.Env[Any, Any], Episode]]:
        """The pairs that still play; the environments of the others are free."""
        for (env, _), plays in zip(pairs, playing, strict=True):
            if not plays:
                self.environments.give_back(env)
        return list(itertools.compress(pairs, playing))

    def _prepare(self, snapshots: bool) -> None:
        self._takes_snapshots = snapshots
        self.environments.reclaim()
        self.calls = 0
        self.times = dict.fromkeys(("generation", "environment", "judge"), 0.0)

    def _sample(self, episodes: Sequence[Episode], seed: int) -> list[Reply]:
        started = time.perf_counter()
        seeds = [self.seed(seed, episode) for episode in episodes]
        replies = self.sampler.sample([self.prompt(episode) for episode in episodes], self.sampling, seeds)
        self.times["generation"] += time.perf_counter() - started
        return replies

    def _step_all(self, moves: Sequence[tuple[gym.Env[Any, Any], Reply]]) -> list[Step | Exception | None]:
        started = time.perf_counter()
        texts = [
            self.encoder.read(reply.ids) if reply.ids else None for _, reply in moves
        ]  # tokenizers keep to a thread
        pairs = [(env, text) for (env, _), text in zip(moves, texts, strict=True)]
        steps = list(self.pool.map(self.step, pairs)) if self.pool else [self.step(pair) for pair in pairs]
        took = time.perf_counter() - started
        done = [step for step in steps if isinstance(step, Step)]
        spent = sum(step.environment_time + step.judge_time for step in done)
        judged = took * sum(step.judge_time for step in done) / spent if spent else 0.0
        self.times["judge"] += judged
        self.times["environment"] += took - judged
        return steps

    def step(self, move: tuple[gym.Env[Any, Any], str | None]) -> Step | Exception | None:
        """Step an environment and score the turn. An exception is returned: it costs its episode only."""
        env, text = move
        if text is None:
            return None
        try:
            started = time.perf_counter()
            before = env.unwrapped.snapshot() if self._takes_snapshots else b""  # type: ignore[attr-defined]
            observation, _, terminated, truncated, info = env.step(text)
            stepped = time.perf_counter()
            turn: Turn = info["turn"]
            score = self.score
            if isinstance(score, Mapping):
                score = score.get(self.environments.task_of(env))
            scored = score(turn) if score else ()
            scored, words = (scored.turn, scored.words) if isinstance(scored, Judged) else (scored, ())
            turn, rewards = (scored, scored.rewards) if isinstance(scored, Turn) else (turn, (*turn.rewards, *scored))
            observation, turn = self._held(observation), self._held_turn(turn)
        except Exception as error:  # an environment or a judge may raise anything
            return error
        judged = time.perf_counter()
        return Step(
            before, observation, terminated, truncated, turn, rewards, words, stepped - started, judged - stepped
        )

    def _begin_all(self, pairs: Sequence[tuple[gym.Env[Any, Any], Episode]]) -> None:
        """Reset environments to their episodes' levels. An episode that can't be played has a `failure` then."""
        started = time.perf_counter()
        observations = list(self.pool.map(self.reset, pairs)) if self.pool else [self.reset(pair) for pair in pairs]
        for (env, episode), observation in zip(pairs, observations, strict=True):
            self.begin(env, episode, observation)
        self.times["environment"] += time.perf_counter() - started

    def begin(self, env: gym.Env[Any, Any], episode: Episode, observation: dict[str, Any] | Exception) -> None:
        """Take what `reset` gave into its episode, which has a `failure` then if it can't be played."""
        try:
            if isinstance(observation, Exception):
                raise observation
            episode.last_shown = episode.last_shown or self._show(env, observation)
        except Exception as error:  # as below
            episode.failure = f"{type(error).__name__} at reset: {' '.join(str(error).split())}"
        else:
            if not self._has_room(episode):
                episode.failure = f"no room for the first reply in {self.max_length} tokens; raise max_length"

    def reset(self, pair: tuple[gym.Env[Any, Any], Episode]) -> dict[str, Any] | Exception:
        env, episode = pair
        try:
            observation: dict[str, Any] = env.reset(
                seed=episode.level.seed, options={"split": episode.level.split}
            )[0]  # fmt: skip
            if episode.begins_at:
                env.unwrapped.restore(episode.begins_at)  # type: ignore[attr-defined]
            return self._held(observation)
        except Exception as error:  # an environment may raise anything
            return error

    def _held(self, observation: dict[str, Any]) -> dict[str, Any]:
        """The observation with its picture as PNG, encoded in the thread that plays."""
        if "image" not in observation:
            return observation
        return {**observation, "image": self.encoder.hold(observation["image"])}

    def _held_turn(self, turn: Turn) -> Turn:
        seen = {
            name: replace(shown, picture=self.encoder.hold(shown.picture))
            for name in ("observed", "result")
            if (shown := getattr(turn, name)).picture is not None
        }
        return replace(turn, **seen)

    def advance(self, env: gym.Env[Any, Any], episode: Episode, reply: Reply, step: Step | Exception | None) -> bool:
        """Take a step into its episode. True if the episode is over."""
        if step is None:
            episode.failure = f"the sampler gave no token in turn {len(episode.turns)}"
            return True
        if not all(map(math.isfinite, reply.logprobs)):
            episode.failure = f"the sampler gave a log-probability that is no number in turn {len(episode.turns)}"
            return True
        shown = episode.last_shown
        assert shown is not None  # noqa: S101 - for the type checker
        try:
            if isinstance(step, Exception):
                raise step
            last_shown = None if step.terminated else self._show(env, step.observation)  # nobody reads on
        except Exception as error:  # as above
            episode.failure = f"{type(error).__name__} in turn {len(episode.turns)}: {' '.join(str(error).split())}"
            return True
        for term in step.rewards:
            if not math.isfinite(term.value):
                episode.failure = f"reward {term.name!r} of turn {step.turn.index} is {term.value}"
                return True
        turn = PlayedTurn(shown, reply, step.turn, step.rewards, step.words, step.before, self.version)
        episode.turns.append(turn)
        episode.last_shown = last_shown
        episode.terminated = step.terminated
        if step.terminated:
            return True
        if not self._fits(episode):  # the value of what comes next couldn't be read: go back one turn
            episode.last_shown = episode.turns.pop().shown
            episode.truncated = True
            if not episode.turns:
                episode.failure = f"no room for the first turn in {self.max_length} tokens; raise max_length"
            return True
        episode.truncated = step.truncated or not self._has_room(episode)
        return episode.truncated

    def _show(self, env: gym.Env[Any, Any], observation: dict[str, Any]) -> Shown:
        core: Any = env.unwrapped
        state = getattr(core, "true_state", None)  # a remote one says none
        return self.encoder.show(core.system_prompt, observation, state)

    def seed(self, seed: int, episode: Episode) -> int:
        """Of an episode's next reply, where the whole is drawn from `seed`."""
        level = episode.level
        return HashStream("reply", seed, level.split, level.seed, level.draw, len(episode.turns)).bits(48)

    def prompt(self, episode: Episode) -> Prompt:
        """The tokens and pictures before an episode's next reply."""
        history = remembered(episode.turns, len(episode.turns), self.window)
        return lay_out(history, (), episode.last_shown).prompt

    def _has_room(self, episode: Episode) -> bool:
        """Whether another reply can be read and written."""
        return len(self.prompt(episode).ids) + self.sampling.max_tokens <= self.max_length

    def _fits(self, episode: Episode) -> bool:
        """Whether the last turn with its history and the observation after it can be read."""
        history = remembered(episode.turns, len(episode.turns) - 1, self.window)
        return len(lay_out(history, episode.turns[-1:], episode.last_shown).prompt.ids) <= self.max_length
