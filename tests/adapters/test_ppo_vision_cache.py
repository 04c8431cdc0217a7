"""Frozen towers look at each picture once, and what is learned stays the same."""

import families
import numpy as np
import pytest
import torch
from ppo_training import config, lake, same, trained, weights

from vagen_adapters.ppo import family_checks, vision_cache
from vagen_adapters.ppo import trainer as trainers
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.generation import model_inputs
from vagen_adapters.ppo.token_sequences import lay_out
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_envs import RewardTerm

PLENTY = 1 << 30


def prompt(encoder, *numbers):
    """A conversation of one observation, its picture grey and of a size of its own."""
    shown = [
        encoder.show(
            "Play.",
            {
                "text": "See <image>.",
                "image": np.full((64, 64 + 32 * (each % 2), 3), 40 * each + 9, np.uint8),
            },
        )
        for each in numbers
    ]
    return [lay_out((), (), each).prompt for each in shown]


# Of each way in which families give features: lists by picture, those by layer (deepstack), tensors by tile and by
# picture, tiles with a row's end.
@pytest.mark.parametrize(
    "name", ["qwen2_5_vl", "qwen3_vl", "llava", "llava_onevision", "smolvlm2", "gemma3"]
)
@torch.no_grad()
def test_a_model_says_the_same_of_pictures_that_its_tower_has_seen(name, tmp_path):
    folder = families.save(name, tmp_path)
    model, encoder = ActorCritic.from_pretrained(folder).eval(), ChatEncoder.from_pretrained(folder)
    model.freeze_vision()
    model.add_reference()
    sight = model.vision_cache = family_checks.vision_cache_for(model, encoder, PLENTY)
    assert sight is not None
    start = sight.looks
    first, again = prompt(encoder, 1, 2, 3), prompt(encoder, 3, 1, 4, 2, 1)
    for prompts, new in ((first, 3), (again, 1), (again[::-1], 0)):
        pixels = model_inputs(prompts, encoder, "cpu")
        numbers = model_inputs(prompts, encoder, "cpu", vision_cache=sight)
        assert "pixel_values" not in numbers
        before = sight.looks
        for each in (model.policy, model.critic, model.reference):  # their towers are equal
            torch.testing.assert_close(
                model.hidden(each, numbers), model.hidden(each, pixels), rtol=0, atol=5e-6
            )
        assert sight.looks - before == new
    assert sight.looks - start == 4
    states = model.hidden(model.policy, model_inputs(first, encoder, "cpu", vision_cache=sight))
    sight.kept.clear()
    assert sight.kept.held == 0
    anew = model_inputs(first, encoder, "cpu", vision_cache=sight)
    assert torch.equal(
        states, model.hidden(model.policy, anew)
    )  # what is kept is what was said, bit by bit


@torch.no_grad()
def test_memory_is_bounded_and_what_was_used_last_stays(tiny_folder):
    model, encoder = (
        ActorCritic.from_pretrained(tiny_folder, critic="none").eval(),
        ChatEncoder.from_pretrained(tiny_folder),
    )
    model.freeze_vision()
    one = family_checks.vision_cache_for(model, encoder, PLENTY)
    single = prompt(encoder, 2)
    one.given(model.policy, model_inputs(single, encoder, "cpu", vision_cache=one))
    small = vision_cache.VisionFeatureCache([model.policy], encoder, 2 * one.kept.held)
    kept = []
    for numbers in ((0, 2), (4,), (2,), (0,), (2, 0)):
        prompts = prompt(encoder, *numbers)
        before = small.looks
        model.vision_cache = small
        states = model.hidden(
            model.policy, model_inputs(prompts, encoder, "cpu", vision_cache=small)
        )
        model.vision_cache = None
        torch.testing.assert_close(
            states,
            model.hidden(model.policy, model_inputs(prompts, encoder, "cpu")),
            rtol=0,
            atol=5e-6,
        )
        assert 0 < small.kept.held <= small.kept.most
        kept.append(small.looks - before)
    assert kept == [2, 1, 0, 1, 0]


