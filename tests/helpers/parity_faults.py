"""Faults of trainers, planted into one that has none: in the rows that it trains, in the environment
that it plays, in what its sampler is given."""

from __future__ import annotations

import re
from dataclasses import replace

import gymnasium as gym
import parity_ppo as ours
import torch
from parity_ppo import PPOTrainerAdapter

from vagen_adapters.ppo.chat_encoder import ChatEncoder

# Each function of a row takes the playback and the row, and returns the row as a faulty trainer
# would make it.


class FaultyRows(PPOTrainerAdapter):
    """Our trainer, and what became of its sequences."""

    def __init__(self, spoil):
        super().__init__()
        self.spoil = spoil

    def play(self, playback):
        return [self.spoil(playback, row) for row in super().play(playback)]


def rows(spoil):
    """Plant a fault of rows."""
    return trained_by(FaultyRows, spoil)


def trained_by(trainer, *args):
    """Plant a trainer."""
    return lambda _patch, _model: trainer(*args)


def rewritten(playback, row, pieces):
    """The row of these pieces: (tokens, mask, log-probability and reward of each)."""
    columns = [[], [], [], []]
    for piece in pieces:
        for column, values in zip(columns, piece, strict=True):
            column.extend(values)
    ids, mask, logprobs, rewards = columns
    types = (torch.tensor([ids]) == playback.model.image_token).int()
    made = {"mm_token_type_ids": types, "attention_mask": torch.ones_like(types)}
    return replace(
        row,
        input_ids=ids,
        mask=mask,
        logprobs=logprobs,
        rewards=rewards,
        forward={**row.forward, **made},
    )


def part(row, begin, end=None):
    return tuple(
        column[begin:end] for column in (row.input_ids, row.mask, row.logprobs, row.rewards)
    )


def without(playback, row, begin, end):
    return rewritten(playback, row, [part(row, 0, begin), part(row, end)])


def reply_of(row, turn):
    """Where a reply begins and ends in a row."""
    mask = [False, *map(bool, row.mask), False]
    changes = [at for at in range(len(row.mask) + 1) if mask[at] != mask[at + 1]]
    return changes[2 * turn], changes[2 * turn + 1]


def cut(playback, row):
    pictures = [at for at, token in enumerate(row.input_ids) if token == playback.model.image_token]
    return rewritten(playback, row, [part(row, 0, pictures[-5])])


def leave_a_picture(playback, row):
    return replace(row, forward={**row.forward, **playback.model.features(playback.env.shown)})


def lose_pixels(playback, row):
    kept = ("mm_token_type_ids", "attention_mask", "image_grid_thw")
    return replace(row, forward={name: row.forward[name] for name in kept})


def tokens_alone(playback, row):
    return replace(row, forward={}, logprobs=None)


def swallow(playback, row):
    _, end = reply_of(row, 0)
    return without(playback, row, end, end + 6)


def tokenise_again(playback, row):
    begin, end = reply_of(row, 1)
    tokenizer = playback.model.encoder.tokenizer
    tokens = tokenizer.encode(tokenizer.decode(row.input_ids[begin:end]), add_special_tokens=False)
    rewards = [*[0.0] * (len(tokens) - 1), row.rewards[end - 1]]
    new = (tokens, [True] * len(tokens), [-1.0] * len(tokens), rewards)
    return rewritten(playback, row, [part(row, 0, begin), new, part(row, end)])


def count_positions_by_one(playback, row):
    flat = torch.arange(len(row.input_ids)).expand(3, 1, -1)
    return replace(row, forward={**row.forward, "position_ids": flat})


def slice_pixels(playback, row):
    return replace(row, forward={**row.forward, "pixel_values": row.forward["pixel_values"][:1]})


def swap_pictures(playback, row):
    parts = row.forward["pixel_values"].split(row.forward["image_grid_thw"].prod(1).tolist())
    pixels = torch.cat([parts[1], parts[0], *parts[2:]])
    return replace(row, forward={**row.forward, "pixel_values": pixels})


def train_observations(playback, row):
    begin, _ = reply_of(row, 0)
    return replace(row, mask=[at >= begin for at in range(len(row.input_ids))])


def train_no_ends(playback, row):
    ends = {reply_of(row, turn)[1] - 1 for turn in range(3)}
    return replace(row, mask=[on and at not in ends for at, on in enumerate(row.mask)])


def train_the_templates_end(playback, row):
    _, end = reply_of(row, playback.recording.cut)
    return replace(row, mask=[on or at == end for at, on in enumerate(row.mask)])


def drop_an_end(playback, row):
    _, end = reply_of(row, 2)
    return without(playback, row, end - 1, end)


def pay_a_token_later(playback, row):
    return replace(row, rewards=[0.0, *row.rewards[:-1]])


def pay_a_token_earlier(playback, row):
    return replace(row, rewards=[*row.rewards[1:], 0.0])


def pay_at_the_first_token(playback, row):
    return replace(row, rewards=[sum(row.rewards), *[0.0] * (len(row.rewards) - 1)])


def pay_the_mean(playback, row):
    return replace(row, rewards=None, reward=sum(row.rewards) / len(playback.env.turns))


def end(*, terminated):
    """Another end than the episode had."""
    return lambda _, row: replace(row, terminated=terminated, truncated=not terminated)


def another_temperature(playback, row):
    return replace(row, logprobs=[score / 0.7 for score in row.logprobs])


