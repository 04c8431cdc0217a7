"""The settings of `MultiTurnPPOTrainer`."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NoReturn, get_type_hints

from pydantic import Field, TypeAdapter
from trl.trainer.base_config import _BaseConfig

from vagen_adapters.context import ContextPolicy
from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.actor_critic import Critic
from vagen_adapters.ppo.environments import TrainingEnvironment, TrainingTask, read_environments
from vagen_adapters.ppo.estimators import ESTIMATORS, WITHOUT_CRITIC, entries_of
from vagen_adapters.ppo.inherited_settings import (
    BY_EVALUATIONS,
    OLD_NAMES,
    RECOMPUTING,
    RECOMPUTING_OPTIONS,
    TYPES,
    WITHOUT_EVALUATIONS,
    faulty_tables,
    word_of,
)
from vagen_adapters.ppo.setting_conflicts import conflicts, context_conflicts
from vagen_adapters.ppo.setting_types import (
    STRICT,
    Above0,
    Count,
    CountFrom0,
    From0,
    Share,
    check_entries,
    check_type,
)
from vagen_envs.errors import ConfigError, did_you_mean

LOGGING_STEPS = 10
"""Updates between two logs by TRL's default."""
SAVE_STEPS = 500
"""Updates between two checkpoints by transformers' default."""


