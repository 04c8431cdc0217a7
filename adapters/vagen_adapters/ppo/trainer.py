"""Multi-turn PPO: collect episodes, score them, estimate advantages, update policy and critic; and again.

TRL's house style on transformers' Trainer, which supplies the optimiser, schedule, mixed precision, logging
and checkpoints. TRL itself has had no PPO since 1.16.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import AutocastKwargs, DistributedDataParallelKwargs
from torch import Tensor
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl.trainer.base_trainer import _BaseTrainer

from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.ppo import losses, metrics
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.advantages import without_a_poor_critic
from vagen_adapters.ppo.codec import Codec
from vagen_adapters.ppo.config import ESTIMATORS, IN_GROUPS, WITHOUT_CRITIC, MultiTurnPPOConfig
from vagen_adapters.ppo.episodes import (
    Episode,
    Level,
    PlayedTurn,
    TokenSequence,
    training_sequences,
)
from vagen_adapters.ppo.family_checks import can_go_unmasked, can_narrow, check_model, check_packing, sight_for
from vagen_adapters.ppo.forks import StateNumbers, held_to_forks, values_at
from vagen_adapters.ppo.generation import TILE, Sampler, model_inputs, pad
from vagen_adapters.ppo.kl_control import AdaptiveKL
from vagen_adapters.ppo.layout_checks import check_layout
from vagen_adapters.ppo.metrics import mean
from vagen_adapters.ppo.packing import Advantages, trained_tokens
from vagen_adapters.ppo.playing import Player, seed_of
from vagen_adapters.ppo.process_memory import garbage_looked_for_seldom, keep_freed_memory
from vagen_adapters.ppo.reducing import summed_with_last
from vagen_adapters.ppo.rollout import Score
from vagen_adapters.ppo.sample_tables import show_samples
from vagen_adapters.ppo.trajectories import NOT_SAMPLED, Trajectories
from vagen_adapters.ppo.unpadding import Places
from vagen_adapters.ppo.word_credit import answers_only, credit_words
from vagen_envs.errors import did_you_mean

COMPLETE = "complete"
"""The file that a checkpoint holds once all of it is written."""

MOST_SKIPPED = 10
"""Updates in a row whose gradients are no numbers, after which a run ends."""
BEST = "best"
"""The folder of the model that did best in evaluations."""
EVALUATIONS = "evaluations.json"
"""The file of a run's evaluations, in order."""

MakeSampler = Callable[[Any, Codec], Sampler]


@dataclass(frozen=True, eq=False)
class ScoredRollout:
    """The sequences of a rollout and all that their updates need; (B, L) or, of values, (B, L + 1)."""

    sequences: list[TokenSequence]
    turn_ids: Tensor
    old_logprobs: Tensor
    reference_logprobs: Tensor | None
    old_values: Tensor
    advantages: Advantages
    sampler_weights: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Weighed:
    """Rows of a rollout, and what each token counts for policy and critic, (B, L) and (B, L + 1)."""

    scored: ScoredRollout
    rows: Tensor
    weights: Tensor
    value_weights: Tensor


Drawn = tuple[ScoredRollout, Tensor]
"""A rollout and the numbers of some of its sequences."""


