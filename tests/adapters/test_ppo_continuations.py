"""Playing on from states that were met."""

import math
import statistics

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_adapters.parity import tiny_model as tiny
from vagen_adapters.ppo.continuations import forks_of, state_key, state_values_of
from vagen_adapters.ppo.episodes import LevelSeed, PPOEpisode
from vagen_adapters.ppo.generation import SampledReply, SampleSettings, TransformersSampler
from vagen_adapters.ppo.rollout import Rollout

LEVELS = [LevelSeed(seed, group=seed, draw=member) for seed in range(3) for member in range(2)]


class Walking:
    """A back-end that walks somewhere, drawn from the reply's seed, in words that are cut as no tokenizer would."""

    def __init__(self, encoder):
        def ids(text):
            return [
                i
                for letter in text
                for i in encoder.tokenizer(letter, add_special_tokens=False)["input_ids"]
            ]

        self.replies = [
            (*ids(f"<answer>{way}</answer>"), encoder.end_id)
            for way in ("Left", "Down", "Right", "Up")
        ]

    def sample(self, prompts, sampling, seeds):
        drawn = [
            self.replies[(seed if sampling.temperature else len(prompt.ids)) % 4]
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        return [SampledReply(ids, (-1.0,) * len(ids)) for ids in drawn]


def rollout(encoder, sampler, temperature, **options):
    envs = [
        gym.make(
            "vagen/FrozenLake-v0",
            strategy="no_think",
            prompt_pack=tiny.PROMPTS,
            max_turns=4,
            **options,
        )
        for _ in range(4)
    ]
    return Rollout(
        envs, encoder, sampler, SampleSettings(temperature=temperature, top_p=1.0, max_tokens=6)
    )


def turns_of(episode):
    return [(turn.reply.ids, turn.turn.to_json()) for turn in episode.turns]


@pytest.mark.parametrize("kind", [TransformersSampler, None])
def test_a_fork_that_says_the_same_sees_and_gets_the_same(kind, loaded):
    """Most likely replies leave nothing to chance: every fork is the episode again, and its worth what came of it."""
    model, encoder = loaded
    player = rollout(encoder, kind(model, encoder) if kind else Walking(encoder), 0.0)
    episodes = player.play_on([PPOEpisode(level) for level in LEVELS], 0, snapshots=True)
    played = player.play_on(forks_of(episodes, 1), 1)
    for again, whole in zip(played, [each for each in episodes for _ in each.turns], strict=True):
        assert turns_of(again) == turns_of(whole)
        assert (again.terminated, again.truncated) == (whole.terminated, whole.truncated)
    worth = state_values_of(episodes, played, 1, 0.9)
    for episode, of_turns in zip(episodes, worth, strict=True):
        rewards = [turn.reward for turn in episode.turns]
        expected = [
            sum(0.9**i * each for i, each in enumerate(rewards[turn:]))
            for turn in range(len(rewards))
        ]
        assert of_turns == pytest.approx(expected)


def test_forks_differ_from_each_other_and_share_what_came_before(loaded):
    encoder = loaded[1]
    player = rollout(encoder, Walking(encoder), 1.0)
    episodes = player.play_on([PPOEpisode(level) for level in LEVELS], 0, snapshots=True)
    played = iter(player.play_on(forks_of(episodes, 16), 1))
    for whole in episodes:
        for turn in range(len(whole.turns)):
            forks = [next(played) for _ in range(16)]
            assert all(turns_of(again)[:turn] == turns_of(whole)[:turn] for again in forks)
            assert all((again.last_shown is None) == again.terminated for again in forks)
            assert len({again.turns[turn].reply.ids for again in forks}) > 1
    assert next(played, None) is None


def test_the_worth_of_a_state_is_its_value_under_the_policy(loaded):
    """With one random move left, what 400 forks earn is the mean over the four moves."""
    encoder = loaded[1]
    player = rollout(encoder, Walking(encoder), 1.0, is_slippery=False)
    played = player.play_on([PPOEpisode(LevelSeed(seed)) for seed in range(20)], 0, snapshots=True)
    episode = next(each for each in played if len(each.turns) == 4)
    last, exact = 3, []
    for way in ("Left", "Down", "Right", "Up"):
        env = player.environments.take(LevelSeed(0)).unwrapped
        player.environments.reclaim()
        env.restore(episode.turns[last].snapshot)
        _, reward, terminated, truncated, _ = env.step(f"<answer>{way}</answer>")
        assert terminated or truncated
        exact.append(reward)
    played = player.play_on(forks_of([episode], 400)[-400:], 3)
    worth = statistics.fmean(again.turns[last].reward for again in played)
    spread = max(exact) - min(exact)
    assert worth == pytest.approx(sum(exact) / 4, abs=max(1e-9, 4 * spread / 2 / 400**0.5))


def test_a_state_whose_forks_all_fail_is_worth_nothing_that_is_known(loaded):
    encoder = loaded[1]
    player = rollout(encoder, Walking(encoder), 1.0)
    (episode,) = player.play_on([PPOEpisode(LevelSeed(1))], 0, snapshots=True)
    played = player.play_on(forks_of([episode], 2), 1)
    for again in played[:2]:
        again.failure = "the simulator is gone"
    worth = state_values_of([episode], played, 2, 1.0)[0]
    assert math.isnan(worth[0])
    assert all(map(math.isfinite, worth[1:]))


def test_states_have_one_key_wherever_they_are_met(loaded):
    encoder = loaded[1]
    episodes = rollout(encoder, Walking(encoder), 1.0).play(LEVELS, 0)
    known = {}
    for episode in episodes:
        for turn in episode.turns:
            key = state_key(episode.level, turn.turn)
            known.setdefault((episode.level.seed, str(turn.turn.before)), set()).add(key)
    assert all(len(keys) == 1 for keys in known.values())
    assert len(set.union(*known.values())) == len(known)
