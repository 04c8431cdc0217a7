"""The trainer end to end on a tiny model: it learns, resumes, and trains alike what is alike."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import pytest
import torch
from copy_sampler import CopySampler
from ppo_training import (
    LAKE,
    OPTIONS,
    config,
    history,
    lake,
    likes_short_words,
    same,
    trained,
    weights,
)

from vagen_adapters.errors import TrainingConfigError, TrainingDataError
from vagen_adapters.parity import tiny_model as tiny
from vagen_adapters.ppo import checkpoints
from vagen_adapters.ppo.actor_critic import ActorCritic
from vagen_adapters.ppo.chat_encoder import load_policy
from vagen_adapters.ppo.estimators import ESTIMATORS, WITHOUT_CRITIC
from vagen_adapters.ppo.generation import SampledReply, TransformersSampler
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer


def test_it_learns_what_is_rewarded(tiny_folder, tmp_path):
    trainer = trained(
        tiny_folder,
        tmp_path,
        environments=lake(max_turns=1),
        rollouts=8,
        episodes_per_rollout=16,
        epochs_per_rollout=2,
        learning_rate=4e-3,
        lr_scheduler_type="constant",
    )
    returns = history(trainer, "reward/brevity")
    assert sum(returns[-3:]) / 3 > sum(returns[:2]) / 2 + 0.05
    assert history(trainer, "critic/explained_variance")[-1] > -0.5


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_updates_the_model(name, tiny_folder, tmp_path):
    settings = {"mask_observations": False} if name == "token_gae" else {}
    context = "last:1" if name in ("dual_discount_gae", "turn_gae") else "all"
    before = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path)))
    trainer = trained(
        tiny_folder,
        tmp_path,
        advantage=name,
        advantage_settings=settings,
        context=context,
        group_size=4,
        continuations=2 if name == "vine" else 0,
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
    assert history(trainer, "policy/sampler_gap")[0] < 1e-4


def test_a_single_update_is_that_of_scored_log_probabilities(tiny_folder, tmp_path):
    """Without a second pass over the rollout; `kl_loss_coef` asks for one."""
    common = {"advantage": "grpo", "group_size": 4, "minibatches": 1, "rollouts": 3, "kl_coef": 0.0}
    alone = trained(tiny_folder, tmp_path / "alone", **common)
    scored = trained(tiny_folder, tmp_path / "scored", **common, kl_loss_coef=1e-30)
    assert (alone._experience.old_logprobs is None, scored._experience.old_logprobs is None) == (
        True,
        False,
    )
    same(weights(alone), weights(scored), rtol=0, atol=1e-5)
    assert history(alone, "policy/sampler_gap") == pytest.approx(
        history(scored, "policy/sampler_gap"), rel=0.1
    )
    assert history(alone, "policy/clip_fraction") == [0, 0, 0]


@pytest.mark.parametrize("coefficient", [0.0, 0.01], ids=["in the update", "scored before"])
def test_a_perfect_sampler_has_no_gap_under_top_p_and_another_is_warned_of(
    coefficient, tiny_folder, tmp_path, caplog
):
    """Top-p of 0.5 makes the sampler's log-probabilities higher by up to log 2."""
    common = {"advantage": "grpo", "group_size": 4, "minibatches": 1, "kl_coef": 0.0, "top_p": 0.5}
    common["kl_loss_coef"] = coefficient
    trainer = trained(tiny_folder, tmp_path, **common)
    assert history(trainer, "policy/sampler_gap")[0] < 1e-4
    assert "policy/sampler_gap" not in caplog.text

    class Off(TransformersSampler):
        def sample(self, prompts, sampling, seeds):
            replies = super().sample(prompts, sampling, seeds)
            return [
                SampledReply(each.ids, tuple(entry - 0.05 for entry in each.logprobs))
                for each in replies
            ]

    off = trained(tiny_folder, tmp_path, make_sampler=Off, **common)
    assert history(off, "policy/sampler_gap")[0] == pytest.approx(0.05, abs=1e-3)
    assert "policy/sampler_gap is 0.050" in caplog.text


