"""What image tokens are taught, and how a training goes on, without a model's weights."""

from __future__ import annotations

import json
from types import SimpleNamespace

import gymnasium as gym
import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file

import vagen_envs  # noqa: F401
from vagen_experiments.connector_pretraining import fit, image_tokens, told


def test_every_cell_tells_what_is_around_the_player():
    env = gym.make("vagen/FrozenLake-v0")
    _, info = env.reset(seed=3)
    known = told(info["state"])
    (player,) = [thing for thing in known if thing.name == "player"]
    elsewhere = [thing for thing in known if thing.name == "elsewhere"]
    assert len({thing.at for thing in elsewhere}) == 16
    assert all(thing.relations == player.relations for thing in elsewhere)


@pytest.mark.parametrize("form", [list, torch.stack], ids=["transformers 5.23", "5.19"])
def test_tokens_of_pictures_are_one_tensor(form):
    pictures = [torch.full((16, 8), float(i)) for i in range(3)]
    model = SimpleNamespace(
        get_image_features=lambda **_: SimpleNamespace(pooler_output=form(pictures))
    )
    features = SimpleNamespace(features_of=lambda shown: {"pixel_values": shown})
    encoder = SimpleNamespace(pictures=features)
    assert torch.equal(image_tokens(model, encoder, [0, 1, 2]), torch.stack(pictures))


def test_a_training_has_its_updates_and_leaves_weights_and_a_log(tmp_path):
    weight = torch.nn.Parameter(torch.ones(3))
    losses = []

    def step():
        loss = weight.square().sum()
        losses.append(float(loss.detach()))
        return loss, 0.5

    fit([({"weight": weight}, 0.1)], 30, step, tmp_path / "stage.safetensors")
    assert len(losses) == 30
    assert losses[-1] < losses[0]
    assert torch.equal(load_file(tmp_path / "stage.safetensors")["weight"], weight)
    entries = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [entry["update"] for entry in entries] == [25, 30]
    assert entries[-1]["stage"] == "stage"
    assert entries[-1]["figure"] == 0.5


def interrupted(file):
    """A training of 40 updates that ends in its 28th."""
    weight, steps = torch.nn.Parameter(torch.ones(3)), []

    def step():
        steps.append(1)
        if len(steps) == 28:
            raise RuntimeError("interrupted")
        return weight.square().sum(), 0.5

    with pytest.raises(RuntimeError, match="interrupted"):
        fit([({"weight": weight}, 0.1)], 40, step, file)


def test_an_interrupted_training_goes_on(tmp_path):
    """It takes the weights, and makes the updates that are left."""
    file = tmp_path / "stage.safetensors"
    interrupted(file)
    saved = float(load_file(f"{file}.partial")["weight"].min())
    weight, steps = torch.nn.Parameter(torch.ones(3)), []

    def step():
        steps.append(float(weight.detach().min()))
        return weight.square().sum(), 0.5

    fit([({"weight": weight}, 0.1)], 40, step, file)
    assert steps[0] == saved
    assert len(steps) == 15


def test_weights_of_a_longer_training_are_not_taken(tmp_path):
    """With fewer updates than those made before, none would be left, and no weights written."""
    file = tmp_path / "stage.safetensors"
    interrupted(file)
    weight = torch.nn.Parameter(torch.ones(3))
    fit([({"weight": weight}, 0.1)], 10, lambda: (weight.square().sum(), 0.5), file)
    assert torch.equal(load_file(file)["weight"], weight)
    assert float(weight.detach().min()) > 0.5  # ten updates from 1, not from where 25 had led
