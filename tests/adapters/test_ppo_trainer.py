"""The trainer end to end on a tiny model: it learns, resumes, and trains alike what is alike."""

import dataclasses
import json
from pathlib import Path
from typing import ClassVar

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from vagen_adapters.errors import TrainingConfigError, TrainingDataError  # noqa: E402
from vagen_adapters.ppo import tiny  # noqa: E402
from vagen_adapters.ppo.actor_critic import ActorCritic  # noqa: E402
from vagen_adapters.ppo.config import ESTIMATORS, WITHOUT_CRITIC, MultiTurnPPOConfig  # noqa: E402
from vagen_adapters.ppo.generation import Reply, TransformersSampler  # noqa: E402
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer, last_checkpoint  # noqa: E402
from vagen_envs import RewardTerm  # noqa: E402

ONE_TURN = {"strategy": "no_think", "max_turns": 1, "format_reward": 0.0, "prompt_pack": tiny.PROMPTS}


def config(folder, **changes):
    settings = {
        "output_dir": str(folder),
        "env_id": "vagen/FrozenLake-v0",
        "env_options": ONE_TURN | {"max_turns": 2},
        "num_envs": 8,
        "rollouts": 1,
        "episodes_per_rollout": 8,
        "minibatches": 2,
        "max_tokens": 4,
        "temperature": 1.0,
        "top_p": 1.0,
        "learning_rate": 1e-3,
        "critic_learning_rate": 3e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    }
    return MultiTurnPPOConfig(**{**settings, **changes})


def likes_short_words(turn):
    """A reward that any policy can move: fewer characters are better."""
    return [RewardTerm("brevity", 1.0 - len(turn.reply) / 20)]


def trained(tiny_folder, tmp_path, **changes):
    options = {key: changes.pop(key) for key in ("make_sampler", "callbacks") if key in changes}
    options["score"] = changes.pop("score", likes_short_words)
    trainer = MultiTurnPPOTrainer(tiny_folder, config(tmp_path, **changes), **options)
    trainer.train()
    return trainer


def history(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def weights(trainer):
    """Of policy and critic; the reference is none of the trained ones."""
    state = trainer.model.state_dict()
    return {name: tensor.clone() for name, tensor in state.items() if not name.startswith("reference.")}


def same(first, second, **tolerance):
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], **(tolerance or {"rtol": 0, "atol": 0}), msg=name)


def test_it_learns_what_is_rewarded(tiny_folder, tmp_path):
    trainer = trained(tiny_folder, tmp_path, env_options=ONE_TURN, rollouts=8, episodes_per_rollout=16, num_envs=16,
                      sequences_per_forward=16, epochs_per_rollout=2, learning_rate=4e-3)  # fmt: skip
    returns = history(trainer, "reward/brevity")
    assert sum(returns[-3:]) / 3 > sum(returns[:2]) / 2 + 0.05
    assert history(trainer, "critic/explained_variance")[-1] > -0.5


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_updates_the_model(name, tiny_folder, tmp_path):
    settings = {"mask_observations": False} if name == "token_gae" else {}
    window = 1 if name in ("dual_discount_gae", "turn_gae") else None
    before = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path)))
    trainer = trained(
        tiny_folder,
        tmp_path,
        advantage=name,
        advantage_settings=settings,
        window=window,
        group_size=4,
        forks=2 if name == "vine" else 0,
        bootstrap_truncated=window is not None,
        ratio_level="turn" if name == "turn_gae" else "token",
        kl_loss_coef=0.01,
        entropy_coef=0.001,
    )
    after = weights(trainer)
    moved = {key.partition(".")[0] for key in after if not torch.equal(before[key], after[key])}
    assert moved == ({"policy"} if name in WITHOUT_CRITIC else {"policy", "critic", "value_head"})
    assert all(tensor.isfinite().all() for tensor in after.values())
    # The first update's policy is the one that sampled: nothing has moved yet, nothing is clipped.
    assert history(trainer, "policy/kl_to_old")[0] == pytest.approx(0, abs=1e-5)
    assert history(trainer, "policy/clip_fraction")[0] == 0
    # Vanilla PPO doesn't leave the forbidden tokens out, for it learns to say observations too.
    assert history(trainer, "policy/sampler_gap")[0] < (0.1 if name == "token_gae" else 1e-4)