ALIKE = {
    "padding": (
        {"rtol": 1e-4, "atol": 1e-5},
        [{"per_device_train_batch_size": size} for size in (1, 3, 8)],
    ),
    "cutting": (
        {"rtol": 1e-4, "atol": 1e-5},
        [
            {"context": context, "minibatches": 1, "epochs_per_rollout": 2}
            for context in ("all", "last:9")
        ],
    ),
    "recomputing": (
        {"rtol": 1e-5, "atol": 1e-6},
        [{"gradient_checkpointing": on} for on in (False, True)],
    ),
}


@pytest.mark.parametrize(("tolerance", "alike"), ALIKE.values(), ids=ALIKE)
def test_what_changes_only_the_computation_trains_alike(tolerance, alike, tiny_folder, tmp_path):
    """The split of a mini-batch, where an episode's text is cut (its turns read the same before them), activations."""
    common = {"optim": "sgd", "learning_rate": 0.1}
    found = [
        weights(trained(tiny_folder, tmp_path / str(n), **common, **each))
        for n, each in enumerate(alike)
    ]
    for other in found[1:]:
        same(found[0], other, **tolerance)


def test_mixed_precision_trains_nearly_the_same_in_full_precision_weights(tiny_folder, tmp_path):
    full, mixed = (trained(tiny_folder, tmp_path / str(bf16), bf16=bf16) for bf16 in (False, True))
    assert all(
        tensor.dtype == torch.float32 and tensor.isfinite().all()
        for tensor in weights(mixed).values()
    )
    assert not torch.equal(
        weights(full)["policy.lm_head.weight"], weights(mixed)["policy.lm_head.weight"]
    )
    entropies = [history(trainer, "policy/entropy")[0] for trainer in (full, mixed)]
    assert entropies[0] != entropies[1]
    assert entropies[0] == pytest.approx(entropies[1], rel=0.01)
    # Scores are computed as the updates are: in the first one nothing has moved.
    assert history(mixed, "policy/kl_to_old")[0] == pytest.approx(0, abs=1e-5)


def test_a_checkpoint_in_bfloat16_is_trained_in_float32_where_small_updates_count(
    tiny_folder, tmp_path
):
    model, encoder = load_policy(tiny_folder)
    model.to(torch.bfloat16).save_pretrained(tmp_path / "half")
    encoder.save_pretrained(tmp_path / "half")
    before = weights(MultiTurnPPOTrainer(str(tmp_path / "half"), config(tmp_path)))
    after = weights(trained(str(tmp_path / "half"), tmp_path, bf16=True, learning_rate=1e-6))
    assert all(tensor.dtype == torch.float32 for tensor in after.values())
    name = "policy.lm_head.weight"
    assert (before[name] != after[name]).float().mean() > 0.5
    lost = before[name].bfloat16() == after[name].bfloat16()
    assert lost.float().mean() > 0.9


SUMMARIES = {"context": "summary:2:5", "environments": lake(max_turns=5)}


