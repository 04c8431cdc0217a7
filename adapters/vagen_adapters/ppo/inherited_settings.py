"""The settings of transformers' `TrainingArguments`: which this trainer honours, and why it refuses
the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field
from transformers.trainer_pt_utils import AcceleratorConfig
from transformers.trainer_utils import IntervalStrategy
from trl.trainer.base_config import _BaseConfig

from vagen_adapters.ppo.setting_types import Above0, Count, From0

HONOURED = frozenset(
    (
        *("output_dir", "seed", "full_determinism", "per_device_train_batch_size", "max_steps"),
        *("optim", "optim_args", "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps"),
        *("learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"),
        "max_grad_norm",
        *("use_cpu", "bf16", "fp16", "tf32"),
        *("activation_checkpointing", "activation_checkpointing_kwargs"),
        # its names before transformers 5.20
        *("gradient_checkpointing", "gradient_checkpointing_kwargs"),
        *("logging_strategy", "logging_steps", "logging_first_step", "logging_nan_inf_filter"),
        *("log_on_each_node", "log_level", "log_level_replica", "disable_tqdm"),
        *("report_to", "run_name", "project"),
        *("trackio_space_id", "trackio_bucket_id", "trackio_static_space_id"),
        *("do_eval", "eval_strategy", "eval_steps"),  # as eval_rollouts says
        *("eval_on_start", "eval_delay", "metric_for_best_model", "greater_is_better"),
        *("save_strategy", "save_steps", "save_total_limit", "save_on_each_node"),
        *("enable_jit_checkpoint", "restore_callback_states_from_checkpoint"),
        *("ddp_backend", "ddp_timeout", "ddp_find_unused_parameters", "ddp_static_graph"),
        *("ddp_bucket_cap_mb", "ddp_broadcast_buffers"),
        "deepspeed",
        *("debug", "skip_memory_metrics"),
        "remove_unused_columns",  # always False: there are no columns
    )
)
"""What is refused if it isn't here: a newer transformers may have settings that nothing reads."""

_COMPILED = "left out: sequences of ever new lengths would be compiled anew"
_HUB = "left out: upload the finished folder with `hf upload NAME FOLDER`"
_LIGER = "left out: log-probabilities are computed here without all logits"
_LABELS = "left out: losses are of rewards, and there are no labels"
_DATA = "left out: there is no data set, and levels are drawn by level_sampler and seed"
_EVALUATION = "left out: an evaluation plays eval_episodes in num_envs environments"
_TOKENS = "left out: tokens_per_second and rollout/reply_tokens count tokens"
_FSDP = "left out: `accelerate launch` and its file say how weights are spread (ppo/launch)"
_SCRIPTS = "left out: only scripts of transformers read it"
REFUSED: Mapping[str, str] = {
    "num_train_epochs": "left out: rollouts and epochs_per_rollout say how long a training is",
    "gradient_accumulation_steps": "1: per_device_train_batch_size splits an update",
    "auto_find_batch_size": "left out: --plan says which per_device_train_batch_size fits",
    "average_tokens_across_devices": _LABELS,
    "label_smoothing_factor": _LABELS,
    "label_names": _LABELS,
    "optim_target_modules": "left out: lora names the modules that are trained",
    "neftune_noise_alpha": "left out: noise in embeddings would make ratios meaningless",
    "use_liger_kernel": _LIGER,
    "liger_kernel_config": _LIGER,
    "torch_compile": _COMPILED,
    # transformers compiles where one of these is set, too
    "torch_compile_backend": _COMPILED,
    "torch_compile_mode": _COMPILED,
    "torch_empty_cache_steps": "left out: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    "use_cache": "left out: updates read sequences at once, and sampling always has a cache",
    "parallelism_config": _FSDP,
    "load_best_model_at_end": "left out: eval_rollouts keeps the best model in a folder",
    "save_only_model": "left out: checkpoints are to go on from; save_strategy=no writes none",
    "ignore_data_skip": _DATA,
    "data_seed": _DATA,
    "accelerator_config": _DATA,
    "train_sampling_strategy": _DATA,
    "length_column_name": _DATA,
    "include_num_input_tokens_seen": _TOKENS,
    "per_device_eval_batch_size": _EVALUATION,
    "bf16_full_eval": _EVALUATION,
    "fp16_full_eval": _EVALUATION,
    "resume_from_checkpoint": (
        "left out: `vagen train --resume` and train(resume_from_checkpoint=…) take a checkpoint"
    ),
    "do_train": _SCRIPTS,
    "do_predict": _SCRIPTS,
    "local_rank": "left out: `accelerate launch` numbers processes",
}
"""What else than their defaults these must be."""
_BY_NAME = {"push_to_hub": _HUB, "fsdp": _FSDP, "hub_": _HUB, "dataloader_": _DATA}
_BY_NAME |= dict.fromkeys(("eval_", "include_for_", "batch_eval_", "prediction_"), _EVALUATION)