@dataclass
class MultiTurnPPOConfig(_BaseConfig):
    """Settings beside those of `transformers.TrainingArguments`. Defaults are VAGEN's (table 22)
    where it has them.

    One step is one optimizer update from one mini-batch. `max_steps` follows from `rollouts`.
    `per_device_train_batch_size` is the number of sequences that go through the model at once; it
    changes memory, not results. `gradient_accumulation_steps` has no meaning here. `learning_rate`
    is the policy's.

    Attributes:
        environments: what is played, each an id or a table with the entries of
            `TrainingEnvironment`. Groups of episodes are distributed over them by weight.
        level_sampler: how a rollout's levels are chosen. `uniform` draws environments by weight and
            levels at random; `difficulty` prefers those that the policy solves half of the time.
        iou_schedule: the IoU threshold of samples with boxes over the training: `dynamic`
            (V-Triune, section 3.2.1), `loose` or `strict` (appendix J), or `fixed`. Environments
            whose options have `iou_threshold` keep it, and evaluations use the environment's own.
        num_envs: environments that play at once in each process.
        env_threads: environments that are reset or stepped at the same time.
        rollouts: number of times that episodes are collected and trained on.
        episodes_per_rollout: episodes collected each time.
        rollout_turns: turns of each of `episodes_per_rollout` episodes in a rollout, after which
            those that haven't ended are paused and go on in the next one; the critic's value stands
            for the rest (Verlog). 0 plays episodes to their ends.
        group_size: episodes of the same level, for estimators that compare episodes.
        context: earlier turns in a prompt, see `vagen_adapters.context`: `all` trains on whole
            episodes; with `last:N` each turn is a sequence of its own (Verlog); with `summary:K`
            the policy writes a summary after K turns, which is trained on as a reply and ends a
            sequence. The trainer takes no other policy.
        max_length: tokens in a sequence.
        temperature: of sampling.
        top_p: of sampling.
        max_tokens: of a reply.
        max_thinking_tokens: of the model's own thoughts before each reply, between the marks of its
            family; then they are closed. They are trained, and the environment isn't given them.
            0 for models that don't think, or shall not. `context` says whether later prompts have
            them: not, or with `reasoning=keep`.
        generation: the generation back-end: `transformers`, `vllm` in this process, or a
            `vllm-server`.
        vllm_options: keywords of `VLLMSampler` (with those of `vllm.LLM`) or of
            `VLLMServerSampler`.
        advantage: the estimator: `token_gae`, `dual_discount_gae`, `bilevel_gae`,
            `bilevel_gae_released`, `bilevel_gae_mixed`, `turn_gae`, `vine`, `grpo`, `rloo`,
            `rloo_turns` or `gigpo`.
        advantage_settings: the estimator's keywords, such as {"gamma_turn": 0.95}.
        continuations: Monte Carlo continuations from each state, whose mean return is VinePPO's
            baseline.
        kl_coef: β of the KL penalty in the reward (k1 estimate).
        kl_loss_coef: weight of the KL term in the loss (k3 estimate).
        binary_reward: reward 1 for a turn that solves the task and 0 for all else, in place of the
            environment's rewards (Verlog).
        first_token_value_weight: weight of the value before each turn's first token in the critic's
            loss, relative to other tokens (Verlog).
        critic_learning_rate: 5 to 10 times the policy's (Turn-PPO).
        critic_warmup_rollouts: rollouts at the start in which only the critic is trained (Verlog).
        vf_coef: weight of the critic's loss in what a shared backbone learns; 0 trains the value
            head alone. The head, and a critic of its own, learn at `critic_learning_rate`
            whatever it is.
        value_clip: distance from its old value beyond which a value's loss stops falling; None for
            no limit.
        entropy_coef: weight of the entropy bonus.
        clip_low: the ratio is clipped to [1 - clip_low, 1 + clip_high].
        clip_high: see `clip_low`.
        dual_clip: largest ratio that counts where the advantage is negative (Ye et al. 2020); None
            for no limit.
        policy_loss: PPO's clipped surrogate (`clip`) or CISPO's clipped weights (`cispo`).
        ratio_level: `token` ratios, or geometric means over a `turn` (Turn-PPO) or a `sequence`
            (GSPO).
        loss_level: what has equal weight in the policy's loss: each `token`, `turn` or `sequence`.
        sampler_correction: truncated importance weights of trainer against sampler, capped at 2:
            `none`, per `token`, or per `sequence`.
        reasoning_credit: `turn` pays the reasoning reward to all tokens of the turn (VAGEN), `span`
            credits each sentence's tokens by that sentence's truth.
        max_staleness: updates by which the weights that sampled a reply may be older than those
            that first learn from it. 0 plays each rollout after the updates of the one before.
        dynamic_sampling: how many times more levels are played at most until enough groups have
            returns that differ (DAPO); groups of equal returns are left out. 0 for none.
        overlong_share: last share of `max_tokens` in which a reply costs up to 1 (DAPO, eq. 13); 0
            for no penalty.
        epochs_per_rollout: passes over the sequences of a rollout.
        minibatches: updates in each pass.
        packing: concatenate sequences into one row without padding.
        attn_implementation: of transformers, such as `flash_attention_2`; None for its default.
        freeze_vision: keep the vision tower and its projector frozen; their features are computed
            once per picture.
        log_gradient_norms: log the gradient norms of the vision tower and the language model by
            layer (V-Triune, figure 5).
        shared_backbone: the critic is a value head on the policy's backbone instead of a model of
            its own.
        lora: settings of `peft.LoraConfig`. If given, only adapters and the value head are trained,
            and the reference is the policy without adapters.
        eval_rollouts: evaluate on the validation split after every so many rollouts, write
            `evaluations.json`, and keep the model that solved most in `best`. 0 for never.
        eval_episodes: episodes of each environment in an evaluation, always on the same levels.
        log_completions: episodes of each rollout that trackers are sent as a table with pictures:
            the best, the worst, one at random, then others. 0 for none.
        save_total_limit: checkpoints that are kept, the newest; None for all.
    """

    environments: list[Any] = field(default_factory=lambda: ["vagen/Sokoban-v0"])
    level_sampler: Literal["uniform", "difficulty"] = "uniform"
    iou_schedule: Literal["fixed", "dynamic", "loose", "strict"] = "dynamic"
    num_envs: Count = 32
    env_threads: Count = 1
    rollouts: Count = 300
    episodes_per_rollout: Count = 128
    rollout_turns: CountFrom0 = 0
    group_size: Count = 1
    context: str = "all"
    max_length: Count = 4096
    temperature: Above0 = 0.7
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    max_tokens: Count = 200
    max_thinking_tokens: CountFrom0 = 0
    generation: Literal["transformers", "vllm", "vllm-server"] = "transformers"
    vllm_options: dict[str, Any] = field(default_factory=dict)
    advantage: str = "bilevel_gae"
    advantage_settings: dict[str, Any] = field(default_factory=dict)
    continuations: CountFrom0 = 0
    kl_coef: From0 = 0.001
    kl_loss_coef: From0 = 0.0
    learning_rate: From0 = 1e-6
    critic_learning_rate: From0 = 1e-5
    critic_warmup_rollouts: CountFrom0 = 0
    vf_coef: From0 = 0.1
    value_clip: Above0 | None = 0.5
    binary_reward: bool = False
    first_token_value_weight: Above0 = 1.0
    entropy_coef: From0 = 0.0
    clip_low: From0 = 0.2
    clip_high: From0 = 0.2
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    policy_loss: Literal["clip", "cispo"] = "clip"
    ratio_level: Literal["token", "turn", "sequence"] = "token"
    loss_level: Literal["token", "turn", "sequence"] = "token"
    sampler_correction: Literal["none", "token", "sequence"] = "none"
    reasoning_credit: Literal["turn", "span"] = "turn"
    max_staleness: CountFrom0 = 0
    dynamic_sampling: CountFrom0 = 0
    overlong_share: Share = 0.0
    epochs_per_rollout: Count = 1
    minibatches: Count = 4
    packing: bool = False
    attn_implementation: str | None = None
    freeze_vision: bool = False
    log_gradient_norms: bool = False
    shared_backbone: bool = False
    lora: dict[str, Any] = field(default_factory=dict)
    eval_rollouts: CountFrom0 = 0
    eval_episodes: Count = 128
    log_completions: CountFrom0 = 0
    save_total_limit: Count | None = 2

    @property
    def steps_per_rollout(self) -> int:
        """Updates between two rollouts."""
        return self.epochs_per_rollout * self.minibatches

    @property
    def turn_discount(self) -> float:
        """Discount from one turn to the next: the estimator's `gamma_turn`, else its `gamma`."""
        settings = self.advantage_settings
        return float(settings.get("gamma_turn", settings.get("gamma", 1.0)))

    @property
    def critic_kind(self) -> Critic:
        """The critic that these settings ask for; see `actor_critic`."""
        if self.advantage in WITHOUT_CRITIC:
            return "none"
        return "shared" if self.shared_backbone else "own"

    @property
    def masks_observations(self) -> bool:
        """False for vanilla PPO, which trains on observations as if the policy had written them."""
        return bool(self.advantage_settings.get("mask_observations", True))

    @property
    def training_environments(self) -> list[TrainingEnvironment]:
        """The entries of `environments`."""
        return read_environments(self.environments)

    @property
    def tasks(self) -> list[TrainingTask]:
        """The environments on each of their difficulties."""
        return [task for environment in self.training_environments for task in environment.tasks()]

    def __post_init__(self) -> None:
        self._check_fields()
        read_environments(self.environments)
        self._check_advantage()
        for name, must_be in conflicts(self):
            self._refuse(name, must_be)
        steps = self.rollouts * self.steps_per_rollout
        if vars(self)["max_steps"] not in (-1, steps):
            self._refuse("max_steps", f"left out: {self.rollouts} rollouts make it {steps}")
        self.max_steps = steps
        self.remove_unused_columns = False
        if vars(self)["logging_steps"] == LOGGING_STEPS:  # the default: each rollout
            self.logging_steps = self.steps_per_rollout
        if vars(self)["save_steps"] == SAVE_STEPS:  # the default: round up to the end of a rollout
            rollouts = math.ceil(SAVE_STEPS / self.steps_per_rollout)
            self.save_steps = rollouts * self.steps_per_rollout
        if self.save_strategy == "steps" and self.save_steps % self.steps_per_rollout:
            self._refuse(
                "save_steps",
                f"a multiple of the {self.steps_per_rollout} updates of a rollout, "
                "so that training resumes at the start of a rollout",
            )
        self._set_evaluation()
        for old, new in OLD_NAMES.items():  # transformers warns of the old ones
            if getattr(self, new, 0) is None:
                setattr(self, new, getattr(self, old))
        super().__post_init__()  # type: ignore[no-untyped-call]
        self._check_tables()

    def _set_evaluation(self) -> None:
        """Tell transformers when evaluations are, and by which figure they are compared."""
        steps = self.eval_rollouts * self.steps_per_rollout
        if not self.eval_rollouts:
            for name, default in WITHOUT_EVALUATIONS.items():
                if getattr(self, name) not in default:
                    self._refuse(name, "left out without eval_rollouts, which asks for evaluations")
            return
        if word_of(self.eval_strategy) not in ("no", "steps"):  # type: ignore[has-type]
            self._refuse("eval_strategy", "left out beside eval_rollouts")
        if self.eval_steps not in (None, steps):  # type: ignore[has-type]
            self._refuse("eval_steps", f"left out: eval_rollouts makes it {steps}")
        self.eval_strategy = "steps"
        self.eval_steps = steps
        # What transformers' EarlyStoppingCallback and its schedules look at.
        if self.metric_for_best_model is None:  # type: ignore[has-type]
            self.metric_for_best_model = "success"
            self.greater_is_better = True

    def _check_tables(self) -> None:
        """Entries of transformers' settings that are tables."""
        for name, must_be in faulty_tables(self):
            self._refuse(name, must_be)
        recomputing = getattr(self, RECOMPUTING_OPTIONS, None) or {}
        check_entries(RECOMPUTING_OPTIONS, recomputing, RECOMPUTING)
        if word_of(self.lr_scheduler_type) in BY_EVALUATIONS:
            mode = "max" if self.greater_is_better else "min"
            given = self.lr_scheduler_kwargs or {}  # type: ignore[has-type]
            self.lr_scheduler_kwargs = {"mode": mode, **given}

    @property
    def context_policy(self) -> ContextPolicy:
        """The setting `context`, read."""
        return ContextPolicy.parse(self.context)

    def _check_fields(self) -> None:
        """Types, choices and ranges of single settings, and what `context` asks of others."""
        for name in _types():
            check_setting(name, getattr(self, name))
        try:
            ContextPolicy.parse(self.context)
        except ConfigError as error:
            raise TrainingConfigError(str(error)) from None
        for name, must_be in context_conflicts(self):
            self._refuse(name, must_be)

    def _check_advantage(self) -> None:
        if self.advantage not in ESTIMATORS:
            raise TrainingConfigError(
                f"unknown advantage {self.advantage!r}.{did_you_mean(self.advantage, ESTIMATORS)}"
            )
        check_entries(
            f"advantage_settings of {self.advantage}",
            self.advantage_settings,
            entries_of(self.advantage),
        )
        if self.advantage_settings.get("gamma_token", 1) != 1:
            raise TrainingConfigError(
                f"advantage_settings gamma_token={self.advantage_settings['gamma_token']} is not "
                "valid: it must be 1, or longer replies are discounted more; discount turns by "
                "gamma_turn"
            )

    def _refuse(self, name: str, must_be: str) -> NoReturn:
        given = "…" if name == "hub_token" else repr(getattr(self, name))
        raise TrainingConfigError(f"{name}={given} is not valid: it must be {must_be}")