@pytest.mark.parametrize(
    "changes", [{}, {**SUMMARIES, "advantage": "turn_gae"}], ids=["all", "summary"]
)
def test_a_resumed_run_ends_bit_exactly_where_the_whole_one_does(changes, tiny_folder, tmp_path):
    run = {
        **changes,
        "rollouts": 2,
        "epochs_per_rollout": 2,
        "save_strategy": "steps",
        "save_steps": 4,
        "save_total_limit": 5,
    }
    whole = trained(tiny_folder, tmp_path, **run)
    resumed = MultiTurnPPOTrainer(tiny_folder, config(tmp_path, **run), score=likes_short_words)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    same(weights(whole), weights(resumed))
    assert history(resumed, "rollout/return")[-1] == history(whole, "rollout/return")[-1]


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in ("vine", "gigpo")])
def test_every_estimator_that_can_trains_on_summaries(name, tiny_folder, tmp_path):
    before = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path)))
    run = {
        **SUMMARIES,
        "advantage": name,
        "group_size": 4,
        "loss_level": "turn",
        "max_staleness": 1,
        "generation": "vllm-server",
        "sampler_correction": "token",
    }
    trainer = trained(tiny_folder, tmp_path, **run, rollouts=2, make_sampler=CopySampler)
    assert not torch.equal(
        before["policy.lm_head.weight"], weights(trainer)["policy.lm_head.weight"]
    )
    assert history(trainer, "policy/kl_to_old")[0] == pytest.approx(0, abs=1e-5)
    assert history(trainer, "policy/sampler_gap")[0] < 1e-4
    assert history(trainer, "rollout/summary_tokens")[0] <= 5
    sequences = trainer._experience.sequences
    for row, episode in zip(sequences.rows, sequences.episodes, strict=True):
        steps = episode.steps
        assert len(steps) == 7  # five turns, and summaries before the third and the fifth
        for turn in set(row.turn_ids) - {-1}:
            tokens = tuple(
                token
                for token, owner in zip(row.prompt.ids, row.turn_ids, strict=True)
                if owner == turn
            )
            assert tokens == steps[turn].reply.ids
    assert sorted(turn for row in sequences.rows for turn in set(row.turn_ids) - {-1}) == sorted(
        [*range(7)] * 8
    )


def test_credit_flows_over_a_summary_and_is_not_discounted_there(tiny_folder, tmp_path):
    """Turn GAE over a whole episode as a literal loop: all that a summary's tokens earn is what comes after it."""
    run = {
        **SUMMARIES,
        "advantage": "turn_gae",
        "advantage_settings": {"gamma": 0.9, "lam": 0.8},
        "kl_coef": 0.0,
    }
    trainer = trained(tiny_folder, tmp_path, **run, minibatches=1)
    experience = trainer._experience
    values, returns, known = (
        experience.old_values,
        experience.advantages.returns,
        experience.advantages.value_mask,
    )
    for number in range(8):
        rows = [
            row
            for row, owner in enumerate(experience.sequences.episode_ids.tolist())
            if owner == number
        ]
        episode, starts = experience.sequences.episodes[rows[0]], {}
        for row in rows:
            for column, turn in enumerate(experience.sequences.rows[row].turn_ids):
                if turn >= 0:
                    starts.setdefault(turn, (row, column))
        advantage, following = 0.0, 0.0
        for turn in reversed(range(len(episode.steps))):
            is_summary, place = turn in (2, 5), starts[turn]
            gamma, lam = (1.0, 1.0) if is_summary else (0.9, 0.8)
            reward = 0.0 if is_summary else episode.steps[turn].reward
            advantage = reward + gamma * following - float(values[place]) + gamma * lam * advantage
            following = float(values[place])
            assert known[place]
            assert float(returns[place]) == pytest.approx(advantage + following, abs=1e-5)


def test_a_saved_folder_loads_as_a_model_with_its_critic(tiny_folder, tmp_path):
    trainer = trained(tiny_folder, tmp_path / "run")
    trainer.save_model(str(tmp_path / "saved"))
    loaded = ActorCritic.from_pretrained(str(tmp_path / "saved"))
    same(weights(trainer), dict(loaded.state_dict()))
    again = MultiTurnPPOTrainer(str(tmp_path / "saved"), config(tmp_path / "again"))
    assert again.encoder.pad_id == trainer.encoder.pad_id


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


def test_frozen_vision_towers_stay(tiny_folder, tmp_path):
    before = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path)))
    after = weights(trained(tiny_folder, tmp_path, freeze_vision=True))
    moved = {key for key in after if not torch.equal(before[key], after[key])}
    assert moved
    assert not any(".visual." in key for key in moved)


