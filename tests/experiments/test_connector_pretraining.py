"""What image tokens are taught, and training bounded by time, without a model's weights."""

from __future__ import annotations

import json
from types import SimpleNamespace

import gymnasium as gym
import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file, save_file

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


def test_training_ends_with_its_time_and_leaves_weights_and_a_log(tmp_path):
    weight = torch.nn.Parameter(torch.ones(3))
    fit(
        [({"weight": weight}, 0.1)],
        0.01,
        lambda: (weight.square().sum(), 0.5),
        tmp_path / "stage.safetensors",
    )
    assert torch.equal(load_file(tmp_path / "stage.safetensors")["weight"], weight)
    assert weight.square().sum() < 3
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert last["stage"] == "stage"
    assert last["figure"] == 0.5


def test_an_interrupted_training_goes_on(tmp_path):
    """It takes the weights and the minutes that were spent, whatever it is given."""
    file = tmp_path / "stage.safetensors"
    save_file({"weight": torch.full((3,), 5.0)}, f"{file}.partial", {"minutes": "10"})
    weight = torch.nn.Parameter(torch.ones(3))
    fit([({"weight": weight}, 0.1)], 10, lambda: (weight.square().sum(), 0.5), file)
    assert weight.min() > 4
