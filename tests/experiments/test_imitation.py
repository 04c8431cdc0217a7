"""Imitation of noisy play: what the tiny model starts from."""

import itertools
import operator
import re

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

import vagen_envs  # noqa: E402, F401
from vagen_adapters.parity import tiny_model as tiny  # noqa: E402
from vagen_adapters.ppo.chat_encoder import load_policy  # noqa: E402
from vagen_adapters.ppo.episodes import Level, training_sequences  # noqa: E402
from vagen_adapters.ppo.generation import Sampling, TransformersSampler, model_inputs  # noqa: E402
from vagen_adapters.ppo.rollout import Rollout  # noqa: E402
from vagen_experiments.critic_pretraining import teach_critic  # noqa: E402
from vagen_experiments.critics import StudyActorCritic  # noqa: E402
from vagen_experiments.evaluation import exact_f1  # noqa: E402
from vagen_experiments.imitation import (  # noqa: E402
    demonstrate,
    demonstrations,
    imitate,
    imitation_loss,
    sentences,
)

LEVELS = [Level(seed) for seed in range(24)]
SHORT = {"strategy": "no_think", "max_turns": 3}


@pytest.fixture(params=["vagen/FrozenLake-v0", "vagen/Sokoban-v0"])
def env(request):
    return gym.make(request.param)


def test_the_oracle_alone_solves_what_it_shows(env, tiny_folder):
    encoder = load_policy(tiny_folder)[1]
    assert all(demonstrate(env, encoder, level, oracle_share=1.0).success for level in LEVELS[:8])


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_noisy_play_is_well_formed_and_the_same_for_the_same_level(env, tiny_folder, share):
    encoder = load_policy(tiny_folder)[1]
    for level in LEVELS[:4]:
        first, again = (demonstrate(env, encoder, level, oracle_share=share) for _ in range(2))
        assert [turn.reply for turn in first.turns] == [turn.reply for turn in again.turns]
        assert all(turn.turn.parsed.format_correct for turn in first.turns)
        assert first.terminated or first.truncated


@pytest.mark.parametrize("processes", [0, 2])
def test_play_of_other_processes_is_that_of_this_one_in_the_same_order(tiny_folder, processes):
    options = {"max_actions_per_turn": 1, "prompt_pack": tiny.PROMPTS, **SHORT}
    encoder, env = load_policy(tiny_folder)[1], gym.make("vagen/FrozenLake-v0", **options)
    here = [demonstrate(env, encoder, level, oracle_share=0.5) for level in LEVELS[:7]]
    apart = demonstrations(
        "vagen/FrozenLake-v0", options, tiny_folder, LEVELS[:7], oracle_share=0.5, processes=processes
    )
    for mine, theirs in zip(here, apart, strict=True):
        assert (mine.level, mine.rewards) == (theirs.level, theirs.rewards)
        for one, other in zip(mine.turns, theirs.turns, strict=True):
            assert (one.shown.next_ids, one.reply.ids) == (other.shown.next_ids, other.reply.ids)
            assert torch.equal(one.shown.pixel_values, other.shown.pixel_values)


def test_forks_leave_the_episode_as_it_is_and_say_what_its_states_were_worth(tiny_folder):
    options = {"max_actions_per_turn": 1, "prompt_pack": tiny.PROMPTS, **SHORT}
    encoder, env = load_policy(tiny_folder)[1], gym.make("vagen/FrozenLake-v0", **options)
    whole = demonstrate(env, encoder, LEVELS[0], oracle_share=0.5)
    forked = demonstrate(env, encoder, LEVELS[0], oracle_share=0.5, forks=3)
    assert whole.worth == ()
    assert len(forked.worth) == len(forked.turns)
    assert [turn.reply for turn in whole.turns] == [turn.reply for turn in forked.turns]
    assert [turn.turn.to_json() for turn in whole.turns] == [turn.turn.to_json() for turn in forked.turns]
    # Who plays without chance comes to the same from a state on, however often.
    sure = demonstrate(env, encoder, LEVELS[1], oracle_share=1.0, forks=2)
    assert sure.worth == pytest.approx([sum(each.reward for each in sure.turns[i:]) for i in range(len(sure.turns))])


def numberless(said):
    return sorted("".join(each for each in one if not each.isdigit()) for one in said)