@pytest.mark.parametrize("warmup", [0, 1])
def test_a_shared_backbone_learns_from_both_losses_but_not_while_the_critic_warms_up(
    warmup, tiny_folder, tmp_path
):
    before = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path, shared_backbone=True)))
    trainer = of_the_first_rollout(
        tiny_folder, tmp_path, shared_backbone=True, critic_warmup_rollouts=warmup
    )
    after = weights(trainer)
    moved = {key.partition(".")[0] for key in after if not torch.equal(before[key], after[key])}
    assert moved == ({"value_head"} if warmup else {"policy", "value_head"})
    trainer.save_model(str(tmp_path / "saved"))
    same(
        after,
        dict(ActorCritic.from_pretrained(str(tmp_path / "saved"), critic="shared").state_dict()),
    )


def gradients_of_an_update(tiny_folder, tmp_path, **changes):
    """Of the policy's weights and of the value head, before they are clipped."""
    trainer = MultiTurnPPOTrainer(
        tiny_folder, config(tmp_path, shared_backbone=True, entropy_coef=0.1, **changes)
    )
    torch.nn.init.constant_(trainer.model.value_head.weight, 0.1)
    experience = trainer.collect_experience(0)
    rows = torch.arange(len(experience.sequences.rows))
    trainer.backward(experience, rows, only_critic=False)
    of_policy = [
        each.grad.flatten() for each in trainer.model.policy.parameters() if each.requires_grad
    ]
    return torch.cat(of_policy), trainer.model.value_head.weight.grad


def test_vf_coef_weighs_what_values_teach_a_shared_backbone(tiny_folder, tmp_path):
    alone, head = gradients_of_an_update(tiny_folder, tmp_path, vf_coef=0.0)
    assert alone.norm() > 0
    assert head.norm() > 0
    whole, same_head = gradients_of_an_update(tiny_folder, tmp_path, vf_coef=1.0)
    torch.testing.assert_close(same_head, head)
    of_values = whole - alone
    assert of_values.norm() > 1e-3 * alone.norm()
    by_default, same_head = gradients_of_an_update(tiny_folder, tmp_path)
    torch.testing.assert_close(same_head, head)
    torch.testing.assert_close(by_default, alone + 0.1 * of_values)


LORA = {"r": 4, "target_modules": ["q_proj", "v_proj"], "init_lora_weights": True}


def test_with_lora_only_adapters_and_the_value_head_are_trained(tiny_folder, tmp_path):
    run = {
        "lora": LORA,
        "rollouts": 2,
        "save_strategy": "steps",
        "save_steps": 2,
        "learning_rate": 1e-2,
    }
    before = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path, lora=LORA)))
    same(before, weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path, lora=LORA))))
    other = weights(MultiTurnPPOTrainer(tiny_folder, config(tmp_path, lora=LORA, seed=1)))
    assert all(before[name].equal(other[name]) != ("lora_A" in name) for name in before)
    whole = trained(tiny_folder, tmp_path, **run)
    moved = {
        key
        for key, each in weights(whole).items()
        if "lora_B" in key or not torch.equal(before[key], each)
    }
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

    ids = torch.arange(20, 40)[None]
    policies = (
        whole.model.policy.eval(),
        load_policy(tmp_path / "checkpoint-4")[0],
        load_policy(tiny_folder)[0],
    )
    played, read, before = (policy(input_ids=ids).logits for policy in policies)
    torch.testing.assert_close(played, read)
    assert (played - before).abs().max() > 1e-3


def test_the_log_has_each_turn_apart(tiny_folder, tmp_path):
    trainer = trained(tiny_folder, tmp_path)
    assert history(trainer, "tokens_per_second")[0] > 0
    assert history(trainer, "turn/share/1") == [1]
    both = history(trainer, "turn/reward/0")[0] + history(trainer, "turn/reward/1")[0]
    assert both == pytest.approx(history(trainer, "rollout/return")[0])


