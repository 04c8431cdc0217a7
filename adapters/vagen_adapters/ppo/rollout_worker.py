"""Play a training's episodes: rollouts, asynchronous rollouts, evaluations and Monte Carlo
continuations.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from accelerate.utils import gather_object

from vagen_adapters.errors import TrainingDataError
from vagen_adapters.ppo import metrics
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.async_rollout import AsyncRollout
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.continuations import forks_of, state_values_of
from vagen_adapters.ppo.environments import EnvironmentPool
from vagen_adapters.ppo.episodes import LevelSeed, PPOEpisode, keep_differing
from vagen_adapters.ppo.generation import Sampler, SampleSettings
from vagen_adapters.ppo.level_sampler import SAMPLERS
from vagen_adapters.ppo.rollout import Rollout
from vagen_adapters.ppo.running_episodes import RunningEpisodes
from vagen_adapters.ppo.samplers import MakeSampler, named_sampler
from vagen_adapters.ppo.turn_scores import Score
from vagen_rewards.verifiers import DYNAMIC, LOOSE, STRICT

T = TypeVar("T")

IOU_SCHEDULES = {"dynamic": DYNAMIC, "loose": LOOSE, "strict": STRICT}
"""By the setting `iou_schedule`, but for `fixed`."""
MOST_FAILED = 0.5
"""Share of a rollout's episodes that may fail: the rest may be the easy part."""


