"""Several environments in one training: shares, metrics, evaluations, reward scales, resuming; the difficulty sampler."""

import collections
import json

import ppo_training
import pytest
from copy_sampler import CopySampler
from ppo_training import LAKE, OPTIONS, same, weights

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.environments import EnvironmentPool, TrainingEnvironment
from vagen_adapters.ppo.episodes import groups_of
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_envs import RewardTerm

SOKOBAN = "vagen/Sokoban-v0"
BOTH = [
    {"id": SOKOBAN, "options": {**OPTIONS, "max_turns": 3}, "weight": 2, "difficulties": [0, 1]},
    {"id": LAKE, "name": "lake", "options": OPTIONS, "reward_scale": 0.5},
]


def trained(model, folder, **changes):
    run = {
        "environments": BOTH,
        "num_envs": 4,
        "rollouts": 2,
        "episodes_per_rollout": 12,
        "group_size": 2,
        "advantage": "rloo",
        "logging_steps": 2,
        "make_sampler": CopySampler if "max_staleness" in changes else None,
    }
    return ppo_training.trained(model, folder, **run | changes)


def test_groups_are_of_one_environment_and_shares_are_those_of_the_weights(
    tiny_folder, tmp_path, monkeypatch
):
    kept, collect = [], MultiTurnPPOTrainer.collect_experience
    monkeypatch.setattr(
        MultiTurnPPOTrainer, "collect_experience", lambda *_: kept.append(collect(*_)) or kept[-1]
    )
    trainer = trained(tiny_folder, tmp_path, eval_rollouts=1, eval_episodes=3)
    played = collections.Counter()
    for experience in kept:
        groups = groups_of(dict.fromkeys(experience.sequences.episodes))
        assert len(groups) == 6
        for group in groups:
            (name,) = {episode.level.environment for episode in group}
            env_id = LAKE if name == "lake" else SOKOBAN
            assert {turn.turn.env_id for episode in group for turn in episode.turns} == {env_id}
            played[name] += 1
    assert sorted(played.values()) == [4, 4, 4]
    first = trainer.state.log_history[0]
    names = {f"{SOKOBAN}:0", f"{SOKOBAN}:1", "lake"}
    measured = [name for name in first if name.endswith("/success") and "source" in name]
    assert {name.split("/", 1)[1].rsplit("/", 1)[0] for name in measured} == names
    evaluated = next(entry for entry in trainer.state.log_history if "eval_success" in entry)
    curve = json.loads((tmp_path / "evaluations.json").read_text())[0]
    assert curve.items() <= evaluated.items()
    assert {name for name in curve if name.startswith("eval_success/")} == {
        f"eval_success/{each}" for each in names
    }
    assert "rollout/equal_groups" in first


def test_an_environment_without_prompts_is_named():
    with pytest.raises(TrainingConfigError, match="CartPole-v1 shows no prompts"):
        EnvironmentPool(1, TrainingEnvironment.read("CartPole-v1").tasks())


def test_rewards_are_scaled_by_environment_and_scored_by_task(tiny_folder, tmp_path):
    """Every reply earns 1 beside the environment's own rewards, which are not paid for format here."""
    once = {
        "rollouts": 1,
        "minibatches": 1,
        "advantage": "turn_gae",
        "advantage_settings": {"gamma": 1.0, "lam": 1.0},
        "kl_coef": 0.0,
    }
    scores = {name: lambda turn: [RewardTerm("luck", 1.0)] for name in ("lake", f"{SOKOBAN}:0")}
    experience = trained(tiny_folder, tmp_path, score=scores, **once)._experience
    scales = {"lake": 0.5, f"{SOKOBAN}:0": 1.0, f"{SOKOBAN}:1": 1.0}
    for row, episode in enumerate(experience.sequences.episodes):
        scored = any(term.name == "luck" for turn in episode.turns for term in turn.rewards)
        assert scored == (episode.level.environment in scores)
        returns = experience.advantages.returns[row][experience.advantages.value_mask[row]]
        assert float(returns[0]) == pytest.approx(
            scales[episode.level.environment] * episode.rewards, abs=1e-6
        )


@pytest.mark.parametrize(
    "changes",
    [{}, {"max_staleness": 1, "sampler_correction": "token", "generation": "vllm-server"}],
    ids=["sync", "async"],
)
def test_a_resumed_run_ends_where_the_whole_one_does(changes, tiny_folder, tmp_path):
    run = {
        "rollouts": 3,
        "save_strategy": "steps",
        "save_steps": 4,
        "level_sampler": "difficulty",
        **changes,
    }
    whole = trained(tiny_folder, tmp_path, **run)
    resumed = trained(tiny_folder, tmp_path, resume=str(tmp_path / "checkpoint-4"), **run)
    same(weights(whole), weights(resumed))
    assert whole.worker.level_sampler.state() == resumed.worker.level_sampler.state()
    shares = [
        [entry[name] for name in entry if name.startswith("levels/share/")]
        for entry in (whole.state.log_history[-2], resumed.state.log_history[-2])
    ]
    assert shares[0] == shares[1] != []
    assert sum(shares[0]) == pytest.approx(1)
