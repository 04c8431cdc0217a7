"""Many episodes at once, token in and token out."""

import dataclasses
import math
import threading

import gymnasium as gym
import pytest
import torch
from token_scores import score_tokens

import vagen_envs
from vagen_adapters.context import ContextPolicy
from vagen_adapters.parity import tiny_model as tiny
from vagen_adapters.ppo.episodes import LevelSeed
from vagen_adapters.ppo.generation import (
    Prompt,
    SampledReply,
    SampleSettings,
    TransformersSampler,
    model_inputs,
)
from vagen_adapters.ppo.rollout import Rollout
from vagen_adapters.ppo.token_sequences import training_sequences

SAMPLING = SampleSettings(temperature=0.8, top_p=1.0, max_tokens=6)


LEVELS = [LevelSeed(seed) for seed in range(3)]
LAKE = ("FFFFG", "FFFFF", "FFFFF", "FFFFF", "SFFFF")


class Scripted:
    """A back-end that says one thing, in the tokens of a tokenizer that no text would be cut into."""

    def __init__(self, encoder, text="<answer>Up</answer>"):
        self.prompts = []
        ids = [
            i
            for letter in text
            for i in encoder.tokenizer(letter, add_special_tokens=False)["input_ids"]
        ]
        ids.append(encoder.tokenizer.eos_token_id)
        self.reply = SampledReply(tuple(ids), (-1.0,) * len(ids))

    def sample(self, prompts, sampling, seeds):
        self.prompts.append(prompts)
        return [self.reply for _ in prompts]


class Breaking(gym.Wrapper):
    """Raises in the second turn of level 1, and at the reset of level 2."""

    def reset(self, *, seed=None, options=None):
        self.seed_now, self.turn = seed, 0
        if seed == 2:
            raise ConnectionError("the simulator is gone")
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        self.turn += 1
        if self.seed_now == 1 and self.turn == 2:
            raise ConnectionError("the simulator is gone")
        return self.env.step(action)


def environments(number=2, wrapper=lambda env: env):
    """Lakes without holes, on which the scripted back-end's three steps end nothing."""
    options = {"strategy": "no_think", "prompt_pack": tiny.PROMPTS, "max_turns": 3, "desc": LAKE}
    return [wrapper(gym.make("vagen/FrozenLake-v0", **options)) for _ in range(number)]


def player(encoder, *, number=1, sampler=None, wrapper=lambda env: env, **options):
    return Rollout(
        environments(number, wrapper), encoder, sampler or Scripted(encoder), SAMPLING, **options
    )


def ids_of(episodes):
    return [[turn.reply.ids for turn in episode.turns] for episode in episodes]


@pytest.mark.parametrize("context", ["all", "last:0", "last:1", "summary:1:5", "summary:2:5"])
def test_log_probabilities_of_the_sampler_are_those_of_the_sequences_trained_on(loaded, context):
    context = ContextPolicy.parse(context)
    model, encoder = loaded
    episodes = Rollout(
        environments(), encoder, TransformersSampler(model, encoder), SAMPLING, context=context
    ).play(LEVELS, 5)
    sequences = [
        each for episode in episodes for each in training_sequences(episode, context, with_end=True)
    ]
    assert (
        len(sequences) == {None: 3, 1: 9, 2: 6}[1 if context.turns is not None else context.summary]
    )
    with torch.no_grad():
        logprobs, entropies = score_tokens(
            model,
            model_inputs([each.prompt for each in sequences], encoder, "cpu"),
            temperature=SAMPLING.temperature,
            forbidden_ids=encoder.forbidden_ids,
        )
    assert entropies.isfinite().all()
    for row, sequence in enumerate(sequences):
        mask = torch.tensor(sequence.turn_ids) >= 0
        sampled = torch.tensor(sequence.logprobs)[mask]
        torch.testing.assert_close(logprobs[row, : len(mask)][mask], sampled, rtol=0, atol=1e-4)