def test_how_many_sequences_go_through_at_once_changes_nothing(tiny_folder, tmp_path):
    """Padding and the split of a mini-batch are none of the training's business."""
    found = [
        weights(trained(tiny_folder, tmp_path / str(size), sequences_per_forward=size, optim="sgd", learning_rate=0.1))
        for size in (1, 3, 8)
    ]
    for other in found[1:]:
        same(found[0], other, rtol=1e-4, atol=1e-5)


def test_an_episode_in_one_sequence_or_cut_into_one_for_each_turn_trains_alike(tiny_folder, tmp_path):
    """With the whole history before it a turn's tokens are read alike, wherever the episode's text is cut."""
    whole, cut = (
        weights(trained(tiny_folder, tmp_path / str(window), window=window, minibatches=1, epochs_per_rollout=2,
                        optim="sgd", learning_rate=0.1))
        for window in (None, 9)
    )  # fmt: skip
    same(whole, cut, rtol=1e-4, atol=1e-5)


def test_recomputed_activations_change_nothing(tiny_folder, tmp_path):
    plain, recomputed = (
        weights(trained(tiny_folder, tmp_path / str(on), gradient_checkpointing=on, optim="sgd", learning_rate=0.1))
        for on in (False, True)
    )
    same(plain, recomputed, rtol=1e-5, atol=1e-6)


def test_mixed_precision_trains_nearly_the_same_in_full_precision_weights(tiny_folder, tmp_path):
    full, mixed = (trained(tiny_folder, tmp_path / str(bf16), bf16=bf16) for bf16 in (False, True))
    assert all(tensor.dtype == torch.float32 and tensor.isfinite().all() for tensor in weights(mixed).values())
    assert not torch.equal(weights(full)["policy.lm_head.weight"], weights(mixed)["policy.lm_head.weight"])
    entropies = [history(trainer, "policy/entropy")[0] for trainer in (full, mixed)]
    assert entropies[0] != entropies[1]
    assert entropies[0] == pytest.approx(entropies[1], rel=0.01)
    # Scores are computed as the updates are: in the first one nothing has moved.
    assert history(mixed, "policy/kl_to_old")[0] == pytest.approx(0, abs=1e-5)


def test_a_checkpoint_in_bfloat16_is_trained_in_float32_where_small_updates_count(tiny_folder, tmp_path):
    model, codec = tiny.load(tiny_folder)
    model.to(torch.bfloat16).save_pretrained(tmp_path / "half")
    codec.save_pretrained(tmp_path / "half")
    before = weights(MultiTurnPPOTrainer(str(tmp_path / "half"), config(tmp_path)))
    after = weights(trained(str(tmp_path / "half"), tmp_path, bf16=True, learning_rate=1e-6))
    assert all(tensor.dtype == torch.float32 for tensor in after.values())
    name = "policy.lm_head.weight"
    assert (before[name] != after[name]).float().mean() > 0.5
    lost = before[name].bfloat16() == after[name].bfloat16()
    assert lost.float().mean() > 0.9


def test_a_resumed_run_ends_bit_exactly_where_the_whole_one_does(tiny_folder, tmp_path):
    run = {"rollouts": 2, "epochs_per_rollout": 2, "save_strategy": "steps", "save_steps": 4, "save_total_limit": 5}
    whole = trained(tiny_folder, tmp_path, **run)
    resumed = MultiTurnPPOTrainer(tiny_folder, config(tmp_path, **run), score=likes_short_words)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    same(weights(whole), weights(resumed))
    assert history(resumed, "rollout/return")[-1] == history(whole, "rollout/return")[-1]


def test_a_saved_folder_loads_as_a_model_with_its_critic(tiny_folder, tmp_path):
    trainer = trained(tiny_folder, tmp_path / "run")
    trainer.save_model(str(tmp_path / "saved"))
    loaded = ActorCritic.from_pretrained(str(tmp_path / "saved"))
    same(weights(trainer), dict(loaded.state_dict()))
    again = MultiTurnPPOTrainer(str(tmp_path / "saved"), config(tmp_path / "again"))
    assert again.codec.pad_id == trainer.codec.pad_id


def of_the_first_rollout(tiny_folder, tmp_path, **changes):
    """What has been trained when the second of two rollouts would begin."""
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == args.steps_per_rollout

    return trained(tiny_folder, tmp_path, rollouts=2, callbacks=[Stop()], **changes)


