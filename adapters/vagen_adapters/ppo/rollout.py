"""Playing many episodes at once, token in and token out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from vagen_adapters.context import ContextPolicy, summary_request
from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.context_window import ContextWindow
from vagen_adapters.ppo.environments import EnvironmentPool
from vagen_adapters.ppo.episodes import LevelSeed, PlayedSummary, PlayedTurn, PPOEpisode
from vagen_adapters.ppo.generation import SampledReply, Sampler, SampleSettings
from vagen_adapters.ppo.metrics import Clock
from vagen_adapters.ppo.shown import Shown
from vagen_adapters.ppo.thoughts import brief_reply, sample_replies
from vagen_adapters.ppo.turn_scores import Score, scored_turn
from vagen_envs import RewardTerm, Turn
from vagen_envs.core import Observation
from vagen_envs.replies import TAGS
from vagen_envs.sample.env import SampleEnv
from vagen_envs.seeding import HashStream
from vagen_rewards.verifiers.metrics import Detection

Playing = tuple[gym.Env[Any, Any], PPOEpisode]
Step = tuple[PlayedTurn, dict[str, Any], bool, bool]
"""A turn, the observation after it, and whether it terminated or truncated the episode."""


@dataclass(frozen=True)
class Progress:
    """How far a rollout is: episodes that are over, of how many, and tokens that were sampled.

    `share` is that of the turns, from 0 to 1, as if all episodes took as many as they may.
    """

    done: int
    episodes: int
    tokens: int
    share: float


class Rollout:
    """Plays episodes in a fixed number of environments; an environment that is done takes the next
    level.

    Args:
        envs: alike, or a pool; an environment is reset for every level it plays.
        encoder: of the model that plays.
        sampler: where replies come from, a batch of a turn of all environments at a time.
        sampling: how they are drawn.
        context: which earlier turns are shown: all, the latest (Verlog uses 1 or 2), or those since
            a summary that the model writes.
        max_length: tokens that the model may read and write in one sequence. An episode is cut at
            the last turn after which this still holds, and counts as truncated.
        score: further reward terms, or those of each task by name.
        binary_reward: reward a turn by 1 if it solves the task and by nothing else (Verlog).
        threads: environments that are reset, or stepped and scored, at the same time, for those and
            judges that wait for a simulator or a server. 1 takes one after the other in the calling
            thread.

    Attributes:
        clock: what has been spent on `generation`, `environment` and `judge` since `play` began.
        calls: how often replies have been sampled since.
        version: of the sampler's weights, which turns are marked with.
        between_turns: called after every reply of each environment, in the thread that plays; it
            may raise.
    """

    def __init__(
        self,
        envs: Sequence[gym.Env[Any, Any]] | EnvironmentPool,
        encoder: ChatEncoder,
        sampler: Sampler,
        sampling: SampleSettings,
        *,
        context: ContextPolicy | None = None,
        max_length: int = 4096,
        score: Score | Mapping[str, Score] | None = None,
        binary_reward: bool = False,
        threads: int = 1,
    ) -> None:
        self.binary_reward = binary_reward
        self.environments = envs if isinstance(envs, EnvironmentPool) else EnvironmentPool.of(envs)
        if not self.environments.size:
            raise TrainingConfigError("a rollout needs at least one environment")
        self.encoder = encoder
        self.sampler = sampler
        self.sampling = sampling
        self.context = context or ContextPolicy()
        self.window = ContextWindow(encoder, sampling, self.context, max_length)
        self.score = score
        self.pool = ThreadPoolExecutor(threads, "environment") if threads > 1 else None
        self.threads = threads
        self.snapshots = False
        self.clock = Clock()
        self.calls = 0
        self.version = 0
        self.between_turns: Callable[[], None] | None = None
        self._episodes: Sequence[PPOEpisode] = ()
        self._playing: Sequence[Playing] = ()

    @property
    def progress(self) -> Progress:
        """How far the episodes are that are played now."""
        many = len(self._episodes)
        done = sum(episode.over for episode in self._episodes)
        tokens = sum(len(step.reply.ids) for episode in self._episodes for step in episode.steps)
        share = float(done)
        for env, episode in self._playing:
            config = getattr(env.unwrapped, "config", None)  # a remote one tells none
            if config is not None:
                share += len(episode.turns) / config.max_turns
        return Progress(done, many, tokens, share / max(many, 1))

    def play(self, levels: Sequence[LevelSeed], seed: int) -> list[PPOEpisode]:
        """Play every level once. A reply is drawn from `seed`, its level and its turn.

        Failed episodes are among the result, marked by `failure`: the caller counts them and trains
        on the rest.
        """
        return self.play_on([PPOEpisode(level) for level in levels], seed)

    def play_on(
        self, episodes: list[PPOEpisode], seed: int, *, snapshots: bool = False
    ) -> list[PPOEpisode]:
        """Play episodes to their ends, those of `Episode.fork` from where they begin, and return
        them.

        With `snapshots` each turn keeps the environment before it, so that its episode can be
        forked there.
        """
        for _ in self.turns(episodes, seed, snapshots=snapshots):
            pass
        return episodes

    def turns(
        self, episodes: Sequence[PPOEpisode], seed: int, *, snapshots: bool = False
    ) -> Iterator[None]:
        """As `play_on`, a reply of each environment at a time: what gives replies may change
        between them.
        """
        self.snapshots = snapshots
        self.calls = 0
        self.clock = Clock()
        self.environments.reclaim()
        waiting = deque(episodes)
        playing: list[Playing] = []
        self._episodes = episodes
        while True:
            while waiting and (free := self.environments.size - len(playing)):
                next_ones = [waiting.popleft() for _ in range(min(free, len(waiting)))]
                pairs = [(self.environments.take(each.level), each) for each in next_ones]
                playing += self._begin(pairs)
            if not playing:
                return
            self.calls += 1
            replies = self._sample([episode for _, episode in playing], seed)
            playing = self._advance(playing, replies)
            self._playing = playing
            if self.between_turns is not None:
                self.between_turns()
            yield

    def replay(
        self, level: LevelSeed, turns: Sequence[tuple[SampledReply, tuple[RewardTerm, ...], int]]
    ) -> PPOEpisode:
        """A paused episode, played again from its replies, rewards and versions.

        Raises:
            TrainingDataError: the environment doesn't play it as before.
        """
        env = self.environments.take(level)
        episode = PPOEpisode(level)
        try:
            shown = self._show(env, self._reset(env, episode))
            for reply, rewards, version in turns:
                observation, _, terminated, truncated, info = env.step(
                    self.encoder.read(reply.answer)
                )
                if terminated or truncated:
                    raise ValueError(f"it ends in turn {len(episode.turns)}")
                turn = self._held_turn(info["turn"])
                brief = self._brief(env, turn)
                episode.turns.append(
                    PlayedTurn(shown, reply, turn, rewards, version=version, brief=brief)
                )
                shown = self._show(env, observation)
            episode.ends_at = env.unwrapped.snapshot()  # type: ignore[attr-defined]
        except Exception as error:  # an environment may raise anything
            raise TrainingDataError(
                f"the checkpoint's episode of {level} can't be played again: {error}; begin a new "
                "run from its model"
            ) from error
        finally:
            self.environments.give_back(level, env)
        episode.last_shown = shown
        return episode

    def _brief(self, env: gym.Env[Any, Any], turn: Turn) -> SampledReply | None:
        """A reply reduced to its answer, where later prompts show no more of it."""
        if not self.context.answers:
            return None
        tags = getattr(getattr(env.unwrapped, "config", None), "tags", TAGS)
        return brief_reply(self.encoder, turn, tags[-1])

    def _begin(self, pairs: Sequence[Playing]) -> list[Playing]:
        """Reset environments to their episodes' levels; return the pairs that can be played."""
        for (env, episode), observation in zip(pairs, self._each(self._reset, pairs), strict=True):
            try:
                if episode.last_shown is None or isinstance(observation, Exception):
                    episode.last_shown = self._show(env, observation)
            except Exception as error:  # an environment or a processor may raise anything
                episode.failure = _failure(error, "at reset")
            else:
                if not self.window.has_room(episode):
                    episode.failure = self._no_room("reply")
        return self._still_playing(pairs)

    def _no_room(self, what: str) -> str:
        return f"no room for the first {what} in {self.window.max_length} tokens; raise max_length"

    def _reset(self, env: gym.Env[Any, Any], episode: PPOEpisode) -> dict[str, Any]:
        with self.clock("environment", self.threads):
            observation: dict[str, Any] = env.reset(
                seed=episode.level.seed, options={"split": episode.level.split}
            )[0]
            if episode.begins_at:
                env.unwrapped.restore(episode.begins_at)  # type: ignore[attr-defined]
        return observation

    def _sample(self, episodes: Sequence[PPOEpisode], seed: int) -> list[SampledReply]:
        replies: dict[int, SampledReply] = {}
        with self.clock("generation"):
            by_limit: dict[int, list[PPOEpisode]] = {}
            for episode in episodes:
                by_limit.setdefault(self.window.reply_limit(episode), []).append(episode)
            for limit, batch in by_limit.items():
                prompts = [self.window.prompt(episode) for episode in batch]
                seeds = [self._seed(seed, episode) for episode in batch]
                sampling = replace(self.sampling, max_tokens=limit)
                sampled = sample_replies(self.sampler, self.encoder, prompts, sampling, seeds)
                replies |= zip(map(id, batch), sampled, strict=True)
        return [replies[id(episode)] for episode in episodes]

    def _advance(
        self, playing: Sequence[Playing], replies: Sequence[SampledReply]
    ) -> list[Playing]:
        """Play a turn of each, or take its summary; return the pairs that still play."""
        moves = []
        for (env, episode), reply in zip(playing, replies, strict=True):
            if not reply.ids:
                episode.failure = f"the sampler gave no token in turn {len(episode.turns)}"
            elif not all(map(math.isfinite, reply.logprobs)):
                episode.failure = (
                    "the sampler gave a log-probability that is no number in turn "
                    f"{len(episode.turns)}"
                )
            elif episode.pending is not None:
                self._attempt(self._compact, env, episode, reply)
            else:
                text = self.encoder.read(reply.answer)  # here: tokenizers keep to a thread
                moves.append((env, episode, reply, text))
        for (env, episode, *_), step in zip(moves, self._each(self._step, moves), strict=True):
            self._attempt(self._take, env, episode, step)
        return self._still_playing(playing)

    def _attempt(
        self, act: Callable[..., None], env: gym.Env[Any, Any], episode: PPOEpisode, given: Any
    ) -> None:
        try:
            act(env, episode, given)
        except Exception as error:  # an environment, a judge or a processor may raise anything
            episode.failure = _failure(error, f"in turn {len(episode.turns)}")

    def _step(
        self, env: gym.Env[Any, Any], episode: PPOEpisode, reply: SampledReply, text: str
    ) -> Step:
        """Step an environment and score the turn."""
        with self.clock("environment", self.threads):
            before = env.unwrapped.snapshot() if self.snapshots else b""  # type: ignore[attr-defined]
            observation, _, terminated, truncated, info = env.step(text)
        with self.clock("judge", self.threads):
            score = self.score
            if isinstance(score, Mapping):
                score = score.get(episode.level.environment)
            scored = scored_turn(score, info["turn"], episode)
        rewards = scored.rewards
        if self.binary_reward:
            rewards = (RewardTerm("success", 1.0),) if scored.turn.success else ()
        for term in rewards:
            if not math.isfinite(term.value):
                raise TrainingDataError(
                    f"reward {term.name!r} of turn {scored.turn.index} is {term.value}"
                )
        shown = episode.last_shown
        assert shown is not None  # noqa: S101 - for the type checker
        played = PlayedTurn(
            shown,
            reply,
            self._held_turn(scored.turn),
            rewards,
            scored.words,
            _detection(env),
            before,
            self.version,
            brief=self._brief(env, scored.turn),
        )
        return played, observation, terminated, truncated

    def _take(self, env: gym.Env[Any, Any], episode: PPOEpisode, step: Step | Exception) -> None:
        """Take a step into its episode."""
        if isinstance(step, Exception):
            raise step
        played, observation, terminated, truncated = step
        if thought_ids := played.reply.ids[: played.reply.thoughts]:
            played = replace(played, thoughts=self.encoder.read_thoughts(thought_ids))
        # Nobody reads on after an end.
        last_shown = None if terminated else self._show(env, observation)
        episode.turns.append(played)
        episode.last_shown = last_shown
        episode.terminated = terminated
        if terminated:
            return
        if self.window.fits(episode):
            episode.truncated = truncated or not self._goes_on(episode, observation)
            if not episode.truncated and len(episode.turns) == episode.pause_at:
                episode.truncated = True
                episode.ends_at = env.unwrapped.snapshot()  # type: ignore[attr-defined]
            return
        # The turn goes, too: the value of what comes after it couldn't be read.
        episode.last_shown = episode.turns.pop().shown
        episode.truncated = True
        if not episode.new_turns:
            episode.failure = self._no_room("turn")

    def _goes_on(self, episode: PPOEpisode, observation: dict[str, Any]) -> bool:
        """Ask for a summary where it is due; return whether there is room for the next reply."""
        if not self.context.summarises_before(len(episode.turns)):
            return self.window.has_room(episode)
        shown = episode.last_shown
        episode.last_shown = self.encoder.show("", {"text": summary_request(self.context)})
        episode.pending = observation
        if self.window.has_room(episode):
            return True
        episode.last_shown = shown
        episode.pending = None
        return False

    def _compact(self, env: gym.Env[Any, Any], episode: PPOEpisode, reply: SampledReply) -> None:
        """Take a summary into its episode, and show the observation that waited for it with the
        summary before it.
        """
        now = len(episode.turns)
        request = episode.last_shown
        observation = episode.pending
        assert request is not None and observation is not None  # noqa: S101, PT018 - for the type checker
        waited = Observation(observation["text"], None)
        summary = self.encoder.read(reply.answer)
        seen = self.context.in_prompt(waited, now, earlier=False, summaries={now: summary})
        episode.summaries[now] = PlayedSummary(request, reply, self.version)
        episode.last_shown = self._show(env, {**observation, "text": seen.text})
        episode.pending = None
        if not self.window.has_room(episode):
            # Nothing would follow the summary: the episode ends before it.
            del episode.summaries[now]
            episode.last_shown = self._show(env, observation)
            episode.truncated = True

    def _still_playing(self, pairs: Sequence[Playing]) -> list[Playing]:
        """The pairs whose episodes aren't over; the environments of the others are free."""
        for env, episode in pairs:
            if episode.over:
                self.environments.give_back(episode.level, env)
        return [(env, episode) for env, episode in pairs if not episode.over]

    def _each(self, act: Callable[..., Any], moves: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The results, or the exceptions: whatever an environment or a judge raises costs its
        episode only.
        """

        def tried(move: tuple[Any, ...]) -> Any:
            try:
                return act(*move)
            except Exception as error:
                return error

        if self.pool is None:
            return [tried(move) for move in moves]
        return list(self.pool.map(tried, moves))

    def _held_turn(self, turn: Turn) -> Turn:
        """The turn with its pictures as PNG, which later observations share, encoded in the thread
        that plays.
        """
        held: dict[str, Observation] = {}
        for name in ("observed", "result"):
            shown = getattr(turn, name)
            if shown.picture is not None:
                held[name] = replace(shown, picture=self.encoder.pictures.hold(shown.picture))
        return replace(turn, **held)  # type: ignore[arg-type]

    def _show(self, env: gym.Env[Any, Any], observation: dict[str, Any] | Exception) -> Shown:
        if isinstance(observation, Exception):
            raise observation
        core: Any = env.unwrapped
        state = getattr(core, "true_state", None)  # a remote one says none
        return self.encoder.show(core.system_prompt, observation, state)

    def _seed(self, seed: int, episode: PPOEpisode) -> int:
        """The seed of an episode's next reply, drawn from the rollout's `seed`."""
        level = episode.level
        named = (seed, level.split, level.seed, level.draw, len(episode.steps))
        return HashStream("reply", *named).bits(48)


def _detection(env: gym.Env[Any, Any]) -> Detection | None:
    """The boxes of the turn that was just played, where there are true ones."""
    core = env.unwrapped
    return Detection.of(core.sample, core.verdict) if isinstance(core, SampleEnv) else None


def _failure(error: Exception, when: str) -> str:
    return f"{type(error).__name__} {when}: {' '.join(str(error).split())}"
