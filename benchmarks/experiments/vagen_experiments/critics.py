"""A trainer for studies of critics: pooling heads, privileged critics, further critic updates,
Monte Carlo targets.
"""

from __future__ import annotations

import functools
import inspect
import math
import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import safetensors.torch
import torch
from torch import Tensor

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.continuations import returns_of
from vagen_adapters.ppo.episodes import PPOEpisode
from vagen_adapters.ppo.estimators import ESTIMATORS
from vagen_adapters.ppo.experience import Experience, Sequences, sequences_of
from vagen_adapters.ppo.introspection import decoder_of
from vagen_adapters.ppo.losses import explained_variance
from vagen_adapters.ppo.packing import Advantages, PackedTokens
from vagen_adapters.ppo.rollout_worker import seed_of
from vagen_adapters.ppo.shown import Shown
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_adapters.ppo.trajectories import NOT_SAMPLED, Trajectories
from vagen_experiments.critic_heads import (
    COUNTS,
    THINGS,
    ReadingHead,
    Watched,
    pictures_in,
    told_of,
)
from vagen_experiments.critic_targets import held_to_forks, values_at

HEADS = ("reading_head.", "told_head.")


class StudyActorCritic(ActorCritic):
    """An actor-critic whose critic also pools over the latest picture's tokens, or is given the
    true state.

    Args:
        policy: as in `ActorCritic`.
        critic: as in `ActorCritic`.
        values: as in `ActorCritic`.
        reads: add an attention-pooling head over the latest picture's tokens.
        told: add the same head over the ground-truth state (asymmetric actor-critic, Pinto et al.
            2017).
        convolutions: layers of the pooling head.
    """

    critic_prefixes = (*ActorCritic.critic_prefixes, *HEADS)

    def __init__(
        self,
        policy: Any,
        critic: Any | None,
        *,
        values: bool = True,
        reads: bool = False,
        told: bool = False,
        convolutions: int = 0,
    ) -> None:
        super().__init__(policy, critic, values=values)
        width = policy.config.get_text_config().hidden_size
        self.reading_head = ReadingHead(width, convolutions) if values and reads else None
        self.told_head = ReadingHead(width) if values and told else None
        self._given: Tensor | None = (
            None  # embeddings that the last pass gave to the language model
        )

    @classmethod
    def with_heads(cls, **heads: Any) -> type[Self]:
        """The class whose models have these heads unless others are given."""
        return type(
            cls.__name__, (cls,), {"__init__": functools.partialmethod(cls.__init__, **heads)}
        )

    def hidden(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        """See `ActorCritic.hidden`."""
        if (
            self.reading_head is None
            or model is self.reference
            or (self.critic is not None and model is self.policy)
        ):
            return super().hidden(model, inputs)
        with Watched(decoder_of(model)) as watched:
            hidden = super().hidden(model, inputs)
        self._given = watched.given
        return hidden

    def values_after(self, hidden: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        """See `ActorCritic.values_after`."""
        return self.of_heads(hidden, self.pictures(hidden, inputs))

    def of_heads(self, hidden: Tensor, pictures: tuple[Tensor, Tensor, Tensor] | None) -> Tensor:
        """(B, L) Values after each position, from the last states, (B, L, H), and what `pictures`
        gives.
        """
        values = super().values_after(hidden, {})
        head = self.reading_head if self.told_head is None else self.told_head
        return values if head is None or pictures is None else values + head(hidden, *pictures)

    def pictures(
        self, hidden: Tensor, inputs: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """What heads pool over: the tokens of pictures, or in their places the objects of the
        state.
        """
        given, counts = self._given, inputs.get(COUNTS)
        if given is None and counts is None:
            return None
        if given is not None and not hidden.requires_grad:
            given = given.detach()
        merge = self.config.vision_config.spatial_merge_size
        seen = pictures_in(dict(inputs), hidden if given is None else given, merge)
        if counts is None:
            return seen
        return inputs[THINGS], torch.stack([counts, torch.ones_like(counts)], 1), seen[2]

    def critic_inputs(self, shown: Sequence[Shown]) -> dict[str, Tensor]:
        """See `ActorCritic.critic_inputs`."""
        if self.told_head is None:
            return {}
        found = told_of(shown, self.told_head.token.in_features)
        return {
            name: tensor.to(self.told_head.token.weight.device) for name, tensor in found.items()
        }

    @torch.no_grad()
    def before_heads(
        self, inputs: dict[str, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor] | None]:
        """What `of_heads` takes, of a batch."""
        hidden = self.hidden(self.policy if self.critic is None else self.critic, inputs)
        return hidden, self.pictures(hidden, inputs)

    def load_critic(self, file: str | Path, state: dict[str, Tensor] | None = None) -> None:
        """Read a critic; one without these heads, or with another one, keeps this one's initial
        heads.

        Raises:
            TrainingConfigError: the other weights differ.
        """
        state = safetensors.torch.load_file(file) if state is None else state
        if self.told_head is not None:
            state = {
                name: tensor
                for name, tensor in state.items()
                if not name.startswith("reading_head.")
            }
        expected = {
            name: tensor.shape
            for name, tensor in self.state_dict().items()
            if self._is_critics(name)
        }
        if not any(name.startswith(HEADS) for name in state):
            expected = {
                name: shape for name, shape in expected.items() if not name.startswith(HEADS)
            }
        if expected != {name: tensor.shape for name, tensor in state.items()}:
            raise TrainingConfigError(
                f"{file} holds another critic; keep critic_reads, critic_convolutions and "
                "critic_told as they were in its training"
            )
        self.load_state_dict(state, strict=False)


@dataclass
class StudyConfig(MultiTurnPPOConfig):
    """Settings of studies.

    Attributes:
        critic_reads, critic_told, critic_convolutions: see `StudyActorCritic`.
        critic_updates: further updates of the critic alone, after those of a rollout.
        critic_replay: rollouts before this one whose sequences those updates also draw from.
        eval_continuations: Monte Carlo continuations of each state of an evaluation's episodes, at
            least 2, to log how much of the states' value the critic explains; 0 for none.
        critic_gate: take the mean return in place of the critic's values while those explain
            nothing (EVPO).
        keep_variance_share: share of the groups, those whose returns vary most, to train on
            (RAGEN's filter).
        learn_from: `actions` gives only the tokens of executed actions an advantage.
        span_credit_weight: weight of the sentences' advantages beside the task's.
    """

    critic_reads: bool = False
    critic_told: bool = False
    critic_convolutions: int = 0
    critic_updates: int = 0
    critic_replay: int = 0
    eval_continuations: int = 0
    critic_gate: bool = False
    keep_variance_share: float = 1.0
    learn_from: Literal["reply", "actions"] = "reply"
    span_credit_weight: float = 1.0

    @property
    def steps_per_rollout(self) -> int:
        """Updates between two rollouts, those of the critic alone among them."""
        return super().steps_per_rollout + self.critic_updates

    def _check_continuations(self) -> None:
        """Continuations may also be the critic's targets."""


class StudyTrainer(MultiTurnPPOTrainer):
    """`MultiTurnPPOTrainer` for `StudyConfig`."""

    args: StudyConfig

    def __init__(self, model: str, args: StudyConfig, **options: Any) -> None:
        self._replay: deque[Experience] = deque(maxlen=args.critic_replay + 1)
        self.actor_critic_class = StudyActorCritic.with_heads(
            reads=args.critic_reads,
            told=args.critic_told,
            convolutions=args.critic_convolutions,
        )
        super().__init__(model, args, **options)

    def collect_experience(self, number: int) -> Experience | None:
        """See `MultiTurnPPOTrainer.collect_experience`."""
        experience = super().collect_experience(number)
        if experience is not None:
            self._replay.append(experience)
        return experience

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """As `MultiTurnPPOTrainer.training_step`; after a rollout's updates the critic has its
        own.
        """
        number, update = divmod(self.state.global_step, self.args.steps_per_rollout)
        if (
            update < self.args.epochs_per_rollout * self.args.minibatches
            or self._experience is None
        ):
            return super().training_step(model, inputs, num_items_in_batch)
        self.before_update(self.state.global_step)
        model.train()
        generator = torch.Generator().manual_seed(seed_of(self.args, number, 60) + update)
        sizes = [len(each.sequences.rows) for each in self._replay]
        rows = torch.randperm(sum(sizes), generator=generator)[
            : math.ceil(sizes[-1] / self.args.minibatches)
        ]
        loss, begin = torch.zeros((), device=self.args.device), 0
        for experience, size in zip(self._replay, sizes, strict=True):
            own = rows[(rows >= begin) & (rows < begin + size)] - begin
            loss, begin = loss + self.backward(experience, own, only_critic=True), begin + size
        for parameter in self.model.trainable(
            critic=False
        ):  # Adam's momentum would move the policy on
            parameter.grad = None
        return loss

    def select(self, episodes: list[PPOEpisode]) -> list[PPOEpisode]:
        """See `StudyConfig.keep_variance_share`."""
        share = self.args.keep_variance_share
        return episodes if share == 1 else keep_by_variance(episodes, share)

    def estimate_advantages(self, batch: Trajectories) -> Advantages:
        """With continuations, the critic learns their mean returns instead of the episode's own."""
        if self.args.critic_gate:
            batch, explained = without_a_poor_critic(
                batch, self.args.advantage, self.args.advantage_settings
            )
            self._record(
                {"critic/explained_at_turns": explained, "critic/used": float(not explained <= 0)}
            )
        advantages = super().estimate_advantages(batch)
        if batch.turn_values is None or self.args.critic_kind == "none":
            return advantages
        known = values_at(batch.turn_ids, batch.turn_values)
        mask = advantages.value_mask & ~known.isnan()
        return replace(advantages, returns=known.nan_to_num(), value_mask=mask)

    def assign_credit(self, advantages: Advantages, sequences: Sequences) -> Advantages:
        """See `StudyConfig.learn_from` and `span_credit_weight`."""
        if self.args.learn_from == "actions":
            return answers_only(advantages, sequences, self.encoder)
        credited = super().assign_credit(advantages, sequences)
        if self.args.span_credit_weight == 1:
            return credited
        changed = credited.advantages - advantages.advantages != 0
        weighted = credited.advantages * torch.where(changed, self.args.span_credit_weight, 1.0)
        return replace(credited, advantages=weighted)

    def measure(self, episodes: Sequence[PPOEpisode]) -> dict[str, float]:
        """Also how much of the states' value the critic explains."""
        found = super().measure(episodes)
        sound = [episode for episode in episodes if episode.failure is None]
        if not self.args.eval_continuations or self.args.critic_kind == "none" or not sound:
            return found
        times = self.args.eval_continuations
        played = self.worker.forked(sound, times, seed_of(self.args, 0, 98))
        returns = returns_of(sound, played, times, self.args.turn_discount)
        sequences = sequences_of(sound, self.args.context_policy, self.args.device, with_end=False)
        with torch.no_grad():
            values = self._scores(sequences, ["values"])["values"].tolist()
        known: list[float] = []
        drawn: list[list[float]] = []
        for row, (owner, sequence) in enumerate(
            zip(sequences.episode_ids.tolist(), sequences.rows, strict=True)
        ):
            for turn in sorted(set(sequence.turn_ids) - {NOT_SAMPLED}):
                if len(returns[owner][turn]) == self.args.eval_continuations:  # none of them failed
                    known.append(values[row][sequence.turn_ids.index(turn)])
                    drawn.append(
                        [
                            value * self.args.training_environments[0].reward_scale
                            for value in returns[owner][turn]
                        ]
                    )
        return {
            **found,
            **{f"critic_{name}": entry for name, entry in held_to_forks(known, drawn).items()},
        }


def keep_by_variance(episodes: Sequence[PPOEpisode], share: float) -> list[PPOEpisode]:
    """The episodes of the `share` of groups whose returns vary most, in their order."""
    returns: dict[int, list[float]] = {}
    for episode in episodes:
        returns.setdefault(episode.level.group, []).append(episode.rewards)
    most_first = sorted(returns, key=lambda group: (-statistics.pvariance(returns[group]), group))
    kept = set(most_first[: math.ceil(share * len(most_first))])
    return [episode for episode in episodes if episode.level.group in kept]


def without_a_poor_critic(
    batch: Trajectories, name: str, settings: Mapping[str, Any]
) -> tuple[Trajectories, float]:
    """The batch with the mean return as values if the critic explains none of the returns; and what
    it explains.

    EVPO (Pan et al. 2026): a critic whose explained variance isn't above 0 adds more variance to
    advantages than it takes away. Returns are the estimator's targets at λ = 1 for a critic of
    zeros, compared before each turn's first token. Where they don't vary, the critic stays, and the
    explained variance is NaN.
    """
    estimator = ESTIMATORS[name]
    tokens = PackedTokens(batch)
    zeros = replace(
        batch, values=tokens.values.new_zeros(len(batch.turn_ids), batch.turn_ids.shape[1] + 1)
    )
    lambdas = {
        each: 1.0 for each in inspect.signature(estimator).parameters if each.startswith("lam")
    }
    targets = estimator(zeros, **{**settings, **lambdas}).returns
    returns = targets.take((tokens.place + tokens.row)[tokens.starts_turn])
    explained = explained_variance(tokens.values[tokens.starts_turn], returns)
    if not explained <= 0:
        return batch, explained
    mean = float(returns.mean())
    at_ends = (
        None if batch.bootstrap_values is None else torch.full_like(batch.bootstrap_values, mean)
    )
    return replace(
        batch, values=torch.full_like(targets, mean), bootstrap_values=at_ends
    ), explained


def answers_only(advantages: Advantages, sequences: Sequences, encoder: Any) -> Advantages:
    """Advantages for the tokens of executed actions alone; other tokens still count in the KL to
    the reference.
    """
    acts = torch.zeros_like(advantages.mask)
    for row, (sequence, episode) in enumerate(zip(sequences.rows, sequences.episodes, strict=True)):
        for turn in set(sequence.turn_ids) - {NOT_SAMPLED}:
            played = episode.turns[turn]
            actions = played.turn.parsed.actions
            if not actions:
                continue
            columns = [column for column, own in enumerate(sequence.turn_ids) if own == turn]
            begins = encoder.begins(played.reply.ids)
            ends = [*begins[1:], len(played.turn.reply)]
            for column, begin, end in zip(columns, begins, ends, strict=True):
                acts[row, column] = end > actions[0].start and begin < actions[-1].end
    return replace(advantages, advantages=advantages.advantages * acts)