CHECKED = 2
"""Pictures that the self-check of a model's family shows to the tower."""


RUN = {
    "environments": lake(max_turns=3),
    "episodes_per_rollout": 6,
    "epochs_per_rollout": 2,
    "critic_learning_rate": 1e-3,
    "freeze_vision": True,
    "kl_loss_coef": 0.05,
}


def played(folder, out, **changes):
    """A trained trainer, and how often its towers have looked."""
    score = lambda turn: [RewardTerm("later", float(turn.index))]  # noqa: E731
    trainer = trained(folder, out, score=score, **RUN | changes)
    cache = trainer.model.vision_cache
    return trainer, None if cache is None else cache.looks


def pictures(trainer):
    scored = trainer._experience.sequences.rows
    shown = [each for sequence in scored for each in sequence.prompt.shown]
    return len(shown), len({each.number for each in shown})


def test_a_frozen_tower_looks_once_in_a_run_and_learns_the_same(tiny_folder, tmp_path, monkeypatch):
    with_sight, reads = played(tiny_folder, tmp_path / "one", rollouts=2)
    monkeypatch.setattr(trainers, "VISION_CACHE", 0)
    without, plain = played(tiny_folder, tmp_path / "other", rollouts=2)
    shown, distinct = pictures(without)
    assert distinct < shown
    assert plain is None
    assert reads <= 2 * distinct + CHECKED
    assert 0 < with_sight.model.vision_cache.kept.held < 2**30
    same(weights(with_sight), weights(without), rtol=0, atol=2e-5)


def test_a_critic_whose_tower_saw_otherwise_looks_for_itself(tiny_folder, tmp_path):
    trainer = MultiTurnPPOTrainer(tiny_folder, config(tmp_path, **RUN))
    with torch.no_grad():
        vision_cache.vision_parameters(trainer.model.critic)[0].add_(0.1)
    trainer.model.save_pretrained(tmp_path / "model")
    trainer.encoder.save_pretrained(tmp_path / "model")
    _, reads = played(str(tmp_path / "model"), tmp_path / "run")
    _, of_one_tower = played(tiny_folder, tmp_path / "one")
    assert reads == 2 * of_one_tower


@pytest.mark.parametrize(
    "changes",
    [
        {"freeze_vision": False},
        {"lora": {"r": 2, "target_modules": "all-linear"}, "freeze_vision": False},
    ],
    ids=["trained", "adapters"],
)
def test_a_tower_that_is_trained_looks_each_time(changes, tiny_folder, tmp_path):
    trainer, _ = played(tiny_folder, tmp_path, **changes)
    assert trainer.model.vision_cache is None


def test_what_was_kept_is_forgotten_when_weights_are_read(tiny_folder, tmp_path):
    trainer, _ = played(tiny_folder, tmp_path)
    trainer.model.save_pretrained(tmp_path / "saved")
    assert trainer.model.vision_cache.kept.held > 0
    trainer.model.load_trained(tmp_path / "saved")
    assert trainer.model.vision_cache.kept.held == 0


def test_a_model_that_takes_what_was_said_for_something_else_is_found_out(tiny_folder, monkeypatch):
    model, encoder = (
        ActorCritic.from_pretrained(tiny_folder, critic="none"),
        ChatEncoder.from_pretrained(tiny_folder),
    )
    assert family_checks.vision_cache_for(model, encoder, PLENTY) is None  # its tower is trained
    model.freeze_vision()
    assert family_checks.vision_cache_for(model, encoder, PLENTY) is not None
    joined = vision_cache._joined
    monkeypatch.setattr(vision_cache, "_joined", lambda name, parts: joined(name, parts[::-1]))
    assert family_checks.vision_cache_for(model, encoder, PLENTY) is None
    assert model.vision_cache is None
