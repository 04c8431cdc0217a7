"""The parity kit: quiet on our trainer, and loud for each fault that the field has had, put back by patch."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import pytest

pytest.importorskip("trl", reason="needs the extra ppo")

import parity_ppo as ours
import torch
from parity_ppo import PPOTrainerAdapter
from parity_reports import failed, said

from vagen_adapters.parity import run
from vagen_adapters.parity.recordings import RECORDINGS
from vagen_adapters.ppo.chat_encoder import ChatEncoder


class Faulty(PPOTrainerAdapter):
    """Our trainer, and what became of its sequences."""

    def __init__(self, spoil):
        super().__init__()
        self.spoil = spoil

    def play(self, playback):
        return [self.spoil(playback, row) for row in super().play(playback)]


def rewritten(row, pieces):
    """The row of these pieces: (tokens, mask, log-probability and reward of each)."""
    ids, mask, logprobs, rewards = [], [], [], []
    for tokens, on, scores, paid in pieces:
        ids, mask, logprobs, rewards = (
            [*ids, *tokens],
            [*mask, *on],
            [*logprobs, *scores],
            [*rewards, *paid],
        )
    types = (torch.tensor([ids]) == IMAGE[0]).int()
    return replace(
        row,
        input_ids=ids,
        mask=mask,
        logprobs=logprobs,
        rewards=rewards,
        forward={
            **row.forward,
            "mm_token_type_ids": types,
            "attention_mask": torch.ones_like(types),
        },
    )


IMAGE = []


@pytest.fixture(autouse=True)
def _image(model):
    IMAGE[:] = [model.image_token]


def piece(row, begin, end):
    return (
        row.input_ids[begin:end],
        row.mask[begin:end],
        row.logprobs[begin:end],
        row.rewards[begin:end],
    )


def reply_of(playback, row, turn):
    """Where a reply begins and ends in a row."""
    runs, inside = [], False
    for at, on in enumerate([*row.mask, False]):
        if on and not inside:
            begin = at
        elif inside and not on:
            runs.append((begin, at))
        inside = on
    return runs[turn]


@pytest.mark.parametrize("context", ["all", "last:1", "last:0", "summary:2", "summary:1"])
def test_it_is_quiet_on_our_trainer(model, context):
    report = run(PPOTrainerAdapter(context), model)
    assert report.failed == ()
    assert {each.recording for each in report.findings} == {each.name for each in RECORDINGS}
    assert {each.verdict for each in report.findings} == {"pass"}


def cut(playback, row):
    runs = [at for at, token in enumerate(row.input_ids) if token == playback.model.image_token]
    return rewritten(row, [piece(row, 0, runs[-5])])


def leave(playback, row):
    return replace(row, forward={**row.forward, **playback.model.features(playback.env.shown)})


def lose_pixels(playback, row):
    kept = ("mm_token_type_ids", "attention_mask", "image_grid_thw")
    return replace(row, forward={name: row.forward[name] for name in kept})


def swallow(playback, row):
    _, end = reply_of(playback, row, 0)
    return rewritten(row, [piece(row, 0, end), piece(row, end + 6, len(row.input_ids))])


def again(playback, row):
    begin, end = reply_of(playback, row, 1)
    tokenizer = playback.model.encoder.tokenizer
    tokens = tokenizer.encode(tokenizer.decode(row.input_ids[begin:end]), add_special_tokens=False)
    new = (
        tokens,
        [True] * len(tokens),
        [-1.0] * len(tokens),
        [0.0] * (len(tokens) - 1) + [row.rewards[end - 1]],
    )
    return rewritten(row, [piece(row, 0, begin), new, piece(row, end, len(row.input_ids))])


def flat(playback, row):
    return replace(
        row,
        forward={**row.forward, "position_ids": torch.arange(len(row.input_ids)).expand(3, 1, -1)},
    )


def sliced(playback, row):
    return replace(row, forward={**row.forward, "pixel_values": row.forward["pixel_values"][:1]})


def swapped(playback, row):
    parts = row.forward["pixel_values"].split(row.forward["image_grid_thw"].prod(1).tolist())
    return replace(
        row, forward={**row.forward, "pixel_values": torch.cat([parts[1], parts[0], *parts[2:]])}
    )


def all_after_the_prompt(playback, row):
    begin, _ = reply_of(playback, row, 0)
    return replace(row, mask=[at >= begin for at in range(len(row.input_ids))])


def without_ends(playback, row):
    ends = {reply_of(playback, row, turn)[1] - 1 for turn in range(3)}
    return replace(row, mask=[on and at not in ends for at, on in enumerate(row.mask)])


def all_at_the_first_token(playback, row):
    return replace(row, rewards=[sum(row.rewards), *[0.0] * (len(row.rewards) - 1)])


FAULTS = {  # what is done to a row, in which episode, which checks fail, and what one of them says
    # Tokens are cut at a length, the pictures aren't.
    "verl #3469": (
        cut,
        "truncated",
        "pictures positions log-probs rewards context tokens mask",
        "tokens 43, features 48: 3 runs of image tokens, 3 pictures",
    ),
    # The observation that doesn't fit is dropped, its picture is in the list already.
    "verl #4050": (leave, "no room", "pictures log-probs", "features"),
    # The tensors don't survive the way to the trainer (mismatch 5.24, fixed 0.001).
    "prime-rl #2786": (
        lose_pixels,
        "truncated",
        "pictures log-probs",
        "no pixels reach the forward pass",
    ),
    # The batch is made of token ids alone, and nothing errors.
    "agent-lightning #559": (
        lambda _, row: replace(row, forward={}, logprobs=None),
        "truncated",
        "pictures positions log-probs",
        "",
    ),
    # Observations are sliced from a new rendering at an offset that isn't right any more; #2075, too.
    "SkyRL #1486": (
        swallow,
        "truncated",
        "context pictures positions log-probs",
        "turn 1: the sampler read",
    ),
    # A reply is decoded and encoded, which gives other tokens for the same words.
    "TRL #5224": (
        again,
        "truncated",
        "tokens context mask log-probs",
        "turn 1, token 0: sampled was ['<'] 't' 'h' 'i' 'n', trained is ['<think>']",
    ),
    # Without token types positions count up by one, through pictures too; #2021, too.
    "prime-rl #2243": (flat, "solved", "positions log-probs", ""),
    # `pixel_values[i]` of tensors that hold the patches of all pictures end to end.
    "TRL #6274": (sliced, "solved", "pictures log-probs", ""),
    "pictures in another order": (
        swapped,
        "solved",
        "pictures log-probs",
        "picture 0 is another one than was shown there",
    ),
    "mask of observations": (
        all_after_the_prompt,
        "truncated",
        "mask",
        "is trained and was not sampled",
    ),
    "mask without ends": (without_ends, "truncated", "mask", "['<|im_end|>']"),
    "rewards to the right": (
        lambda _, row: replace(row, rewards=[0.0, *row.rewards[:-1]]),
        "truncated",
        "rewards",
        "",
    ),
    "rewards at the first token": (all_at_the_first_token, "truncated", "rewards", ""),
    "a cut episode kept as ended": (
        lambda _, row: replace(row, terminated=True, truncated=False),
        "truncated",
        "ends",
        "",
    ),
    "another temperature": (
        lambda _, row: replace(row, logprobs=[score / 0.7 for score in row.logprobs]),
        "truncated",
        "log-probs",
        "the trainer keeps",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(model, fault):
    spoil, recording, checks, words = FAULTS[fault]
    report = run(Faulty(spoil), model, [recording])
    assert failed(report) == set(checks.split())
    assert any(words in each.message for each in report.failed)


def test_a_reward_one_token_to_the_left_is_still_the_replys(model):
    report = run(
        Faulty(lambda _, row: replace(row, rewards=[*row.rewards[1:], 0.0])), model, ["truncated"]
    )
    assert failed(report) == set()


def test_trl_5663_the_template_drops_pictures_of_later_turns(model, monkeypatch):
    """TRL #5663: templates that write no picture in a tool's message; its pixels come all the same."""
    lay_out = ChatEncoder._lay_out

    def without(self, *args):
        first, following = lay_out(self, *args)
        return first, tuple(token for token in following if token != self.image_token_id)

    monkeypatch.setattr(ChatEncoder, "_lay_out", without)
    monkeypatch.setattr(ChatEncoder, "check_pictures", lambda *_: None)
    model.encoder._laid_out = model.encoder._lay_out
    report = run(PPOTrainerAdapter(), model, ["truncated"])
    model.encoder._laid_out = lay_out.__get__(model.encoder)
    assert "pictures" in failed(report)
    assert "the sampler was given 2 pictures for 1 places" in said(report, "pictures")
    assert "log-probs" in failed(report)


