"""Rollouts that are begun beside updates: by a schedule, with weights that are known for every token."""

import time

import pytest
import torch
from copy_sampler import CopySampler
from ppo_training import config, history, lake, likes_short_words, same, weights
from token_scores import score_tokens
from transformers import TrainerCallback

from vagen_adapters.ppo.generation import SampledReply, model_inputs
from vagen_adapters.ppo.token_sequences import lay_out
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer


def settings(folder, **changes):
    run = {
        "environments": lake(max_turns=3),
        "rollouts": 3,
        "episodes_per_rollout": 6,
        "minibatches": 3,
        "kl_coef": 0.0,
        "learning_rate": 3e-3,
        "sampler_correction": "token",
        "max_staleness": 2,
        "generation": "vllm-server",
        "logging_steps": 3,
    }
    return config(folder, **run | changes)


FORKED = {
    "advantage": "vine",
    "advantage_settings": {"gamma": 0.9},
    "continuations": 2,
    "max_tokens": 12,
}


class Keep(TrainerCallback):
    """The policy's weights before every update, and the episodes of every rollout."""

    def __init__(self):
        self.policies, self.rollouts = [], []

    def on_step_begin(self, args, state, control, model=None, **_):
        self.policies.append(
            {name: each.clone() for name, each in model.policy.state_dict().items()}
        )


def trained(folder, out, slow=0.0, **changes):
    keep = Keep()

    def later(turn):
        time.sleep(slow)
        return likes_short_words(turn)

    trainer = MultiTurnPPOTrainer(
        folder, settings(out, **changes), score=later, callbacks=[keep], make_sampler=CopySampler
    )
    play = trainer.worker.play_enough

    def kept(*words):
        episodes, chosen = play(*words)
        keep.rollouts.append(list(chosen))
        return episodes, chosen

    trainer.worker.play_enough = kept
    trainer.train()
    return trainer, keep


def versions(keep):
    return [
        [
            sorted(
                {episode.turns[turn].version for episode in rollout if len(episode.turns) > turn}
            )
            for turn in range(3)
        ]
        for rollout in keep.rollouts
    ]


def test_each_token_is_known_to_the_weights_that_sampled_it(tiny_folder, tmp_path):
    trainer, keep = trained(tiny_folder, tmp_path)
    # The first rollout has nothing beside it; of each other's three turns one is played beside each of two updates.
    assert versions(keep) == [[[0], [0], [0]], [[1], [2], [3]], [[4], [5], [6]]]
    assert history(trainer, "staleness/max") == [0, 2, 2]
    first, second, *_ = history(trainer, "staleness/mean")
    assert first == 0 < second < 2
    policy, encoder = trainer.model.policy.eval(), trainer.encoder
    for rollout in keep.rollouts:
        for episode in rollout[:2]:
            for number, turn in enumerate(episode.turns):
                policy.load_state_dict(keep.policies[turn.version])
                sequence = lay_out(
                    episode.turns[:number], episode.turns[number : number + 1], None, number
                )
                with torch.no_grad():
                    found, _ = score_tokens(
                        policy,
                        model_inputs([sequence.prompt], encoder, "cpu"),
                        temperature=1.0,
                        forbidden_ids=encoder.forbidden_ids,
                    )
                said = [
                    each
                    for each, of in zip(found[0].tolist(), sequence.turn_ids, strict=True)
                    if of == number
                ]
                assert said == pytest.approx(turn.reply.logprobs, abs=1e-5)


@pytest.mark.parametrize("changes", [{}, FORKED], ids=["plain", "forks"])
def test_what_is_learned_doesnt_depend_on_how_long_anything_takes(changes, tiny_folder, tmp_path):
    quick, kept = trained(tiny_folder, tmp_path / "quick", rollouts=2, **changes)
    slow, _ = trained(tiny_folder, tmp_path / "slow", rollouts=2, slow=0.02, **changes)
    assert versions(kept)[1] == [[1], [2], [3]]
    same(weights(slow), weights(quick))


def test_a_rollout_beside_no_update_is_that_of_today(tiny_folder, tmp_path):
    """One rollout: nothing comes after it, so nothing is played beside its updates."""
    _, of_beside = trained(tiny_folder, tmp_path / "beside", rollouts=1)
    today, of_today = trained(tiny_folder, tmp_path / "today", rollouts=1, max_staleness=0)
    replies = [
        [turn.reply.ids for episode in each.rollouts[0] for turn in episode.turns]
        for each in (of_beside, of_today)
    ]
    assert replies[0] == replies[1]
    assert today.worker._ahead is None
    assert not history(today, "staleness/max")


def test_a_sampler_that_fails_beside_an_update_ends_the_run(tiny_folder, tmp_path):
    calls = []

    class Fails:
        def __init__(self, policy, encoder):
            self.policy = policy

        def sync(self):
            pass

        def sample(self, prompts, sampling, seeds):
            calls.append(len(prompts))
            if len(calls) == 4:
                raise RuntimeError("the server is gone")
            return [SampledReply((20, 21), (-1.0, -1.0))] * len(prompts)

    trainer = MultiTurnPPOTrainer(tiny_folder, settings(tmp_path), make_sampler=Fails)
    with pytest.raises(RuntimeError, match="the server is gone"):
        trainer.train()


class Says:
    """The same walk whatever the weights: the reply depends on the number of the turn alone."""

    def __init__(self, policy, encoder):
        self.policy = policy
        self.replies = [
            (*encoder.encode(f"<answer>{way}</answer>"), encoder.end_id)
            for way in ("Right", "Down", "Left")
        ]

    def sync(self):
        pass

    def sample(self, prompts, sampling, seeds):
        return [
            SampledReply(
                self.replies[len(each.shown) - 1], (-1.0,) * len(self.replies[len(each.shown) - 1])
            )
            for each in prompts
        ]


def test_forks_of_episodes_begun_beside_updates_are_worth_what_came_of_these(tiny_folder, tmp_path):
    """Nothing is left to chance: every fork is the rest of its episode again, whatever weights played its beginning."""
    found = []
    trainer = MultiTurnPPOTrainer(
        tiny_folder, settings(tmp_path, **FORKED), make_sampler=Says, score=likes_short_words
    )
    fork = trainer.worker.play_continuations

    def kept(episodes, number):
        found.append(fork(episodes, number))
        return found[-1]

    trainer.worker.play_continuations = kept
    trainer.train()
    assert [
        max(turn.version for episode in episodes for turn in episode.turns) for episodes, _ in found
    ] == [0, 3, 6]
    for episodes, worth in found:
        assert len(episodes) == 6
        for episode, of_turns in zip(episodes, worth, strict=True):
            rewards = [turn.reward for turn in episode.turns]
            whole = [
                sum(0.9**i * each for i, each in enumerate(rewards[turn:]))
                for turn in range(len(rewards))
            ]
            assert of_turns == pytest.approx(whole)
