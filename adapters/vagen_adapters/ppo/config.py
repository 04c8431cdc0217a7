"""The settings of `MultiTurnPPOTrainer`."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from trl.trainer.base_config import _BaseConfig

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo import advantages, group_advantages
from vagen_adapters.ppo.actor_critic import Critic
from vagen_adapters.ppo.setting_types import WORDS, must_be
from vagen_envs.errors import did_you_mean

SAVE_STEPS = 500
"""The updates between two checkpoints that transformers takes by default."""
COUNTS = ("num_envs", "rollouts", "episodes_per_rollout", "group_size", "epochs_per_rollout", "minibatches",
          "env_threads", "sequences_per_forward", "eval_episodes", "max_length", "max_tokens")  # fmt: skip
COUNTS_OR_NONE = ("num_levels", "critic_warmup_rollouts", "critic_updates", "critic_replay", "critic_convolutions",
                  "forks", "dynamic_sampling", "eval_rollouts", "eval_forks", "eval_samples", "patience",
                  "log_samples", "seed")  # fmt: skip
AT_LEAST_0 = ("sight_memory", "clip_low", "clip_high", "learning_rate", "critic_learning_rate", "weight_decay",
              "max_grad_norm", "value_coef", "reasoning_credit_weight", "kl_coef", "kl_loss_coef",
              "first_token_value_weight")  # fmt: skip
ESTIMATORS = {
    name: getattr(module, name)
    for module, names in (
        (advantages, (
            "token_gae", "dual_discount_gae", "bilevel_gae", "bilevel_gae_released", "bilevel_gae_mixed", "turn_gae",
            "vine",
        )),
        (group_advantages, ("grpo", "rloo", "rloo_turns", "gigpo")),
    )
    for name in names
}  # fmt: skip
IN_GROUPS = ("grpo", "rloo", "rloo_turns", "gigpo")
WITHOUT_CRITIC = ("vine", *IN_GROUPS)


@dataclass
class MultiTurnPPOConfig(_BaseConfig):
    """Settings beside those of `transformers.TrainingArguments`. Defaults: VAGEN, table 22, where it has them.

    `learning_rate` is the policy's. A step is one update from one mini-batch, so that `max_steps` is given
    by `rollouts`; `per_device_train_batch_size` and `gradient_accumulation_steps` have no meaning here.

    Attributes:
        env_id: the environment, as in `gym.make`.
        env_options: its options.
        num_envs: environments that play at once, in each process.
        env_threads: environments that are reset or stepped at the same time. See `Rollout`.
        rollouts: how often episodes are collected and trained on.
        episodes_per_rollout: episodes collected each time.
        group_size: episodes of the same level next to each other, for GRPO and RLOO.
        num_levels: size of the pool of training levels, seeds 0 to num_levels - 1; 0 never repeats one, and gives each
            `seed` levels of its own.
        prompt_pool: prompt packs, of which each level is played with one that is drawn, so that training doesn't cling
            to one wording (V-Triune, appendix B). Evaluations have the first. Empty for the one of `env_options`.
        window: turns of history in a prompt, each turn a sequence of its own; None trains on whole episodes.
        max_length: tokens in a sequence.
        max_turns: cuts episodes after so many turns; None leaves that to the environment.
        temperature, top_p, max_tokens: how replies are drawn. See `Sampling` and `scoring`.
        generation: where replies come from: transformers in this process, vLLM in this process, or a vLLM server.
        vllm_options: of `vllm.LLM`, for vLLM in this process. With `enable_sleep_mode` it gives its memory up while
            nothing is played.
        vllm_server: the server's address.
        vllm_weights_folder: where weights are handed to the server, a folder that both can reach; None sends them
            through NCCL.
        vllm_adapters: whether vLLM is handed `lora`'s adapters alone, which it adds to the weights it has read; they
            must lie in the language model. Otherwise all weights are, with the adapters in them.
        advantage: one of the estimators of `advantages` and `group_advantages`.
        advantage_settings: its keywords, such as {"gamma_turn": 0.95}.
        forks: episodes that are played on from each state that was met, to find what it is worth: VinePPO's baseline,
            and elsewhere what the critic learns in place of returns, of which two thirds and more are chance.
        critic_gate: whether the mean return stands for the critic's values while those explain nothing (EVPO), of the
            returns that the estimator teaches at λ = 1; see `advantages.without_a_poor_critic`.
        bootstrap_truncated: whether the observation after a truncated episode has a value (Verlog).
        reward_scale: rewards are multiplied by this before advantages and the critic's targets are made of them. A
            small critic reaches values near 1 in a tenth of the updates that it needs for values near 10.
        whiten: whether advantages are brought to mean 0 and variance 1 over a rollout.
        kl_coef: β of the KL penalty in the reward.
        kl_loss_coef: weight of the KL in the loss.
        kl_estimator: of the penalty in the reward: from the sampled token (k1, k3) or the whole vocabulary (exact).
        kl_loss_estimator: of the KL in the loss. k1 is none of them: its gradient is 0 on average.
        critic_learning_rate: 5 to 10 times the policy's (Turn-PPO).
        critic_warmup_rollouts: at first only the critic is trained, for so many rollouts (Verlog).
        critic_updates: that many more of the critic alone, after those of a rollout. Not under DeepSpeed.
        critic_replay: rollouts before this one whose sequences those further updates also draw from: returns of play
            a few rollouts old say more than a second look at the last. Sixty updates on one rollout threw a critic that
            explained 0.24 to -0.47. Checkpoints don't keep them, so a run that is resumed has fewer at first.
        value_clip: how far a value may move from its old self before its loss stops falling; None doesn't limit it.
        first_token_value_weight: weight of the value before the first token of a turn (Verlog).
        entropy_coef: weight of the entropy bonus.
        clip_low, clip_high: the ratio is clipped to [1 - clip_low, 1 + clip_high].
        policy_loss: PPO's clipped surrogate, or CISPO's clipped weights of log-probabilities. `losses.NAMED` has the
            settings of losses by name, with their papers.
        sampler_correction: whether losses are weighed by how likely the trainer finds what was sampled, over how likely
            the sampler found it (truncated importance sampling): of each token, or of whole sequences.
        sampler_cap: the most that such a weight may be.
        old_logprobs: those that ratios are taken against: scored anew by the policy before its updates, or those with
            which replies were sampled, a pass of the policy less. `auto` takes the latter where they are the same to
            1e-5: in float32 at `top_p=1`, sampled by transformers with the present weights.
        dual_clip: the most that a ratio counts where the advantage is negative; None doesn't limit it.
        ratio_level: ratios of tokens, or of whole turns (Turn-PPO) or sequences (GSPO) as geometric means.
        reasoning_credit: whom the reward for reasoning pays: the turn, with all its tokens (VAGEN), or each sentence of
            observation and prediction by its own truth; see `word_credit`.
        learn_from: which of a reply's tokens have an advantage: all of them, or those of its executed actions alone,
            as a control of what training the words is worth.
        reasoning_credit_weight: of the words' advantages beside the task's, both of variance 1; 0 for none.
        value_coef: weight of the critic's loss. On a shared backbone it pulls at the policy, too.
        target_kl: the rest of a rollout's updates is left out after one whose policy is further than this, in nats a
            token, from that of the rollout (as in Spinning Up and CleanRL); None for never.
        adaptive_kl: β of the KL is steered, from rollout to rollout, to where the KL to the reference is this many nats
            a token (Ziegler et al. 2019, section 2.2); None leaves it as it is.
        kl_horizon: over how many episodes β may double, roughly; theirs.
        max_staleness: by how many updates the weights that sampled a reply may be older than those that first learn
            from it; see `ahead`. 0 plays each rollout once the updates before it are over.
        dynamic_sampling: at most so many times more levels are played, until enough groups have returns that differ
            (DAPO); 0 for none. Groups whose returns are equal are left out then.
        overlong_share: the last share of `max_tokens` in which a reply costs up to 1 (DAPO, eq. 13); 0 for nothing.
        loss_level: what counts alike in the policy's loss.
        epochs_per_rollout: passes over the episodes of a rollout.
        minibatches: updates in each pass.
        sequences_per_forward: sequences that go through the model at once; changes memory only.
        gradient_sync: when gradients are summed over processes: with the last of an update's parts, until when each
            process holds whole ones, or with each part, so that FSDP 2 and ZeRO never hold whole ones. See `reducing`.
        packing: whether these sequences go through the model as one row without padding; see `unpadding`. A family
            whose layers would look from one into the next is refused at the start.
        attn_implementation: of transformers, such as `flash_attention_2` or `sdpa`; None for what it takes by itself.
        max_failed: share of a rollout's episodes that may fail, for want of an environment or a judge, before training
            stops. What is left of a rollout may be the easy part.
        keep_variance_share: share of the groups, those whose returns vary most, that is trained on.
        freeze_vision: whether the vision towers stay as they are.
        sight_memory: GiB of each process for what frozen towers said of pictures, so that they look at each once; see
            `seeing`. 0 keeps nothing.
        shared_backbone: whether the critic is a value head on the policy's own backbone.
        critic_heads_only: whether values on a shared backbone teach the critic's heads alone and pull at no weight of
            the policy.
        critic_reads: whether it also reads the latest picture by learned questions to its tokens; see `reading`.
        critic_convolutions: layers by which tokens hear of their neighbours before they are asked; see `reading`.
        critic_told: whether it asks them of the state's things instead, which the policy isn't told (asymmetric actor
            and critic, Pinto et al. 2017): what a critic that sees could come to, and in a simulated world a help.
        lora: of `peft.LoraConfig`; if not empty, only low-rank adapters and the value head are trained, and the
            reference is the policy without them.
        eval_rollouts: an evaluation after every so many rollouts, on the validation split. Their curve is in the log
            and in the run's `evaluations.json`; the model that solved most, the first of equals, is in its `best`.
            0 for none.
        eval_episodes: episodes of an evaluation, on levels that are the same each time.
        eval_forks: how often each state of these episodes is played on from, at least 2, to log how much of what could
            be known of returns the critic knows (`eval_critic_of_worth`; see `forks.held_to_forks`). Each costs about
            twice the turns of the evaluation. 0 plays none.
        eval_samples: of these, so many are shown in trackers with their pictures, replies, rewards and ends.
        patience: training stops when so many evaluations in a row solved no more than the best; 0 for never.
        log_samples: turns of each rollout that are printed as a table.
    """

    env_id: str = "vagen/Sokoban-v0"
    env_options: dict[str, Any] = field(default_factory=dict)
    num_envs: int = 32
    env_threads: int = 1
    rollouts: int = 300
    episodes_per_rollout: int = 128
    group_size: int = 1
    num_levels: int = 0
    prompt_pool: list[str] = field(default_factory=list)
    window: int | None = None
    max_length: int = 4096
    max_turns: int | None = None
    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 200
    generation: Literal["transformers", "vllm", "vllm-server"] = "transformers"
    vllm_options: dict[str, Any] = field(default_factory=dict)
    vllm_server: str = "http://127.0.0.1:8000"
    vllm_weights_folder: str | None = None
    vllm_adapters: bool = False
    advantage: str = "bilevel_gae"
    advantage_settings: dict[str, Any] = field(default_factory=dict)
    forks: int = 0
    critic_gate: bool = False
    bootstrap_truncated: bool = False
    reward_scale: float = 1.0
    whiten: bool = True
    kl_coef: float = 0.001
    kl_loss_coef: float = 0.0
    kl_estimator: Literal["k1", "k3", "exact"] = "k1"
    kl_loss_estimator: Literal["k3", "exact"] = "k3"
    learning_rate: float = 1e-6
    critic_learning_rate: float = 1e-5
    critic_warmup_rollouts: int = 0
    critic_updates: int = 0
    critic_replay: int = 0
    value_clip: float | None = 0.5
    first_token_value_weight: float = 1.0
    entropy_coef: float = 0.0
    clip_low: float = 0.2
    clip_high: float = 0.2
    policy_loss: Literal["clip", "cispo"] = "clip"
    sampler_correction: Literal["none", "token", "sequence"] = "none"
    sampler_cap: float = 2.0
    old_logprobs: Literal["scored", "sampled", "auto"] = "scored"
    dual_clip: float | None = None
    ratio_level: Literal["token", "turn", "sequence"] = "token"
    reasoning_credit: Literal["turn", "claim"] = "turn"
    reasoning_credit_weight: float = 1.0
    learn_from: Literal["reply", "actions"] = "reply"
    value_coef: float = 1.0
    target_kl: float | None = None
    adaptive_kl: float | None = None
    kl_horizon: float = 10_000.0
    max_staleness: int = 0
    dynamic_sampling: int = 0
    overlong_share: float = 0.0
    loss_level: Literal["token", "turn", "sequence"] = "token"
    epochs_per_rollout: int = 1
    minibatches: int = 4
    sequences_per_forward: int = 8
    gradient_sync: Literal["last", "each"] = "last"
    packing: bool = False
    attn_implementation: str | None = None
    max_failed: float = 0.5
    keep_variance_share: float = 1.0
    freeze_vision: bool = False
    sight_memory: float = 1.0
    shared_backbone: bool = False
    critic_heads_only: bool = False
    critic_reads: bool = False
    critic_convolutions: int = 0
    critic_told: bool = False
    lora: dict[str, Any] = field(default_factory=dict)
    eval_rollouts: int = 0
    eval_episodes: int = 128
    eval_forks: int = 0
    eval_samples: int = 4
    patience: int = 0
    log_samples: int = 0
    lr_scheduler_type: str = "constant"
    max_steps: int = -1

    @property
    def steps_per_rollout(self) -> int:
        """Updates between two rollouts."""
        return self.policy_updates + self.critic_updates

    @property
    def policy_updates(self) -> int:
        """Those of them that aren't the critic's alone."""
        return self.epochs_per_rollout * self.minibatches

    @property
    def turn_discount(self) -> float:
        """From one turn to the next: `gamma_turn` where an estimator has one beside that of tokens, else `gamma`."""
        settings = self.advantage_settings
        return float(settings.get("gamma_turn", settings.get("gamma", 1.0)))

    @property
    def critic_kind(self) -> Critic:
        """The critic that these settings ask for; see `actor_critic`."""
        if self.advantage in WITHOUT_CRITIC:
            return "none"
        return "shared" if self.shared_backbone else "own"

    def __post_init__(self) -> None:
        self._check_ranges()
        steps = self.rollouts * self.steps_per_rollout
        self._require(
            self.max_steps in (-1, steps), "max_steps", f"left out: rollouts={self.rollouts} makes it {steps}"
        )
        self.max_steps = steps
        self.per_device_train_batch_size = 1  # Trainer's data are the numbers of the steps
        self.remove_unused_columns = False
        self._check_advantage()
        self._check_evaluations()
        self._check_losses()
        self._require(self.gradient_accumulation_steps == 1, "gradient_accumulation_steps",
                      "1: sequences_per_forward splits an update")  # fmt: skip
        self._require(self.episodes_per_rollout % self.group_size == 0, "episodes_per_rollout",
                      f"a multiple of group_size={self.group_size}")  # fmt: skip
        self._require(self.episodes_per_rollout >= self.minibatches, "minibatches",
                      f"at most episodes_per_rollout={self.episodes_per_rollout}")  # fmt: skip
        self._require(0 < self.keep_variance_share <= 1, "keep_variance_share", "above 0 and at most 1")
        self._require(0 <= self.max_failed <= 1, "max_failed", "a share, from 0 to 1")
        self._require(self.kl_estimator in ("k1", "k3", "exact"), "kl_estimator", "k1, k3 or exact")
        self._require(self.kl_loss_estimator in ("k3", "exact"), "kl_loss_estimator", "k3 or exact")
        self._require(self.advantage not in IN_GROUPS or self.group_size > 1, "group_size",
                      f"at least 2 for {self.advantage}, which compares episodes of a level")  # fmt: skip
        self._require(self.forks > 0 or self.advantage != "vine", "forks", "at least 1 for vine")
        self._require(not self.forks or self.advantage == "vine" or self.critic_kind != "none", "forks",
                      f"0: {self.advantage} has no critic that could learn from them")  # fmt: skip
        self._require(not self.forks or self.advantage != "token_gae", "forks",
                      "0: token_gae's critic learns what the whole episode earns, forks what a state is worth; "
                      "turn_gae and bilevel_gae learn that")  # fmt: skip
        self._check_critic()
        self._require(self.keep_variance_share == 1 or self.group_size > 1, "group_size",
                      "at least 2 to filter groups by their variance")  # fmt: skip
        self._require(not (self.prompt_pool and "prompt_pack" in self.env_options), "prompt_pool",
                      "empty where env_options names a prompt_pack")  # fmt: skip
        if not self.advantage_settings.get("mask_observations", True):
            for name in ("ratio_level", "loss_level"):
                self._require(getattr(self, name) != "turn", name, "token or sequence: observations are in no turn")
        if vars(self)["save_steps"] == SAVE_STEPS:  # nobody chose it: the next end of a rollout
            self.save_steps = math.ceil(SAVE_STEPS / self.steps_per_rollout) * self.steps_per_rollout
        if self.save_strategy == "steps" and self.save_steps % self.steps_per_rollout:
            self._require(False, "save_steps", f"a multiple of the {self.steps_per_rollout} updates of a rollout, "
                          "so that training resumes where a rollout begins")  # fmt: skip
        if getattr(self, "activation_checkpointing", False) is None:  # its name since transformers 5.20
            self.activation_checkpointing = self.gradient_checkpointing
        super().__post_init__()  # type: ignore[no-untyped-call]
        if self.old_logprobs == "auto":  # only now is it known in which precision
            in_float32 = not (self.bf16 or self.fp16 or self.lora)
            self.old_logprobs = "sampled" if in_float32 and self._samples_alike else "scored"

    def _check_ranges(self) -> None:
        """Types, and numbers by themselves; what goes together is checked later."""
        for name in inspect.get_annotations(MultiTurnPPOConfig):
            kind = must_be(MultiTurnPPOConfig, name, getattr(self, name))
            self._require(kind is None, name, str(kind))
        for names, least in ((COUNTS, 1), (COUNTS_OR_NONE, 0)):
            for name in names:
                self._require(_is_whole(getattr(self, name), least), name, f"a whole number, at least {least}")
        for name, least in (("window", 0), ("max_turns", 1)):
            fits = getattr(self, name) is None or _is_whole(getattr(self, name), least)
            self._require(fits, name, f"a whole number, at least {least}, or None")
        for name in ("temperature", "reward_scale"):
            self._require(_is_number(getattr(self, name)) and getattr(self, name) > 0, name, "greater than 0")
        for name in AT_LEAST_0:
            self._require(_is_number(getattr(self, name)) and getattr(self, name) >= 0, name, "at least 0")
        self._require(_is_number(self.top_p) and 0 < self.top_p <= 1, "top_p", "above 0 and at most 1")
        self._require(
            self.value_clip is None or (_is_number(self.value_clip) and self.value_clip > 0), "value_clip",
            "above 0, or None",
        )  # fmt: skip
        self._require(self.generation in ("transformers", "vllm", "vllm-server"), "generation",
                      "transformers, vllm or vllm-server")  # fmt: skip
        share = self.vllm_options.get("gpu_memory_utilization", 0.3)
        self._require(_is_number(share) and 0 < share <= 1, "vllm_options", "with a share for gpu_memory_utilization")

    def _check_evaluations(self) -> None:
        self._require(self.eval_forks == 0 or self.eval_forks > 1, "eval_forks", "0, or at least 2")
        self._require(not self.patience or self.eval_rollouts > 0, "patience", "0 without eval_rollouts")
        self._require(not self.load_best_model_at_end, "load_best_model_at_end",
                      "left out: eval_rollouts keeps the best model in a folder of its own")  # fmt: skip
        given = str(getattr(self.eval_strategy, "value", self.eval_strategy))  # type: ignore[has-type]
        self._require(not self.eval_forks or self.eval_rollouts > 0 or given != "no" or self.eval_on_start,
                      "eval_forks", "0 without eval_rollouts: they start from the states of evaluations")  # fmt: skip
        if self.eval_rollouts:
            self._require(given in ("no", "steps"), "eval_strategy", "left out beside eval_rollouts")
            self.eval_strategy, self.eval_steps = "steps", self.eval_rollouts * self.steps_per_rollout

    def _check_critic(self) -> None:
        """Above all, that nothing is asked of a critic that isn't there."""
        has_none = f"{self.advantage} has no critic"
        for name in ("critic_gate", "critic_reads", "critic_told", "bootstrap_truncated"):
            self._require(not (getattr(self, name) and self.critic_kind == "none"), name, f"false: {has_none}")
        for name in ("critic_updates", "critic_warmup_rollouts", "eval_forks"):
            self._require(not (getattr(self, name) and self.critic_kind == "none"), name, f"0: {has_none}")
        self._require(self.first_token_value_weight == 1 or self.critic_kind != "none", "first_token_value_weight",
                      f"left out: {has_none}")  # fmt: skip
        self._require(not self.critic_warmup_rollouts or self.critic_warmup_rollouts < self.rollouts,
                      "critic_warmup_rollouts",
                      f"less than rollouts={self.rollouts}, or the policy never learns")  # fmt: skip
        self._require(self.critic_reads or not self.critic_convolutions, "critic_convolutions",
                      "0 without critic_reads")  # fmt: skip
        self._require(not (self.critic_told and self.critic_reads), "critic_told", "false beside critic_reads")
        self._require(not self.critic_heads_only or self.critic_kind == "shared", "critic_heads_only",
                      "false without shared_backbone")  # fmt: skip
        self._require(not self.critic_replay or self.critic_updates > 0, "critic_replay", "0 without critic_updates")

    def _check_losses(self) -> None:
        self._require(self.gradient_sync in ("last", "each"), "gradient_sync", "last or each")
        self._require(self.policy_loss in ("clip", "cispo"), "policy_loss", "clip or cispo")
        self._require(self.sampler_correction in ("none", "token", "sequence"), "sampler_correction",
                      "none, token or sequence")  # fmt: skip
        self._require(self.sampler_cap > 0, "sampler_cap", "above 0")
        self._require(_is_whole(self.max_staleness, 0) and self.max_staleness <= self.steps_per_rollout,
                      "max_staleness",
                      f"a whole number from 0 to the {self.steps_per_rollout} updates of a rollout")  # fmt: skip
        self._require(not self.max_staleness or self.sampler_correction != "none", "max_staleness",
                      "0 without sampler_correction, token or sequence")  # fmt: skip
        self._require(not self.max_staleness or self.generation != "vllm", "max_staleness",
                      "0 with generation=vllm, which shares its GPU with updates; take vllm-server")  # fmt: skip
        self._require(not self.vllm_adapters or bool(self.lora), "vllm_adapters", "left out without lora")
        self._require(self.old_logprobs in ("scored", "sampled", "auto"), "old_logprobs", "scored, sampled or auto")
        sampled = self.old_logprobs == "sampled"
        masks = self.advantage_settings.get("mask_observations", True)
        needed = (("top_p=1", self.top_p == 1), ("generation=transformers", self.generation == "transformers"),
                  ("masked observations", masks), ("kl_estimator k1 or k3", self.kl_estimator != "exact"),
                  ("sampler_correction=none", self.sampler_correction == "none"))  # fmt: skip
        for name, fits in needed:
            self._require(fits or not sampled, "old_logprobs", f"scored, or sampled with {name}")
        self._samples_alike = all(fits for _, fits in needed)
        for name in ("ratio_level", "loss_level"):
            self._require(getattr(self, name) in ("token", "turn", "sequence"), name, "token, turn or sequence")
        self._require(self.dual_clip is None or self.dual_clip > 1, "dual_clip", "above 1, or None")
        for name in ("target_kl", "adaptive_kl"):
            setting = getattr(self, name)
            self._require(setting is None or setting > 0, name, "above 0, or None")
        self._require(self.adaptive_kl is None or bool(self.kl_coef or self.kl_loss_coef), "adaptive_kl",
                      "None without kl_coef or kl_loss_coef, which it steers")  # fmt: skip
        self._require(self.kl_horizon > 0, "kl_horizon", "above 0")
        self._require(self.reasoning_credit in ("turn", "claim"), "reasoning_credit", "turn or claim")
        self._require(self.reasoning_credit_weight == 1 or self.reasoning_credit == "claim", "reasoning_credit_weight",
                      "left out where reasoning_credit isn't claim, which alone weighs words")  # fmt: skip
        self._require(self.learn_from in ("reply", "actions"), "learn_from", "reply or actions")
        self._require(
            self.learn_from == "reply" or self.reasoning_credit == "turn",
            "learn_from", "reply where reasoning_credit is claim, which trains words",
        )  # fmt: skip
        self._require(0 <= self.overlong_share <= 1, "overlong_share", "a share, from 0 to 1")
        self._require(not self.dynamic_sampling or self.group_size > 1, "group_size",
                      "at least 2 to compare returns within groups")  # fmt: skip
        if self.adaptive_kl is not None:
            self.restore_callback_states_from_checkpoint = True  # β goes on from where it was

    def _check_advantage(self) -> None:
        if self.advantage not in ESTIMATORS:
            raise TrainingConfigError(
                f"unknown advantage {self.advantage!r}.{did_you_mean(self.advantage, ESTIMATORS)}"
            )
        known = dict(list(inspect.signature(ESTIMATORS[self.advantage], eval_str=True).parameters.items())[1:])
        for name, setting in self.advantage_settings.items():
            if name not in known:
                raise TrainingConfigError(f"{self.advantage} has no setting {name!r}.{did_you_mean(name, known)}")
            kind = known[name].annotation
            if not (isinstance(setting, bool) if kind is bool else _is_number(setting)):
                raise TrainingConfigError(f"{self.advantage} can't take {name}={setting!r}: it must be {WORDS[kind]}")
            if name.startswith(("gamma", "lam")):
                advantages.check_unit(**{name: setting})

    def _require(self, condition: bool, name: str, must_be: str) -> None:
        if not condition:
            raise TrainingConfigError(f"{name}={getattr(self, name)!r} is not valid: it must be {must_be}")


def _is_whole(setting: Any, least: int) -> bool:
    return isinstance(setting, int) and not isinstance(setting, bool) and setting >= least


def _is_number(setting: Any) -> bool:
    return isinstance(setting, int | float) and not isinstance(setting, bool) and math.isfinite(setting)