def test_while_the_critic_warms_up_the_policy_stays(tiny_folder, tmp_path):
    before = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path)))
    after = weights(of_the_first_rollout(tiny_folder, tmp_path, critic_warmup_rollouts=1))
    moved = {key.partition(".")[0] for key in after if not torch.equal(before[key], after[key])}
    assert moved == {"critic", "value_head"}


def test_a_critic_that_says_the_same_of_everything_is_not_used_and_learns(tiny_folder, tmp_path):
    trainer = trained(
        tiny_folder, tmp_path, critic_gate=True, advantage="turn_gae", advantage_settings={"gamma": 0.9, "lam": 0.5},
        bootstrap_truncated=True, window=1,
    )  # fmt: skip
    assert history(trainer, "critic/explained_at_turns") == pytest.approx([0], abs=1e-6)
    assert history(trainer, "critic/used") == [0]
    assert trainer.model.value_head.weight.abs().max() > 0


def test_frozen_vision_towers_stay(tiny_folder, tmp_path):
    before = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path)))
    after = weights(trained(tiny_folder, tmp_path, freeze_vision=True))
    moved = {key for key in after if not torch.equal(before[key], after[key])}
    assert moved
    assert not any(".visual." in key for key in moved)


@pytest.mark.parametrize("warmup", [0, 1])
def test_a_shared_backbone_learns_from_both_losses_but_not_while_the_critic_warms_up(warmup, tiny_folder, tmp_path):
    before = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path, shared_backbone=True)))
    trainer = of_the_first_rollout(tiny_folder, tmp_path, shared_backbone=True, critic_warmup_rollouts=warmup)
    after = weights(trainer)
    moved = {key.partition(".")[0] for key in after if not torch.equal(before[key], after[key])}
    assert moved == ({"value_head"} if warmup else {"policy", "value_head"})
    trainer.save_model(str(tmp_path / "saved"))
    same(after, dict(ActorCritic.from_pretrained(str(tmp_path / "saved"), critic="shared").state_dict()))


def test_values_of_a_shared_backbone_are_read_from_the_policys_last_layer(tiny_folder):
    model = ActorCritic.from_pretrained(tiny_folder, critic="shared").eval()
    torch.nn.init.normal_(model.value_head.weight, generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": torch.arange(40, 48)[None], "attention_mask": torch.ones(1, 8, dtype=torch.int64)}
    with torch.no_grad():
        values = model(inputs, ("values",), temperature=1.0)["values"]
        by_hand = model.value_head(model.policy.model(**inputs).last_hidden_state)[..., 0]
    assert values[0, 0] == 0
    torch.testing.assert_close(values[:, 1:], by_hand)


LORA = {"r": 4, "target_modules": ["q_proj", "v_proj"], "init_lora_weights": True}


def test_with_lora_only_adapters_and_the_value_head_are_trained(tiny_folder, tmp_path):
    pytest.importorskip("peft")
    torch.manual_seed(0)
    run = {"lora": LORA, "rollouts": 2, "save_strategy": "steps", "save_steps": 2, "learning_rate": 1e-2}
    before = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path, lora=LORA)))
    whole = trained(tiny_folder, tmp_path, **run)
    moved = {key for key, each in weights(whole).items() if "lora_B" in key or not torch.equal(before[key], each)}
    assert all("lora_" in key or key.startswith("value_head") for key in moved)
    assert {key.partition(".")[0] for key in moved} == {"policy", "critic", "value_head"}
    # The reference costs no weights of its own, and is the policy as it was.
    assert whole.model.reference is None
    distances = history(whole, "policy/kl_to_reference")
    assert distances[0] == pytest.approx(0, abs=1e-6)
    assert abs(distances[1]) > 1e-5

    resumed = MultiTurnPPOTrainer(tiny_folder, config(tmp_path, **run), score=likes_short_words)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    same(weights(whole), weights(resumed))


def test_the_exact_kl_is_that_of_the_whole_distributions(tiny_folder):
    model = ActorCritic.from_pretrained(tiny_folder).eval()
    model.add_reference()
    with torch.no_grad():
        model.policy.lm_head.weight.add_(torch.randn(model.policy.lm_head.weight.shape) * 0.1)
    inputs = {"input_ids": torch.arange(40, 48)[None], "attention_mask": torch.ones(1, 8, dtype=torch.int64)}
    with torch.no_grad():
        kl = model(inputs, ("kl",), temperature=0.5, forbidden_ids=(3,))["kl"]
        ours, theirs = (each(**inputs).logits[0, :-1] / 0.5 for each in (model.policy, model.reference))
    kept = [token for token in range(ours.shape[1]) if token != 3]
    p, q = (torch.distributions.Categorical(logits=each[:, kept]) for each in (ours, theirs))
    assert kl[0, 0] == 0
    torch.testing.assert_close(kl[0, 1:], torch.distributions.kl_divergence(p, q), rtol=1e-4, atol=1e-6)
    assert (kl[0, 1:] > 0).all()


