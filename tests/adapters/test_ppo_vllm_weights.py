"""What is handed over to vLLM, without a vLLM."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model

from vagen_adapters.ppo import vllm_server
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


def test_weights_are_walked_over_once_a_sync(tiny_folder, monkeypatch):
    """But for the first, in which the server learns what comes."""
    sent, walks = [], []

    class Client:
        base_url = "http://server"

        def __init__(self, **_):
            answers = SimpleNamespace(status_code=200, headers={})
            self.session = SimpleNamespace(post=lambda *_, **__: answers)

        def init_communicator(self, device):
            pass

        def update_named_params(self, layout, named_params):
            arrived = [(name, list(each.shape)) for name, each in named_params]
            assert arrived == [(name, shape) for name, _, shape in layout]
            sent.append(len(arrived))

    def walk(self):
        walks.append(self)
        return named_params(self)

    named_params = Weights.named_params
    monkeypatch.setattr(vllm_server, "VLLMClient", Client)
    monkeypatch.setattr(Weights, "named_params", walk)
    model, encoder = load_policy(tiny_folder)
    on_gpu = SimpleNamespace(
        device=SimpleNamespace(type="cuda"),
        is_main_process=True,
        wait_for_everyone=lambda: None,
        state=Accelerator(cpu=True).state,
    )
    sampler = vllm_server.VLLMServerSampler(model, encoder, on_gpu)
    for _ in range(3):
        sampler.sync()
    assert sent == [len(list(model.named_parameters()))] * 3
    assert len(walks) == 4
