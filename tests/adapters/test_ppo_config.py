"""Settings that are of another type than their field, or that would do nothing: refused, with the reason and the mend."""

import contextlib
import dataclasses
import inspect

import pytest

pytest.importorskip("trl")
from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.config import MultiTurnPPOConfig

QUIET = {"output_dir": "unused", "use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no"}
OWN = sorted(inspect.get_annotations(MultiTurnPPOConfig))


def config(**changes):
    return MultiTurnPPOConfig(**{**QUIET, **changes})


def refused(message, **changes):
    with pytest.raises(TrainingConfigError, match=message):
        config(**changes)


@pytest.mark.parametrize(
    ("name", "setting", "must_be"),
    [
        ("critic_convolutions", "2", "a whole number"),
        ("critic_convolutions", 1.5, "a whole number"),
        ("critic_convolutions", True, "a whole number"),
        ("critic_reads", "yes", "true or false"),
        ("critic_gate", "no", "true or false"),
        ("whiten", None, "true or false"),
        ("keep_variance_share", "a", "a number"),
        ("entropy_coef", "a", "a number"),
        ("overlong_share", "x", "a number"),
        ("sampler_cap", True, "a number"),
        ("dual_clip", "a", "a number, or None"),
        ("target_kl", "x", "a number, or None"),
        ("window", "2", "a whole number, or None"),
        ("env_options", "x", "a table"),
        ("advantage_settings", "gamma", "a table"),
        ("prompt_pool", "abc", "a list"),
        ("vllm_weights_folder", 3, "text, or None"),
    ],
)
def test_a_setting_of_another_type_is_refused(name, setting, must_be):
    refused(f"{name}={setting!r} is not valid: it must be {must_be}$", **{name: setting})


@pytest.mark.parametrize("name", OWN)
def test_a_setting_of_any_type_is_taken_or_refused(name):
    for setting in ("text", "2", 1.5, -1, True, None, [1], {"a": 1}, float("nan"), object()):
        if name == "lr_scheduler_type" and isinstance(setting, str):
            continue  # transformers' own, with its own answer
        with contextlib.suppress(TrainingConfigError):
            config(**{name: setting})


def test_settings_that_were_taken_are_taken_again():
    """As a checkpoint's are, or one setting's change."""
    first = config(lora={"r": 4}, prompt_pool=("default",), eval_rollouts=2, dual_clip=3, clip_high=1)
    again = dataclasses.replace(first)
    assert [getattr(again, name) for name in OWN] == [getattr(first, name) for name in OWN]


GROUPS = {"advantage": "rloo", "group_size": 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advantage": "turn_gae", "advantage_settings": {"gamma": 1.5}}, "gamma is 1.5"),
        ({"advantage": "bilevel_gae", "advantage_settings": {"lam_token": -0.1}}, "lam_token is -0.1"),
        ({"rollouts": 3, "critic_warmup_rollouts": 3},
         "critic_warmup_rollouts=3 is not valid: it must be less than rollouts=3, or the policy never learns"),
        ({"critic_warmup_rollouts": 1, **GROUPS}, "critic_warmup_rollouts=1 .* 0: rloo has no critic"),
        ({"eval_forks": 4}, "eval_forks=4 .* 0 without eval_rollouts"),
        ({"forks": 4, "advantage": "token_gae"}, "forks=4 .* 0: token_gae's critic learns"),
        ({"eval_forks": 4, "eval_rollouts": 1, **GROUPS}, "eval_forks=4 .* 0: rloo has no critic"),
        ({"reasoning_credit_weight": 2.0}, "reasoning_credit_weight=2.0 .* left out where reasoning_credit isn't claim"),
        ({"first_token_value_weight": 2.0, **GROUPS}, "first_token_value_weight=2.0 .* left out: rloo has no critic"),
        ({"bootstrap_truncated": True, **GROUPS}, "bootstrap_truncated=True .* false: rloo has no critic"),
    ],
)  # fmt: skip
def test_what_would_do_nothing_is_refused(changes, message):
    refused(message, **changes)


def test_transformers_own_evaluations_fork_too():
    assert config(eval_forks=4, eval_strategy="steps", eval_steps=8).eval_forks == 4