def test_the_exact_kl_can_be_the_penalty(tiny_folder, tmp_path):
    exact = trained(tiny_folder, tmp_path / "exact", kl_estimator="exact", kl_coef=0.5, rollouts=2)
    sampled = trained(tiny_folder, tmp_path / "k1", kl_estimator="k1", kl_coef=0.5, rollouts=2)
    spread = [history(trainer, "advantage/std") for trainer in (exact, sampled)]
    assert spread[0][0] == spread[1][0]  # nothing has moved, both are 0
    assert spread[0][1] != spread[1][1]


def test_the_exact_kl_has_the_gradient_of_the_whole_distributions(tiny_folder):
    model = ActorCritic.from_pretrained(tiny_folder).eval()
    model.add_reference()
    with torch.no_grad():
        shape = model.policy.lm_head.weight.shape
        model.policy.lm_head.weight.add_(0.1 * torch.randn(shape, generator=torch.Generator().manual_seed(0)))
    inputs = {"input_ids": torch.arange(40, 48)[None], "attention_mask": torch.ones(1, 8, dtype=torch.int64)}
    model(inputs, ("logprobs", "kl"), temperature=0.5, forbidden_ids=(3,))["kl"].sum().backward()
    found = {name: each.grad.clone() for name, each in model.policy.named_parameters() if each.grad is not None}
    assert not any(each.grad is not None for each in model.reference.parameters())
    model.zero_grad()
    ours, theirs = (each(**inputs).logits[0, :-1] / 0.5 for each in (model.policy, model.reference))
    kept = [token for token in range(ours.shape[1]) if token != 3]
    p, q = (torch.distributions.Categorical(logits=each[:, kept]) for each in (ours, theirs))
    torch.distributions.kl_divergence(p, q).sum().backward()
    assert max(float(gradient.abs().max()) for gradient in found.values()) > 1e-3
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, model.policy.get_parameter(name).grad, rtol=1e-3, atol=1e-5, msg=name)


def test_the_kl_in_the_loss_can_be_exact(tiny_folder, tmp_path):
    run = {"optim": "sgd", "learning_rate": 0.2, "kl_coef": 0.0, "rollouts": 2, "minibatches": 1}
    exact, k3, none = (
        trained(tiny_folder, tmp_path / name, kl_loss_coef=weight, kl_loss_estimator=name, **run)
        for name, weight in (("exact", 5.0), ("k3", 5.0), ("k3", 1e-9))
    )
    found = [history(trainer, "policy/kl_loss") for trainer in (exact, k3)]
    assert found[0][0] == pytest.approx(0, abs=1e-6)  # the first update begins at the reference
    assert found[0][1] > 1e-4
    # The first update was the same, so both are of the same distributions: k3 from the drawn tokens alone.
    assert found[1][1] == pytest.approx(found[0][1], rel=0.9)
    assert found[1][1] != found[0][1]
    assert not torch.equal(weights(exact)["policy.lm_head.weight"], weights(none)["policy.lm_head.weight"])


def test_the_log_says_where_the_time_went(tiny_folder, tmp_path):
    trainer = trained(tiny_folder, tmp_path)
    shares = [history(trainer, f"share/{part}") for part in ("generation", "environment", "judge", "score", "update")]
    assert all(0 <= share[0] <= 1 for share in shares)
    assert 0.5 < sum(share[0] for share in shares) <= 1
    assert history(trainer, "tokens_per_second")[0] > 0
    assert history(trainer, "turn/share/1") == [1]
    both = history(trainer, "turn/reward/0")[0] + history(trainer, "turn/reward/1")[0]
    assert both == pytest.approx(history(trainer, "rollout/return")[0])


def test_samples_are_printed_with_their_rewards(tiny_folder, tmp_path, capsys):
    pytest.importorskip("rich")
    trained(tiny_folder, tmp_path, log_samples=3)
    table = capsys.readouterr().out
    assert "brevity" in table
    assert table.count("level ") == 3


