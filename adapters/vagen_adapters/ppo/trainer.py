"""Multi-turn PPO: collect episodes, score them, estimate advantages, update policy and critic,
repeat.

TRL's style on transformers' Trainer, which supplies the optimizer, schedule, mixed precision,
logging and checkpoints. TRL has had no PPO trainer since 1.16.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import EarlyStoppingCallback

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo import checkpoints, losses, metrics, watching
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.completion_tables import completions_of, log_completions
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.distributed import (
    check_fsdp,
    load_actor_critic,
    own_parts,
    sharding_of,
    with_reduction,
)
from vagen_adapters.ppo.episodes import PPOEpisode
from vagen_adapters.ppo.estimating import EstimatingTrainer
from vagen_adapters.ppo.experience import (
    Experience,
    policy_loss,
    shortest_first,
)
from vagen_adapters.ppo.family_checks import check_model, vision_cache_for
from vagen_adapters.ppo.introspection import base_of
from vagen_adapters.ppo.layout_check import check_layout
from vagen_adapters.ppo.metrics import mean
from vagen_adapters.ppo.rollout import Progress
from vagen_adapters.ppo.rollout_worker import RolloutWorker, seed_of
from vagen_adapters.ppo.samplers import MakeSampler
from vagen_adapters.ppo.start_checks import check_sharding, check_start
from vagen_adapters.ppo.stopping import StopRequest
from vagen_adapters.ppo.turn_scores import Score
from vagen_adapters.ppo.watching import Watch
from vagen_envs.errors import did_you_mean

logger = logging.getLogger(__name__)
WIDEST_GAP = 0.02
"""Mean difference of a sampled token's log-probability between sampler and trainer that the log
warns of.
"""
VISION_CACHE = 2**30
"""Bytes of each process for cached features of frozen vision towers."""


class MultiTurnPPOTrainer(EstimatingTrainer):
    """Trains a vision-language policy on environments that are played in turns.

    Args:
        model: the policy's folder or name, of any family that passes `family_checks`.
        args: the settings.
        score: reward terms of a turn beside the environment's, or those of each task (`args.tasks`)
            by name.
        make_sampler: builds another generation back-end than `args.generation` names, from the
            policy and its encoder.
        callbacks: of transformers' Trainer.
        watch: takes a few whole episodes of each rollout, and all of each evaluation; see
            `watching`.
        show_progress: takes a rollout's number and how far it is, after each reply of all its
            environments.
        about: what else `training.json` says of the policy, such as its recipe, as JSON.

    With `enable_jit_checkpoint` SIGTERM and SIGUSR1 end a training with a checkpoint, see
    `SavingTrainer.train`.

    With several processes each plays and scores its share of the episodes. Then all of them hold
    all episodes, and each takes its share of every mini-batch, so that an update is the same
    however many there are.

    Raises:
        TrainingConfigError: the model's family can't be trained, or settings don't go together.
        TrainingDataError: in training, when log-probabilities aren't finite, or the gradients of
            ten updates in a row.
    """

    actor_critic_class: type[ActorCritic] = ActorCritic
    _tag_names = ["trl", "multi-turn-ppo"]  # noqa: RUF012 - TRL's name and form
    _name = "Multi-turn PPO"

    def __init__(
        self,
        model: str,
        args: MultiTurnPPOConfig,
        *,
        score: Score | Mapping[str, Score] | None = None,
        make_sampler: MakeSampler | None = None,
        callbacks: list[Any] | None = None,
        about: Mapping[str, Any] | None = None,
        watch: Watch | None = None,
        show_progress: Callable[[int, Progress], None] | None = None,
    ) -> None:
        self.watch = watch
        self.show_progress = show_progress
        self.about = about or {}
        self.stop_request = StopRequest()
        # Off while Trainer looks: its callback would make checkpoints between the updates of a
        # rollout.
        ends_on_signals = args.enable_jit_checkpoint
        args.enable_jit_checkpoint = False
        if ends_on_signals:
            self.stop_request.listen()
        try:
            self._set_up(model, args, score, make_sampler, callbacks)
        except BaseException:
            self.stop_request.restore()
            raise
        args.enable_jit_checkpoint = ends_on_signals

    def _set_up(
        self,
        model: str,
        args: MultiTurnPPOConfig,
        score: Score | Mapping[str, Score] | None,
        make_sampler: MakeSampler | None,
        callbacks: list[Any] | None,
    ) -> None:
        check_start(model, args, has_score=score is not None)
        self.encoder = ChatEncoder.from_pretrained(model, thinking=args.max_thinking_tokens > 0)
        check_layout(self.encoder)
        self._check_callbacks(callbacks or [], args)
        actor_critic = load_actor_critic(self.actor_critic_class, model, args)
        # Trainer asks for data: one batch of nothing for each update.
        rows = args.max_steps * args.world_size * args.per_device_train_batch_size
        super().__init__(
            model=actor_critic,
            args=args,
            data_collator=lambda steps: steps[0],
            train_dataset=[{}] * rows,
            eval_dataset=[{}],
            processing_class=self.encoder.tokenizer,
            callbacks=callbacks,
        )
        self._check_metric()
        self.sharding = sharding_of(self.accelerator, fsdp=self.is_fsdp_enabled)
        check_fsdp(self.accelerator, self.sharding)
        check_sharding(self.sharding, args, own_sampler=make_sampler is not None)
        actor_critic.spread = self.sharding in ("fsdp", "zero3")
        actor_critic.packs = args.packing
        if not actor_critic.spread:  # otherwise no process holds weights that it could try
            actor_critic.vision_cache = vision_cache_for(actor_critic, self.encoder, VISION_CACHE)
            check_model(actor_critic, self.encoder, turn_by_turn=not args.context_policy.grows)
        self.worker = RolloutWorker(
            base_of(model) or model,
            args,
            actor_critic,
            self.encoder,
            self.accelerator,
            self._record,
            score,
            make_sampler=make_sampler,
        )
        self._experience: Experience | None = None

    @staticmethod
    def _check_callbacks(callbacks: Sequence[Any], args: MultiTurnPPOConfig) -> None:
        looks = any(isinstance(each, EarlyStoppingCallback) for each in callbacks)
        if looks and not args.eval_rollouts:
            raise TrainingConfigError(
                "EarlyStoppingCallback stops by evaluations, and there are none; set eval_rollouts"
            )

    def _check_metric(self) -> None:
        asked = self.args.metric_for_best_model
        known = list(self.measure([]))
        # of each source there is one more, such as success/vagen/Sokoban-v0
        if asked and asked.removeprefix("eval_").partition("/")[0] not in known:
            raise TrainingConfigError(
                f"metric_for_best_model={asked!r} is not valid: evaluations give "
                f"{', '.join(known)}.{did_you_mean(asked, known)}"
            )

    # -- collecting experience ---------------------------------------------------------------------

    def before_update(self, step: int) -> None:
        """Collect a rollout's experience before its first update, and go on with asynchronous
        rollouts.
        """
        number, update = divmod(step, self.args.steps_per_rollout)
        self.worker.wait()
        if update == 0:
            self._experience = None  # its pictures go before others come
            self.stop_before_rollout()
            self._experience = self.collect_experience(number)
        if self._experience is not None:
            self.worker.play_ahead(number, update, step)

    def collect_experience(self, number: int) -> Experience | None:
        """Play, score and estimate advantages; None if no episode of the rollout can be trained
        on.
        """
        clock = self.worker.clock = metrics.Clock()
        with self.worker.interruptible(self._between_turns):
            episodes, kept = self.worker.play_enough(number, self.state.global_step)
        self.stop_before_rollout()
        kept = self.select(kept)
        self._record(metrics.of_episodes(episodes, kept))
        self.worker.check_failures(episodes, number)
        ended = [episode for episode in episodes if not episode.is_paused]
        self.worker.level_sampler.update(ended)
        self._record(self.worker.level_sampler.metrics())
        sampled = sum(len(step.reply.ids) for episode in episodes for step in episode.new_steps)
        seconds = max(clock.spent["generation"], 1e-9)
        self._record({"generation/tokens_per_second": sampled / seconds})
        state_values: list[list[float]] = []
        if self.args.continuations:
            kept, state_values = self.worker.play_continuations(kept, number)
        self.worker.rest()
        if not kept:
            self._show_few(number, ended, None)
            return None
        if self.args.max_staleness:
            self._record(metrics.of_versions(kept, self.state.global_step))
        with clock("score"):
            experience = self._make_experience(kept, state_values)
        self._show_few(number, ended, experience)
        return experience

    def _show_few(
        self, number: int, episodes: Sequence[PPOEpisode], experience: Experience | None
    ) -> None:
        """Let people watch a few of a rollout's episodes, here and in trackers."""
        if not self.accelerator.is_main_process:
            return
        if self.watch is not None:
            few = watching.few_of(episodes, self.args.seed, number)
            self.watch("rollout", number, few, lambda each: watching.turns_of(each, experience))
        if many := self.args.log_completions:
            rows = []
            few = watching.few_of(episodes, self.args.seed, number, many)
            for name, episode in few.items():
                turns = watching.turns_of(episode, experience)
                rows += completions_of(self.state.global_step, name, episode, turns)
            log_completions(self.callback_handler.callbacks, rows)

    def _between_turns(self) -> None:
        """Look for a signal while a rollout is played: several processes only agree on it before
        and after.
        """
        if self.accelerator.num_processes == 1:
            self.stop_before_rollout()
        if self.show_progress is not None and self.accelerator.is_main_process:
            number = self.state.global_step // self.args.steps_per_rollout
            self.show_progress(number, self.worker.rollout.progress)

    # -- what a subclass may replace ---------------------------------------------------------------

    def select(self, episodes: list[PPOEpisode]) -> list[PPOEpisode]:
        """The episodes of a rollout to train on, whole groups of them."""
        return episodes

    def measure(self, episodes: Sequence[PPOEpisode]) -> dict[str, float]:
        """Figures of an evaluation's episodes; of none their names count."""
        return metrics.of_evaluation(episodes)

    # -- updates -----------------------------------------------------------------------------------

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Add up the gradients of one mini-batch, before the first of a rollout's after its
        experience is collected.
        """
        self.before_update(self.state.global_step)
        number, update = divmod(self.state.global_step, self.args.steps_per_rollout)
        if self._experience is None:
            # Every episode failed or was filtered out: there is nothing to learn from.
            return torch.zeros((), device=self.args.device)
        model.train()
        with self.worker.clock("update"):
            # Each pass over the rollout visits all rows once, newly shuffled.
            epoch, part = divmod(update, self.args.minibatches)
            generator = torch.Generator().manual_seed(seed_of(self.args, number, 1 + epoch))
            order = torch.randperm(len(self._experience.sequences.rows), generator=generator)
            rows = order.tensor_split(self.args.minibatches)[part]
            loss = self.backward(
                self._experience, rows, only_critic=number < self.args.critic_warmup_rollouts
            )
        if update == self.args.steps_per_rollout - 1:
            tokens = sum(len(sequence.prompt.ids) for sequence in self._experience.sequences.rows)
            self._record(self.worker.clock.shares(tokens))
        return loss

    def backward(self, experience: Experience, rows: Tensor, *, only_critic: bool) -> Tensor:
        """Add up gradients of some rows, a few at a time; means are over all of them."""
        if not len(rows):  # fewer sequences were kept than there are mini-batches
            return torch.zeros((), device=self.args.device)
        rows = shortest_first(experience.sequences, rows)
        args = self.args
        turn_ids = experience.sequences.turn_ids[rows]
        weights = losses.token_weights(experience.advantages.mask[rows], turn_ids, args.loss_level)
        weights = weights / weights.sum().clamp(min=1)
        value_weights = losses.value_weights(
            experience.advantages.value_mask[rows], turn_ids, args.first_token_value_weight
        )
        value_weights = value_weights / value_weights.sum().clamp(min=1)
        sums: dict[str, Tensor] = defaultdict(lambda: torch.zeros((), device=args.device))
        world = self.accelerator.num_processes
        size = args.per_device_train_batch_size
        parts = list(own_parts(self.accelerator, torch.arange(len(rows)), size))
        for part, own in with_reduction(self.accelerator, self.model_wrapped, parts):
            with self.accelerator.autocast():
                loss, terms = self._loss(
                    experience,
                    rows[part],
                    weights[part] * own,
                    value_weights[part] * own,
                    only_critic=only_critic,
                )
            # Gradients are averaged over processes, and parts are shares.
            self.accelerator.backward(loss * world)
            for name, entry in {"loss": loss.detach(), **terms}.items():
                sums[name] += entry
        total = sums.pop("loss")
        shares = torch.stack(list(sums.values()))
        if world > 1:
            shares = self.accelerator.reduce(shares, "sum")
        self._record(dict(zip(sums, shares.tolist(), strict=True)))
        return total * world  # Trainer logs the mean over processes

    def _loss(
        self,
        experience: Experience,
        rows: Tensor,
        weights: Tensor,
        value_weights: Tensor,
        *,
        only_critic: bool,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        args = self.args
        want = [] if only_critic else ["logprobs", "entropies"]
        if want and experience.old_logprobs is None:
            want.append("log_shares")
        if args.critic_kind != "none":
            want.append("values")
        found = self._forward(
            experience.sequences,
            rows,
            want,
            experience.advantages.mask,
            values_teach=0.0 if only_critic else args.vf_coef,
        )
        loss = torch.zeros((), device=args.device)
        terms: dict[str, Tensor] = {}
        if not only_critic:
            loss, terms = policy_loss(experience, args, rows, weights, found)
        if "values" in found:
            values = found["values"]
            width = values.shape[1]
            old = experience.old_values[rows, :width]
            returns = experience.advantages.returns[rows, :width]
            errors = losses.value_losses(values, old, returns, args.value_clip)
            terms["critic/loss"] = (errors * value_weights[:, :width]).sum()
            loss = loss + terms["critic/loss"]
        return loss, {name: entry.detach() for name, entry in terms.items()}

    # -- what Trainer asks for ---------------------------------------------------------------------

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the means since the last log."""
        means = {name: mean(entries) for name, entries in self._metrics.items()}
        self._metrics.clear()
        if (gap := means.get("policy/sampler_gap", 0.0)) > WIDEST_GAP:
            logger.warning(
                "policy/sampler_gap is %.3f: sampler and trainer differ by more than %s in a "
                "token's log-probability; compare their weights, precision and chat template, "
                "or set sampler_correction",
                gap,
                WIDEST_GAP,
            )
        super().log({**logs, **means}, start_time)

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        """Play the first levels of the validation split, and log what `measure` finds; see
        `eval_rollouts`.
        """
        self.worker.wait()
        episodes = self.worker.evaluate()
        if self.watch is not None and self.accelerator.is_main_process:
            named = {str(number): episode for number, episode in enumerate(episodes)}
            self.watch("evaluation", self.state.global_step, named, watching.turns_of)
        measured = self.measure(episodes)
        found = {f"{metric_key_prefix}_{name}": entry for name, entry in measured.items()}
        self.worker.rest()
        self.log(dict(found))
        if self.args.eval_rollouts:  # the curve, and the model if no earlier evaluation was as good
            folder = Path(str(self.args.output_dir))
            is_main = self.args.should_save
            with checkpoints.writing(folder):
                if checkpoints.write_curve(folder, self.state.log_history, is_main=is_main):
                    checkpoints.replace_best(folder, self.save_model, is_main=is_main)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
        return found

    def _send_telemetry(self) -> None:
        """TRL reports usage to its makers; a trainer of this package sends nothing."""
