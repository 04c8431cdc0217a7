"""What a rollout is learnt from: its sequences, scored by the models, and advantages."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vagen_adapters.errors import TrainingDataError
from vagen_adapters.ppo import losses, metrics
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.distributed import own_parts
from vagen_adapters.ppo.episodes import PPOEpisode
from vagen_adapters.ppo.estimators import ESTIMATORS, IN_GROUPS
from vagen_adapters.ppo.experience import (
    Experience,
    Sequences,
    sampler_correction,
    sequences_of,
    shortest_first,
    trajectories_of,
)
from vagen_adapters.ppo.generation import TILE, model_inputs
from vagen_adapters.ppo.optimizing import GO_BACK, OptimizingTrainer
from vagen_adapters.ppo.packing import Advantages, trained_tokens
from vagen_adapters.ppo.reasoning import credit_words
from vagen_adapters.ppo.scoring import Nucleus
from vagen_adapters.ppo.trajectories import Trajectories


class EstimatingTrainer(OptimizingTrainer):
    """The part of `MultiTurnPPOTrainer` that scores tokens with the models, and estimates
    advantages.
    """

    args: MultiTurnPPOConfig
    model: ActorCritic
    encoder: ChatEncoder

    @torch.no_grad()
    def _make_experience(
        self, episodes: Sequence[PPOEpisode], state_values: Sequence[Sequence[float]]
    ) -> Experience:
        args = self.args
        # Verlog gives the observation after a truncated episode a value; VAGEN takes 0 at every
        # end.
        verlog = args.advantage == "dual_discount_gae"
        sequences = sequences_of(episodes, args.context_policy, args.device, with_end=verlog)
        wanted: list[str] = []
        if args.critic_kind != "none":
            wanted.append("values")
        if args.kl_coef or args.kl_loss_coef:
            wanted.append("reference_logprobs")
        # A rollout's only update finds the log-probabilities itself: nothing has changed the policy
        # before it.
        if args.steps_per_rollout > 1 or wanted or args.sampler_correction != "none":
            wanted += ["logprobs", "log_shares"]
        scores = self._scores(sequences, wanted)
        logprobs = scores.get("logprobs")
        reference = scores.get("reference_logprobs")
        if logprobs is not None:
            _check_finite(logprobs)
        kl_rewards = None
        if logprobs is not None and reference is not None and args.kl_coef:
            kl_rewards = -args.kl_coef * losses.kl_estimates(logprobs, reference, "k1")
        batch = trajectories_of(sequences, args, scores["values"], kl_rewards, state_values)
        advantages = self.estimate_advantages(batch)
        self._record(metrics.of_scores(batch, advantages, logprobs, reference))
        if logprobs is not None:
            gaps = losses.sampler_gaps(logprobs, scores["log_shares"], sequences.sampled_logprobs)
            self._record({"policy/sampler_gap": float(gaps[batch.mask].mean())})
        if args.advantage not in IN_GROUPS:
            advantages = advantages.whitened()
        advantages = self.assign_credit(advantages, sequences)
        correction, figures = sampler_correction(sequences, logprobs, args.sampler_correction)
        self._record(figures)
        return Experience(sequences, logprobs, reference, scores["values"], advantages, correction)

    def _scores(self, sequences: Sequences, want: Sequence[str]) -> dict[str, Tensor]:
        """Log-probabilities, (B, L), and values, (B, L + 1); each process scores its share."""
        rows, length = sequences.turn_ids.shape
        found: dict[str, Tensor] = {}
        for name in ("values", *want):
            width = length + 1 if name == "values" else length
            found[name] = torch.zeros(rows, width, device=self.args.device)
        if not want:
            return found
        wanted_tokens = trained_tokens(
            sequences.turn_ids, with_observations=not self.args.masks_observations
        )
        self.model_wrapped.eval()
        size = self.args.per_device_train_batch_size
        in_order = shortest_first(sequences, torch.arange(rows))
        for part, own in own_parts(self.accelerator, in_order, size):
            with self.accelerator.autocast():
                scores = self._forward(sequences, part, want, wanted_tokens)
            if not own:
                continue
            for name in want:
                found[name][part, : scores[name].shape[1]] = scores[name]
        if self.accelerator.num_processes > 1:
            found = {name: self.accelerator.reduce(tensor, "sum") for name, tensor in found.items()}
        return found

    # -- what a subclass may replace ---------------------------------------------------------------

    def estimate_advantages(self, batch: Trajectories) -> Advantages:
        """Advantages and the critic's targets."""
        return ESTIMATORS[self.args.advantage](batch, **self.args.advantage_settings)

    def assign_credit(self, advantages: Advantages, sequences: Sequences) -> Advantages:
        """The advantages of single tokens, after whitening."""
        if self.args.reasoning_credit == "turn":
            return advantages
        advantages, truths = credit_words(
            advantages, sequences.rows, sequences.episodes, self.encoder
        )
        self._record(truths)
        return advantages

    # -- passes through the model ------------------------------------------------------------------

    def _forward(
        self,
        sequences: Sequences,
        rows: Tensor,
        want: Sequence[str],
        mask: Tensor,
        values_teach: float = 1.0,
    ) -> dict[str, Tensor]:
        """The outputs for R rows, as wide as the longest; `mask` is (B, L). See
        `ActorCritic.forward`.
        """
        args = self.args
        prompts = [sequences.rows[row].prompt for row in rows.tolist()]
        inputs = model_inputs(
            prompts, self.encoder, args.device, multiple=TILE, vision_cache=self.model.vision_cache
        )
        if "values" in want:
            all_shown = [shown for prompt in prompts for shown in prompt.shown]
            inputs |= self.model.critic_inputs(all_shown)
        found: dict[str, Tensor] = self.model_wrapped(
            inputs,
            want,
            temperature=args.temperature,
            # Vanilla PPO trains on observations, image tokens included, so none are forbidden.
            forbidden_ids=self.encoder.forbidden_ids if args.masks_observations else (),
            mask=mask[rows, : inputs["input_ids"].shape[1]],
            values_teach=values_teach,
            entropies_teach=args.entropy_coef != 0,
            nucleus=Nucleus(args.top_p, self.encoder.forbidden_ids),
        )
        return found


def _check_finite(logprobs: Tensor) -> None:
    broken = int((~logprobs.isfinite()).any(1).sum())
    if broken:
        raise TrainingDataError(
            f"{broken} of {len(logprobs)} sequences have log-probabilities that aren't "
            f"finite; {GO_BACK}"
        )
