"""Settings that are of another type than their field, or that would do nothing: refused, with the reason and the fix."""

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
        ("continuations", "2", "a valid integer"),
        ("continuations", 1.5, "a valid integer"),
        ("continuations", True, "a valid integer"),
        ("packing", "yes", "a valid boolean"),
        ("freeze_vision", None, "a valid boolean"),
        ("entropy_coef", "a", "a valid number"),
        ("overlong_share", "x", "a valid number"),
        ("dual_clip", "a", "a valid number"),
        ("context", 2, "a valid string"),
        ("environments", "x", "a valid list"),
        ("advantage_settings", "gamma", "a valid dictionary"),
        ("attn_implementation", 3, "a valid string"),
    ],
)
def test_a_setting_of_another_type_is_refused(name, setting, must_be):
    refused(f"{name}={setting!r} is not valid: it must be {must_be}$", **{name: setting})


@pytest.mark.parametrize("name", OWN)
def test_a_setting_of_any_type_is_taken_or_refused(name):
    for setting in ("text", "2", 1.5, -1, True, None, [1], {"a": 1}, float("nan"), object()):
        with contextlib.suppress(TrainingConfigError):
            config(**{name: setting})


def test_settings_that_were_taken_are_taken_again():
    """As a checkpoint's are, or one setting's change."""
    first = config(
        lora={"r": 4}, environments=[{"id": "vagen/FrozenLake-v0", "weight": 2}], eval_rollouts=2, dual_clip=3
    )
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
        ({"continuations": 4, "advantage": "token_gae"}, "continuations=4 .* 0 for other estimators"),
    ],
)  # fmt: skip
def test_what_would_do_nothing_is_refused(changes, message):
    refused(message, **changes)


def test_settings_are_few():
    """Those that a paper, a recipe or a user's hardware needs."""
    assert len(OWN) <= 45