@functools.cache
def _types() -> dict[str, TypeAdapter[Any]]:
    """The types of all settings.

    transformers' annotations don't say all that is taken: of its settings only switches and numbers
    are known, by their defaults.
    """
    own = {**inspect.get_annotations(MultiTurnPPOConfig, eval_str=True), **TYPES}
    inherited = {bool: bool | None, int: int, float: float}
    types: dict[str, TypeAdapter[Any]] = {}
    for setting in dataclasses.fields(MultiTurnPPOConfig):
        by_default = inherited.get(type(setting.default), Any)
        types[setting.name] = TypeAdapter(own.get(setting.name, by_default), config=STRICT)
    return types


def check_setting(name: str, setting: Any) -> None:
    """Raise TrainingConfigError for an unknown setting, or one of another type, choice or range
    than its field.
    """
    if name == "quantization_config":
        raise TrainingConfigError(
            "quantization_config: quantised weights (QLoRA) aren't trained here; use lora over "
            "bfloat16 weights"
        )
    if name not in _types():
        raise TrainingConfigError(
            f"the trainer has no setting {name!r}.{did_you_mean(name, _types())}"
        )
    check_type(name, setting, _types()[name])
    if name == "lora" and setting:
        from peft import LoraConfig

        check_entries(name, setting, get_type_hints(LoraConfig))
