"""The building blocks of the experiments: scripted play, imitation, vision pretraining, critics' heads."""

import copy
import itertools
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

import vagen_envs  # noqa: E402, F401
from vagen_adapters.parity import tiny_model as tiny  # noqa: E402
from vagen_adapters.ppo.chat_encoder import load_policy  # noqa: E402
from vagen_adapters.ppo.episodes import Level, training_sequences  # noqa: E402
from vagen_adapters.ppo.generation import Sampling, TransformersSampler, model_inputs  # noqa: E402
from vagen_adapters.ppo.rollout import Rollout  # noqa: E402
from vagen_envs import RewardTerm  # noqa: E402
from vagen_experiments.critics import StudyActorCritic, StudyConfig, StudyTrainer  # noqa: E402
from vagen_experiments.imitation import demonstrate, demonstrations, imitate, imitation_loss  # noqa: E402
from vagen_experiments.things import Thing, things  # noqa: E402
from vagen_experiments.vision_pretraining import teach_sight  # noqa: E402

LEVELS = [Level(seed) for seed in range(24)]
SHORT = {"strategy": "no_think", "max_turns": 3}
OPTIONS = {"max_actions_per_turn": 1, "prompt_pack": tiny.PROMPTS, **SHORT}
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}


@pytest.mark.parametrize("processes", [0, 2])
def test_play_of_other_processes_is_that_of_this_one_in_the_same_order(tiny_folder, processes):
    codec, env = load_policy(tiny_folder)[1], gym.make("vagen/FrozenLake-v0", **OPTIONS)
    here = [demonstrate(env, codec, level, oracle_share=0.5) for level in LEVELS[:7]]
    apart = demonstrations(
        "vagen/FrozenLake-v0", OPTIONS, tiny_folder, LEVELS[:7], oracle_share=0.5, processes=processes
    )
    for mine, theirs in zip(here, apart, strict=True):
        assert (mine.level, mine.rewards) == (theirs.level, theirs.rewards)
        for one, other in zip(mine.turns, theirs.turns, strict=True):
            assert (one.shown.next_ids, one.reply.ids) == (other.shown.next_ids, other.reply.ids)
            assert one.shown.pictures == other.shown.pictures


def test_forks_leave_the_episode_as_it_is_and_say_what_its_states_were_worth(tiny_folder):
    codec, env = load_policy(tiny_folder)[1], gym.make("vagen/FrozenLake-v0", **OPTIONS)
    whole = demonstrate(env, codec, LEVELS[0], oracle_share=0.5)
    forked = demonstrate(env, codec, LEVELS[0], oracle_share=0.5, forks=3)
    assert whole.worth == ()
    assert len(forked.worth) == len(forked.turns)
    assert [turn.reply for turn in whole.turns] == [turn.reply for turn in forked.turns]
    assert [turn.turn.to_json() for turn in whole.turns] == [turn.turn.to_json() for turn in forked.turns]
    # Who plays without chance comes to the same from a state on, however often.
    sure = demonstrate(env, codec, LEVELS[1], oracle_share=1.0, forks=2)
    assert sure.worth == pytest.approx([sum(each.reward for each in sure.turns[i:]) for i in range(len(sure.turns))])


def test_after_imitation_the_model_says_what_it_was_shown(tiny_folder):
    """It starts from noise; after a few updates its own play, on levels it has not seen, has the format."""
    model, codec = load_policy(tiny_folder)
    env = gym.make("vagen/FrozenLake-v0", **OPTIONS)
    played = [demonstrate(env, codec, level) for level in LEVELS]
    with torch.no_grad():
        before = float(imitation_loss(model, codec, played[:8]))
    told = []
    imitate(
        model, codec, itertools.cycle(played), 40, batch_size=4, learning_rate=4e-3,
        report=lambda *each: told.append(each),
    )  # fmt: skip
    with torch.no_grad():
        after = float(imitation_loss(model, codec, played[:8]))
    assert [number for number, _ in told] == list(range(40))
    assert after < before / 5
    rollout = Rollout([env], codec, TransformersSampler(model, codec), Sampling(temperature=0.0, max_tokens=12))
    (episode,) = rollout.play([Level(0, "val")], 0)
    assert all(turn.turn.parsed.format_correct for turn in episode.turns)


def values_of(model, inputs):
    with torch.no_grad():
        return model(inputs, ["values"], temperature=1.0)["values"]