SET_BY_TRANSFORMERS: Mapping[str, Any] = {
    "dataloader_pin_memory": False,  # with use_cpu
    "accelerator_config": AcceleratorConfig(),
    "include_num_input_tokens_seen": False,
}
"""What transformers makes of defaults: a copy of settings has it."""


OLD_NAMES = {
    "gradient_checkpointing": "activation_checkpointing",
    "gradient_checkpointing_kwargs": "activation_checkpointing_kwargs",
}
"""Names of settings before transformers 5.20, and the new name of each."""
RECOMPUTING_OPTIONS = OLD_NAMES["gradient_checkpointing_kwargs"]
RECOMPUTING = {
    **dict.fromkeys(("use_reentrant", "preserve_rng_state", "debug", "early_stop"), bool),
    "determinism_check": str,
    "every_n_layers": Count,
    "offload": bool,
}
"""The entries of `activation_checkpointing_kwargs`: torch's, and two of transformers."""
WITHOUT_EVALUATIONS: dict[str, tuple[Any, ...]] = {
    "eval_strategy": ("no", IntervalStrategy.NO),
    "do_eval": (False,),
    "eval_delay": (0,),
    **dict.fromkeys(("eval_steps", "metric_for_best_model", "greater_is_better"), (None,)),
}
"""The only values that settings of evaluations can have where there are none."""
BY_EVALUATIONS = ("reduce_lr_on_plateau", "greedy")
"""Schedules of the learning rate that follow an evaluation's figure."""
ENDS_OF_ROLLOUTS = (
    "steps or no: a training is one epoch, and the best model is kept by eval_rollouts in the "
    "folder `best`"
)
BY_MODULES = ("galore", "apollo", "lomo")
"""Parts of the names of optimisers that take a model's modules instead of policy and critic."""

TYPES: Mapping[str, Any] = {
    "seed": Annotated[
        int, Field(ge=0, lt=2**24)
    ],  # `rollout_worker.seed_of` multiplies it, and torch's have 64 bits
    "per_device_train_batch_size": Count,
    "warmup_steps": From0,  # a share of all updates below 1; the default is a whole number
    **dict.fromkeys(("weight_decay", "max_grad_norm", "eval_delay"), From0),
    **dict.fromkeys(("adam_beta1", "adam_beta2"), Annotated[float, Field(ge=0, lt=1)]),
    "adam_epsilon": Above0,  # 0 divides 0 by 0 where a weight has had no gradient
    **dict.fromkeys(("logging_steps", "save_steps"), Above0),
    **dict.fromkeys(
        ("log_level", "log_level_replica"),
        Literal["detail", "debug", "info", "warning", "error", "critical", "passive"],
    ),
}
"""Settings of transformers whose defaults don't tell their types, or whose bad values only other
libraries would find, in training.
"""


def refused_settings(args: _BaseConfig) -> Iterator[tuple[str, str]]:
    """The settings with other values than their defaults that would do nothing or break a training,
    and what they must be.
    """
    for field in dataclasses.fields(_BaseConfig):
        if field.name in HONOURED:
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        given = getattr(args, field.name)
        if given not in (default, SET_BY_TRANSFORMERS.get(field.name, default)):
            yield field.name, _must_be(field.name)
    for name in ("logging_strategy", "save_strategy"):
        if word_of(getattr(args, name)) not in ("steps", "no"):
            yield name, ENDS_OF_ROLLOUTS
    if any(word in word_of(args.optim).lower() for word in BY_MODULES):
        yield "optim", "an optimiser of parameters, such as adamw_torch_fused"


def faulty_tables(args: _BaseConfig) -> Iterator[tuple[str, str]]:
    """Settings that must be tables and aren't, once transformers has read those given as JSON."""
    for name in ("lr_scheduler_kwargs", RECOMPUTING_OPTIONS):
        if not isinstance(getattr(args, name, None), dict | None):
            yield name, "a table"


def _must_be(name: str) -> str:
    if name in REFUSED:
        return REFUSED[name]
    reasons = (reason for begin, reason in _BY_NAME.items() if name.startswith(begin))
    return next(reasons, "left out: this trainer doesn't read it")


def word_of(choice: Any) -> str:
    """A choice as it is written, also once transformers has made an enumeration's member of it."""
    return str(getattr(choice, "value", choice))
