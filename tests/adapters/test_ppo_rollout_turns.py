"""Rollouts of a number of turns: episodes are paused, valued, and go on in the next rollout (Verlog)."""

import json

import pytest
import torch
from ppo_training import Says as SaysTokens
from ppo_training import config, history, lake, same, weights

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.losses import value_weights
from vagen_adapters.ppo.token_sequences import training_sequences
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer

VERLOG = {
    "advantage": "dual_discount_gae",
    "advantage_settings": {"gamma_turn": 0.99, "lam_turn": 0.95},
    "context": "last:1",
    "episodes_per_rollout": 4,
    "num_envs": 2,
    "minibatches": 1,
    "max_length": 8192,
}


class Recording(MultiTurnPPOTrainer):
    """Keeps what each rollout gave to train on."""

    def __init__(self, *given, **options):
        self.seen = []
        super().__init__(*given, **options)

    def _make_experience(self, episodes, state_values):
        made = super()._make_experience(episodes, state_values)
        self.seen.append((episodes, made))
        return made


def trainer_of(folder, out, *, make_sampler=None, turns=2, max_turns=12, **changes):
    settings = VERLOG | {"rollout_turns": turns, "environments": lake(max_turns=max_turns)}
    return Recording(folder, config(out, **settings | changes), make_sampler=make_sampler)


def numbers(episodes):
    """First and last new turn of each episode."""
    return [(episode.first, len(episode.turns) - 1) for episode in episodes]


def test_states_after_the_cut_are_trained_on(tiny_folder, tmp_path):
    """Replies execute nothing, so that each episode lasts its 12 turns: six rollouts of two."""
    trainer = trainer_of(tiny_folder, tmp_path, make_sampler=SaysTokens, rollouts=7)
    trainer.train()
    spans = [numbers(episodes) for episodes, _ in trainer.seen]
    assert spans == [[(2 * n, 2 * n + 1)] * 4 for n in range(6)] + [[(0, 1)] * 4]
    levels = [[episode.level.seed for episode in episodes] for episodes, _ in trainer.seen]
    assert levels[:6] == [levels[0]] * 6
    assert not set(levels[6]) & set(levels[0])
    trained = [
        {int(turn) for turn in made.sequences.turn_ids.unique()} - {-1} for _, made in trainer.seen
    ]
    assert trained[:6] == [{2 * n, 2 * n + 1} for n in range(6)]
    assert history(trainer, "rollout/paused")[:5] == [1.0] * 5
    assert len(history(trainer, "rollout/success")) == 1  # of the rollout in which episodes ended


def test_what_comes_after_the_cut_is_worth_the_critics_value(tiny_folder, tmp_path):
    trainer = trainer_of(tiny_folder, tmp_path, make_sampler=SaysTokens, rollouts=2)
    trainer.train()
    episodes, made = trainer.seen[0]
    assert all(episode.is_paused and episode.truncated for episode in episodes)
    ends = [row for row in made.sequences.rows if row.ends_with_observation]
    assert len(ends) == len(episodes)
    after, _ = trainer.seen[1]
    for before, later in zip(episodes, after, strict=True):
        assert later.turns[: later.first] == before.turns  # the same turns, as history
        assert later.begins_at == before.ends_at
        first = training_sequences(later, trainer.args.context_policy)[0].prompt.ids
        said = later.turns[1].reply.ids
        assert any(first[at : at + len(said)] == said for at in range(len(first)))


@pytest.mark.parametrize("context", ["last:1", "last:2,answers"])
def test_a_resumed_training_is_the_same_bit_by_bit(context, tiny_folder, tmp_path):
    saves = {
        "save_strategy": "steps",
        "save_steps": 1,
        "save_total_limit": None,
        "rollouts": 5,
        "context": context,
        "turns": 3,
        "max_turns": 4,  # some episodes end, some are paused
    }
    whole = trainer_of(tiny_folder, tmp_path, **saves)
    whole.train()
    expected = weights(whole)
    state = json.loads((tmp_path / "checkpoint-3" / "running_episodes.json").read_text())
    assert any(place["episode"] for place in state)
    resumed = trainer_of(tiny_folder, tmp_path, **saves)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert [numbers(episodes) for episodes, _ in resumed.seen] == [
        numbers(episodes) for episodes, _ in whole.seen[3:]
    ]
    same(weights(resumed), expected)