def test_noisy_words_change_what_is_said_and_nothing_that_is_done(tiny_folder):
    options = {"max_actions_per_turn": 1, "prompt_pack": tiny.PROMPTS, "max_turns": 3}
    encoder, env = load_policy(tiny_folder)[1], gym.make("vagen/FrozenLake-v0", **options)
    shares = []
    for level in LEVELS[:12]:
        true, noisy, again = (
            demonstrate(env, encoder, level, oracle_share=0.5, word_noise=noise) for noise in (0.0, 0.5, 0.5)
        )
        assert [turn.reply for turn in noisy.turns] == [turn.reply for turn in again.turns]
        for one, other in zip(true.turns, noisy.turns, strict=True):
            assert one.turn.executed == other.turn.executed
            assert (one.turn.parsed.reasoning, other.turn.parsed.format_correct) == (one.turn.parsed.reasoning, True)
            said, truth = sentences(other.turn.parsed.observation), sentences(one.turn.parsed.observation)
            assert len(said) == len(truth)
            shares.append(sum(map(operator.ne, said, truth)) / len(truth))
            assert exact_f1(one.turn.parsed.observation, one.turn.before, "natural_language") == 1.0
            assert exact_f1(one.turn.parsed.prediction, one.turn.after, "natural_language") == 1.0
            kept = exact_f1(other.turn.parsed.observation, one.turn.before, "natural_language")
            assert 1 - shares[-1] <= kept + 1e-9  # a swapped sentence may be true of another hole
            assert (kept == 1.0) == (numberless(said) == numberless(truth))
    assert exact_f1(None, true.turns[0].turn.before, "natural_language") == 0.0
    assert 0.2 < sum(shares) / len(shares) < 0.5  # half are swapped, and some of those are true here too


@pytest.mark.sim
def test_noise_of_aim_moves_each_number_of_an_action_and_no_word(tiny_folder):
    pytest.importorskip("mani_skill")
    options = {"task": "place", "prompt_pack": tiny.PROMPTS, "strategy": "grounding", "workers": 1}
    encoder, env = load_policy(tiny_folder)[1], gym.make("vagen/PrimitiveSkill-v0", **options)
    off = []
    for level in LEVELS[:3]:
        true, noisy, again = (
            demonstrate(env, encoder, level, oracle_share=1.0, aim_noise=noise).turns[0] for noise in (0, 9, 9)
        )
        assert noisy.reply == again.reply
        for said in ("observation", "reasoning"):
            assert getattr(noisy.turn.parsed, said) == getattr(true.turn.parsed, said)
        for meant, done in zip(
            *([each.text for each in turn.turn.parsed.actions] for turn in (true, noisy)), strict=True
        ):
            assert re.sub(r"-?\d+", "", meant) == re.sub(r"-?\d+", "", done)
            pairs = zip(re.findall(r"-?\d+", meant), re.findall(r"-?\d+", done), strict=True)
            off += [int(there) - int(here) for here, there in pairs]
    env.close()
    assert len(off) >= 12
    assert max(map(abs, off)) <= 9
    assert min(off) < 0 < max(off)
    assert len(set(off)) > 6


@pytest.mark.parametrize("critic", ["own", "shared"])
def test_a_critic_taught_on_worth_has_it_around_each_turn(critic, tiny_folder):
    """Whatever came of the episode: its states are said to be worth something else here."""
    encoder = load_policy(tiny_folder)[1]
    env = gym.make("vagen/FrozenLake-v0", max_actions_per_turn=1, prompt_pack=tiny.PROMPTS, **SHORT)
    episode = demonstrate(env, encoder, LEVELS[0], oracle_share=1.0)
    episode.worth = tuple(10.0 * (1 + number) for number in range(len(episode.turns)))
    model = StudyActorCritic.from_pretrained(tiny_folder, critic=critic, heads={"reads": True})
    policy = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    teach_critic(model, encoder, [episode] * 80, 80, reward_scale=0.1, batch_size=1, learning_rate=4e-3)
    assert model.vision_cache is None
    assert all(each.requires_grad for each in model.policy.parameters())
    assert all(torch.equal(tensor, policy[name]) for name, tensor in model.policy.state_dict().items())
    sequence = training_sequences(episode, None, with_end=False)[0]
    with torch.no_grad():
        values = model(model_inputs([sequence.prompt], encoder, "cpu"), ["values"], temperature=1.0)["values"][0]
    for number, turn in enumerate(episode.turns):
        first = sequence.turn_ids.index(number)
        assert values[first : first + len(turn.reply.ids) + 1].tolist() == pytest.approx(
            [1.0 + number] * (len(turn.reply.ids) + 1), abs=0.25
        )