class RolloutWorker:
    """Plays a training's episodes. Each process plays its share, then all processes hold all
    episodes.

    `record` takes figures for the log. `score` and `make_sampler` are those of
    `MultiTurnPPOTrainer`; without `make_sampler` the sampler is the one that `args.generation`
    names. `clock` also has what the trainer adds.
    """

    def __init__(
        self,
        path: str,
        args: MultiTurnPPOConfig,
        model: ActorCritic,
        encoder: ChatEncoder,
        accelerator: Any,
        record: Callable[[dict[str, float]], None],
        score: Score | Mapping[str, Score] | None = None,
        *,
        make_sampler: MakeSampler | None = None,
    ) -> None:
        self.args = args
        self.encoder = encoder
        self.accelerator = accelerator
        self._record = record
        self.clock = metrics.Clock()
        if make_sampler is None:
            sampler = named_sampler(path, args, model, encoder, accelerator)
        else:
            sampler = make_sampler(model.policy, encoder)
        self.rollout = self._make_rollout(sampler, score)
        splits = ["train", "val"] if args.eval_rollouts else ["train"]
        self.rollout.environments.check_levels(splits)
        self.level_sampler = SAMPLERS[args.level_sampler](
            args.tasks, args.seed, args.group_size, self.rollout.environments.level_counts
        )
        self.running: RunningEpisodes | None = None
        if args.rollout_turns:
            self.running = RunningEpisodes(args.episodes_per_rollout, args.rollout_turns)
        self._ahead: AsyncRollout | None = None
        if args.max_staleness:
            beside = self._make_rollout(sampler, score)
            self._ahead = AsyncRollout(
                beside, args.max_staleness, accelerator.autocast, snapshots=args.continuations > 0
            )

    @contextlib.contextmanager
    def interruptible(self, between_turns: Callable[[], None]) -> Iterator[None]:
        """Call something after each turn of what is played in the block, but for what is played
        beside updates.
        """
        self.rollout.between_turns = between_turns
        try:
            yield
        finally:
            self.rollout.between_turns = None

    def wait(self) -> None:
        """Until what is played beside an update is over. Raises what it raised."""
        if self._ahead is not None:
            self._ahead.wait()

    def rest(self) -> None:
        """Nothing is played for now: a generation back-end that shares the GPU may give up its
        memory.
        """
        if hasattr(self.rollout.sampler, "rest"):
            self.rollout.sampler.rest()

    def play_continuations(
        self, episodes: Sequence[PPOEpisode], number: int
    ) -> tuple[list[PPOEpisode], list[list[float]]]:
        """The episodes whose states could all be played on from, and what each state was worth."""
        times = self.args.continuations
        played = self.forked(episodes, times, seed_of(self.args, number, 50))
        worth = state_values_of(episodes, played, times, self.args.turn_discount)
        kept: list[PPOEpisode] = []
        state_values: list[list[float]] = []
        for episode, values in zip(episodes, worth, strict=True):
            if all(map(math.isfinite, values)):
                kept.append(episode)
                state_values.append(values)
        left_out = float(len(episodes) - len(kept))
        self._record({"forks/episodes": float(len(played)), "forks/left_out": left_out})
        return kept, state_values

    def forked(self, episodes: Sequence[PPOEpisode], times: int, seed: int) -> list[PPOEpisode]:
        """Play on from each state of episodes that were played with snapshots, so many times."""
        return self._play_on(forks_of(episodes, times), seed)

    def play_enough(self, number: int, version: int) -> tuple[list[PPOEpisode], list[PPOEpisode]]:
        """A rollout's episodes, and those to train on; more of them while too few groups tell good
        from bad.
        """
        if self.running is not None:
            episodes = self._play_turns(self.running, number)
            return episodes, [episode for episode in episodes if episode.failure is None]
        episodes = []
        seed = seed_of(self.args, number, 0)
        for extra in range(self.args.dynamic_sampling + 1):
            levels = self.levels(number, extra)
            if extra or self._ahead is None:
                episodes += self.play(levels, seed)
            else:
                episodes += self._finish(self._ahead, levels, seed, version)
            kept = [episode for episode in episodes if episode.failure is None]
            if self.args.dynamic_sampling:
                groups = self.args.episodes_per_rollout // self.args.group_size
                kept = keep_differing(episodes, groups)
            if len(kept) >= self.args.episodes_per_rollout:
                break
        return episodes, kept

    def _play_turns(self, running: RunningEpisodes, number: int) -> list[PPOEpisode]:
        """A rollout of a number of turns, most of whose episodes go on in the next one."""
        with self.clock("sync"):
            self.rollout.sampler.sync()
        seed = seed_of(self.args, number, 0)

        def level_of(begun: int) -> LevelSeed:
            return self._scheduled(self.level_sampler.levels([begun], begun), number)[0]

        return running.play(lambda episodes: self._play_on(episodes, seed), level_of)

    def evaluate(self) -> list[PPOEpisode]:
        """The first validation levels of every environment, in turn on its difficulties.

        No schedule moves their IoU threshold: evaluations of a training can be compared.
        """
        levels = []
        for environment in self.args.training_environments:
            tasks = environment.tasks()
            names = [tasks[seed % len(tasks)].name for seed in range(self.args.eval_episodes)]
            levels += [LevelSeed(seed, "val", environment=name) for seed, name in enumerate(names)]
        return self.play(levels, seed_of(self.args, 0, 99))

    def check_failures(self, episodes: Sequence[PPOEpisode], number: int) -> None:
        """Raise TrainingDataError if more than half of a rollout's episodes failed."""
        reasons = Counter(episode.failure for episode in episodes if episode.failure is not None)
        if reasons.total() > MOST_FAILED * len(episodes):
            reason, times = reasons.most_common(1)[0]
            fix = "resume from the last checkpoint" if number else "begin again"
            raise TrainingDataError(
                f"{reasons.total()} of {len(episodes)} episodes of rollout {number} failed; "
                f"{times} of them with: {reason}. Fix that and {fix}"
            )

    def play_ahead(self, number: int, update: int, version: int) -> None:
        """Some of the next rollout, beside this update, if the weights of now aren't too old for
        it.

        Before a checkpoint nothing is played ahead: a resumed run has no episodes that were begun.
        """
        args = self.args
        following = number + 1
        saves = (
            args.save_strategy == "steps"
            and following * args.steps_per_rollout % args.save_steps == 0
        )
        if self._ahead is None or saves:
            return
        left = args.steps_per_rollout - update
        if following < args.rollouts and left <= args.max_staleness:
            levels = self._own(self.levels(following))
            self._ahead.play(levels, seed_of(args, following, 0), version)

    def play(
        self, levels: Sequence[LevelSeed], seed: int, *, snapshots: bool = False
    ) -> list[PPOEpisode]:
        """The episodes of all levels in their order, with the present weights."""
        with self.clock("sync"):
            self.rollout.sampler.sync()
        snapshots = snapshots or self.args.continuations > 0
        return self._play_on([PPOEpisode(level) for level in levels], seed, snapshots=snapshots)

    def _finish(
        self, ahead: AsyncRollout, levels: Sequence[LevelSeed], seed: int, version: int
    ) -> list[PPOEpisode]:
        """The same, from where they are if they were begun beside updates."""
        mine = ahead.finish(self._own(levels), seed, version)
        return self._gathered(ahead.rollout, mine, len(levels))

    def _play_on(
        self, episodes: Sequence[PPOEpisode], seed: int, *, snapshots: bool = False
    ) -> list[PPOEpisode]:
        with self.accelerator.autocast():
            mine = self.rollout.play_on(self._own(episodes), seed, snapshots=snapshots)
        return self._gathered(self.rollout, mine, len(episodes))

    def _own(self, all_of: Sequence[T]) -> list[T]:
        """The share of this process."""
        return list(all_of[self.accelerator.process_index :: self.accelerator.num_processes])

    def _gathered(self, rollout: Rollout, mine: list[PPOEpisode], many: int) -> list[PPOEpisode]:
        """The `many` episodes that all processes have played, in their order."""
        rank = self.accelerator.process_index
        world = self.accelerator.num_processes
        self.clock.take(rollout.clock)
        if world == 1:
            return mine
        numbers = range(rank, many, world)
        with self.clock("exchange"):
            numbered = gather_object(list(zip(numbers, mine, strict=True)))
        return [episode for _, episode in sorted(numbered, key=lambda pair: int(pair[0]))]

    def levels(self, number: int, extra: int = 0) -> list[LevelSeed]:
        """The levels of a rollout; with `extra` its n-th set of as many further levels."""
        per_rollout = self.args.episodes_per_rollout // self.args.group_size
        drawn = number + extra * self.args.rollouts
        groups = range(drawn * per_rollout, (drawn + 1) * per_rollout)
        levels = self.level_sampler.levels(groups, extra * per_rollout)
        return self._scheduled(levels, number)

    def _scheduled(self, levels: list[LevelSeed], number: int) -> list[LevelSeed]:
        """The levels of a rollout with the IoU threshold of its time."""
        schedule = IOU_SCHEDULES.get(self.args.iou_schedule)
        if schedule is None:
            return levels
        threshold = schedule.at(number / self.args.rollouts)
        scheduled = self.rollout.environments.scheduled
        return [
            replace(level, iou_threshold=threshold) if level.environment in scheduled else level
            for level in levels
        ]

    def _make_rollout(self, sampler: Sampler, score: Score | Mapping[str, Score] | None) -> Rollout:
        args = self.args
        return Rollout(
            EnvironmentPool(min(args.num_envs, args.episodes_per_rollout), args.tasks),
            self.encoder,
            sampler,
            SampleSettings(
                temperature=args.temperature,
                top_p=args.top_p,
                max_tokens=args.max_tokens,
                max_thinking_tokens=args.max_thinking_tokens,
            ),
            context=args.context_policy,
            max_length=args.max_length,
            score=score,
            binary_reward=args.binary_reward,
            threads=args.env_threads,
        )


def seed_of(args: MultiTurnPPOConfig, number: int, purpose: int) -> int:
    """A seed for each rollout and purpose, far from every other: a resumed run draws as the whole
    one did.
    """
    # 1,000,003 is a prime; purposes are below 100, and 99 times 10,007 is below it: no two of a run
    # meet.
    return (args.seed * 1_000_003 + number) * 1_000_003 + purpose * 10_007