def test_a_place_whose_episode_ends_begins_another(tiny_folder, tmp_path):
    trainer = trainer_of(
        tiny_folder, tmp_path, make_sampler=SaysTokens, rollouts=2, turns=5, max_turns=3
    )
    trainer.train()
    spans = [sorted(numbers(episodes)) for episodes, _ in trainer.seen]
    # Three turns end an episode; two more of the next one are played, whose third comes later.
    assert spans[0] == [(0, 1)] * 4 + [(0, 2)] * 4
    assert spans[1] == [(0, 0)] * 4 + [(0, 2)] * 4 + [(2, 2)] * 4
    assert history(trainer, "rollout/paused") == pytest.approx([1 / 2, 1 / 3])


def test_a_binary_reward_takes_no_further_one(tmp_path):
    with pytest.raises(TrainingConfigError, match="binary_reward=True pays nothing beside"):
        MultiTurnPPOTrainer("none", config(tmp_path, binary_reward=True), score=lambda turn: ())


def test_success_is_all_that_a_binary_reward_pays(tiny_folder, tmp_path):
    environments = lake(max_turns=2, format_reward=0.5, step_reward=-0.1)
    run = {"environments": environments, "rollouts": 1, "binary_reward": True}
    trainer = trainer_of(tiny_folder, tmp_path, make_sampler=SaysTokens, **run)
    trainer.train()
    episodes = trainer.seen[0][0]
    assert {term.name for each in episodes for turn in each.turns for term in turn.rewards} <= {
        "success"
    }
    for episode in episodes:
        assert episode.rewards == float(episode.success)


def test_the_value_before_a_turns_first_token_weighs_more():
    ids = torch.tensor([[-1, 0, 0, -1, 1, 1, -1], [2, 2, 3, 3, -1, -1, -1]])
    mask = torch.zeros(2, 8, dtype=torch.bool)
    mask[:, :-1] = ids != -1
    mask[0, 3] = True  # after an action, where no token begins
    found = value_weights(mask, ids, 2.0)
    assert found.tolist() == [[0, 2, 1, 1, 2, 1, 0, 0], [2, 1, 2, 1, 0, 0, 0, 0]]
    assert value_weights(mask, ids, 1.0).tolist() == mask.float().tolist()


def test_replies_in_the_history_are_reduced_to_their_answers(tiny_folder, tmp_path):
    trainer = trainer_of(
        tiny_folder, tmp_path, make_sampler=SaysTokens, context="last:2,answers", rollouts=1
    )
    trainer.train()
    made = trainer.seen[0][1]
    tokenizer = trainer.encoder.tokenizer
    for row, episode in zip(made.sequences.rows, made.sequences.episodes, strict=True):
        (turn,) = {each for each in row.turn_ids if each != -1}
        prompt = list(row.prompt.ids)
        for earlier in episode.turns[:turn]:
            brief = list(earlier.brief.ids)
            assert tokenizer.decode(brief[:-1]).startswith("<answer>")
            assert any(prompt[at : at + len(brief)] == brief for at in range(len(prompt)))
            said = list(earlier.reply.ids)
            assert not any(prompt[at : at + len(said)] == said for at in range(len(prompt)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"advantage": "token_gae", "advantage_settings": {}}, "rollout_turns=2"),
        ({"group_size": 2}, "group_size=2"),
        ({"context": "summary:2"}, "context='summary:2'"),
        ({"dynamic_sampling": 1, "group_size": 1}, "dynamic_sampling|group_size"),
    ],
)
def test_what_does_not_go_with_it_is_refused(changes, words, tmp_path):
    with pytest.raises(TrainingConfigError, match=words):
        config(tmp_path, **VERLOG | {"rollout_turns": 2} | changes)