def test_a_run_that_was_cut_while_writing_resumes_from_the_checkpoint_before(tiny_folder, tmp_path):
    run = {"rollouts": 2, "save_strategy": "steps", "save_steps": 2}
    assert last_checkpoint(tmp_path) is None
    trained(tiny_folder, tmp_path, **run)
    assert last_checkpoint(tmp_path).name == "checkpoint-4"
    (tmp_path / "checkpoint-4" / "complete").unlink()
    assert last_checkpoint(tmp_path).name == "checkpoint-2"


def test_a_critic_that_would_not_be_used_is_refused(tiny_folder, tmp_path):
    with pytest.raises(TrainingConfigError, match="shared_backbone"):
        MultiTurnPPOTrainer(tiny_folder, config(tmp_path, shared_backbone=True), critic=tiny_folder)


def test_a_rollout_in_which_all_failed_is_counted_and_changes_nothing(tiny_folder, tmp_path):
    def down(turn):
        raise TimeoutError("the judge is down")

    before = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path)))
    trainer = trained(tiny_folder, tmp_path, score=down, max_failed=1.0)
    same(before, weights(trainer))
    assert history(trainer, "rollout/failed") == [8]


def test_too_many_failed_episodes_stop_the_training_with_the_reason(tiny_folder, tmp_path):
    def often_down(turn):
        if turn.level["seed"] % 8 > 2:
            raise TimeoutError("the judge is down")
        return likes_short_words(turn)

    message = r"5 of 8 episodes of rollout 0 failed, .*max_failed=0.5 .*5 of them with: TimeoutError .*judge is down"
    with pytest.raises(TrainingDataError, match=message):
        trained(tiny_folder, tmp_path, score=often_down)


def test_broken_weights_stop_the_training_before_an_update(tiny_folder, tmp_path):
    class Says(TransformersSampler):
        def sample(self, prompts, sampling, seeds):
            end = self.codec.tokenizer.eos_token_id
            return [Reply((end,), (0.0,)) for _ in prompts]

    trainer = MultiTurnPPOTrainer(tiny_folder, config(tmp_path), score=likes_short_words, make_sampler=Says)
    with torch.no_grad():
        trainer.model.policy.lm_head.weight[0, 0] = torch.nan
    with pytest.raises(TrainingDataError, match="no numbers"):
        trainer.train()


@pytest.mark.parametrize("of", ["policy.lm_head.weight", "value_head.weight"])
def test_an_update_whose_gradient_is_no_number_is_skipped_and_counted(of, tiny_folder, tmp_path):
    trainer = MultiTurnPPOTrainer(tiny_folder, config(tmp_path), score=likes_short_words)
    before, broken = weights(trainer), [True, False]
    trainer.model.get_parameter(of).register_hook(lambda gradient: gradient * (torch.nan if broken.pop(0) else 1))
    snapshots = []
    trainer.optimizer = trainer.create_optimizer()
    trainer.optimizer.register_step_post_hook(lambda *_: snapshots.append(weights(trainer)))
    trainer.train()
    assert history(trainer, "update/skipped") == [1, 0]
    same(before, snapshots[0])
    assert not torch.equal(before["policy.lm_head.weight"], snapshots[1]["policy.lm_head.weight"])
    assert all(tensor.isfinite().all() for tensor in snapshots[1].values())


def test_ten_such_updates_in_a_row_end_the_run(tiny_folder, tmp_path):
    trainer = MultiTurnPPOTrainer(tiny_folder, config(tmp_path, epochs_per_rollout=6), score=likes_short_words)
    before = weights(trainer)
    trainer.model.get_parameter("value_head.weight").register_hook(lambda gradient: gradient * torch.nan)
    with pytest.raises(TrainingDataError, match="update 9 are no numbers, 10 in a row"):
        trainer.train()
    same(before, weights(trainer))


def test_failed_episodes_are_as_if_they_had_not_been_played(tiny_folder, tmp_path):
    def sometimes_down(turn):
        if turn.level["seed"] % 2:
            raise TimeoutError("the judge is down")
        return likes_short_words(turn)

    trainer = trained(tiny_folder, tmp_path, score=sometimes_down)
    assert history(trainer, "rollout/failed") == [4]
    assert all(tensor.isfinite().all() for tensor in weights(trainer).values())


def test_evaluation_plays_the_validation_split(tiny_folder, tmp_path):
    seen = set()

    def watch(turn):
        seen.add(turn.level["split"])
        return []

    trainer = MultiTurnPPOTrainer(tiny_folder, config(tmp_path, eval_episodes=3), score=watch)
    metrics = trainer.evaluate()
    assert seen == {"val"}
    assert metrics.keys() == {"eval_success", "eval_return", "eval_failed"}
    assert metrics["eval_failed"] == 0


