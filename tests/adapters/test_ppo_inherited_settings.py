"""Settings of transformers: each is read by a training, or refused by name; none is taken and forgotten."""

import dataclasses
import sys
import warnings

import pytest
from ppo_training import config, likes_short_words
from transformers.trainer_callback import EarlyStoppingCallback

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.config import MultiTurnPPOConfig
from vagen_adapters.ppo.inherited_settings import HONOURED, REFUSED
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer

EVALUATED = {"eval_rollouts": 1, "eval_episodes": 1}
FIELDS = {each.name: each for each in dataclasses.fields(MultiTurnPPOConfig)}
GIVEN = {
    bool: lambda default: not default,
    int: lambda default: default + 3,
    float: lambda default: default + 0.5,
    str: lambda _: "other",
    list: lambda _: ["other"],
}
"""Another value than the default, by the default's type."""
READ_BY_THE_SETTINGS = {
    *("tf32", "use_cpu", "deepspeed"),  # as settings are made
    *("bf16", "fp16"),  # through mixed_precision
    *("ddp_backend", "ddp_timeout"),  # where processes find each other
    "do_eval",
    *("gradient_checkpointing", "gradient_checkpointing_kwargs"),  # through their new names
    "optim_args",  # by the optimisers that have any
    *("eval_steps", "eval_strategy", "logging_strategy", "save_strategy"),
}
"""What nothing else reads on one CPU."""
ELSEWHERE = {
    *(name for name in HONOURED if name.startswith(("ddp_", "trackio_"))),
    *("project", "run_name"),  # of trackers
    "activation_checkpointing_kwargs",
}


def other_than_default(field):
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    return GIVEN.get(type(default), lambda _: "other")(default)


@pytest.mark.parametrize(
    "name",
    sorted(
        set(FIELDS) - set(MultiTurnPPOConfig.__annotations__) - HONOURED - {"dataloader_pin_memory"}
    ),
)  # which use_cpu sets
def test_a_setting_that_nothing_reads_is_refused_by_name(name):
    given = other_than_default(FIELDS[name])
    with pytest.raises(TrainingConfigError, match=f"{name}=.* is not valid: it must be") as told:
        config("unused", **{name: given})
    assert "doesn't read it" not in str(told.value), "give the reason"


def test_no_refusal_is_of_a_setting_that_does_not_exist():
    assert FIELDS.keys() >= REFUSED.keys()
    assert not HONOURED & REFUSED.keys()


def test_what_is_taken_is_read_by_a_training(tiny_folder, tmp_path, monkeypatch):
    """The functions that read each setting, but for those that copy or print all of them."""
    run = {**EVALUATED, "save_strategy": "steps", "save_steps": 2, "activation_checkpointing": True}
    args = config(tmp_path, **run, restore_callback_states_from_checkpoint=True)
    copies = {"to_dict", "asdict", "_asdict_inner", "__repr__", "__str__", "to_sanitized_dict"}
    read = set()

    def spy(self, name):
        if name in FIELDS and sys._getframe(1).f_code.co_name not in copies:
            read.add(name)
        return object.__getattribute__(self, name)

    stops = EarlyStoppingCallback(early_stopping_patience=9)
    monkeypatch.setattr(MultiTurnPPOConfig, "__getattribute__", spy)
    trainer = MultiTurnPPOTrainer(tiny_folder, args, score=likes_short_words, callbacks=[stops])
    trainer.train()
    trainer.save_model()
    MultiTurnPPOTrainer(tiny_folder, args, score=likes_short_words, callbacks=[stops]).train(
        resume_from_checkpoint=True
    )
    unread = {name for name in FIELDS if name not in read and name not in REFUSED}
    honoured = {
        name for name in unread if name in HONOURED or name in MultiTurnPPOConfig.__annotations__
    }
    assert honoured <= READ_BY_THE_SETTINGS | ELSEWHERE, honoured - READ_BY_THE_SETTINGS - ELSEWHERE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"save_strategy": "best"},
            "save_strategy='best' .* kept by eval_rollouts in the folder `best`",
        ),
        ({"save_strategy": "epoch"}, "a training is one epoch"),
        ({"logging_strategy": "epoch"}, "a training is one epoch"),
        ({"hub_model_id": "me/mine"}, "hub_model_id='me/mine' .*hf upload"),
        ({"hub_token": "secret"}, "hf upload"),
        ({"label_smoothing_factor": 0.1}, "there are no labels"),
        ({"save_only_model": True}, "checkpoints are to go on from"),
        ({"eval_strategy": "steps"}, "without eval_rollouts"),
        ({"metric_for_best_model": "success"}, "without eval_rollouts"),
        ({"eval_steps": 7, **EVALUATED}, "eval_rollouts makes it 2"),
        ({"lr_scheduler_kwargs": "x"}, "lr_scheduler_kwargs='x' .* a table"),
        (
            {"activation_checkpointing_kwargs": {"every_n_layer": 2}},
            "Did you mean 'every_n_layers'",
        ),
        (
            {"gradient_checkpointing_kwargs": {"use_reentrant": "no"}},
            "use_reentrant='no' is not valid",
        ),
        ({"adam_epsilon": 0.0}, "adam_epsilon=0.0"),
        ({"adam_beta1": 1.0}, "adam_beta1=1.0"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0"),
        ({"max_grad_norm": -1.0}, "max_grad_norm=-1.0"),
        ({"logging_steps": 0}, "logging_steps=0"),
        ({"log_level": "loud"}, "log_level='loud'"),
    ],
)
def test_settings_of_transformers_that_mislead_are_refused_with_the_reason(changes, message):
    with pytest.raises(TrainingConfigError, match=message) as told:
        config("unused", **changes)
    assert "secret" not in str(told.value)


def test_old_names_of_activation_checkpointing_are_taken_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = config(
            "unused",
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": True},
        )
    assert made.activation_checkpointing
    assert made.activation_checkpointing_kwargs == {"use_reentrant": True}


def test_a_schedule_by_evaluations_knows_that_more_success_is_better():
    made = config("unused", lr_scheduler_type="reduce_lr_on_plateau", **EVALUATED)
    assert made.lr_scheduler_kwargs == {"mode": "max"}
    own = config(
        "unused",
        lr_scheduler_type="greedy",
        metric_for_best_model="failed",
        greater_is_better=False,
        lr_scheduler_kwargs={"patience": 3},
        **EVALUATED,
    )
    assert own.lr_scheduler_kwargs == {"mode": "min", "patience": 3}
