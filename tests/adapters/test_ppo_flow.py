"""Episodes that go on by themselves, with back-ends whose replies come each by itself."""

from concurrent.futures import Future, ThreadPoolExecutor

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

import vagen_envs  # noqa: E402, F401
from vagen_adapters.parity import tiny_model as tiny  # noqa: E402
from vagen_adapters.ppo.chat_encoder import ChatEncoder  # noqa: E402
from vagen_adapters.ppo.episodes import Level  # noqa: E402
from vagen_adapters.ppo.generation import Reply, Sampling, Streaming  # noqa: E402
from vagen_adapters.ppo.rollout import Rollout  # noqa: E402

LEVELS = [Level(seed, draw=seed) for seed in range(7)]


@pytest.fixture(scope="module")
def encoder(tiny_folder):
    return ChatEncoder.from_pretrained(tiny_folder)


class Walks:
    """Walks somewhere, drawn from the reply's seed."""

    def __init__(self, encoder):
        self.replies = [(*encoder.encode(f"<answer>{way}</answer>"), encoder.end_id)
                        for way in ("Left", "Down", "Right", "Up")]  # fmt: skip

    def reply(self, seed):
        ids = self.replies[seed % 4]
        return Reply(ids, (-1.0,) * len(ids))

    def sample(self, prompts, sampling, seeds):
        return [self.reply(seed) for seed in seeds]


class Streams(Walks):
    """The same, each reply by a thread, in no order."""

    def __init__(self, encoder, fails=False):
        super().__init__(encoder)
        self.pool, self.fails = ThreadPoolExecutor(3), fails

    def submit(self, prompt, sampling, seed):
        return self.pool.submit(self.answer, seed)

    def answer(self, seed):
        if self.fails:
            raise ConnectionError("the server is gone")
        return self.reply(seed)


class Holds(Walks):
    """Gives its first reply only when another episode has come to its third turn."""

    def __init__(self, encoder):
        super().__init__(encoder)
        self.held = None

    def submit(self, prompt, sampling, seed):
        future = Future()
        if self.held is None:
            self.held = future, seed
            return future
        if len(prompt.shown) == 3 and not self.held[0].done():
            self.held[0].set_result(self.reply(self.held[1]))
        future.set_result(self.reply(seed))
        return future


def rollout(encoder, sampler, threads=1, wrapper=lambda env: env, **options):
    options = {"strategy": "no_think", "prompt_pack": tiny.PROMPTS, "max_turns": 4, "format_reward": 0.0, **options}
    envs = [wrapper(gym.make("vagen/FrozenLake-v0", **options)) for _ in range(3)]
    return Rollout(envs, encoder, sampler, Sampling(max_tokens=12), threads=threads)


def played(episodes):
    return [([(turn.reply, turn.turn.to_json()) for turn in each.turns], each.terminated, each.truncated, each.failure)
            for each in episodes]  # fmt: skip


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_played_is_what_batches_play(encoder, threads):
    expected = rollout(encoder, Walks(encoder)).play(LEVELS, 5)
    sampler = Streams(encoder)
    assert isinstance(sampler, Streaming)
    player = rollout(encoder, sampler, threads)
    assert played(player.play(LEVELS, 5)) == played(expected)
    assert any(len(each.turns) > 2 for each in expected)
    assert set(player.times) == {"generation", "environment", "judge"}
    assert player.times["environment"] > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_no_episode_waits_for_anothers_reply(encoder, threads):
    """Batches of a turn would wait for ever for the reply that is held back."""
    expected = rollout(encoder, Walks(encoder)).play(LEVELS, 5)
    assert played(rollout(encoder, Holds(encoder), threads).play(LEVELS, 5)) == played(expected)


def test_a_back_end_that_fails_ends_the_rollout(encoder):
    with pytest.raises(ConnectionError, match="the server is gone"):
        rollout(encoder, Streams(encoder, fails=True)).play(LEVELS, 5)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_environment_that_breaks_costs_its_episode_only(encoder, threads):
    class Breaks(gym.Wrapper):
        def reset(self, *, seed=None, options=None):
            if seed in (1, 6):
                raise RuntimeError("no such level")
            return super().reset(seed=seed, options=options)

    found = rollout(encoder, Streams(encoder), threads, Breaks).play(LEVELS, 5)
    assert [number for number, each in enumerate(found) if each.failure] == [1, 6]
    assert found[1].failure == "RuntimeError at reset: no such level"
    assert all(each.turns for each in found if each.failure is None)
