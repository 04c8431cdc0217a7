"""Multi-turn PPO: collect episodes, score them, estimate advantages, update policy and critic; and again.

TRL's house style on transformers' Trainer, which supplies the optimiser, schedule, mixed precision, logging
and checkpoints. TRL itself has had no PPO since 1.16.
"""

from __future__ import annotations

import copy
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor
from trl.trainer.base_trainer import _BaseTrainer

from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.ppo import losses, metrics
from vagen_adapters.ppo.actor_critic import ActorCritic, score_tokens
from vagen_adapters.ppo.codec import Codec
from vagen_adapters.ppo.config import ESTIMATORS, WITHOUT_CRITIC, MultiTurnPPOConfig
from vagen_adapters.ppo.episodes import Episode, Level, TokenSequence, keep_by_variance, training_sequences
from vagen_adapters.ppo.generation import Sampler, Sampling, TransformersSampler, model_inputs
from vagen_adapters.ppo.metrics import mean
from vagen_adapters.ppo.packing import Advantages
from vagen_adapters.ppo.rollout import Rollout, Score
from vagen_adapters.ppo.trajectories import NOT_SAMPLED, Trajectories

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


class MultiTurnPPOTrainer(_BaseTrainer):
    """Trains a vision-language policy on environments that are played in turns.

    Args:
        model: the policy's folder or name, of the Qwen-VL family.
        args: the settings.
        critic: the folder of the critic's backbone; the policy's by default.
        score: reward terms of a turn beside the environment's.
        make_sampler: builds the generation back-end from the policy and its codec; transformers' by default.
        callbacks: of transformers' Trainer.

    Raises:
        TrainingConfigError: the model's family isn't known here, or more than one process runs.
        TrainingDataError: in training, when log-probabilities or values are NaN.
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
        make_sampler: MakeSampler = TransformersSampler,
        callbacks: list[Any] | None = None,
    ) -> None:
        self.codec = Codec.from_pretrained(model)
        actor_critic = ActorCritic.from_pretrained(model, critic)
        if args.freeze_vision:
            actor_critic.freeze_vision()
        super().__init__(  # type: ignore[no-untyped-call]
            model=actor_critic,
            args=args,
            data_collator=lambda steps: steps[0],
            train_dataset=[{"step": step} for step in range(args.max_steps)],
            processing_class=self.codec.tokenizer,
            callbacks=callbacks,
        )
        if self.accelerator.num_processes > 1:
            raise TrainingConfigError(f"{self.accelerator.num_processes} processes: this trainer runs in one so far")
        self.reference: Any = None
        if args.kl_coef or args.kl_loss_coef:
            self.reference = copy.deepcopy(actor_critic.policy).eval().requires_grad_(False)
        sampling = Sampling(temperature=args.temperature, top_p=args.top_p, max_tokens=args.max_tokens)
        self.rollout = Rollout(
            [gym.make(args.env_id, **args.env_options) for _ in range(min(args.num_envs, args.episodes_per_rollout))],
            self.codec,
            make_sampler(actor_critic.policy, self.codec),
            sampling,
            window=args.window,
            max_length=args.max_length,
            max_turns=args.max_turns,
            score=score,
        )
        self._scored: ScoredRollout | None = None
        self._metrics: dict[str, list[float]] = defaultdict(list)

    # -- one step ----------------------------------------------------------------------------------

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """One update's gradients, from one mini-batch; before the first of a rollout, the rollout."""
        step = self.state.global_step
        number, update = divmod(step, self.args.steps_per_rollout)
        if update == 0:
            self._scored = self._collect(number)
        if self._scored is None:  # every episode failed or was filtered out: nothing to learn from
            return torch.zeros((), device=self.args.device)
        model.train()
        return self._backward(self._scored, self._minibatch(len(self._scored.sequences), number, update), number)

    def _collect(self, number: int) -> ScoredRollout | None:
        """Play, score and estimate: everything that is constant during the updates of a rollout."""
        started = time.perf_counter()
        with self.accelerator.autocast():
            episodes = self.rollout.play(self._levels(number), seed=self._seed(number, 0))
        played = time.perf_counter()
        kept = keep_by_variance([each for each in episodes if each.failure is None], self.args.keep_variance_share)
        self._record(metrics.of_episodes(episodes, kept))
        scored = self._score(kept) if kept else None
        self._record({"time/rollout": played - started, "time/score": time.perf_counter() - played})
        return scored

    def _levels(self, number: int) -> list[Level]:
        per_rollout = self.args.episodes_per_rollout // self.args.group_size
        pool = self.args.num_levels or math.inf
        seeds = [int((number * per_rollout + each) % pool) for each in range(per_rollout)]
        return [Level(seed, "train", group) for group, seed in enumerate(seeds) for _ in range(self.args.group_size)]

    @torch.no_grad()
    def _score(self, episodes: Sequence[Episode]) -> ScoredRollout:
        args, device = self.args, self.args.device
        laid_out = [training_sequences(each, args.window, with_end=args.bootstrap_truncated) for each in episodes]
        sequences = [sequence for each in laid_out for sequence in each]
        episode_ids = torch.tensor([number for number, each in enumerate(laid_out) for _ in each], device=device)
        turn_ids = _padded([each.turn_ids for each in sequences], NOT_SAMPLED).to(device)
        rows, length = turn_ids.shape
        logprobs, values = torch.zeros(rows, length, device=device), torch.zeros(rows, length + 1, device=device)
        reference = torch.zeros_like(logprobs) if self.reference is not None else None
        self.model.eval()
        for part in _parts(torch.arange(rows), args.sequences_per_forward):
            inputs = self._inputs(sequences, part)
            width = inputs["input_ids"].shape[1]
            with self.accelerator.autocast():
                logprobs[part, :width] = self._policy_scores(self.model.policy, inputs)[0]
                if args.advantage not in WITHOUT_CRITIC:
                    values[part, : width + 1] = self.model.values(inputs)
                if reference is not None:
                    reference[part, :width] = self._policy_scores(self.reference, inputs)[0]
        broken = ~logprobs.isfinite().all(1)
        if broken.any():
            raise TrainingDataError(
                f"{int(broken.sum())} of {rows} sequences have log-probabilities that are no numbers, so the weights "
                "must be broken; go back to a checkpoint and lower learning_rate or max_grad_norm"
            )
        batch = self._trajectories(episodes, sequences, episode_ids, turn_ids, values, logprobs, reference)
        advantages = ESTIMATORS[args.advantage](batch, **args.advantage_settings)
        sampled = _padded([each.logprobs for each in sequences], 0.0).to(device)
        self._record(metrics.of_scores(batch, advantages, logprobs, sampled, reference))
        if args.whiten and args.advantage not in WITHOUT_CRITIC:
            advantages = advantages.whitened()
        return ScoredRollout(sequences, turn_ids, logprobs, reference, values, advantages)

    def _trajectories(
        self,
        episodes: Sequence[Episode],
        sequences: Sequence[TokenSequence],
        episode_ids: Tensor,
        turn_ids: Tensor,
        values: Tensor,
        logprobs: Tensor,
        reference: Tensor | None,
    ) -> Trajectories:
        device = self.args.device
        rewards = torch.zeros(len(sequences), int(turn_ids.max()) + 1, device=device)
        for row, (sequence, episode) in enumerate(zip(sequences, episode_ids.tolist(), strict=True)):
            for turn in set(sequence.turn_ids) - {NOT_SAMPLED}:
                rewards[row, turn] = episodes[episode].turns[turn].reward * self.args.reward_scale
        kl_rewards = None
        if reference is not None and self.args.kl_coef:
            kl_rewards = -self.args.kl_coef * losses.kl_estimates(logprobs, reference, self.args.kl_estimator)
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
        )

    def _minibatch(self, rows: int, number: int, update: int) -> Tensor:
        """The rows of an update: each pass over a rollout goes through all of them once, newly shuffled."""
        epoch, position = divmod(update, self.args.minibatches)
        generator = torch.Generator().manual_seed(self._seed(number, 1 + epoch))
        return torch.randperm(rows, generator=generator).tensor_split(self.args.minibatches)[position]

    def _backward(self, scored: ScoredRollout, rows: Tensor, number: int) -> Tensor:
        """Add up the gradients of a mini-batch, a few sequences at a time; means are over the mini-batch."""
        started = time.perf_counter()
        mask, value_mask = scored.advantages.mask[rows], scored.advantages.value_mask[rows]
        weights = losses.token_weights(mask, scored.turn_ids[rows], self.args.loss_level)
        value_weights = self._value_weights(scored.turn_ids[rows], value_mask)
        units = {"policy": weights.sum().clamp(min=1), "value": value_weights.sum().clamp(min=1)}
        total = torch.zeros((), device=self.args.device)
        sums: dict[str, float] = defaultdict(float)
        for part in _parts(torch.arange(len(rows)), self.args.sequences_per_forward):
            with self.accelerator.autocast():
                loss, parts = self._loss(
                    scored, rows[part], weights[part] / units["policy"], value_weights[part] / units["value"], number
                )
            self.accelerator.backward(loss)
            total += loss.detach()
            for name, entry in parts.items():
                sums[name] += float(entry)
        self._record({**sums, "time/update": time.perf_counter() - started})
        return total

    def _loss(
        self, scored: ScoredRollout, rows: Tensor, weights: Tensor, value_weights: Tensor, number: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        args = self.args
        inputs = self._inputs(scored.sequences, rows)
        width = inputs["input_ids"].shape[1]
        turn_ids, weights = scored.turn_ids[rows, :width], weights[:, :width]
        loss = torch.zeros((), device=args.device)
        parts: dict[str, Tensor] = {}
        if number >= args.critic_warmup_rollouts or args.advantage in WITHOUT_CRITIC:
            logprobs, entropies = self._policy_scores(self.model.policy, inputs)
            sampled = scored.advantages.mask[rows, :width]
            old = scored.old_logprobs[rows, :width]
            trained = turn_ids if self._masks_observations else torch.where(sampled, turn_ids.clamp(min=0), NOT_SAMPLED)
            ratios = losses.probability_ratios(logprobs, old, trained, args.ratio_level)
            advantages = scored.advantages.advantages[rows, :width]
            policy = losses.policy_losses(ratios, advantages, args.clip_low, args.clip_high)
            clipped = (ratios < 1 - args.clip_low) | (ratios > 1 + args.clip_high)
            parts["policy/loss"] = (policy * weights).sum()
            parts["policy/entropy"] = (entropies * weights).sum()
            parts["policy/clip_fraction"] = (clipped * weights).sum()
            parts["policy/kl_to_old"] = (torch.where(sampled, old - logprobs, 0) * weights).sum()
            loss = loss + parts["policy/loss"] - args.entropy_coef * parts["policy/entropy"]
            if args.kl_loss_coef and scored.reference_logprobs is not None:
                kl = losses.kl_estimates(logprobs, scored.reference_logprobs[rows, :width], "k3")
                parts["policy/kl_loss"] = (torch.where(sampled, kl, 0) * weights).sum()
                loss = loss + args.kl_loss_coef * parts["policy/kl_loss"]
        if args.advantage not in WITHOUT_CRITIC:
            errors = losses.value_losses(
                self.model.values(inputs),
                scored.old_values[rows, : width + 1],
                scored.advantages.returns[rows, : width + 1],
                args.value_clip,
            )
            parts["critic/loss"] = (errors * value_weights[:, : width + 1]).sum()
            loss = loss + parts["critic/loss"]
        return loss, {name: entry.detach() for name, entry in parts.items()}

    # -- smaller parts -----------------------------------------------------------------------------

    @property
    def _masks_observations(self) -> bool:
        return bool(self.args.advantage_settings.get("mask_observations", True))

    def _value_weights(self, turn_ids: Tensor, value_mask: Tensor) -> Tensor:
        """(B, L + 1) 1 where the critic has a target, and the first token's own weight at the start of a turn."""
        before = torch.nn.functional.pad(turn_ids[:, :-1], (1, 0), value=NOT_SAMPLED)
        first = torch.nn.functional.pad((turn_ids != NOT_SAMPLED) & (turn_ids != before), (0, 1))
        return torch.where(first, self.args.first_token_value_weight, 1.0) * value_mask

    def _policy_scores(self, policy: Any, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        # Vanilla PPO takes observations for the policy's own words, image tokens and all.
        forbidden = self.codec.forbidden_ids if self._masks_observations else ()
        return score_tokens(policy, inputs, temperature=self.args.temperature, forbidden_ids=forbidden)

    def _inputs(self, sequences: Sequence[TokenSequence], rows: Tensor) -> dict[str, Tensor]:
        return model_inputs([sequences[row].prompt for row in rows.tolist()], self.codec, self.args.device)

    def _record(self, entries: dict[str, float]) -> None:
        for name, entry in entries.items():
            self._metrics[name].append(entry)

    def _seed(self, number: int, purpose: int) -> int:
        """A seed for each rollout and purpose, far from every other: a resumed run draws as the whole one did."""
        return (self.args.seed * 1_000_003 + number) * 1_000_003 + purpose * 10_007

    # -- what Trainer asks for ---------------------------------------------------------------------

    def create_optimizer(self, model: Any = None) -> Any:
        """AdamW, or what `optim` says, with the critic's own learning rate."""
        if self.optimizer is None:
            cls, options = self.get_optimizer_cls_and_kwargs(self.args)
            policy, critic = _trainable(self.model.policy), _trainable(self.model.critic, self.model.value_head)
            groups = [
                {"params": policy, "lr": self.args.learning_rate, "weight_decay": self.args.weight_decay},
                {"params": critic, "lr": self.args.critic_learning_rate, "weight_decay": self.args.weight_decay},
            ]
            self.optimizer = cls(groups, **options)
        return self.optimizer

    def _clip_grad_norm(self, model: Any) -> Any:
        """Policy and critic each to `max_grad_norm`: together, a critic's large errors would still the policy."""
        clip, most = self.accelerator.clip_grad_norm_, self.args.max_grad_norm
        critic = clip(_trainable(self.model.critic, self.model.value_head), most)
        self._record({"critic/grad_norm": float(critic)})
        return clip(_trainable(self.model.policy), most)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the means since the last log."""
        means = {name: mean(entries) for name, entries in self._metrics.items()}
        self._metrics.clear()
        super().log({**logs, **means}, start_time)

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        """Play the validation split's first levels and log the success rate and return."""
        levels = [Level(seed, "val") for seed in range(self.args.eval_episodes)]
        with self.accelerator.autocast():
            episodes = self.rollout.play(levels, seed=self._seed(0, 99))
        sound = [each for each in episodes if each.failure is None]
        found = {
            f"{metric_key_prefix}_success": mean([float(each.success) for each in sound]),
            f"{metric_key_prefix}_return": mean([each.rewards for each in sound]),
            f"{metric_key_prefix}_failed": float(len(episodes) - len(sound)),
        }
        self.log(dict(found))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
        return found

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save_pretrained(folder)
        self.codec.save_pretrained(folder)
        torch.save(self.args, folder / "training_args.bin")

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        stored = ActorCritic.from_pretrained(resume_from_checkpoint)
        self.model.load_state_dict(stored.state_dict())

    def _send_telemetry(self) -> None:
        """TRL reports usage to its makers; a trainer of this package sends nothing."""


def _padded(rows: Sequence[Sequence[Any]], value: float) -> Tensor:
    """(rows, longest), padded on the right."""
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def _parts(rows: Tensor, size: int) -> Iterator[Tensor]:
    yield from torch.split(rows, size)


def _trainable(*modules: Any) -> list[Any]:
    return [parameter for module in modules for parameter in module.parameters() if parameter.requires_grad]