def test_heads_learn_from_all_episodes_and_are_held_to_the_last_tenth(tiny_folder):
    """Half of them are said to be worth nothing, the other half, all of which come later, five."""
    encoder = load_policy(tiny_folder)[1]
    env = gym.make("vagen/FrozenLake-v0", max_actions_per_turn=1, prompt_pack=tiny.PROMPTS, **SHORT)
    played = [demonstrate(env, encoder, level, oracle_share=1.0) for level in LEVELS]
    for number, episode in enumerate(played):
        episode.worth = tuple(5.0 * (number >= 12) for _ in episode.turns)
    torch.manual_seed(0)
    model, told = StudyActorCritic.from_pretrained(tiny_folder, critic="shared", heads={"reads": True}), []
    teach_critic(model, encoder, played, 240, batch_size=4, learning_rate=5e-3, report=lambda *each: told.append(each))
    assert [number for number, _ in told] == list(range(240))
    sequences = [training_sequences(episode, None, with_end=False)[0] for episode in (played[2], played[15])]
    with torch.no_grad():
        inputs = model_inputs([each.prompt for each in sequences], encoder, "cpu")
        values = model(inputs, ["values"], temperature=1.0)["values"]
    found = [float(row[sequence.turn_ids.index(0)]) for row, sequence in zip(values, sequences, strict=True)]
    assert found == pytest.approx([0.0, 5.0], abs=1.0)


def test_after_imitation_the_model_says_what_it_was_shown(tiny_folder):
    """It starts from noise; after a few updates its own play, on levels it has not seen, has the format."""
    model, encoder = load_policy(tiny_folder)
    env = gym.make("vagen/FrozenLake-v0", max_actions_per_turn=1, prompt_pack=tiny.PROMPTS, **SHORT)
    played = [demonstrate(env, encoder, level) for level in LEVELS]
    with torch.no_grad():
        before = float(imitation_loss(model, encoder, played[:8]))
    told = []
    imitate(
        model, encoder, itertools.cycle(played), 40, batch_size=4, learning_rate=4e-3,
        report=lambda *each: told.append(each),
    )  # fmt: skip
    with torch.no_grad():
        after = float(imitation_loss(model, encoder, played[:8]))
    assert [number for number, _ in told] == list(range(40))
    assert after < before / 5
    rollout = Rollout([env], encoder, TransformersSampler(model, encoder), Sampling(temperature=0.0, max_tokens=12))
    (episode,) = rollout.play([Level(0, "val")], 0)
    assert all(turn.turn.parsed.format_correct for turn in episode.turns)


def test_a_taught_critic_knows_what_a_turn_is_worth(tiny_folder):
    """Levels that the oracle solves in its one turn are worth the same: the critic learns that worth."""
    encoder = load_policy(tiny_folder)[1]
    env = gym.make("vagen/FrozenLake-v0", max_actions_per_turn=9, prompt_pack=tiny.PROMPTS, **SHORT)
    played = [demonstrate(env, encoder, level, oracle_share=1.0) for level in LEVELS]
    assert all(len(episode.turns) == 1 for episode in played)
    worth = 0.1 * sum(episode.rewards for episode in played) / len(played)
    model = StudyActorCritic.from_pretrained(tiny_folder)
    policy = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    teach_critic(model, encoder, itertools.cycle(played), 60, reward_scale=0.1, batch_size=4, learning_rate=1e-3)
    sequences = [training_sequences(episode, None, with_end=False)[0] for episode in played[:4]]
    with torch.no_grad():
        inputs = model_inputs([each.prompt for each in sequences], encoder, "cpu")
        values = model(inputs, ["values"], temperature=1.0)["values"]
    for row, sequence in enumerate(sequences):
        said = [position for position, turn in enumerate(sequence.turn_ids) if turn == 0]
        assert float((values[row, said] - worth).abs().max()) < 0.3 * worth
    assert all(torch.equal(tensor, policy[name]) for name, tensor in model.policy.state_dict().items())


def test_a_sentence_is_one_token_and_any_text_comes_back(tmp_path):
    tiny.save_tiny(
        tmp_path, tiny.texts_of(["vagen/FrozenLake-v0"], levels=40, prompt_pack=tiny.PROMPTS), vocabulary=1024
    )
    tokenizer = load_policy(tmp_path)[1].tokenizer
    sentence = "The target is above and on the left side of the player. "
    assert len(tokenizer(sentence)["input_ids"]) == 1
    for text in (sentence + "Hole0 is below.", "Ünseen, words…\nand 3.14 lines", "a,b , c.. d"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