@pytest.mark.parametrize("context", ["all", "last:1"])
def test_what_is_trained_on_is_what_was_read_and_sampled(loaded, context):
    context = ContextPolicy.parse(context)
    encoder = loaded[1]
    sampler = Scripted(encoder)
    (episode,) = Rollout(environments(1), encoder, sampler, SAMPLING, context=context).play(
        LEVELS[:1], 0
    )
    prompts = [batch[0].ids for batch in sampler.prompts]
    sequences = training_sequences(episode, context)
    if context.turns is None:
        assert all(sequences[0].prompt.ids[: len(prompt)] == prompt for prompt in prompts)
    else:
        assert [each.prompt.ids for each in sequences] == [
            (*prompt, *sampler.reply.ids) for prompt in prompts
        ]
    sampled = [
        tuple(i for i, t in zip(each.prompt.ids, each.turn_ids, strict=True) if t == turn)
        for each in sequences
        for turn in sorted(set(each.turn_ids) - {-1})
    ]
    assert sampled == [sampler.reply.ids] * len(episode.turns)
    assert all(turn.turn.reply == "<answer>Up</answer>" for turn in episode.turns)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_neither_the_number_of_lanes_nor_padding_changes_what_is_played(temperature, loaded):
    model, encoder = loaded
    sampling = dataclasses.replace(SAMPLING, temperature=temperature)
    plays = [
        Rollout(
            environments(lanes), encoder, TransformersSampler(model, encoder, room), sampling
        ).play(LEVELS, 0)
        for lanes, room in ((1, 1), (3, 400))
    ]
    assert ids_of(plays[0]) == ids_of(plays[1])


def test_replies_are_drawn_with_the_probabilities_that_they_report(loaded):
    """Over many seeds, from a distribution cut at top-p that is worked out here."""
    model, encoder = loaded
    prompt = Prompt(tuple(encoder.tokenizer("Up")["input_ids"]), ())
    sampling = SampleSettings(temperature=0.2, top_p=0.5, max_tokens=1)
    replies = TransformersSampler(model, encoder).sample([prompt] * 2000, sampling, range(2000))
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt.ids])).logits[0, -1] / 0.2
    logits[list(encoder.forbidden_ids)] = -torch.inf
    chances, order = logits.softmax(0).sort(descending=True)
    kept = order[: int((chances.cumsum(0) < 0.5).sum()) + 1].tolist()
    expected = {
        token: float(logits.softmax(0)[token] / logits.softmax(0)[kept].sum()) for token in kept
    }
    assert {reply.ids[0] for reply in replies} <= set(kept)
    for reply in replies[:100]:
        assert reply.logprobs[0] == pytest.approx(math.log(expected[reply.ids[0]]), abs=1e-4)
    likeliest = kept[0]
    share = sum(reply.ids[0] == likeliest for reply in replies) / len(replies)
    spread = math.sqrt(expected[likeliest] * (1 - expected[likeliest]) / len(replies))
    assert abs(share - expected[likeliest]) < 5 * spread


def test_the_same_seed_samples_the_same_and_leaves_the_global_generator_alone(loaded):
    model, encoder = loaded
    rollout = player(encoder, number=2, sampler=TransformersSampler(model, encoder))
    before = torch.get_rng_state()
    levels = [LevelSeed(0), LevelSeed(0), LevelSeed(0, draw=1)]
    one, again, other = (ids_of(rollout.play(levels, seed)) for seed in (1, 1, 9))
    assert one == again
    assert one != other
    assert one[0] == one[1] != one[2]  # episodes of one level are drawn apart
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("what", ["scored", "reset"])
def test_turns_are_scored_and_environments_reset_at_the_same_time_when_threads_are_given(
    loaded, what
):
    encoder = loaded[1]
    together = threading.Barrier(2, timeout=20)  # raises unless two are waiting here at once

    class Meeting(gym.Wrapper):
        def reset(self, **options):
            together.wait()
            return self.env.reset(**options)

    options = (
        {"score": lambda turn: (together.wait(), [])[1]}
        if what == "scored"
        else {"wrapper": Meeting}
    )
    rollout = player(encoder, number=2, threads=2, **options)
    episodes = rollout.play(LEVELS[:2], 0)
    assert [each.failure for each in episodes] == [None, None]
    assert ids_of(episodes) == ids_of(player(encoder, number=2).play(LEVELS[:2], 0))
    assert all(rollout.clock.spent[part] > 0 for part in ("generation", "environment", "judge"))