def test_slime_1847_the_sampler_is_blind_after_the_first_turn(model, monkeypatch):
    """slime #1847: the server gets the first turn's picture only, the trainer all."""
    sample = ours._Sampler.sample

    def blind(self, prompts, *args):
        return sample(
            self,
            [
                replace(
                    each, shown=(each.shown[0], *(replace(s, pictures=()) for s in each.shown[1:]))
                )
                for each in prompts
            ],
            *args,
        )

    monkeypatch.setattr(ours._Sampler, "sample", blind)
    report = run(PPOTrainerAdapter(), model, ["truncated"])
    assert failed(report) == {"pictures", "log-probs"}
    assert said(report, "pictures") == "turn 1: the sampler was given 1 pictures for 2 places"


def test_verl_agent_202_the_model_samples_an_image_token(model, monkeypatch):
    """verl-agent #202, "tokens: 1297, features 1296", after 30 to 50 steps."""
    monkeypatch.setattr(ChatEncoder, "check_pictures", lambda *_: None)
    report = run(PPOTrainerAdapter(), model, ["image token"])
    assert {"pictures", "log-probs"} <= failed(report)
    assert "4 places; tokens 49, features 48" in said(report, "pictures")


def test_a_failed_episode_trained_as_a_zero(model, monkeypatch):
    class Zero(PPOTrainerAdapter):
        def play(self, playback):
            rows = super().play(playback)
            if rows:
                return rows
            playback.recording.__dict__["breaks"] = None
            rows = [
                replace(row, rewards=None, reward=0.0) for row in PPOTrainerAdapter().play(playback)
            ]
            playback.recording.__dict__["breaks"] = 1
            return rows

    report = run(Zero(), model, ["broken"])
    assert failed(report) == {"failure"}
    assert "paid [0.0]" in said(report, "failure")


