"""What is handed over to vLLM, without a vLLM."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model

from vagen_adapters.ppo.chat_encoder import load_policy
from vagen_adapters.ppo.vllm_weights import Weights

SPOKEN = {"r": 4, "target_modules": r".*language_model.*(q_proj|down_proj)"}


def adapted(folder, dtype, **settings):
    """The tiny policy with adapters that say something."""
    model, encoder = load_policy(folder)
    policy = get_peft_model(model.to(dtype), LoraConfig(**settings))
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, each in policy.named_parameters():
            if "lora_" in name:
                each.copy_(torch.randn(each.shape, generator=draw) * 0.2)
    return policy, encoder


def test_handing_over_leaves_frozen_weights_as_they_are(tiny_folder):
    policy, encoder = adapted(tiny_folder, torch.bfloat16, **SPOKEN)
    walk = Weights(policy, Accelerator(cpu=True), encoder)
    before = {name: each.clone() for name, each in policy.state_dict().items()}
    first = {name: each.clone() for name, each in walk.named_params()}
    for _ in range(5):
        again = dict(walk.named_params())
    assert all(torch.equal(each, before[name]) for name, each in policy.state_dict().items())
    assert again.keys() == first.keys()
    assert all(torch.equal(each, first[name]) for name, each in again.items())


def test_what_is_handed_over_is_the_model_with_its_adapters(tiny_folder):
    policy, encoder = adapted(tiny_folder, torch.float32, **SPOKEN)
    handed = {
        name: each.clone()
        for name, each in Weights(policy, Accelerator(cpu=True), encoder).named_params()
    }
    plain, _ = load_policy(tiny_folder)
    names = {name for name, _ in plain.named_parameters()}
    merged = policy.merge_and_unload()
    assert handed.keys() == names
    for name, each in merged.named_parameters():
        torch.testing.assert_close(handed[name], each.data, msg=name)
    changed = {
        name for name, each in plain.named_parameters() if not torch.equal(each, handed[name])
    }
    assert {name.split(".")[-2] for name in changed} == {"q_proj", "down_proj"}