class MultiTurnPPOTrainer(_BaseTrainer):
    """Trains a vision-language policy on environments that are played in turns.

    Args:
        model: the policy's folder or name, of any family that passes `family_checks`.
        args: the settings.
        critic: the folder of the critic's backbone; the policy's by default.
        score: reward terms of a turn beside the environment's.
        make_sampler: builds another generation back-end than `args.generation` names, from the policy and its codec.
        callbacks: of transformers' Trainer.

    With several processes each plays and scores its share of the episodes. Then all of them hold all episodes, and each
    takes its share of every mini-batch, so that an update is the same however many there are.

    Raises:
        TrainingConfigError: the model's family can't be trained, or settings don't go together.
        TrainingDataError: in training, when log-probabilities are NaN, or the gradients of ten updates in a row.
    """

    args: MultiTurnPPOConfig
    model: ActorCritic
    optimizer: Any
    control: Any

    _tag_names = ["trl", "multi-turn-ppo"]  # noqa: RUF012 - TRL's name and form
    _name = "Multi-turn PPO"

    def __init__(
        self,
        model: str,
        args: MultiTurnPPOConfig,
        *,
        critic: str | None = None,
        score: Score | None = None,
        make_sampler: MakeSampler | None = None,
        callbacks: list[Any] | None = None,
    ) -> None:
        if args.reasoning_credit == "claim" and score is None:
            raise TrainingConfigError(
                "reasoning_credit='claim' pays sentences what a reward for reasoning found of them, and none is given; "
                "give one as score (see reasoning.reasoning_score) or a recipe that has one, or take 'turn'"
            )
        self.codec = Codec.from_pretrained(model)
        check_layout(self.codec)
        if args.shared_backbone and critic is not None:
            raise TrainingConfigError(f"the critic {critic} would not be used: shared_backbone makes it the policy's")
        with _whole_weights(args):
            # Updates of 1e-6 of a weight are lost in the bfloat16 that checkpoints are stored in; DeepSpeed keeps
            # weights of its own for them in float32.
            as_stored = getattr(args, "deepspeed_plugin", None) is not None and args.bf16
            dtype = "auto" if args.lora or as_stored else torch.float32
            options = {"dtype": dtype, **_attention(args), **_straight_to_device(args)}
            actor_critic = ActorCritic.from_pretrained(
                model, critic, critic=args.critic_kind, reads=args.critic_reads, told=args.critic_told,
                convolutions=args.critic_convolutions, **options,
            )  # fmt: skip
            if args.lora:
                actor_critic.add_adapters(args.lora)
            if args.freeze_vision:
                actor_critic.freeze_vision()
            if args.kl_coef or args.kl_loss_coef:
                arithmetic = torch.bfloat16 if args.bf16 else torch.float32
                actor_critic.add_reference(arithmetic, model if as_stored else None)
        super().__init__(  # type: ignore[no-untyped-call]
            model=actor_critic,
            args=args,
            data_collator=lambda steps: steps[0],
            train_dataset=[{"step": step} for step in range(args.max_steps * args.world_size)],
            eval_dataset=[{}],  # Trainer asks for one; what is evaluated is played
            processing_class=self.codec.tokenizer,
            callbacks=[
                *(callbacks or []),
                *([AdaptiveKL(args.adaptive_kl, args.kl_horizon)] if args.adaptive_kl else []),
            ],
        )
        self._check_processes(make_sampler)
        keeps = False
        actor_critic.spread = self.spreads in ("fsdp", "zero3")
        if not actor_critic.spread:  # there no process has weights that it could try
            keeps = check_model(actor_critic, self.codec, turn_by_turn=args.window is not None)
            actor_critic.masks = not can_go_unmasked(actor_critic, self.codec)
            if args.packing:
                check_packing(actor_critic, self.codec)
            actor_critic.narrows = can_narrow(actor_critic, self.codec)
            actor_critic.sight = sight_for(actor_critic, self.codec, int(args.sight_memory * 2**30))
        actor_critic.packs = args.packing
        make = (lambda policy: make_sampler(policy, self.codec)) if make_sampler else None
        self.player = Player(model, args, actor_critic, self.codec, self.accelerator, self._record,
                             keeps=keeps, score=score, make_sampler=make)  # fmt: skip
        if args.device.type == "cpu":
            keep_freed_memory()
        self._scored: ScoredRollout | None = None
        self._replay: deque[ScoredRollout] = deque(maxlen=args.critic_replay + 1)
        self._far_off: int | None = None  # the rollout whose policy is further from its start than `target_kl`
        self._finite_gradients = True
        self._skipped_in_a_row = 0
        self._metrics: dict[str, list[float]] = defaultdict(list)
        self._read: Counter[str] = Counter()
        self._places = Places(actor_critic.policy)

    @property
    def spreads(self) -> str:
        """How weights are spread over processes, as `planning` names it."""
        plugin = getattr(self.accelerator.state, "deepspeed_plugin", None)
        if self.is_fsdp_enabled:
            return "fsdp"
        return "ddp" if plugin is None else f"zero{min(max(plugin.zero_stage, 2), 3)}"

    def _check_processes(self, make_sampler: MakeSampler | None) -> None:
        sharded = self.spreads in ("fsdp", "zero3")
        if self.args.critic_updates and self.spreads.startswith("zero"):
            raise TrainingConfigError(
                f"critic_updates={self.args.critic_updates} must be 0 here: DeepSpeed's optimiser steps for all "
                "weights, and Adam's momentum would move the policy on; use DDP or FSDP 2"
            )
        if self.is_fsdp_enabled and not self.accelerator.is_fsdp2:
            raise TrainingConfigError("FSDP 1 clips gradients of shards as if they were whole; set fsdp_version: 2")
        if sharded and make_sampler is None and self.args.generation == "transformers":
            raise TrainingConfigError(
                "generation='transformers' samples from weights that are whole in each process, and here they are "
                "spread over all; set generation to vllm or vllm-server, or use DDP or ZeRO 2"
            )

    def _build_accelerator_args(self, **options: Any) -> dict[str, Any]:
        """Two copies less: gradients are DDP's buckets, and weights that autocast rounds aren't kept till its end."""
        found: dict[str, Any] = super()._build_accelerator_args(**options)
        for handler in found["kwargs_handlers"]:
            if isinstance(handler, DistributedDataParallelKwargs):
                handler.gradient_as_bucket_view = True
        found["kwargs_handlers"].append(AutocastKwargs(cache_enabled=False))
        return found

    # -- one step ----------------------------------------------------------------------------------

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """One update's gradients, from one mini-batch; before the first of a rollout, the rollout."""
        step = self.state.global_step
        number, update = divmod(step, self.args.steps_per_rollout)
        self.player.wait()
        if update == 0:
            self._scored = self._collect(model, number)
            if self._scored is not None:
                self._replay.append(self._scored)
        if self._scored is None:  # every episode failed or was filtered out: nothing to learn from
            return torch.zeros((), device=self.args.device)
        self.player.play_ahead(number, update, step)
        model.train()
        of_critic = update >= self.args.policy_updates
        left_out = self._far_off == number and not of_critic
        if self.args.target_kl is not None and not of_critic:
            self._record({"update/left_out": float(left_out)})
        loss = torch.zeros((), device=self.args.device)
        if not left_out:
            with self.player.clock("update"):
                draw = self._replayed if of_critic else self._minibatch
                loss = self._backward(model, draw(number, update), number, of_critic)
        if update == self.args.steps_per_rollout - 1:
            self._record({"update/pictures_read": self._pictures_read(), "padding": self._padding()})
            self._record(self.player.clock.shares(sum(len(each.prompt.ids) for each in self._scored.sequences)))
        return loss

    def _collect(self, model: Any, number: int) -> ScoredRollout | None:
        """Play, score and estimate: everything that is constant during the updates of a rollout."""
        clock = self.player.clock = metrics.Clock()
        episodes, kept = self.player.play_enough(number, self.state.global_step)
        self._record(metrics.of_episodes(episodes, kept))
        self.player.check_failures(episodes, number)
        sampled = sum(len(turn.reply.ids) for episode in episodes for turn in episode.turns)
        self._record({"generation/tokens_per_second": sampled / max(clock.spent("generation"), 1e-9)})
        worth: list[list[float]] = []
        if self.args.forks:
            kept, worth = self.player.play_forks(kept, number)
        self.player.rest()
        if not kept:
            return None
        if self.args.max_staleness:
            self._record(metrics.of_versions(kept, self.state.global_step))
        with clock("score"):
            return self._score(model, kept, worth)

    @torch.no_grad()
    def _score(self, model: Any, episodes: Sequence[Episode], worth: Sequence[Sequence[float]]) -> ScoredRollout:
        args, device = self.args, self.args.device
        sequences, owners = self._laid_out(episodes, with_end=args.bootstrap_truncated)
        episode_ids = torch.tensor(owners, device=device)
        turn_ids = pad([each.turn_ids for each in sequences], NOT_SAMPLED, multiple=TILE).to(device)
        said = trained_tokens(turn_ids, with_observations=not self._masks_observations)
        scores = self._scores(model, sequences, said, self._scored_of_rollouts)
        sampled = pad([each.logprobs for each in sequences], 0.0, multiple=TILE).to(device)
        logprobs, reference = scores.get("logprobs", sampled), scores.get("reference_logprobs")
        broken = ~logprobs.isfinite().all(1)
        if broken.any():
            raise TrainingDataError(
                f"{int(broken.sum())} of {len(broken)} sequences have log-probabilities that are no numbers, so the "
                "weights must be broken; go back to a checkpoint and lower learning_rate or max_grad_norm"
            )
        kl_rewards = None
        if reference is not None and args.kl_coef:
            if args.kl_estimator == "exact":
                kl_rewards = -args.kl_coef * self._kl_factor * scores["kl"]
            else:
                kl_rewards = (
                    -args.kl_coef * self._kl_factor * losses.kl_estimates(logprobs, reference, args.kl_estimator)
                )
        batch = self._trajectories(episodes, sequences, episode_ids, turn_ids, scores["values"], kl_rewards, worth)
        estimate = ESTIMATORS[args.advantage]
        if args.critic_gate:
            batch, explained = without_a_poor_critic(batch, estimate, args.advantage_settings)
            self._record({"critic/explained_at_turns": explained, "critic/used": float(not explained <= 0)})
        advantages = estimate(batch, **args.advantage_settings)
        self._record(
            metrics.of_scores(batch, advantages, logprobs, sampled if "logprobs" in scores else None, reference)
        )
        if reference is not None:
            self._steer_kl(float(losses.kl_estimates(logprobs, reference, "k1")[batch.mask].mean()), len(episodes))
        correction = None
        if args.sampler_correction != "none":
            correction = losses.sampler_weights(logprobs, sampled, turn_ids, args.sampler_correction, args.sampler_cap)
            said = correction[batch.mask]
            self._record({"correction/mean": float(said.mean()),
                          "correction/capped": mean((said >= args.sampler_cap).float().tolist())})  # fmt: skip
        of_rows = [episodes[each] for each in episode_ids.tolist()]
        if args.log_samples and self.accelerator.is_main_process:
            metrics.print_samples(sequences, of_rows, advantages.advantages, self.state.global_step, args.log_samples)
        if args.whiten and args.advantage not in IN_GROUPS:
            advantages = advantages.whitened()
        if args.learn_from == "actions":
            advantages = answers_only(advantages, sequences, of_rows, self.codec)
        if args.reasoning_credit == "claim":
            advantages, truths = credit_words(advantages, sequences, of_rows, self.codec, args.reasoning_credit_weight)
            self._record(truths)
        if batch.turn_values is not None:  # the critic learns what states are worth, in place of what came of them
            known = values_at(turn_ids, batch.turn_values)
            mask = advantages.value_mask & ~known.isnan()
            advantages = replace(advantages, returns=known.nan_to_num(), value_mask=mask)
        return ScoredRollout(sequences, turn_ids, logprobs, reference, scores["values"], advantages, correction)

    def _laid_out(self, episodes: Sequence[Episode], *, with_end: bool) -> tuple[list[TokenSequence], list[int]]:
        """All sequences of some episodes, and the number of the episode that each is of."""
        laid_out = [training_sequences(each, self.args.window, with_end=with_end) for each in episodes]
        owners = [number for number, each in enumerate(laid_out) for _ in each]
        return [sequence for each in laid_out for sequence in each], owners

    @property
    def _scored_of_rollouts(self) -> list[str]:
        args = self.args
        want = ["logprobs"] if args.old_logprobs == "scored" else []
        if args.advantage not in WITHOUT_CRITIC:
            want.append("values")
        if args.kl_coef or args.kl_loss_coef:
            want.append("reference_logprobs")
            if args.kl_estimator == "exact":
                want.append("kl")
        return want

    def _scores(
        self, model: Any, sequences: Sequence[TokenSequence], said: Tensor, want: Sequence[str]
    ) -> dict[str, Tensor]:
        """What the models say of the tokens `said`, (B, L), and, (B, L + 1), values; each process scores its share."""
        device, (rows, length) = self.args.device, said.shape
        found = {name: torch.zeros(rows, length + (name == "values"), device=device) for name in want}
        model.eval()
        for part, own in self._parts(_shortest_first(sequences, torch.arange(rows))) if want else ():
            inputs = self._inputs(sequences, part, want)
            with self.accelerator.autocast():
                mask = said[part, : inputs["input_ids"].shape[1]]
                scores = self._forward(model, inputs, want, mask)
            for name in want if own else ():
                found[name][part, : scores[name].shape[1]] = scores[name]
        self._record({"score/pictures_read": self._pictures_read()})
        if self.accelerator.num_processes > 1:
            found = {name: self.accelerator.reduce(tensor, "sum") for name, tensor in found.items()}
        return {"values": torch.zeros(rows, length + 1, device=device), **found}

    def _trajectories(
        self,
        episodes: Sequence[Episode],
        sequences: Sequence[TokenSequence],
        episode_ids: Tensor,
        turn_ids: Tensor,
        values: Tensor,
        kl_rewards: Tensor | None,
        worth: Sequence[Sequence[float]],
    ) -> Trajectories:
        device = self.args.device
        rewards = torch.zeros(len(sequences), int(turn_ids.max()) + 1, device=device)
        compares_states = self.args.advantage == "gigpo"
        states, number_of = torch.zeros_like(rewards, dtype=torch.int64), StateNumbers()
        values_of_turns = torch.zeros_like(rewards) if worth else None
        for row, (sequence, episode) in enumerate(zip(sequences, episode_ids.tolist(), strict=True)):
            for turn in set(sequence.turn_ids) - {NOT_SAMPLED}:
                played = episodes[episode].turns[turn]
                rewards[row, turn] = (played.reward + self._overlong(played)) * self.args.reward_scale
                if compares_states:
                    states[row, turn] = number_of(episodes[episode].level, played.turn)
                if values_of_turns is not None:
                    values_of_turns[row, turn] = worth[episode][turn] * self.args.reward_scale
        ends = torch.tensor([len(each.prompt.ids) for each in sequences], device=device)
        with_end = torch.tensor([each.ends_with_observation for each in sequences], device=device)
        of_rows = [episodes[number] for number in episode_ids.tolist()]
        return Trajectories(
            turn_ids=turn_ids,
            turn_rewards=rewards,
            terminated=torch.tensor([each.terminated for each in of_rows], device=device),
            truncated=torch.tensor([each.truncated for each in of_rows], device=device),
            values=values,
            kl_rewards=kl_rewards,
            bootstrap_values=values.gather(1, ends[:, None]).squeeze(1) * with_end,
            episode_ids=episode_ids,
            group_ids=torch.tensor([each.level.group for each in of_rows], device=device),
            turn_states=states if compares_states else None,
            turn_values=values_of_turns,
        )

    def _overlong(self, played: PlayedTurn) -> float:
        if not self.args.overlong_share:
            return 0.0
        penalty = losses.overlong_penalty(len(played.reply.ids), self.args.max_tokens, self.args.overlong_share)
        self._record({"reward/overlong": penalty})
        return penalty

    @property
    def _kl_factor(self) -> float:
        """By which `adaptive_kl` has changed β."""
        return next((each.factor for each in self.callback_handler.callbacks if isinstance(each, AdaptiveKL)), 1.0)

    def _steer_kl(self, kl: float, episodes: int) -> None:
        for each in self.callback_handler.callbacks:
            if isinstance(each, AdaptiveKL):
                each.update(kl, episodes)
                self._record({"policy/kl_factor": each.factor})

    def _minibatch(self, number: int, update: int) -> list[Drawn]:
        """The rows of an update: each pass over a rollout goes through all of them once, newly shuffled."""
        assert self._scored is not None  # noqa: S101 - for the type checker
        epoch, position = divmod(update, self.args.minibatches)
        generator = torch.Generator().manual_seed(seed_of(self.args, number, 1 + epoch))
        rows = torch.randperm(len(self._scored.sequences), generator=generator)
        return [(self._scored, rows.tensor_split(self.args.minibatches)[position])]

    def _replayed(self, number: int, update: int) -> list[Drawn]:
        """The rows of an update of the critic alone: as many as a mini-batch has, of the last rollouts' together."""
        sizes = [len(each.sequences) for each in self._replay]
        generator = torch.Generator().manual_seed(seed_of(self.args, number, 60) + update)
        rows = torch.randperm(sum(sizes), generator=generator)[: math.ceil(sizes[-1] / self.args.minibatches)]
        begins = [sum(sizes[:each]) for each in range(len(sizes))]
        return [
            (scored, rows[(rows >= begin) & (rows < begin + size)] - begin)
            for scored, begin, size in zip(self._replay, begins, sizes, strict=True)
        ]

    def _backward(self, model: Any, drawn: Sequence[Drawn], number: int, of_critic: bool) -> Tensor:
        """Add up the gradients of some rows of rollouts, a few sequences at a time; means are over all of them."""
        batches = [self._weighed(scored, rows) for scored, rows in drawn if len(rows)]
        if not batches:  # fewer sequences were kept than there are mini-batches
            return torch.zeros((), device=self.args.device)
        whole = sum(each.weights.sum() for each in batches).clamp(min=1)
        whole_values = sum(each.value_weights.sum() for each in batches).clamp(min=1)
        sums: dict[str, Tensor] = defaultdict(lambda: torch.zeros((), device=self.args.device))
        world = self.accelerator.num_processes
        parts = [((each, part), own) for each in batches for part, own in self._parts(torch.arange(len(each.rows)))]
        for (each, part), own in summed_with_last(
            self.accelerator, model, parts, each=self.args.gradient_sync == "each"
        ):
            weights, of_values = each.weights[part] * own / whole, each.value_weights[part] * own / whole_values
            with self.accelerator.autocast():
                loss, terms = self._loss(model, each.scored, each.rows[part], weights, of_values, number, of_critic)
            self.accelerator.backward(loss * world)  # gradients are averaged over processes, and parts are shares
            for name, entry in {"loss": loss.detach(), **terms}.items():
                sums[name] += entry
        total = sums.pop("loss")
        shares = torch.stack(list(sums.values()))
        if world > 1:
            shares = self.accelerator.reduce(shares, "sum")
        found = dict(zip(sums, shares.tolist(), strict=True))
        if self.args.target_kl is not None and found.get("policy/kl_estimate", 0.0) > self.args.target_kl:
            self._far_off = number
        if of_critic:  # gradients of zero, as DDP gives, would let Adam's momentum move the policy on
            for parameter in self.model.trainable(critic=False):
                parameter.grad = None
        self._record(found)
        return total * world  # Trainer logs the mean over processes

    def _weighed(self, scored: ScoredRollout, rows: Tensor) -> Weighed:
        rows = _shortest_first(scored.sequences, rows)
        mask, value_mask = scored.advantages.mask[rows], scored.advantages.value_mask[rows]
        return Weighed(
            scored,
            rows,
            losses.token_weights(mask, scored.turn_ids[rows], self.args.loss_level),
            losses.value_weights(value_mask, scored.turn_ids[rows], self.args.first_token_value_weight),
        )

    def _loss(
        self, model: Any, scored: ScoredRollout, rows: Tensor, weights: Tensor, value_weights: Tensor, number: int,
        of_critic: bool,
    ) -> tuple[Tensor, dict[str, Tensor]]:  # fmt: skip
        args = self.args
        warming_up = of_critic or number < args.critic_warmup_rollouts
        want = [] if warming_up else ["logprobs", "entropies"]
        if args.kl_loss_coef and args.kl_loss_estimator == "exact" and not warming_up:
            want.append("kl")
        if args.advantage not in WITHOUT_CRITIC:
            want.append("values")
        inputs = self._inputs(scored.sequences, rows, want)
        width = inputs["input_ids"].shape[1]
        mask = scored.advantages.mask[rows, :width]
        found = self._forward(model, inputs, want, mask, detach_backbone=warming_up or args.critic_heads_only)
        loss = torch.zeros((), device=args.device)
        terms: dict[str, Tensor] = {}
        if not warming_up:
            loss, terms = self._policy_loss(scored, rows, weights[:, :width], found)
        if "values" in found:
            errors = losses.value_losses(
                found["values"],
                scored.old_values[rows, : width + 1],
                scored.advantages.returns[rows, : width + 1],
                None if of_critic else args.value_clip,  # an old self may be rollouts old
            )
            terms["critic/loss"] = (errors * value_weights[:, : width + 1]).sum()
            loss = loss + args.value_coef * terms["critic/loss"]
        return loss, {name: entry.detach() for name, entry in terms.items()}

    def _policy_loss(
        self, scored: ScoredRollout, rows: Tensor, weights: Tensor, found: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        args, logprobs, width = self.args, found["logprobs"], weights.shape[1]
        turn_ids = scored.turn_ids[rows, :width]
        sampled = scored.advantages.mask[rows, :width]
        old = scored.old_logprobs[rows, :width]
        trained = turn_ids if self._masks_observations else torch.where(sampled, turn_ids.clamp(min=0), NOT_SAMPLED)
        ratios = losses.probability_ratios(logprobs, old, trained, args.ratio_level)
        advantages = scored.advantages.advantages[rows, :width]
        if args.policy_loss == "cispo":
            policy = losses.cispo_losses(logprobs, ratios, advantages, args.clip_low, args.clip_high)
        else:
            policy = losses.policy_losses(ratios, advantages, args.clip_low, args.clip_high, args.dual_clip)
        if scored.sampler_weights is not None:
            policy = policy * scored.sampler_weights[rows, :width]
        clipped = (ratios < 1 - args.clip_low) | (ratios > 1 + args.clip_high)
        terms = {
            "policy/loss": (policy * weights).sum(),
            "policy/entropy": (found["entropies"] * weights).sum(),
            "policy/clip_fraction": (clipped * weights).sum(),
            "policy/kl_to_old": (torch.where(sampled, old - logprobs, 0) * weights).sum(),
        }
        if args.target_kl is not None:
            estimate = torch.where(sampled, losses.kl_estimates(old, logprobs, "k3"), 0)
            terms["policy/kl_estimate"] = (estimate * weights).sum()
        loss = terms["policy/loss"] - args.entropy_coef * terms["policy/entropy"]
        if args.kl_loss_coef and scored.reference_logprobs is not None:
            kl = found.get("kl")
            if kl is None:
                kl = losses.kl_estimates(logprobs, scored.reference_logprobs[rows, :width], "k3")
            terms["policy/kl_loss"] = (torch.where(sampled, kl, 0) * weights).sum()
            loss = loss + args.kl_loss_coef * self._kl_factor * terms["policy/kl_loss"]
        return loss, terms

    # -- smaller parts -----------------------------------------------------------------------------

    @property
    def _masks_observations(self) -> bool:
        return bool(self.args.advantage_settings.get("mask_observations", True))

    def _forward(
        self, model: Any, inputs: dict[str, Tensor], want: Sequence[str], mask: Tensor, detach_backbone: bool = False
    ) -> dict[str, Tensor]:
        # Vanilla PPO takes observations for the policy's own words, image tokens and all.
        forbidden = self.codec.forbidden_ids if self._masks_observations else ()
        found: dict[str, Tensor] = model(inputs, want, temperature=self.args.temperature, forbidden_ids=forbidden,
                                         mask=mask, detach_backbone=detach_backbone,
                                         entropies_teach=self.args.entropy_coef != 0)  # fmt: skip
        return found

    def _parts(self, rows: Tensor) -> Iterator[tuple[Tensor, bool]]:
        """This process's share of `rows`, a few at a time.

        Every process gets equally many parts, because sharded weights are gathered in all at once: one that has
        no rows left gets the first ones, and False for not its own.
        """
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        mine, size = rows[rank::world], self.args.sequences_per_forward
        for start in range(0, math.ceil(len(rows) / world), size):
            part = mine[start : start + size]
            yield (part, True) if len(part) else (rows[:1], False)

    def _inputs(self, sequences: Sequence[TokenSequence], rows: Tensor, want: Sequence[str]) -> dict[str, Tensor]:
        prompts = [sequences[row].prompt for row in rows.tolist()]
        shown = sum(bool(each.features) for prompt in prompts for each in prompt.shown)
        inputs = model_inputs(prompts, self.codec, self.args.device, multiple=TILE, sight=self.model.sight)
        if self.model.lays_out:
            inputs = self._places.given(prompts, inputs)
        if "values" in want:
            inputs |= self.model.told([each for prompt in prompts for each in prompt.shown])
        tokens = sum(len(prompt.ids) for prompt in prompts)
        places = tokens if self.model.packs else inputs["input_ids"].numel()
        self._read.update(pictures=shown * len(self.model.readers(want)), tokens=tokens, places=places)
        return inputs

    def _pictures_read(self) -> int:
        """How many pictures towers were given in this process since this was last asked."""
        sight, read = self.model.sight, self._read.pop("pictures", 0)
        return read if sight is None else sight.looks_since()

    def _padding(self) -> float:
        """The share of what was scored and trained on in this process since this was last asked that was no token."""
        return 1 - self._read.pop("tokens", 0) / max(1, self._read.pop("places", 0))

    def _record(self, entries: dict[str, float]) -> None:
        for name, entry in entries.items():
            self._metrics[name].append(entry)

    # -- what Trainer asks for ---------------------------------------------------------------------

    def create_optimizer(self, model: Any = None) -> Any:
        """AdamW, or what `optim` says, with the critic's own learning rate."""
        if self.optimizer is None:
            cls, options = self.get_optimizer_cls_and_kwargs(self.args)
            policy, critic = self.model.trainable(critic=False), self.model.trainable(critic=True)
            groups = [
                {"params": policy, "lr": self.args.learning_rate, "weight_decay": self.args.weight_decay},
                {"params": critic, "lr": self.args.critic_learning_rate, "weight_decay": self.args.weight_decay},
            ]
            self.optimizer = cls([group for group in groups if group["params"]], **options)
        return self.optimizer

    def _clip_grad_norm(self, model: Any) -> Any:
        """Policy and critic each to `max_grad_norm`: together, a critic's large errors would still the policy.

        DeepSpeed has clipped already, both together.
        """
        clip, most = self.accelerator.clip_grad_norm_, self.args.max_grad_norm
        if not self.is_deepspeed_enabled and self.args.critic_kind != "none":
            of_critic = float(clip(self.model.trainable(critic=True), most))
            self._record({"critic/grad_norm": of_critic})
            self._finite_gradients &= math.isfinite(of_critic)
        return clip(self.model.trainable(critic=False), most)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm)
        sound, self._finite_gradients = self._finite_gradients and math.isfinite(float(norm)), True
        if self.accelerator.scaler is None:  # a scaler of float16 skips such updates itself
            self._skip_unless(sound, model)
        return norm

    def _skip_unless(self, sound: bool, model: Any) -> None:
        """Leave out an update whose gradients are no numbers: it would break the weights."""
        self._record({"update/skipped": float(not sound)})
        self._skipped_in_a_row = 0 if sound else self._skipped_in_a_row + 1
        if sound:
            return
        if self.is_deepspeed_enabled or self._skipped_in_a_row == MOST_SKIPPED:
            times = "which DeepSpeed can't leave out" if self.is_deepspeed_enabled else f"{MOST_SKIPPED} in a row"
            raise TrainingDataError(
                f"the gradients of update {self.state.global_step} are no numbers, {times}; go back to a checkpoint "
                "and lower learning_rate or max_grad_norm"
            )
        for parameter in model.parameters():
            parameter.grad = None

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the means since the last log."""
        means = {name: mean(entries) for name, entries in self._metrics.items()}
        self._metrics.clear()
        super().log({**logs, **means}, start_time)

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        """Play the validation split's first levels and log the success rate and return; see `config.eval_rollouts`."""
        self.player.wait()
        levels = [Level(seed, "val") for seed in range(self.args.eval_episodes)]
        episodes = self.player.play(levels, seed_of(self.args, 0, 99), snapshots=self._measures_critic)
        sound = [each for each in episodes if each.failure is None]
        found = {
            f"{metric_key_prefix}_success": mean([float(each.success) for each in sound]),
            f"{metric_key_prefix}_return": mean([each.rewards for each in sound]),
            f"{metric_key_prefix}_failed": float(len(episodes) - len(sound)),
        }
        if self._measures_critic and sound:
            known = self._known_to_critic(sound)
            found |= {f"{metric_key_prefix}_critic_{name}": entry for name, entry in known.items()}
        self.player.rest()
        self.log(dict(found))
        if self.args.eval_samples and self.accelerator.is_main_process:
            show_samples(self.callback_handler.callbacks, episodes[: self.args.eval_samples], self.state.global_step)
        if self.args.eval_rollouts:
            self._keep_best()
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
        return found

    @property
    def _measures_critic(self) -> bool:
        return self.args.eval_forks > 0 and self.args.critic_kind != "none"

    @torch.no_grad()
    def _known_to_critic(self, episodes: Sequence[Episode]) -> dict[str, float]:
        """How much of what could be known of the returns from turns on the critic knows; see `held_to_forks`."""
        returns = self.player.play_on_from(episodes, self.args.eval_forks)
        sequences, owners = self._laid_out(episodes, with_end=False)
        turn_ids = pad([each.turn_ids for each in sequences], NOT_SAMPLED, multiple=TILE).to(self.args.device)
        values = self._scores(self.model_wrapped, sequences, turn_ids != NOT_SAMPLED, ["values"])["values"].tolist()
        known: list[float] = []
        drawn: list[list[float]] = []
        for row, (owner, sequence) in enumerate(zip(owners, sequences, strict=True)):
            for turn in sorted(set(sequence.turn_ids) - {NOT_SAMPLED}):
                if len(returns[owner][turn]) == self.args.eval_forks:  # none of them failed
                    known.append(values[row][sequence.turn_ids.index(turn)])
                    drawn.append([each * self.args.reward_scale for each in returns[owner][turn]])
        return held_to_forks(known, drawn)

    def _keep_best(self) -> None:
        """Write the curve, save the model if no evaluation before was as good, stop if none got better for long."""
        names = ("step", "eval_success", "eval_return", "eval_failed")
        curve = [{name: entry[name] for name in names} for entry in self.state.log_history if "eval_success" in entry]
        successes = [-1.0 if math.isnan(entry["eval_success"]) else entry["eval_success"] for entry in curve]
        best = successes.index(max(successes))
        folder = Path(str(self.args.output_dir))
        if self.args.should_save:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / EVALUATIONS).write_text(json.dumps(curve, indent=1) + "\n", encoding="utf-8")
        if best == len(curve) - 1:
            self.save_model(str(folder / BEST))
        if self.args.patience and len(curve) - 1 - best >= self.args.patience:
            self.control.should_training_stop = True

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if not self.args.should_save:
            return
        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save_pretrained(folder, state_dict)
        self.codec.save_pretrained(folder)
        torch.save(self.args, folder / "training_args.bin")

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if self.args.should_save:
            (Path(self._get_output_dir(trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}" / COMPLETE).touch()

    def train(self, resume_from_checkpoint: str | bool | None = None, **options: Any) -> Any:
        """As `Trainer.train`; True resumes from the last checkpoint that was written to its end, if there is one."""
        if resume_from_checkpoint is True:
            last = last_checkpoint(str(self.args.output_dir))
            resume_from_checkpoint = None if last is None else str(last)
        with garbage_looked_for_seldom():
            return super().train(resume_from_checkpoint=resume_from_checkpoint, **options)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if self.is_fsdp_enabled:  # Trainer has written the shards beside, the reference among them
            super()._load_from_checkpoint(resume_from_checkpoint, model)
            return
        self.model.load_trained(resume_from_checkpoint)

    def _send_telemetry(self) -> None:
        """TRL reports usage to its makers; a trainer of this package sends nothing."""


def _attention(args: MultiTurnPPOConfig) -> dict[str, Any]:
    """Raises TrainingConfigError where transformers doesn't know the name, or its package isn't installed."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.utils import is_flash_attn_2_available, is_flash_attn_3_available

    name = args.attn_implementation
    if name is None:
        return {}
    known = {"eager", *ALL_ATTENTION_FUNCTIONS.valid_keys()}
    if name not in known and "/" not in name:  # with a slash it is a kernel of the hub
        raise TrainingConfigError(
            f"attn_implementation={name!r} is unknown to transformers.{did_you_mean(name, known)}"
        )
    installed = {"flash_attention_2": is_flash_attn_2_available, "flash_attention_3": is_flash_attn_3_available}
    if name in installed and not installed[name]():
        raise TrainingConfigError(
            f"attn_implementation={name!r} needs the package flash-attn and a GPU, which aren't here"
        )
    return {"attn_implementation": name}


def _straight_to_device(args: MultiTurnPPOConfig) -> dict[str, Any]:
    """Weights go from the file, which processes of a machine share in memory, to the GPU, one tensor after the other.

    Where they will be spread over GPUs they needn't fit on one: FSDP has one process of a machine read them and hands
    out shares; DeepSpeed takes its shares from the file's pages in memory, as they are stored.
    """
    spread = getattr(args, "deepspeed_plugin", None) is not None or os.environ.get("ACCELERATE_USE_FSDP") == "true"
    return {} if spread else {"device_map": str(args.device)}


@contextlib.contextmanager
def _whole_weights(args: MultiTurnPPOConfig) -> Iterator[None]:
    """Models are read whole in each process, and DeepSpeed spreads them later.

    Under ZeRO 3 transformers would spread them while it reads, whatever `zero3_init_flag` says, and the copy that
    becomes the reference would be of nothing.
    """
    plugin = getattr(args, "deepspeed_plugin", None)
    if plugin is None:
        yield
        return
    from transformers.integrations.deepspeed import set_hf_deepspeed_config, unset_hf_deepspeed_config

    unset_hf_deepspeed_config()
    yield
    set_hf_deepspeed_config(plugin.dschf)


def _shortest_first(sequences: Sequence[TokenSequence], rows: Tensor) -> Tensor:
    """`rows` by the length of their sequences, so that those that go through the model together need little padding."""
    return rows[torch.tensor([len(sequences[row].prompt.ids) for row in rows.tolist()]).argsort(stable=True)]


def last_checkpoint(output_dir: str | Path) -> Path | None:
    """The newest checkpoint that was written to its end: a process may have been killed while it wrote one."""
    complete = [marker.parent for marker in Path(output_dir).glob(f"{PREFIX_CHECKPOINT_DIR}-*/{COMPLETE}")]
    return max(complete, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)