def test_replies_never_hold_image_tokens_however_likely(loaded):
    model, encoder = loaded

    def prefer_pictures(module, inputs, logits):
        logits[..., list(encoder.forbidden_ids)] += 100
        return logits

    with model.lm_head.register_forward_hook(prefer_pictures):
        (episode,) = player(encoder, sampler=TransformersSampler(model, encoder)).play(
            LEVELS[:1], 0
        )
    assert episode.failure is None
    assert not set(encoder.forbidden_ids) & {i for turn in episode.turns for i in turn.reply.ids}


def test_a_broken_environment_costs_its_episode_only(loaded):
    episodes = player(loaded[1], wrapper=Breaking).play([*LEVELS, LevelSeed(9)], 0)
    assert [episode.failure for episode in episodes] == [
        None,
        "ConnectionError in turn 1: the simulator is gone",
        "ConnectionError at reset: the simulator is gone",
        None,
    ]
    assert all(episode.terminated or episode.truncated for episode in (episodes[0], episodes[3]))


@pytest.mark.parametrize(
    ("value", "failure"), [(float("nan"), "'judge' of turn 0 is nan"), (None, "judge is down")]
)
def test_a_judge_that_is_down_or_gives_nan_costs_the_episode(loaded, value, failure):
    def score(turn):
        if value is None:
            raise TimeoutError("the judge is down")
        return [vagen_envs.RewardTerm("judge", value)]

    (episode,) = player(loaded[1], score=score).play(LEVELS[:1], 0)
    assert failure in episode.failure


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        (SampledReply((), ()), "the sampler gave no token in turn 0"),
        (
            SampledReply((20,), (math.nan,)),
            "the sampler gave a log-probability that is no number in turn 0",
        ),
    ],
)
def test_a_reply_that_is_none_costs_the_episode(loaded, reply, failure):
    sampler = Scripted(loaded[1])
    sampler.reply = reply
    (episode,) = player(loaded[1], sampler=sampler).play(LEVELS[:1], 0)
    assert episode.failure == failure


def test_an_episode_without_room_for_a_summary_or_for_what_follows_ends_before_it(loaded):
    context, ends = ContextPolicy.parse("summary:2:25"), set()
    for limit in range(120, 900, 20):
        (cut,) = player(loaded[1], context=context, max_length=limit).play(LEVELS[:1], 0)
        if cut.failure:
            assert "raise max_length" in cut.failure
            continue
        assert (cut.truncated, cut.terminated, cut.pending) == (True, False, None)
        sequences = training_sequences(cut, context, with_end=True)
        assert max(len(sequence.prompt.ids) for sequence in sequences) <= limit
        assert sequences[-1].ends_with_observation
        assert cut.steps[-1] is cut.turns[-1]
        ends.add((len(cut.turns), len(cut.summaries)))
    assert ends == {(1, 0), (2, 0), (3, 1)}


def test_an_episode_that_outgrows_the_context_is_cut_between_turns(loaded):
    (whole,) = player(loaded[1]).play(LEVELS[:1], 0)
    assert len(whole.turns) == 3
    (sequence,) = training_sequences(whole, with_end=True)
    for missing in (1, 30, 60, 100):
        limit = len(sequence.prompt.ids) - missing
        (cut,) = player(loaded[1], max_length=limit).play(LEVELS[:1], 0)
        if cut.failure:
            assert "raise max_length" in cut.failure
            continue
        assert len(cut.turns) < 3
        assert (cut.truncated, cut.terminated) == (True, False)
        (shorter,) = training_sequences(cut, with_end=True)
        assert len(shorter.prompt.ids) <= limit
        assert shorter.ends_with_observation
        assert shorter.prompt.ids == sequence.prompt.ids[: len(shorter.prompt.ids)]


def test_a_rollout_knows_how_far_it_is(loaded):
    model, encoder = loaded
    rollout = Rollout(environments(2), encoder, TransformersSampler(model, encoder), SAMPLING)
    seen = []
    rollout.between_turns = lambda: seen.append(rollout.progress)
    episodes = rollout.play(LEVELS, 0)
    shares = [each.share for each in seen]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] == 1
    tokens = sum(len(turn.reply.ids) for episode in episodes for turn in episode.turns)
    assert (seen[-1].done, seen[-1].episodes, seen[-1].tokens) == (len(LEVELS), len(LEVELS), tokens)
