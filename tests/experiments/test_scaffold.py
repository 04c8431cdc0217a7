"""The experiments `scaffold-…`: what views show, and shares of variance."""

import gymnasium as gym
import numpy as np
import pytest

from measure_scaffold import ESTIMATORS, measured
from vagen_experiments.experiment import load_experiment
from vagen_experiments.training import options_of
from vagen_experiments.variance import shares, sums_of_squares
from vagen_experiments.views import VIEWS

# Two levels by two by two seeds, by hand: cells 2, 4, 6, 12; rows 3 and 9, columns 4 and 8, mean 6.
BY_HAND = np.array([[[1.0, 3.0], [3.0, 5.0]], [[5.0, 7.0], [10.0, 14.0]]])


def experiment_of(grid):
    return load_experiment(f"scaffold-{grid}")


@pytest.mark.parametrize("grid", ["frozenlake", "sokoban"])
def test_views_differ_in_what_they_tell_and_in_nothing_else(grid):
    experiment = experiment_of(grid)
    envs = {
        view: gym.make(experiment.env, **experiment.options | {"shown": view}) for view in VIEWS
    }
    seen = {view: env.reset(seed=3, options={"split": "test"})[0] for view, env in envs.items()}
    reply = envs["both"].unwrapped.oracle_reply()
    for turn in range(2):
        if turn:
            seen = {view: env.step(reply)[0] for view, env in envs.items()}
        caption = envs["both"].unwrapped.true_state.describe("natural_language")
        assert caption in seen["both"]["text"]
        assert seen["caption"]["text"] == seen["both"]["text"]
        assert seen["picture"]["text"] == seen["both"]["text"].replace("\n" + caption, "")
        assert np.array_equal(seen["picture"]["image"], seen["both"]["image"])
        assert np.ptp(seen["both"]["image"]) > 0
        assert np.ptp(seen["caption"]["image"]) == 0
        assert seen["caption"]["image"].shape == seen["both"]["image"].shape


def test_a_mixed_view_gives_each_third_of_the_levels_one_view_in_every_turn():
    experiment = experiment_of("frozenlake")
    env = gym.make(experiment.env, **experiment.options)
    for seed, view in enumerate(VIEWS):
        plain = gym.make(experiment.env, **experiment.options | {"shown": view})
        reply = "<think></think><answer>Left</answer>"
        mixed = (env.reset(seed=seed)[0], env.step(reply)[0])
        alone = (plain.reset(seed=seed)[0], plain.step(reply)[0])
        for found, expected in zip(mixed, alone, strict=True):
            assert found["text"] == expected["text"]
            assert np.array_equal(found["image"], expected["image"])
    with pytest.raises(ValueError, match="seeds"):
        env.reset()


def test_the_grid_of_trainings_is_whole():
    experiment = experiment_of("sokoban")
    grid = [
        (options_of(experiment, name)["shown"], experiment.variant(name).recipe)
        for name in experiment.recipes
    ]
    assert len(set(grid)) == len(grid) == 12
    for name, (shown, _) in zip(experiment.recipes, grid, strict=True):
        assert name.startswith(shown)


def test_sums_of_squares_by_hand():
    assert sums_of_squares(BY_HAND).tolist() == [72.0, 32.0, 8.0, 14.0]


def test_shares_by_hand():
    found = shares(BY_HAND)
    assert [part.eta for part in found.values()] == pytest.approx(
        [72 / 126, 32 / 126, 8 / 126, 14 / 126]
    )
    noise = 14 / 4
    omega = [(squares - noise) / (126 + noise) for squares in (72, 32, 8)]
    assert [part.omega for part in found.values()] == pytest.approx([*omega, 1 - sum(omega)])
    for part in found.values():
        assert 0 <= part.low <= part.omega <= part.high <= 1


def test_intervals_hold_the_true_shares():
    stream = np.random.default_rng(1)
    effects = np.array([-1.0, 0.0, 1.0])[:, None, None] * np.ones((3, 4, 1))
    true = (2 / 3) / (2 / 3 + 1)
    held = 0
    for _ in range(20):
        first = shares(effects + stream.normal(size=(3, 4, 3)))["first"]
        held += first.low <= true <= first.high
    assert held >= 16


def test_only_estimators_that_every_view_has_in_every_seed_are_measured():
    runs = [
        {"recipe": f"{view}-{estimator}", "seed": seed, "sampled": {"success": seed + place / 10}}
        for seed in (0, 1)
        for view in VIEWS
        for place, estimator in enumerate(ESTIMATORS)
        if (view, estimator, seed) != ("both", "grpo", 1)
    ]
    start = {f"{view}-turn": {"success": 0.1} for view in VIEWS}
    found = measured({"runs": runs, "checkpoint": {"sampled_as": start}})
    assert found.estimators == ("turn GAE", "Bi-Level GAE", "RLOO by turn")
    assert found.success[1].tolist() == [[0.0, 1.0], [0.1, 1.1], [0.3, 1.3]]
    assert found.start.tolist() == [0.1] * 3
