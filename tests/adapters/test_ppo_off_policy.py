"""Losses by name, steered KL and corrections for the sampler, in the trainer."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from vagen_adapters.errors import TrainingConfigError  # noqa: E402
from vagen_adapters.ppo import losses, tiny  # noqa: E402
from vagen_adapters.ppo.config import MultiTurnPPOConfig  # noqa: E402
from vagen_adapters.ppo.episodes import Episode, Level, keep_differing  # noqa: E402
from vagen_adapters.ppo.generation import Reply, TransformersSampler  # noqa: E402
from vagen_adapters.ppo.kl_control import AdaptiveKL  # noqa: E402
from vagen_adapters.ppo.rollout import Rollout  # noqa: E402
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer  # noqa: E402
from vagen_envs import RewardTerm  # noqa: E402


def trained(folder, out, score=None, make_sampler=None, **changes):
    settings = {
        "env_id": "vagen/FrozenLake-v0",
        "env_options": {"strategy": "no_think", "max_turns": 2, "format_reward": 0.0, "prompt_pack": tiny.PROMPTS},
        "num_envs": 8, "rollouts": 2, "episodes_per_rollout": 8, "minibatches": 2, "max_tokens": 4, "temperature": 1.0,
        "top_p": 1.0, "learning_rate": 1e-3, "kl_coef": 0.0, "logging_steps": 1, "save_strategy": "no",
        "gradient_checkpointing": False,
        "report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True,
    }  # fmt: skip
    args = MultiTurnPPOConfig(output_dir=str(out), **{**settings, **changes})
    score = score or (lambda turn: [RewardTerm("brevity", 1.0 - len(turn.reply) / 20)])
    trainer = MultiTurnPPOTrainer(folder, args, score=score, make_sampler=make_sampler)
    trainer.train()
    return trainer


def history(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


@pytest.mark.parametrize("name", losses.NAMED)
def test_every_named_loss_trains(name, tiny_folder, tmp_path):
    settings = {"advantage": "grpo", "group_size": 2, **losses.NAMED[name][1], "dynamic_sampling": 0}
    trainer = trained(tiny_folder, tmp_path, rollouts=1, **settings)
    assert max(history(trainer, "grad_norm")) > 0


def test_updates_of_a_rollout_end_where_the_policy_is_too_far_off(tiny_folder, tmp_path):
    trainer = trained(tiny_folder, tmp_path, target_kl=1e-9, minibatches=4, learning_rate=1e-2)
    left_out = history(trainer, "update/left_out")
    assert left_out[0] == 0
    assert left_out[3] == 1
    assert left_out[4] == 0  # the next rollout begins anew
    free = trained(tiny_folder, tmp_path, target_kl=100.0, minibatches=4, learning_rate=1e-2, rollouts=1)
    assert not any(history(free, "update/left_out"))


def test_the_weight_of_the_kl_is_steered_and_goes_on_after_a_checkpoint(tiny_folder, tmp_path):
    settings = {"kl_loss_coef": 0.1, "adaptive_kl": 0.5, "kl_horizon": 8.0, "save_strategy": "steps", "save_steps": 2}
    whole = trained(tiny_folder, tmp_path / "whole", rollouts=3, **settings)
    factors = history(whole, "policy/kl_factor")
    assert factors == pytest.approx([0.8, 0.64, 0.512], rel=1e-6)  # far below the target: a fifth less each time
    args = whole.args
    again = MultiTurnPPOTrainer(
        tiny_folder, args, score=lambda turn: [RewardTerm("brevity", 1.0 - len(turn.reply) / 20)]
    )
    again.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
    assert history(again, "policy/kl_factor")[-1] == pytest.approx(0.512)


def test_the_controller_is_ziegler_and_others():
    control = AdaptiveKL(target=0.1, horizon=100.0)
    control.update(kl=0.11, episodes=10)
    assert control.factor == pytest.approx(1 + 0.1 * 10 / 100)
    control.update(kl=5.0, episodes=10)
    assert control.factor == pytest.approx(1.01 * (1 + 0.2 * 10 / 100))


def test_groups_that_tell_nothing_are_played_again_with_other_levels(tiny_folder, tmp_path, monkeypatch):
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
        tiny_folder, tmp_path, score=score, rollouts=1, advantage="grpo", group_size=2, dynamic_sampling=9,
        env_options={"strategy": "no_think", "max_turns": 1, "format_reward": 0.0, "prompt_pack": tiny.PROMPTS},
    )  # fmt: skip
    first, second = ({level.seed for level in levels} for levels in played)
    assert not first & second
    assert len({level.group for levels in played for level in levels}) == 8
    assert max(history(trainer, "grad_norm")) > 0


def test_groups_with_equal_returns_are_left_out():
    class Worth(Episode):
        rewards = property(lambda self: self.level.draw)

    episodes = [
        Worth(Level(0, group=group, draw=draw)) for group, draw in ((0, 1), (0, 1), (1, 0), (1, 2), (2, 3), (2, 4))
    ]
    assert [each.level.group for each in keep_differing(episodes, 10)] == [1, 1, 2, 2]
    assert len(keep_differing(episodes, 2)) == 2


class Wrong(TransformersSampler):
    """Says that its tokens were likelier than they are, as a sampler in another arithmetic or with top-p does."""

    def sample(self, prompts, sampling, seeds):
        replies = super().sample(prompts, sampling, seeds)
        return [Reply(each.ids, tuple(logprob + 0.5 for logprob in each.logprobs)) for each in replies]


@pytest.fixture(scope="module")
def plain(tiny_folder, tmp_path_factory):
    """Trained without a correction, from a sampler that needs none."""
    return trained(tiny_folder, tmp_path_factory.mktemp("plain"), rollouts=1)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_what_the_sampler_makes_too_likely_counts_less(level, plain, tiny_folder, tmp_path):
    right = trained(tiny_folder, tmp_path, rollouts=1, sampler_correction=level)
    assert history(right, "correction/mean")[0] == pytest.approx(1, abs=1e-4)
    assert history(right, "grad_norm")[0] == pytest.approx(history(plain, "grad_norm")[0], rel=1e-3)
    wrong = trained(tiny_folder, tmp_path, rollouts=1, sampler_correction=level, make_sampler=Wrong)
    mean = history(wrong, "correction/mean")[0]
    assert mean == pytest.approx(torch.tensor(-0.5).exp().item(), rel=1e-3) if level == "token" else mean < 0.2
    capped = trained(tiny_folder, tmp_path, rollouts=1, sampler_correction=level, sampler_cap=0.01, make_sampler=Wrong)
    assert history(capped, "correction/capped")[0] == 1


def test_top_p_is_in_the_weights(tiny_folder, tmp_path):
    """After top-p a token's probability is larger than the policy's by what was cut off."""
    trainer = trained(tiny_folder, tmp_path, rollouts=1, top_p=0.5, sampler_correction="token")
    assert history(trainer, "correction/mean")[0] == pytest.approx(0.5, abs=0.05)


def test_the_critics_weight_on_a_shared_backbone(tiny_folder, tmp_path):
    one, none = (
        trained(tiny_folder, tmp_path, rollouts=1, shared_backbone=True, value_coef=weight, minibatches=1)
        for weight in (1.0, 0.0)
    )
    assert history(one, "critic/grad_norm")[0] > 0
    assert history(none, "critic/grad_norm")[0] == 0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"dual_clip": 0.5}, "dual_clip"), ({"adaptive_kl": 0.1}, "kl_coef"), ({"dynamic_sampling": 2}, "group_size"),
        ({"policy_loss": "clips"}, "policy_loss"), ({"overlong_share": 2.0}, "overlong_share"),
        ({"sampler_correction": "turn"}, "sampler_correction"), ({"target_kl": 0.0}, "target_kl"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together_are_refused(changes, named, tmp_path):
    with pytest.raises(TrainingConfigError, match=named):
        MultiTurnPPOConfig(output_dir=str(tmp_path), **{"kl_coef": 0.0, **changes})


def test_old_log_probabilities_of_the_sampler_train_alike_and_cost_no_pass(tiny_folder, tmp_path):
    scored = trained(tiny_folder, tmp_path / "scored", freeze_vision=False, kl_coef=0.01)
    sampled = trained(tiny_folder, tmp_path / "sampled", freeze_vision=False, kl_coef=0.01, old_logprobs="sampled")
    assert "policy/sampler_gap" not in {name for line in sampled.state.log_history for name in line}
    for name, weight in scored.model.named_parameters():
        torch.testing.assert_close(sampled.model.get_parameter(name), weight, rtol=0, atol=2e-4, msg=name)
    reads = [history(each, "score/pictures_read")[0] for each in (scored, sampled)]
    assert reads[0] * 2 == reads[1] * 3  # critic and reference, and not the policy


@pytest.mark.parametrize("changes", [{"top_p": 0.9}, {"sampler_correction": "token"}, {"kl_estimator": "exact"},
                                     {"generation": "vllm"}, {"advantage_settings": {"mask_observations": False}, "advantage": "token_gae"}],
                         ids=lambda each: next(iter(each)))  # fmt: skip
def test_the_samplers_log_probabilities_are_taken_only_where_they_are_the_policys(changes, tmp_path):
    with pytest.raises(
        TrainingConfigError, match="old_logprobs='sampled' is not valid: it must be scored, or sampled with"
    ):
        MultiTurnPPOConfig(output_dir=str(tmp_path), **{"top_p": 1.0, "old_logprobs": "sampled", **changes})


@pytest.mark.parametrize(("changes", "becomes"), [
    ({}, "sampled"), ({"top_p": 0.9}, "scored"), ({"bf16": True}, "scored"), ({"lora": {"r": 2}}, "scored"),
    ({"generation": "vllm"}, "scored"), ({"kl_estimator": "exact"}, "scored"),
    ({"sampler_correction": "token"}, "scored"),
    ({"advantage": "token_gae", "advantage_settings": {"mask_observations": False}}, "scored"),
])  # fmt: skip
def test_old_log_probabilities_are_the_samplers_where_they_are_the_same(changes, becomes, tmp_path):
    given = {"top_p": 1.0, "bf16": False, "use_cpu": True, "report_to": "none", **changes}
    assert MultiTurnPPOConfig(output_dir=str(tmp_path), old_logprobs="auto", **given).old_logprobs == becomes
