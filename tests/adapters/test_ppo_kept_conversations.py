"""Conversations whose keys and values are kept from turn to turn: the same replies, in bounded memory."""

import dataclasses

import families
import pytest
import torch
from ppo_training import config, history, lake, same, trained, weights

from vagen_adapters.ppo import family_checks, kept_conversations, layout_check
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.environments import EnvironmentPool
from vagen_adapters.ppo.episodes import LevelSeed, PlayedTurn
from vagen_adapters.ppo.generation import SampleSettings, TransformersSampler
from vagen_adapters.ppo.kept_conversations import KeepingSampler
from vagen_adapters.ppo.rollout import Rollout
from vagen_adapters.ppo.token_sequences import lay_out

SAMPLING = SampleSettings(temperature=1.0, top_p=1.0, max_tokens=6)
# The others have layers that attend to a window, or carry a state on.
KEEPING = {
    "qwen2_5_vl",
    "qwen3_vl",
    "qwen3_vl_moe",
    "internvl3",
    "smolvlm2",
    "llava_onevision",
    "glm4v",
    "hyperclovax_vision_v2",
    "llava",
}


class Counts(KeepingSampler):
    """Counts the tokens that are read before replies."""

    read = 0

    def _read(self, prompts, known):
        for prompt, kept in zip(prompts, known, strict=True):
            self.read += len(prompt.ids) - len(kept.ids)
        return super()._read(prompts, known)


def play(sampler, encoder, envs, **options):
    tasks = config("unused", environments=lake(max_turns=4, is_slippery=False)).tasks
    sampling = dataclasses.replace(SAMPLING, **options)
    rollout = Rollout(EnvironmentPool(envs, tasks), encoder, sampler, sampling)
    return rollout.play([LevelSeed(seed, environment=tasks[0].name) for seed in range(3)], 0)


@pytest.mark.parametrize("thinking", [0, 4])
@pytest.mark.parametrize(("envs", "room"), [(1, 1), (2, 64 * 4096), (3, 1000)])
def test_replies_are_those_of_conversations_that_are_read_anew(
    envs, room, thinking, tiny_folder, loaded
):
    model, _ = loaded
    encoder = ChatEncoder.from_pretrained(tiny_folder, thinking=thinking > 0)
    keeping = Counts(model, encoder, room)
    plain = play(TransformersSampler(model, encoder), encoder, envs, max_thinking_tokens=thinking)
    kept = play(keeping, encoder, envs, max_thinking_tokens=thinking)
    for one, other in zip(plain, kept, strict=True):
        assert len(one.turns) > 1
        for turn, again in zip(one.turns, other.turns, strict=True):
            assert turn.reply.ids == again.reply.ids
            assert turn.reply.logprobs == pytest.approx(again.reply.logprobs, abs=1e-5)
    if room > 5000:  # each token is read once, and thoughts that aren't shown again leave the rest
        whole = sum(len(lay_out(each.turns, (), None).prompt.ids) for each in kept)
        assert keeping.read <= whole
    assert keeping.kept.held <= room


def test_memory_is_bounded_and_given_up(tiny_folder, loaded):
    model, encoder = loaded
    sampler = KeepingSampler(model, encoder, room=500)
    play(sampler, encoder, 3)
    assert 0 < sampler.kept.held <= 500
    sampler.rest()
    assert sampler.kept.held == 0
    play(sampler, encoder, 3)
    sampler.sync()
    assert sampler.kept.held == 0


def test_only_what_was_said_and_seen_is_gone_on_with(loaded):
    model, encoder = loaded
    shown = [layout_check.shown_example(encoder, number) for number in range(3)]
    first = lay_out((), (), shown[0]).prompt
    (reply,) = KeepingSampler(model, encoder).sample([first], SAMPLING, [0])
    rewritten = dataclasses.replace(reply, ids=(reply.ids[0] + 1, *reply.ids[1:]))
    for said, reads_all in ((reply, False), (rewritten, False), (reply, True)):
        sampler = Counts(model, encoder)
        sampler.sample([first], SAMPLING, [0])
        if reads_all:
            sampler.sync()
        before = sampler.read
        prompt = lay_out([PlayedTurn(shown[0], said, None, ())], (), shown[1]).prompt
        (answer,) = sampler.sample([prompt], SAMPLING, [1])
        assert (sampler.read - before == len(prompt.ids)) is reads_all
        assert (
            answer.ids == TransformersSampler(model, encoder).sample([prompt], SAMPLING, [1])[0].ids
        )


def test_prompts_of_unlike_lengths_are_read_apart():
    groups = list(kept_conversations._groups([40, 2000, 44, 41, 1900, 3]))
    assert sorted(row for group in groups for row in group) == list(range(6))
    assert [1, 4] in [sorted(group) for group in groups]
    assert [0, 2, 3] in [sorted(group) for group in groups]


@pytest.mark.parametrize("name", families.FAMILIES)
def test_families_whose_layers_see_everything_keep_conversations(name, tmp_path, monkeypatch):
    folder = families.save(name, tmp_path)
    model = ActorCritic.from_pretrained(folder, critic="none")
    encoder = ChatEncoder.from_pretrained(folder)
    assert family_checks.keeps_conversations(model, encoder) is (name in KEEPING)
    if name in KEEPING:  # a model that is told wrong places is found out
        places = KeepingSampler._places
        monkeypatch.setattr(
            KeepingSampler, "_places", lambda self, *given: places(self, *given) // 2
        )
        assert family_checks.keeps_conversations(model, encoder) is False


def test_a_training_ends_in_the_same_weights(tiny_folder, tmp_path, monkeypatch):
    run = {"environments": lake(max_turns=4), "rollouts": 2, "freeze_vision": True}
    keeps = trained(tiny_folder, tmp_path / "keeps", **run)
    assert type(keeps.worker.rollout.sampler) is KeepingSampler
    assert keeps.worker.rollout.sampler.kept.held == 0  # while updates are made
    monkeypatch.setattr(kept_conversations, "can_keep", lambda _: False)
    monkeypatch.setattr(family_checks, "can_keep", lambda _: False)
    anew = trained(tiny_folder, tmp_path / "anew", **run)
    assert type(anew.worker.rollout.sampler) is TransformersSampler
    same(weights(keeps), weights(anew), rtol=1e-4, atol=1e-5)
    assert max(history(keeps, "policy/sampler_gap")) < 1e-5
    assert torch.is_grad_enabled()
