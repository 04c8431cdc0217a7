"""Known losses, steered KL and corrections for the sampler, in the trainer."""

import pytest
import torch
from ppo_training import history, lake, trained

from vagen_adapters.ppo.episodes import LevelSeed, PPOEpisode, keep_differing
from vagen_adapters.ppo.generation import SampledReply, TransformersSampler
from vagen_adapters.ppo.rollout import Rollout
from vagen_envs import RewardTerm


@pytest.mark.parametrize(
    "loss",
    [
        {},
        {"dual_clip": 3.0},
        {"ratio_level": "sequence", "loss_level": "sequence", "clip_low": 3e-4, "clip_high": 4e-4},
        {"ratio_level": "turn", "loss_level": "turn", "clip_low": 3e-4, "clip_high": 4e-4},
        {"policy_loss": "cispo", "clip_low": 1.0, "clip_high": 2.0},
        {"clip_high": 0.28, "overlong_share": 0.2},
    ],
    ids=["ppo", "dual-clip", "gspo", "gspo-turn", "cispo", "dapo"],
)
def test_every_known_loss_trains(loss, tiny_folder, tmp_path):
    trainer = trained(tiny_folder, tmp_path, advantage="grpo", group_size=2, **loss)
    assert max(history(trainer, "grad_norm")) > 0


def test_groups_that_tell_nothing_are_played_again_with_other_levels(
    tiny_folder, tmp_path, monkeypatch
):
    """All of the first eight are worth the same; of the next eight, every second is worth more."""
    scored, played = [], []
    play_on = Rollout.play_on

    def noted(self, episodes, seed, **options):
        played.append([episode.level for episode in episodes])
        return play_on(self, episodes, seed, **options)

    monkeypatch.setattr(Rollout, "play_on", noted)

    def score(_):
        scored.append(len(scored) >= 8 and len(scored) % 2)
        return [RewardTerm("luck", float(scored[-1]))]

    trainer = trained(
        tiny_folder,
        tmp_path,
        score=score,
        advantage="grpo",
        group_size=2,
        dynamic_sampling=9,
        environments=lake(max_turns=1),
        kl_coef=0.0,
    )
    first, second = ({level.seed for level in levels} for levels in played)
    assert not first & second
    assert len({level.group for levels in played for level in levels}) == 8
    assert max(history(trainer, "grad_norm")) > 0


@pytest.mark.parametrize(
    ("pairs", "at_most", "kept"),
    [
        # Groups with equal returns are left out,
        (
            ((0, 1.0), (0, 1.0), (1, 0), (1, 2), (2, 3), (2, 4), (3, 0.1 + 0.2), (3, 0.3)),
            10,
            [1, 1, 2, 2],
        ),
        # and only whole ones are kept: without its last episode one could be left with equal returns.
        ([(group, draw) for group in range(3) for draw in (0, 0, 0, 1)], 2, [0] * 4 + [1] * 4),
    ],
)
def test_groups_that_differ_are_kept(pairs, at_most, kept):
    class Worth(PPOEpisode):
        rewards = property(lambda self: self.level.draw)

    episodes = [Worth(LevelSeed(0, group=group, draw=draw)) for group, draw in pairs]
    assert [each.level.group for each in keep_differing(episodes, at_most)] == kept
    episodes[-1].failure = "the judge is down"  # the rest of its group is no group
    lost = episodes[-1].level.group
    left = [group for group in kept if group != lost]
    assert [each.level.group for each in keep_differing(episodes, at_most)] == left


class Wrong(TransformersSampler):
    """Says that its tokens were likelier than they are, as a sampler in another arithmetic or with top-p does."""

    def sample(self, prompts, sampling, seeds):
        replies = super().sample(prompts, sampling, seeds)
        return [
            SampledReply(each.ids, tuple(logprob + 0.5 for logprob in each.logprobs))
            for each in replies
        ]


@pytest.fixture(scope="module")
def plain(tiny_folder, tmp_path_factory):
    """Trained without a correction, from a sampler that needs none."""
    return trained(tiny_folder, tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_what_the_sampler_makes_too_likely_counts_less(level, plain, tiny_folder, tmp_path):
    right = trained(tiny_folder, tmp_path, sampler_correction=level)
    assert history(right, "correction/mean")[0] == pytest.approx(1, abs=1e-4)
    assert history(right, "grad_norm")[0] == pytest.approx(history(plain, "grad_norm")[0], rel=1e-3)
    wrong = trained(tiny_folder, tmp_path, sampler_correction=level, make_sampler=Wrong)
    mean = history(wrong, "correction/mean")[0]
    assert (
        mean == pytest.approx(torch.tensor(-0.5).exp().item(), rel=1e-3)
        if level == "token"
        else mean < 0.2
    )


def test_top_p_is_in_the_weights(tiny_folder, tmp_path):
    """After top-p a token's probability is larger than the policy's by what was cut off."""
    trainer = trained(tiny_folder, tmp_path, top_p=0.5, sampler_correction="token")
    assert history(trainer, "correction/mean")[0] == pytest.approx(0.5, abs=0.05)