def test_the_command_prints_a_report_and_fails_where_something_does(model, capsys):
    from vagen_adapters.parity.__main__ import main

    assert main(["parity_ppo:adapter", "--folder", str(model.folder)]) == 0
    assert "52 pass, 0 fail" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no_such"):
        main(["parity_ppo:no_such"])


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


class FaultyEnv(PPOTrainerAdapter):
    def __init__(self, **faults):
        super().__init__()
        self.faults = faults

    def play(self, playback):
        return super().play(replace(playback, env=Through(playback.env, **self.faults)))


def picture_last(texts):
    return texts[-1].replace("<image>\n", "") + "\n<image>"


ENV_FAULTS = {
    "thinking cut": (
        {"action": lambda text: text.partition("</think>")[2]},
        "played",
        "the environment played '<answer>Left</answer>'",
    ),
    "action replaced": (
        {"action": lambda text: text.replace("Up", "Down")},
        "played",
        "turn 1: sampled was '<think>I go up.</think><answer>Up</answer>'",
    ),
    "white space between the tags": (
        {"action": lambda text: text.replace("><", ">\n<")},
        "played",
        "turn 0",
    ),
    "an earlier turn's text again": (
        {"text": lambda texts: texts[max(0, len(texts) - 2)]},
        "read",
        "turn 1: the model read",
    ),
    "the text cut": ({"text": lambda texts: texts[-1][:-3]}, "read", "turn 0: the model read"),
    "the picture at the end": ({"text": picture_last}, "read", "turn 0: the model read"),
}


