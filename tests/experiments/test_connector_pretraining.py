"""What image tokens are taught, and training bounded by time, without a model's weights."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file

import vagen_envs  # noqa: F401
from vagen_experiments.connector_pretraining import fit, told


def test_every_cell_tells_what_is_around_the_player():
    env = gym.make("vagen/FrozenLake-v0")
    _, info = env.reset(seed=3)
    known = told(info["state"])
    (player,) = [thing for thing in known if thing.name == "player"]
    elsewhere = [thing for thing in known if thing.name == "elsewhere"]
    assert len({thing.at for thing in elsewhere}) == 16
    assert all(thing.relations == player.relations for thing in elsewhere)


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