def test_a_critic_learns_what_forks_found_in_place_of_returns(tiny_folder, tmp_path):
    """Every state is said to be worth 5, whatever came of it: all its values draw near that, and nothing else."""
    options = {"advantage": "turn_gae", "rollouts": 2, "forks": 2, "critic_updates": 30, "critic_learning_rate": 3e-2,
               "reward_scale": 0.1, "value_clip": None}  # fmt: skip
    trainer = MultiTurnPPOTrainer(tiny_folder, config(tmp_path, **options), score=likes_short_words)
    trainer.player.play_forks = lambda episodes, number: (episodes, [[5.0] * len(each.turns) for each in episodes])
    trainer.train()
    scored = trainer._scored
    said = scored.turn_ids >= 0
    known = scored.advantages.returns != 0
    assert scored.advantages.returns[known].unique().tolist() == [0.5]
    assert (known[:, :-1] & said).sum() == said.sum()
    rows = torch.arange(len(scored.sequences))
    with torch.no_grad():
        inputs = trainer._inputs(scored.sequences, rows, ["values"])
        values = trainer.model.eval()(inputs, ["values"], temperature=1.0)["values"]
    begins = scored.advantages.value_mask[:, : values.shape[1]]
    assert (values[begins] - 0.5).abs().mean() < 0.15


def test_the_critic_has_updates_of_its_own_on_what_the_last_rollouts_played(tiny_folder, tmp_path):
    """They draw from this rollout and the one before, move no weight of the policy, and a run repeats bit by bit."""
    options = {"advantage": "turn_gae", "rollouts": 3, "critic_updates": 4, "critic_replay": 1}
    drawn, moved = [], []

    class Watched(MultiTurnPPOTrainer):
        def _backward(self, model, batches, number, of_critic):
            if of_critic:
                drawn.append((number, [len(rows) for _, rows in batches]))
                self.before = {name: each.clone() for name, each in weights(self).items()}
            return super()._backward(model, batches, number, of_critic)

        def log(self, logs, start_time=None):
            if hasattr(self, "before"):
                now = weights(self)
                moved.append({name.split(".")[0] for name in now if not torch.equal(now[name], self.before[name])})
                del self.before
            super().log(logs, start_time)

    ends = []
    for folder in ("one", "again"):
        trainer = Watched(tiny_folder, config(tmp_path / folder, **options), score=likes_short_words)
        trainer.train()
        ends.append(weights(trainer))
        assert trainer.state.global_step == 3 * (2 + 4)
    same(*ends)
    assert {len(rows) for number, rows in drawn if number == 0} == {1}
    assert {len(rows) for number, rows in drawn if number == 2} == {2}
    assert all(sum(rows) == 4 for _, rows in drawn)  # as many as a mini-batch has
    assert len(drawn) == 2 * 3 * 4
    assert moved
    assert all(parts <= {"critic", "value_head"} for parts in moved)