def test_a_critic_that_is_told_the_state_knows_what_the_picture_does_not_show(tiny_folder, tmp_path):
    """Its values change with the state alone; it is saved and read, and goes on from any other critic."""
    env, codec = gym.make("vagen/FrozenLake-v0", **OPTIONS), load_policy(tiny_folder)[1]
    episodes = [demonstrate(env, codec, Level(seed), oracle_share=0.5) for seed in range(2)]
    prompts = [training_sequences(each)[0].prompt for each in episodes]
    inputs = model_inputs(prompts, codec, "cpu")
    shown = [each for prompt in prompts for each in prompt.shown]
    model = StudyActorCritic.from_pretrained(tiny_folder, critic="shared", heads={"told": True}).eval()
    told = model.critic_inputs(shown)
    assert told["critic_counts"].tolist() == [len(things(each.state)) for each in shown]
    assert not values_of(model, {**inputs, **told}).any()
    torch.nn.init.normal_(model.told_head.value.weight)
    values = values_of(model, {**inputs, **told})
    other = model.critic_inputs([replace(shown[0], state=shown[-1].state), *shown[1:]])
    assert (values_of(model, {**inputs, **other}) != values).any(1).tolist() == [True, False]
    model.save_pretrained(tmp_path / "told")
    again = StudyActorCritic.from_pretrained(str(tmp_path / "told"), critic="shared", heads={"told": True}).eval()
    torch.testing.assert_close(values_of(again, {**inputs, **told}), values)


@pytest.mark.parametrize("kind", ["critic_reads", "critic_told"])
def test_the_trainer_teaches_it(tiny_folder, tmp_path, kind):
    args = StudyConfig(
        output_dir=str(tmp_path), environments=[{"id": "vagen/FrozenLake-v0", "options": OPTIONS}], num_envs=4, rollouts=1,
        episodes_per_rollout=4, minibatches=2, max_tokens=4, temperature=1.0, top_p=1.0, critic_learning_rate=1e-3,
        logging_steps=1, save_strategy="no", report_to="none", use_cpu=True, bf16=False,
        gradient_checkpointing=False, disable_tqdm=True, **{kind: True},
    )  # fmt: skip
    trainer = StudyTrainer(tiny_folder, args, score=lambda turn: [RewardTerm("late", float(turn.index))])
    head = trainer.model.reading_head or trainer.model.told_head
    before = head.value.weight.clone()
    trainer.train()
    assert not torch.equal(head.value.weight, before)


def boards(codec, count, seed=0):
    """Boards of 2 x 2 tiles of three colours: one is red, one to three are green, of which each tells the way to red.

    Gives the pictures with their objects.
    """
    generator = np.random.default_rng(seed)
    names = list(COLOURS)
    found = []
    for _ in range(count):
        order = generator.permutation([0, 1, *generator.integers(1, 3, 2)])
        red, greens = int((order == 0).argmax()), np.flatnonzero(order == 1)
        picture = np.zeros((64, 64, 3), np.uint8)
        for cell, colour in enumerate(order):
            row, column = 32 * (cell // 2), 32 * (cell % 2)
            picture[row : row + 32, column : column + 32] = COLOURS[names[colour]]
        things = [_tile("red", red, {"greens": float(len(greens))})]
        for at in greens:
            ways = {"rows to red": float(red // 2 - at // 2), "columns to red": float(red % 2 - at % 2)}
            things.append(_tile("green", at, ways))
        found.append((codec.show("", {"text": "<image>", "image": picture}), tuple(things)))
    return found


def _tile(name, at, relations):
    return Thing(name, (at % 2 / 2 + 0.25, at // 2 / 2 + 0.25), relations)


def test_the_token_of_a_thing_tells_its_relations_and_the_others_keep_what_they_told(tiny_folder):
    model, codec = load_policy(tiny_folder)
    untaught = copy.deepcopy(model)
    pictures = boards(codec, 300)
    others = boards(codec, 300, seed=1)
    reader = teach_sight(model, codec, pictures, 120, batch_size=32, learning_rate=3e-3)
    told = reader.measure(model, codec, others)
    assert told.keys() == {"red: greens", "green: rows to red", "green: columns to red"}
    assert min(each.explained for each in told.values()) > 0.6
    assert told["green: rows to red"].count > 300  # one or several in a picture
    assert max(each.explained for each in reader.measure(untaught, codec, others).values()) < 0.2
