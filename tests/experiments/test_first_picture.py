"""FrozenLake of the experiment `memory-frozenlake` shows its board in the first turn only."""

import gymnasium as gym
import numpy as np

from vagen_experiments.experiment import load_experiment


def test_only_the_first_picture_shows_the_board():
    experiment = load_experiment("memory-frozenlake")
    env = gym.make(experiment.env, **experiment.options)
    plain = gym.make("vagen/FrozenLake-v0", **experiment.options)
    first, _ = env.reset(seed=3, options={"split": "test"})
    board, _ = plain.reset(seed=3, options={"split": "test"})
    assert np.array_equal(first["image"], board["image"])
    for _ in range(2):
        reply = plain.unwrapped.oracle_reply()
        hidden, reward, *ends, _ = env.step(reply)
        seen, of_plain, *ends_of_plain, _ = plain.step(reply)
        assert np.ptp(hidden["image"]) == 0
        assert (hidden["text"], reward, ends) == (seen["text"], of_plain, ends_of_plain)
        if any(ends):
            break
