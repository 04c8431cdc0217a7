"""Settings that are of another type than their field, or that would do nothing: refused, with the reason and the fix."""

import contextlib
import dataclasses
import inspect

import pytest
from ppo_training import LAKE, config

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.config import MultiTurnPPOConfig

OWN = sorted(inspect.get_annotations(MultiTurnPPOConfig))


def refused(message, **changes):
    with pytest.raises(TrainingConfigError, match=message):
        config("unused", **changes)


@pytest.mark.parametrize(
    ("name", "setting", "must_be"),
    [
        ("continuations", 1.5, "a valid integer"),
        ("continuations", True, "a valid integer"),
        ("packing", "yes", "a valid boolean"),
        ("entropy_coef", "a", "a valid number"),
        ("context", 2, "a valid string"),
        ("environments", "x", "a valid list"),
        ("advantage_settings", "gamma", "a valid dictionary"),
    ],
)
def test_a_setting_of_another_type_is_refused(name, setting, must_be):
    refused(f"{name}={setting!r} is not valid: it must be {must_be}$", **{name: setting})


@pytest.mark.parametrize("name", OWN)
def test_a_setting_of_any_type_is_taken_or_refused(name):
    for setting in ("text", "2", 1.5, -1, True, None, [1], {"a": 1}, float("nan"), object()):
        with contextlib.suppress(TrainingConfigError):
            config("unused", **{name: setting})


def test_settings_that_were_taken_are_taken_again():
    """As a checkpoint's are, or one setting's change."""
    first = config(
        "unused",
        lora={"r": 4},
        environments=[{"id": "vagen/FrozenLake-v0", "weight": 2}],
        eval_rollouts=2,
        dual_clip=3,
    )
    again = dataclasses.replace(first)
    assert [getattr(again, name) for name in OWN] == [getattr(first, name) for name in OWN]


RLOO = {"advantage": "rloo", "group_size": 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advantage": "bilevel_gea"}, "Did you mean"),
        (
            {"advantage_settings": {"gamma_trun": 1}},
            "no entry 'gamma_trun'.* Did you mean 'gamma_turn'",
        ),
        ({"advantage": "turn_gae", "advantage_settings": {"gamma": 1.5}}, "gamma=1.5 is not valid"),
        ({"advantage": "gigpo"}, "group_size=1"),
        ({"dynamic_sampling": 2}, "group_size=1"),
        ({"advantage": "vine"}, "continuations=0"),
        ({"continuations": 2, **RLOO}, "continuations=2 .* 0 for other estimators"),
        (
            {"advantage_settings": {"gamma_token": 0.9}},
            "gamma_token=0.9 .* longer replies are discounted more",
        ),
        ({"context": "current-picture"}, "all, last:N or summary:K"),
        ({"context": "summary:2,reasoning=keep"}, "reasoning= with max_thinking_tokens only"),
        (
            {"context": "summary:2", "advantage": "vine", "continuations": 1},
            "without summaries for vine",
        ),
        ({"context": "summary:2:4096"}, "summaries of fewer than max_length"),
        ({"max_staleness": 1}, "0 without sampler_correction"),
        ({"max_staleness": 9, "sampler_correction": "token"}, "max_staleness=.* is not valid"),
        (
            {"max_staleness": 1, "sampler_correction": "token", "generation": "vllm"},
            "0 without generation=vllm-server",
        ),
        ({"dual_clip": 0.5}, "dual_clip=0.5"),
        (
            {"rollouts": 3, "critic_warmup_rollouts": 3},
            "must be less than rollouts=3, or the policy never learns",
        ),
        (
            {"critic_warmup_rollouts": 1, **RLOO},
            "critic_warmup_rollouts=1 .* 0: rloo has no critic",
        ),
        ({"episodes_per_rollout": 9, "group_size": 2}, "a multiple of group_size=2"),
        ({"minibatches": 9}, "at most episodes_per_rollout=8"),
        ({"save_strategy": "steps", "save_steps": 3}, "a multiple of the 2 updates"),
        ({"max_steps": 7}, "max_steps=7 is not valid: it must be left out: 1 rollouts make it 2"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"max_tokens": 4096}, "max_tokens=4096 .* less than max_length=4096"),
        ({"eval_rollouts": -1}, "eval_rollouts=-1"),
        ({"load_best_model_at_end": True}, "eval_rollouts keeps the best"),
        ({"torch_compile_backend": "inductor"}, "torch_compile_backend=.* compiled anew"),
        ({"torch_compile_mode": "default"}, "torch_compile_mode=.* compiled anew"),
        (
            {
                "advantage": "token_gae",
                "advantage_settings": {"mask_observations": False},
                "ratio_level": "turn",
            },
            "observations are in no turn",
        ),
        ({"environments": []}, "a list of at least one"),
        ({"vllm_options": {"url": "x"}}, "left out without generation=vllm"),
        (
            {"generation": "vllm", "vllm_options": {"gpu_memory_utilization": "much"}},
            "vllm_options: gpu_memory_utilization='much' is not valid",
        ),
        (
            {"generation": "vllm-server", "vllm_options": {"ulr": "x"}},
            "no entry 'ulr'.* Did you mean 'url'",
        ),
        (
            {
                "environments": [{"id": LAKE, "difficulties": [0, 1, 2]}],
                "eval_rollouts": 1,
                "eval_episodes": 2,
            },
            "eval_episodes=2 .* at least 3",
        ),
        ({"environments": [{"id": LAKE}, {"id": LAKE}]}, f"two are called {LAKE}"),
        (
            {"environments": [{"id": LAKE, "optoins": {}}]},
            "no entry 'optoins'.* Did you mean 'options'",
        ),
        ({"environments": [{"id": LAKE, "weight": float("nan")}]}, "weight=nan is not valid"),
        ({"environments": [{"id": LAKE, "difficulties": [0, 0]}]}, "a list of different entries"),
        (
            {"environments": [{"id": LAKE, "difficulties": [0], "options": {"difficulty": 1}}]},
            "left out beside difficulty",
        ),
        ({"environments": [{"options": {}}]}, "a table with an id"),
        ({"environments": [{"id": LAKE, "difficulties": []}]}, r"difficulties=\[\] is not valid"),
        ({"lora": {"lora_dropout": float("nan")}}, "lora_dropout=nan is not valid"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_the_reason(changes, message):
    refused(message, **changes)