def test_checkpoints_go_by_their_steps_and_are_marked_before(tmp_path, monkeypatch):
    """Times of modification say nothing: of a copy they are new, and what a kill left half deleted was touched last."""
    first, second, third, last = folders = [
        tmp_path / f"checkpoint-{step}" for step in (2, 4, 6, 10)
    ]
    for folder in folders:
        folder.mkdir()
        (folder / "model").write_text("weights")
        checkpoints.mark_complete(folder, config(tmp_path).to_dict())
    os.utime(first, (2**32, 2**32))
    (tmp_path / "checkpoint-2.old").mkdir()
    (third / "model").unlink()
    checkpoints.rotate(tmp_path, 2, {last})
    assert {*tmp_path.iterdir()} == {second, last, tmp_path / "checkpoint-2.old"}
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)  # as if killed there
    checkpoints.rotate(tmp_path, 1, {last})
    (last / "complete").unlink()
    assert checkpoints.last_checkpoint(tmp_path) is None


def test_too_many_failed_episodes_stop_the_training_with_the_reason(tiny_folder, tmp_path):
    def often_down(turn):
        if turn.level["seed"] % 8 > 2:
            raise TimeoutError("the judge is down")
        return likes_short_words(turn)

    message = r"5 of 8 episodes of rollout 0 failed; 5 of them with: TimeoutError .*judge is down"
    with pytest.raises(TrainingDataError, match=message):
        trained(tiny_folder, tmp_path, score=often_down)


def test_broken_weights_stop_the_training_before_an_update(tiny_folder, tmp_path):
    class Says(TransformersSampler):
        def sample(self, prompts, sampling, seeds):
            end = self.encoder.tokenizer.eos_token_id
            return [SampledReply((end,), (0.0,)) for _ in prompts]

    trainer = MultiTurnPPOTrainer(
        tiny_folder, config(tmp_path), score=likes_short_words, make_sampler=Says
    )
    with torch.no_grad():
        trainer.model.policy.lm_head.weight[0, 0] = torch.nan
    with pytest.raises(TrainingDataError, match="aren't finite"):
        trainer.train()


@pytest.mark.parametrize("of", ["policy.lm_head.weight", "value_head.weight"])
def test_an_update_whose_gradient_is_no_number_is_skipped_and_counted(of, tiny_folder, tmp_path):
    trainer = MultiTurnPPOTrainer(tiny_folder, config(tmp_path), score=likes_short_words)
    before, broken = weights(trainer), [True, False]
    trainer.model.get_parameter(of).register_hook(
        lambda gradient: gradient * (torch.nan if broken.pop(0) else 1)
    )
    snapshots = []
    trainer.optimizer = trainer.create_optimizer()
    trainer.optimizer.register_step_post_hook(lambda *_: snapshots.append(weights(trainer)))
    trainer.train()
    assert history(trainer, "update/skipped") == [1, 0]
    same(before, snapshots[0])
    assert not torch.equal(before["policy.lm_head.weight"], snapshots[1]["policy.lm_head.weight"])
    assert all(tensor.isfinite().all() for tensor in snapshots[1].values())


def test_ten_such_updates_in_a_row_end_the_run(tiny_folder, tmp_path):
    trainer = MultiTurnPPOTrainer(
        tiny_folder, config(tmp_path, epochs_per_rollout=6), score=likes_short_words
    )
    before = weights(trainer)
    trainer.model.get_parameter("value_head.weight").register_hook(
        lambda gradient: gradient * torch.nan
    )
    with pytest.raises(TrainingDataError, match="update 9 aren't finite, 10 in a row"):
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