@pytest.mark.parametrize("heads_only", [True, False])
def test_values_of_heads_alone_pull_at_no_weight_of_the_policy(heads_only, tiny_folder, tmp_path):
    """So what their loss weighs makes no difference to it; on a backbone that they teach too, it does."""
    options = {"shared_backbone": True, "critic_reads": True, "critic_heads_only": heads_only, "advantage": "turn_gae"}
    ends = []
    for weight in (0.1, 10.0):
        trainer = MultiTurnPPOTrainer(
            tiny_folder, config(tmp_path, value_coef=weight, **options), score=likes_short_words
        )
        trainer.train()
        ends.append({name: each for name, each in weights(trainer).items() if name.startswith("policy.")})
    moved = any(not torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    assert moved is not heads_only


def test_evaluations_say_how_much_of_what_could_be_known_the_critic_knows(tiny_folder, tmp_path):
    """A critic that says the same of every state knows nothing of them, whatever they are worth."""
    options = {"env_options": {**config(tmp_path).env_options, "max_turns": 3}, "eval_episodes": 8}
    options |= {"eval_rollouts": 1, "eval_forks": 2}
    trainer = MultiTurnPPOTrainer(
        tiny_folder, config(tmp_path, advantage="turn_gae", **options), score=likes_short_words
    )
    assert trainer.model.value_head.weight.abs().max() == 0
    metrics = trainer.evaluate()
    assert metrics["eval_critic_of_worth"] == pytest.approx(0, abs=1e-6)
    assert metrics["eval_critic_explained"] == pytest.approx(0, abs=1e-6)
    assert metrics["eval_critic_ceiling"] < 1


def test_evaluations_make_a_curve_keep_the_best_model_and_stop_when_nothing_gets_better(
    tiny_folder, tmp_path, monkeypatch
):
    """What each evaluation solves is given here; that episodes of `val` are played is tested above."""
    solved = iter([0.1, 0.5, 0.3, 0.5, 0.9])
    trainer = MultiTurnPPOTrainer(
        tiny_folder, config(tmp_path, rollouts=5, eval_rollouts=1, eval_episodes=2, patience=2), score=likes_short_words
    )
    kept = []
    monkeypatch.setattr(trainer.player, "play", _validation_solves(trainer, solved, kept))
    trainer.train()
    assert history(trainer, "eval_success") == [0.1, 0.5, 0.3, 0.5]
    assert trainer.state.global_step == 8  # after the fourth rollout: the third and fourth were no better
    curve = json.loads((tmp_path / "evaluations.json").read_text())
    assert [(entry["step"], entry["eval_success"]) for entry in curve] == [(2, 0.1), (4, 0.5), (6, 0.3), (8, 0.5)]
    best = dict(ActorCritic.from_pretrained(str(tmp_path / "best")).state_dict())
    same(best, kept[1])


def _validation_solves(trainer, solved, kept):
    play = trainer.player.play

    def played(levels, seed, **options):
        episodes = play(levels, seed, **options)
        if levels[0].split == "val":
            kept.append(weights(trainer))
            share = next(solved)
            monkey = type(
                "Solved", (), {"success": share, "rewards": share, "failure": None, "terminated": True, "turns": ()}
            )
            return [monkey() for _ in episodes]
        return episodes

    return played


def test_transformers_own_way_to_ask_for_evaluations_works_too(tiny_folder, tmp_path):
    trainer = trained(tiny_folder, tmp_path, eval_strategy="steps", eval_steps=1, eval_episodes=2)
    assert len(history(trainer, "eval_success")) == 2


@pytest.mark.parametrize(("num_levels", "alike"), [(0, False), (8, True)])
def test_seeds_train_on_levels_of_their_own_unless_these_are_a_pool(num_levels, alike, tiny_folder, tmp_path):
    seen = ([], [])
    for seed, boards in enumerate(seen):
        score = lambda turn, boards=boards: boards.append(turn.level["content"]) or []  # noqa: E731
        trained(tiny_folder, tmp_path, score=score, seed=seed, num_levels=num_levels)
    assert (set(seen[0]) == set(seen[1])) is alike


def test_levels_are_played_with_prompts_drawn_from_a_pool_alike_within_a_group(tiny_folder, tmp_path):
    seen = {}

    def watch(turn):
        seen.setdefault(turn.level["seed"], set()).add(turn.observed.text)
        return likes_short_words(turn)

    packs = ["default", tiny.PROMPTS]
    options = ONE_TURN | {"observation": "text"}
    texts = {}
    for pack in packs:
        env = gym.make("vagen/FrozenLake-v0", **options | {"prompt_pack": pack})
        texts[pack] = [env.reset(seed=seed, options={"split": "train"})[0]["text"] for seed in range(8)]
    del options["prompt_pack"]
    trained(tiny_folder, tmp_path, score=watch, env_options=options, prompt_pool=packs, num_levels=8,
            episodes_per_rollout=16, num_envs=3, group_size=2)  # fmt: skip
    drawn = [next(pack for pack in packs if seen[seed] == {texts[pack][seed]}) for seed in range(8)]
    assert set(drawn) == set(packs)


def test_progress_is_shown_by_trls_rich_callback_and_trackers_get_every_entry(tiny_folder, tmp_path, capsys):
    from transformers import TrainerCallback
    from trl.trainer.callbacks import RichProgressCallback

    class Tracker(TrainerCallback):  # as Trainer's trackers are
        entries: ClassVar[list[str]] = []

        def on_log(self, args, state, control, logs=None, **kwargs):
            self.entries.extend(logs)

    trainer = MultiTurnPPOTrainer(tiny_folder, config(tmp_path), callbacks=[RichProgressCallback(), Tracker()])
    trainer.train()
    assert {"loss", "rollout/success", "policy/entropy", "source/vagen/FrozenLake-v0/success"} <= set(Tracker.entries)
    shown = capsys.readouterr().out
    assert "Step 2" in shown
    assert "cut_replies" in shown


def test_the_sampler_can_be_another(tiny_folder, tmp_path):
    calls = []

    class Counting(TransformersSampler):
        def sample(self, prompts, sampling, seeds):
            calls.extend(seeds)
            return super().sample(prompts, sampling, seeds)

    trained(tiny_folder, tmp_path, make_sampler=Counting, rollouts=2)
    assert len(calls) == len(set(calls)) == 32  # two turns of eight episodes in two rollouts, no seed twice


def test_checkpoints_are_where_rollouts_end_unless_it_is_said_where(tmp_path):
    """transformers' default of 500 updates lies between rollouts of twelve."""
    assert config(tmp_path, save_strategy="steps", minibatches=4, epochs_per_rollout=3).save_steps == 504
    assert config(tmp_path, save_strategy="steps").save_steps == 500


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advantage": "bilevel_gea"}, "Did you mean"),
        ({"advantage_settings": {"gamma_trun": 1}}, "bilevel_gae has no setting 'gamma_trun'"),
        ({"advantage": "grpo"}, "group_size=1"),
        ({"advantage": "gigpo"}, "group_size=1"),
        ({"advantage": "vine"}, "forks=0"),
        ({"forks": 2, "advantage": "rloo", "group_size": 2}, "forks=2"),
        ({"advantage": "rloo", "group_size": 2, "critic_gate": True}, "critic_gate=True"),
        ({"episodes_per_rollout": 9, "group_size": 2}, "a multiple of group_size=2"),
        ({"minibatches": 9}, "at most episodes_per_rollout=8"),
        ({"save_strategy": "steps", "save_steps": 3}, "a multiple of the 2 updates"),
        ({"critic_updates": -1}, "critic_updates=-1"),
        ({"critic_updates": 1, "advantage": "rloo", "group_size": 2}, "rloo has no critic"),
        ({"critic_replay": 1}, "critic_replay=1"),
        ({"critic_heads_only": True}, "false without shared_backbone"),
        ({"eval_forks": 1}, "eval_forks=1"),
        ({"max_steps": 7}, "max_steps=7 is not valid: it must be left out: rollouts=1 makes it 2"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"keep_variance_share": 0.5}, "group_size=1"),
        ({"max_failed": 1.5}, "max_failed=1.5"),
        ({"patience": 2}, "patience=2"),
        ({"eval_rollouts": -1}, "eval_rollouts=-1"),
        ({"load_best_model_at_end": True}, "eval_rollouts keeps the best"),
        ({"kl_loss_estimator": "k1"}, "kl_loss_estimator='k1'"),
        ({"prompt_pool": ["terse"]}, "env_options names a prompt_pack"),
        ({"advantage": "token_gae", "advantage_settings": {"mask_observations": False}, "ratio_level": "turn"},
         "observations are in no turn"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused_at_once(changes, message, tmp_path):
    with pytest.raises(TrainingConfigError, match=message):
        config(tmp_path, **changes)


def test_sentences_are_not_paid_where_no_reward_says_what_they_are_worth(tiny_folder, tmp_path):
    with pytest.raises(TrainingConfigError, match="and none is given; give one as score"):
        MultiTurnPPOTrainer(tiny_folder, config(tmp_path, reasoning_credit="claim"))


def test_every_setting_is_documented():
    own = {field.name for field in dataclasses.fields(MultiTurnPPOConfig)} - {
        field.name for field in dataclasses.fields(MultiTurnPPOConfig.__mro__[1])
    }
    text = MultiTurnPPOConfig.__doc__
    assert not [name for name in own if name not in text]


def test_what_is_used_of_trl_is_there():
    """These are not TRL's public names; the extra pins its minor version."""
    from trl.trainer.base_config import _BaseConfig
    from trl.trainer.base_trainer import _BaseTrainer
    from trl.trainer.utils import selective_log_softmax_and_entropy

    assert callable(selective_log_softmax_and_entropy)
    assert issubclass(MultiTurnPPOTrainer, _BaseTrainer)
    assert issubclass(MultiTurnPPOConfig, _BaseConfig)
    assert callable(_BaseTrainer._send_telemetry)
    assert Path(MultiTurnPPOTrainer._send_telemetry.__code__.co_filename).name == "trainer.py"
