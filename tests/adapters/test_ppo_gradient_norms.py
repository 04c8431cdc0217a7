"""Gradient norms of vision tower and language model by layer, as a training logs them."""

import math

import pytest
import torch
from ppo_training import history, trained

from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.gradient_norms import gradient_norms


def test_norms_of_layers_and_towers_are_those_of_their_parameters(tiny_folder):
    policy = ActorCritic.from_pretrained(tiny_folder, critic="none").policy
    generator = torch.Generator().manual_seed(0)
    for parameter in policy.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    found = gradient_norms(policy)
    assert {"gradient/vision", "gradient/language", "gradient/vision/0"} <= found.keys()
    assert {"gradient/language/0", "gradient/language/1"} <= found.keys()
    whole = math.hypot(*(float(each.grad.norm()) for each in policy.parameters()))
    assert math.hypot(found["gradient/vision"], found["gradient/language"]) == pytest.approx(whole)
    layer = policy.model.language_model.layers[1]
    expected = math.hypot(*(float(each.grad.norm()) for each in layer.parameters()))
    assert found["gradient/language/1"] == pytest.approx(expected)
    for parameter in policy.model.visual.parameters():
        parameter.grad = None
    assert not [name for name in gradient_norms(policy) if "vision" in name]


def test_a_training_logs_them_where_it_is_asked_to(tiny_folder, tmp_path):
    trainer = trained(tiny_folder, tmp_path, log_gradient_norms=True)
    assert len(history(trainer, "gradient/vision")) == 2
    assert all(norm > 0 for norm in history(trainer, "gradient/language/0"))
    assert not history(trained(tiny_folder, tmp_path), "gradient/language/0")