def test_evaluations_make_a_curve_and_keep_the_best_model(tiny_folder, tmp_path, monkeypatch):
    """What each evaluation solves is given here; that episodes of `val` are played is tested above."""
    solved = iter([0.1, 0.5, 0.3, 0.5])
    trainer = MultiTurnPPOTrainer(
        tiny_folder,
        config(tmp_path, rollouts=4, eval_rollouts=1, eval_episodes=2),
        score=likes_short_words,
    )
    kept = []
    monkeypatch.setattr(trainer.worker, "play", _validation_solves(trainer, solved, kept))
    trainer.train()
    assert history(trainer, "eval_success") == [0.1, 0.5, 0.3, 0.5]
    curve = json.loads((tmp_path / "evaluations.json").read_text())
    assert [(entry["step"], entry["eval_success"]) for entry in curve] == [
        (2, 0.1),
        (4, 0.5),
        (6, 0.3),
        (8, 0.5),
    ]
    best = dict(ActorCritic.from_pretrained(str(tmp_path / "best")).state_dict())
    same(best, kept[1])


@pytest.mark.parametrize("moment", ["writing", "after the first rename", "after the second rename"])
def test_a_kill_while_the_best_model_is_replaced_leaves_a_whole_one(moment, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def save(text):
        def write(folder):
            Path(folder).mkdir(parents=True)
            (Path(folder) / "model").write_text(text)
            if text == "new" and moment == "writing":
                raise Killed

        return write

    checkpoints.replace_best(tmp_path, save("old"), is_main=True)
    renames, rename = [], Path.rename

    def killed(self, target):
        rename(self, target)
        renames.append(self)
        if moment == f"after the {['first', 'second'][len(renames) - 1]} rename":
            raise Killed

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(Killed):
        checkpoints.replace_best(tmp_path, save("new"), is_main=True)
    monkeypatch.undo()
    checkpoints.recover_best(tmp_path)
    assert (tmp_path / "best" / "complete").is_file()
    assert (tmp_path / "best" / "model").read_text() == ("old" if moment == "writing" else "new")
    assert not (tmp_path / "best.old").exists()


def _validation_solves(trainer, solved, kept):
    play = trainer.worker.play

    def played(levels, seed, **options):
        episodes = play(levels, seed, **options)
        if levels[0].split == "val":
            kept.append(weights(trainer))
            share = next(solved)
            figures = {"success": share, "rewards": share, "source": LAKE}
            return [
                SimpleNamespace(**figures, failure=None, is_paused=False, terminated=True, turns=())
                for _ in episodes
            ]
        return episodes

    return played


def test_levels_are_played_with_prompts_drawn_from_a_pool_alike_within_a_group(
    tiny_folder, tmp_path
):
    seen = {}

    def watch(turn):
        seen.setdefault(turn.level["seed"], set()).add(turn.observed.text)
        return likes_short_words(turn)

    packs = ["default", tiny.PROMPTS]
    options = OPTIONS | {"max_turns": 1, "observation": "text"}
    texts = {}
    for pack in packs:
        env = gym.make("vagen/FrozenLake-v0", **options | {"prompt_pack": pack})
        texts[pack] = [
            env.reset(seed=seed, options={"split": "train"})[0]["text"] for seed in range(8)
        ]
    del options["prompt_pack"]
    trained(
        tiny_folder,
        tmp_path,
        score=watch,
        seed=0,
        environments=[{"id": LAKE, "options": options, "prompt_packs": packs}],
        episodes_per_rollout=16,
        num_envs=3,
        group_size=2,
    )
    drawn = [next(pack for pack in packs if seen[seed] == {texts[pack][seed]}) for seed in range(8)]
    assert set(drawn) == set(packs)


def test_sentences_are_not_paid_where_no_reward_says_what_they_are_worth(tiny_folder, tmp_path):
    with pytest.raises(TrainingConfigError, match="and none is given; pass one as score"):
        MultiTurnPPOTrainer(tiny_folder, config(tmp_path, reasoning_credit="span"))