class ZeroForFailure(PPOTrainerAdapter):
    """Trains the turns before a failure, with reward 0."""

    def play(self, playback):
        found = super().play(playback)
        if found:
            return found
        whole = replace(playback.recording, breaks=None)
        playback.env.recording = whole
        return [
            replace(row, rewards=None, reward=0.0)
            for row in PPOTrainerAdapter().play(replace(playback, recording=whole))
        ]


class Stumbles(PPOTrainerAdapter):
    def play(self, playback):
        raise AttributeError("generate")


class LeavesOut(PPOTrainerAdapter):
    def play(self, playback):
        super().play(playback)
        return []


# Sampler and trainer agree with each other, and both are wrong: only the environment knows.


class Through(gym.Wrapper):
    """The environment as a faulty adapter passes it on."""

    def __init__(self, env, action=None, text=None):
        super().__init__(env)
        self.change_action, self.change_text = action, text
        self.texts = []

    def changed(self, observation):
        self.texts.append(observation["text"])
        if self.change_text is None:
            return observation
        return {**observation, "text": self.change_text(self.texts)}

    def reset(self, **asked):
        observation, info = self.env.reset(**asked)
        self.texts = []
        return self.changed(observation), info

    def step(self, action):
        given = self.change_action(action) if self.change_action else action
        observation, *rest = self.env.step(given)
        return self.changed(observation), *rest


class Twice(Through):
    """Plays the first reply twice, as after a request that was sent again."""

    def step(self, action):
        if len(self.texts) == 1:
            self.env.step(action)
        return super().step(action)


class LosesTheLast(Through):
    """The last reply ends the episode without being played, as where the caller counts turns."""

    def step(self, action):
        if len(self.texts) < self.env.recording.max_turns:
            self.last = super().step(action)
            return self.last
        observation, _, _, _, info = self.last
        return observation, 0.0, False, True, info


class FaultyEnv(PPOTrainerAdapter):
    """Our trainer, whose environment goes through `wrapper`."""

    def __init__(self, wrapper, faults):
        super().__init__()
        self.wrapper, self.faults = wrapper, faults

    def play(self, playback):
        return super().play(replace(playback, env=self.wrapper(playback.env, **self.faults)))


def passed_on(wrapper=Through, **faults):
    """Plant a fault of the environment's adapter: what becomes of actions, or of texts."""
    return trained_by(FaultyEnv, wrapper, faults)


def cut_thinking(reply):
    return reply.partition("</think>")[2]


def replace_an_action(reply):
    return reply.replace("Up", "Down")


def space_the_tags(reply):
    return reply.replace("><", ">\n<")


def earlier_text(texts):
    return texts[max(0, len(texts) - 2)]


def cut_text(texts):
    return texts[-1][:-3]


def picture_last(texts):
    return texts[-1].replace("<image>\n", "") + "\n<image>"


# What the prompt is made of, for sampler and trainer alike unless one is named.


def system_prompt(says):
    """Another system prompt than the environment's."""

    def plant(patch, _model):
        show = ChatEncoder.show
        patch.setattr(ChatEncoder, "show", lambda self, _, *seen: show(self, says, *seen))
        return PPOTrainerAdapter()

    return plant


def template(right, wrong):
    """Prompts are laid out with `wrong` in place of `right`."""

    def plant(patch, model):
        tokenizer, lay_out = model.encoder.tokenizer, ChatEncoder._lay_out

        def spoiled(self, *args):
            return tuple(
                tuple(tokenizer.encode(tokenizer.decode(ids).replace(right, wrong)))
                for ids in lay_out(self, *args)
            )

        patch.setattr(model.encoder, "_laid_out", spoiled.__get__(model.encoder))
        return PPOTrainerAdapter()

    return plant


def no_later_pictures(patch, model):
    """The template writes no picture behind the first turn; its pixels come all the same."""
    lay_out = ChatEncoder._lay_out

    def without_pictures(self, *args):
        first, following = lay_out(self, *args)
        return first, tuple(token for token in following if token != self.image_token_id)

    patch.setattr(ChatEncoder, "check_pictures", lambda *_: None)
    patch.setattr(model.encoder, "_laid_out", without_pictures.__get__(model.encoder))
    return PPOTrainerAdapter()


def no_check_of_pictures(patch, _model):
    """Nothing stops a sampled image token."""
    patch.setattr(ChatEncoder, "check_pictures", lambda *_: None)
    return PPOTrainerAdapter()


def sampled(change):
    """The sampler gets other prompts than the trainer: `change` of each."""

    def plant(patch, model):
        sample = ours._Sampler.sample

        def changed(self, prompts, *args):
            return sample(self, [change(model, prompt) for prompt in prompts], *args)

        patch.setattr(ours._Sampler, "sample", changed)
        return PPOTrainerAdapter()

    return plant


def blind_after_the_first_turn(_, prompt):
    later = [replace(shown, pictures=()) for shown in prompt.shown[1:]]
    return replace(prompt, shown=(prompt.shown[0], *later))


def the_first_picture_again(_, prompt):
    pictures = prompt.shown[0].pictures
    return replace(prompt, shown=tuple(replace(each, pictures=pictures) for each in prompt.shown))


def without_earlier_thoughts(model, prompt):
    """As Qwen3's template writes a conversation."""
    tokenizer = model.encoder.tokenizer
    text = re.sub("<think>.*?</think>", "", tokenizer.decode(prompt.ids))
    return replace(prompt, ids=tuple(tokenizer.encode(text, add_special_tokens=False)))
