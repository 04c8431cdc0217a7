"""Imitation of noisy play: what the tiny model starts from."""

import itertools

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

import vagen_envs  # noqa: E402, F401
from vagen_adapters.ppo import tiny  # noqa: E402
from vagen_adapters.ppo.episodes import Level  # noqa: E402
from vagen_adapters.ppo.generation import Sampling, TransformersSampler  # noqa: E402
from vagen_adapters.ppo.imitation import demonstrate, demonstrations, imitate, imitation_loss  # noqa: E402
from vagen_adapters.ppo.rollout import Rollout  # noqa: E402

LEVELS = [Level(seed) for seed in range(24)]
SHORT = {"strategy": "no_think", "max_turns": 3}


@pytest.fixture(params=["vagen/FrozenLake-v0", "vagen/Sokoban-v0"])
def env(request):
    return gym.make(request.param)


def test_the_oracle_alone_solves_what_it_shows(env, tiny_folder):
    codec = tiny.load(tiny_folder)[1]
    assert all(demonstrate(env, codec, level, oracle_share=1.0).success for level in LEVELS[:8])


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_noisy_play_is_well_formed_and_the_same_for_the_same_level(env, tiny_folder, share):
    codec = tiny.load(tiny_folder)[1]
    for level in LEVELS[:4]:
        first, again = (demonstrate(env, codec, level, oracle_share=share) for _ in range(2))
        assert [turn.reply for turn in first.turns] == [turn.reply for turn in again.turns]
        assert all(turn.turn.parsed.format_correct for turn in first.turns)
        assert first.terminated or first.truncated


def test_after_imitation_the_model_says_what_it_was_shown(tiny_folder):
    """It starts from noise; after a few updates its own play, on levels it has not seen, has the format."""
    model, codec = tiny.load(tiny_folder)
    env = gym.make("vagen/FrozenLake-v0", max_actions_per_turn=1, prompt_pack=tiny.PROMPTS, **SHORT)
    sequences = list(demonstrations(env, codec, LEVELS))
    with torch.no_grad():
        before = float(imitation_loss(model, codec, sequences[:8]))
    told = []
    imitate(
        model, codec, itertools.cycle(sequences), 30, batch_size=4, learning_rate=3e-3,
        report=lambda *each: told.append(each),
    )  # fmt: skip
    with torch.no_grad():
        after = float(imitation_loss(model, codec, sequences[:8]))
    assert [number for number, _ in told] == list(range(30))
    assert after < before / 5
    rollout = Rollout([env], codec, TransformersSampler(model, codec), Sampling(temperature=0.0, max_tokens=12))
    (episode,) = rollout.play([Level(0, "val")], 0)
    assert all(turn.turn.parsed.format_correct for turn in episode.turns)
