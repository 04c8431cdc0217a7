"""What is logged of episodes, apart for each source of levels, against sums made here."""

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_adapters.ppo import metrics
from vagen_adapters.ppo.chat_encoder import ChatEncoder
from vagen_adapters.ppo.episodes import LevelSeed
from vagen_adapters.ppo.generation import SampledReply, SampleSettings
from vagen_adapters.ppo.rollout import Rollout
from vagen_envs import RewardTerm
from vagen_envs.errors import MissingExtraError

SOURCES = ("vagen/counting", "vagen/arithmetic")
SAMPLING = SampleSettings(temperature=1.0, max_tokens=64)


class Says:
    """Answers 3 to everything; every other reply is cut before its end token, and every third one waits."""

    def __init__(self, encoder):
        self.encoder, self.said = encoder, 0

    def sample(self, prompts, sampling, seeds):
        return [self._say() for _ in prompts]

    def _say(self):
        thought = "wait, I look again" if self.said % 3 == 0 else "I look"
        ids = self.encoder.tokenizer(
            f"<think>{thought}</think><answer>3</answer>", add_special_tokens=False
        )["input_ids"]
        ids += [self.encoder.tokenizer.eos_token_id] * (self.said % 2 == 0)
        self.said += 1
        return SampledReply(tuple(ids), (-1.0,) * len(ids))


@pytest.fixture(scope="module")
def played(tiny_folder):
    encoder = ChatEncoder.from_pretrained(tiny_folder)
    try:
        env = gym.make("vagen/Sample-v0", sources=SOURCES)
    except MissingExtraError as error:
        pytest.skip(str(error))
    rollout = Rollout(
        [env],
        encoder,
        Says(encoder),
        SAMPLING,
        max_length=8192,
        score=lambda turn: [RewardTerm("one", 1.0)],
    )
    return rollout.play([LevelSeed(seed) for seed in range(24)], 0)


def test_sources_are_counted_apart(played):
    found = metrics.of_episodes(played, played)
    for source in SOURCES:
        mine = [
            each.turns[0] for each in played if each.turns[0].turn.metrics["data_source"] == source
        ]
        assert 2 < len(mine) < 22
        entries = {
            name.removeprefix(f"source/{source}/"): each
            for name, each in found.items()
            if source in name
        }
        assert entries["episodes"] == len(mine)
        solved = [each.turn.metrics["accuracy"] == 1 for each in mine]
        assert entries["success"] == pytest.approx(sum(solved) / len(mine))
        assert entries["metric/accuracy"] == pytest.approx(
            sum(each.turn.metrics["accuracy"] for each in mine) / len(mine)
        )
        assert entries["return"] == pytest.approx(
            sum(each.turn.reward + 1 for each in mine) / len(mine)
        )
        assert entries["reward/one"] == 1
        assert entries["reply_tokens"] == pytest.approx(
            sum(len(each.reply.ids) for each in mine) / len(mine)
        )
        waits = ["wait" in each.turn.reply for each in mine]
        assert entries["reflection/ratio"] == pytest.approx(sum(waits) / len(mine))
        both = [each for each, waited in zip(solved, waits, strict=True) if waited]
        assert entries["reflection/success"] == pytest.approx(sum(both) / len(both))
        assert 0 < entries["cut_replies"] < 1
    shares = [
        found[f"source/{each}/cut_replies"] * found[f"source/{each}/episodes"] for each in SOURCES
    ]
    assert sum(shares) / len(played) == found["rollout/cut_replies"] == 0.5
