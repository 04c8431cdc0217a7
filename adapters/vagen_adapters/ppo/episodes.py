"""Episodes as they were played: levels, turns, summaries, and groups of episodes of one level."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from vagen_adapters.ppo.generation import SampledReply
from vagen_adapters.ppo.shown import Shown
from vagen_envs import RewardTerm, Turn
from vagen_envs.seeding import HashStream
from vagen_rewards.credit import FieldWords
from vagen_rewards.verifiers.metrics import Detection


@dataclass(frozen=True)
class LevelSeed:
    """One level to play.

    Attributes:
        seed: of the level.
        split: `train`, `val` or `test`.
        group: of the episodes that it is compared with.
        draw: tells apart episodes of one level, whose replies would otherwise be drawn alike.
        prompts: which of its task's prompts it is played with, if there are several.
        environment: the name of its task; empty in a rollout of one environment.
        iou_threshold: what a schedule has it scored at; None for the environment's own.
    """

    seed: int
    split: str = "train"
    group: int = 0
    draw: int = 0
    prompts: int = 0
    environment: str = ""
    iou_threshold: float | None = None


@dataclass(frozen=True, eq=False)
class PlayedTurn:
    """One turn.

    Attributes:
        shown: the observation before the reply.
        reply: the sampled tokens.
        turn: the environment's record.
        rewards: the environment's terms and any others.
        words: which of the reply's words are true, where they are credited by themselves; see
            `reasoning`.
        detection: the answer's boxes and the true ones; None where a task has none.
        snapshot: the environment before the reply, where it is kept; empty elsewhere.
        version: of the weights that sampled all tokens of the reply, as the number of updates
            before.
        thoughts: the model's own, before the reply.
        brief: the reply reduced to its answer, as later prompts show it where `context` has
            `answers`; None elsewhere.
    """

    shown: Shown
    reply: SampledReply
    turn: Turn
    rewards: tuple[RewardTerm, ...]
    words: tuple[FieldWords, ...] = ()
    detection: Detection | None = None
    snapshot: bytes = b""
    version: int = 0
    thoughts: str = ""
    brief: SampledReply | None = None

    @property
    def reward(self) -> float:
        """The sum of the terms."""
        return math.fsum(term.value for term in self.rewards)

    @property
    def cut(self) -> bool:
        """Whether the reply was stopped by its limit of tokens, before it ended by itself."""
        return self.reply.ids[-1] != self.shown.next_ids[0]


@dataclass(frozen=True, eq=False)
class PlayedSummary:
    """A summary that the policy wrote of turns that are no longer shown after it: sampled and
    trained on as a reply.

    `shown` is the request for it; the other fields are those of a turn.
    """

    shown: Shown
    reply: SampledReply
    version: int = 0
    reward: ClassVar[float] = 0.0
    words: ClassVar[tuple[FieldWords, ...]] = ()


Step = PlayedTurn | PlayedSummary
"""What the policy has sampled: its number in the episode is the turn id of its tokens."""


@dataclass(eq=False)
class PPOEpisode:
    """An episode.

    Attributes:
        last_shown: the observation after the last turn; None once it is terminated, when nothing is
            read any more.
        terminated: solved or lost.
        truncated: cut by the environment's budget, or for want of room in the context.
        failure: why it can't be trained on (a broken environment or judge, no room), else None.
        summaries: by the number of turns before each.
        pending: the observation that is shown after the summary that is asked for now; None
            elsewhere.
        begins_at: the environment where this episode is played on from, after its first turns;
            empty for a reset.
        first: turns that an earlier rollout has trained on. They are history here.
        pause_at: turns after which it is paused, if it hasn't ended; None for never.
        ends_at: the environment where it was paused; empty elsewhere. What comes next is worth the
            critic's value, as after a truncation.
    """

    level: LevelSeed
    turns: list[PlayedTurn] = field(default_factory=list)
    last_shown: Shown | None = None
    terminated: bool = False
    truncated: bool = False
    failure: str | None = None
    summaries: dict[int, PlayedSummary] = field(default_factory=dict)
    pending: dict[str, Any] | None = None
    begins_at: bytes = b""
    first: int = 0
    pause_at: int | None = None
    ends_at: bytes = b""

    def continued(self) -> PPOEpisode:
        """The episode that goes on where this one was paused."""
        turns = list(self.turns)
        shown = copy.copy(self.last_shown)
        return PPOEpisode(self.level, turns, shown, begins_at=self.ends_at, first=len(self.turns))

    def fork(self, turn: int, number: int) -> PPOEpisode:
        """An episode that goes on from before the reply of `turn`, which was played with a
        snapshot; one of several.
        """
        draw = HashStream("fork", self.level.draw, turn, number).bits(48)
        here = self.turns[turn]
        turns = list(self.turns[:turn])
        if turns:  # a conversation is known by its first observation, and this is another
            turns[0] = replace(turns[0], shown=copy.copy(turns[0].shown))
        return PPOEpisode(
            replace(self.level, draw=draw), turns, copy.copy(here.shown), begins_at=here.snapshot
        )

    @property
    def steps(self) -> list[Step]:
        """Turns and summaries in the order in which they were sampled."""
        if not self.summaries:
            return [*self.turns]
        pairs = (
            (self.summaries.get(number), turn) for number, turn in enumerate([*self.turns, None])
        )
        return [step for pair in pairs for step in pair if step is not None]

    @property
    def new_turns(self) -> list[PlayedTurn]:
        """The turns that no earlier rollout has trained on."""
        return self.turns[self.first :]

    @property
    def new_steps(self) -> list[Step]:
        """Those turns and the summaries; episodes that are paused have no summaries."""
        return self.steps[self.first :]

    @property
    def is_paused(self) -> bool:
        """Whether it goes on in the next rollout."""
        return bool(self.ends_at)

    @property
    def over(self) -> bool:
        """Whether it isn't played on."""
        return self.terminated or self.truncated or self.failure is not None

    @property
    def success(self) -> bool:
        """Whether the task was solved."""
        return bool(self.turns) and self.turns[-1].turn.success

    @property
    def source(self) -> str:
        """Where the level comes from: the data source that its metrics name, else its task, else
        its environment.
        """
        first = self.turns[0].turn
        return str(first.metrics.get("data_source", self.level.environment or first.env_id))

    @property
    def rewards(self) -> float:
        """The sum of all turns' rewards."""
        return math.fsum(turn.reward for turn in self.turns)


def keep_differing(episodes: Sequence[PPOEpisode], most: int) -> list[PPOEpisode]:
    """Whole groups whose returns differ, up to `most` of them, in order: groups of equal returns
    teach nothing (DAPO).

    Returns that differ by rounding alone count as equal. A group with a failed
    episode is dropped, and other levels are played instead.
    """
    differing = [
        group
        for group in groups_of(episodes)
        if not _has_failures(group) and not have_equal_returns(group)
    ]
    return [episode for group in differing[:most] for episode in group]


def _has_failures(group: Sequence[PPOEpisode]) -> bool:
    return any(episode.failure is not None for episode in group)


def groups_of(episodes: Iterable[PPOEpisode]) -> list[list[PPOEpisode]]:
    """The episodes by group, in order."""
    groups: dict[int, list[PPOEpisode]] = {}
    for episode in episodes:
        groups.setdefault(episode.level.group, []).append(episode)
    return list(groups.values())


def have_equal_returns(group: Sequence[PPOEpisode]) -> bool:
    """Whether returns differ by no more than rounding, so that comparing them teaches nothing."""
    returns = [episode.rewards for episode in group]
    return math.isclose(min(returns), max(returns), rel_tol=1e-6, abs_tol=1e-12)
