"""How `language-model` trains adapters: replies from merged weights, and values that don't teach the policy."""

import pytest

pytest.importorskip("trl")

import torch
from ppo_training import config, lake

from vagen_adapters.ppo.chat_encoder import load_policy
from vagen_adapters.ppo.environments import EnvironmentPool
from vagen_adapters.ppo.episodes import LevelSeed
from vagen_adapters.ppo.generation import SampleSettings, TransformersSampler
from vagen_adapters.ppo.lora import with_adapters
from vagen_adapters.ppo.rollout import Rollout
from vagen_experiments.experiment import load_experiment
from vagen_experiments.merged import MergedSampler
from vagen_experiments.training import training_config

LORA = {"r": 4, "target_modules": ["q_proj", "v_proj"]}


def replies(sampler, encoder):
    tasks = config("unused", environments=lake(max_turns=2)).tasks
    sampling = SampleSettings(temperature=1.0, top_p=1.0, max_tokens=6)
    rollout = Rollout(EnvironmentPool(2, tasks), encoder, sampler, sampling)
    played = rollout.play([LevelSeed(seed, environment=tasks[0].name) for seed in range(3)], 0)
    return [turn.reply for episode in played for turn in episode.turns]


def move(policy, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in policy.named_parameters():
            if "lora_B" in name:
                weight.normal_(0, 0.3, generator=generator)


def test_a_merged_copy_replies_as_the_policy_does(tiny_folder):
    model, encoder = load_policy(tiny_folder)
    unadapted = replies(TransformersSampler(model, encoder), encoder)
    policy = with_adapters(model, LORA, seed=0)
    merged = MergedSampler(policy, encoder)
    for seed in range(2):  # it follows what is learned
        move(policy, seed)
        merged.sync()
        for own, other in zip(
            replies(TransformersSampler(policy, encoder), encoder),
            replies(merged, encoder),
            strict=True,
        ):
            assert own.ids == other.ids
            assert own.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert [each.ids for each in replies(merged, encoder)] != [each.ids for each in unadapted]


def test_only_weights_of_a_merged_copy_are_rounded(tiny_folder):
    """Positions are told by frequencies, and these aren't stored with the weights."""
    model, encoder = load_policy(tiny_folder)
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    before = dict(model.named_buffers())
    policy = with_adapters(model, LORA, seed=0)
    move(policy, 0)
    merged = MergedSampler(policy, encoder)
    merged.sync()
    assert {each.dtype for each in merged.model.parameters()} == {torch.bfloat16}
    assert before
    for name, buffer in merged.model.named_buffers():
        assert buffer.dtype == before[name].dtype
        assert torch.equal(buffer, before[name])


@pytest.mark.parametrize("name", ["language-model", "solve-frozenlake"])
def test_values_dont_teach_the_policy(name, tmp_path):
    experiment = load_experiment(name)
    for recipe in experiment.recipes:
        found = training_config(experiment, recipe, 0, tmp_path)
        assert found.shared_backbone
        assert found.vf_coef == 0