@pytest.mark.parametrize("fault", ENV_FAULTS)
def test_what_differs_from_the_environment_is_found(model, fault):
    faults, check, words = ENV_FAULTS[fault]
    report = run(FaultyEnv(**faults), model, ["truncated"])
    assert failed(report) == {check}
    assert words in said(report, check)


def test_a_missing_system_prompt_is_found(model, monkeypatch):
    show = ChatEncoder.show
    monkeypatch.setattr(ChatEncoder, "show", lambda self, _, *seen: show(self, "", *seen))
    report = run(PPOTrainerAdapter(), model, ["truncated"])
    assert failed(report) == {"read"}
    assert "doesn't begin with a system prompt" in said(report, "read")


def test_another_system_prompt_is_found(model, monkeypatch):
    show = ChatEncoder.show
    monkeypatch.setattr(ChatEncoder, "show", lambda self, _, *seen: show(self, "Hi.", *seen))
    report = run(PPOTrainerAdapter(), model, ["truncated"])
    assert "the system prompt is 'Hi.'" in said(report, "read")


TEMPLATES = {
    "no line break behind the role": ("<|im_start|>user\n", "<|im_start|>user"),
    "another role": ("<|im_start|>user\n", "<|im_start|>human\n"),
    "no end of messages": ("<|im_end|>\n<|im_start|>assistant", "\n<|im_start|>assistant"),
    "no beginning of the reply": ("<|im_start|>assistant\n", ""),
}


@pytest.mark.parametrize("fault", TEMPLATES)
def test_a_wrong_template_on_both_sides_is_found(model, monkeypatch, fault):
    """The tokens of every prompt are laid out wrong, for the sampler and for the trainer."""
    right, wrong = TEMPLATES[fault]
    tokenizer, lay_out = model.encoder.tokenizer, ChatEncoder._lay_out

    def spoiled(self, *args):
        return tuple(
            tuple(tokenizer.encode(tokenizer.decode(ids).replace(right, wrong)))
            for ids in lay_out(self, *args)
        )

    monkeypatch.setattr(model.encoder, "_laid_out", spoiled.__get__(model.encoder))
    report = run(PPOTrainerAdapter(), model, ["truncated"])
    assert failed(report) == {"read"}


def test_a_reply_that_is_played_twice_is_found(model):
    class Twice(Through):
        def step(self, action):
            if len(self.texts) == 1:
                self.env.step(action)
            return super().step(action)

    class Plays(PPOTrainerAdapter):
        def play(self, playback):
            return super().play(replace(playback, env=Twice(playback.env)))

    assert "played" in failed(run(Plays(), model, ["truncated"]))


@pytest.mark.parametrize("recording", ["image token", "video token", "no room", "broken"])
def test_a_trainer_that_stumbles_refuses_nothing(model, recording):
    class Stumbles(PPOTrainerAdapter):
        def play(self, playback):
            raise AttributeError("generate")

    report = run(Stumbles(), model, [recording])
    assert failed(report) == {"failure" if recording == "broken" else "plays"}
    trainer = Stumbles()
    trainer.refusals = {recording: "AttributeError: generate"}
    assert run(trainer, model, [recording]).failed == ()
    trainer.refusals = {"solved": "AttributeError: generate"}
    assert run(trainer, model, ["solved"]).failed


def test_an_episode_that_is_left_out_undeclared_is_a_failure(model):
    class LeavesOut(PPOTrainerAdapter):
        def play(self, playback):
            super().play(playback)
            return []

    assert failed(run(LeavesOut(), model, ["video token"])) == {"plays"}
    assert failed(run(LeavesOut(), model, ["broken"])) == set()
