"""`vagen/Sample-v0`: the contract, and rewards as samples weigh them."""

from __future__ import annotations

import hashlib
import json
import pickle
import sys

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("math_verify")

import vagen_envs  # noqa: F401
from vagen_envs.conformance import check
from vagen_envs.core import State
from vagen_envs.errors import ConfigError, LevelError, SimulatorError
from vagen_envs.pictures import Picture
from vagen_envs.sample.answer import read_boxes
from vagen_envs.sample.generated import generated_samples
from vagen_envs.sample.images import SampleImage
from vagen_envs.sample.schema import RewardModel, Sample
from vagen_envs.sample.scoring import VerifierResult
from vagen_envs.sample.state import SampleState

ID = "vagen/Sample-v0"
GOLDEN = "d55e8811264c5f8b0c48c88fc49ae5f5279afef73162948e17732a790557bcc5"


def make(**options):
    return gym.make(ID, **options).unwrapped


def say(env, answer):
    return env.grammar.render([answer], observation="a", reasoning="b", prediction="c")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strategy": "no_think", "observation": "both"},
        {"strategy": "grounding", "representation": "structured", "observation": "text"},
        {"strategy": "world_modeling", "layout": "flat", "parsing": "strict"},
        {"strategy": "grounding_world_modeling", "reasoning": "required"},
        {"sources": ["vagen/detection"]},
    ],
    ids=str,
)
def test_it_conforms(options):
    check(ID, **options)


def test_it_conforms_with_a_data_set(tmp_path):
    pytest.importorskip("pyarrow")
    from samples import write_samples

    write_samples(generated_samples(60), tmp_path / "samples.parquet")
    check(ID, dataset=str(tmp_path))


def test_levels_are_the_golden_ones():
    """If this fails on purpose, the environment needs a new version: its scores can't be compared any more."""
    env = make(observation="text")
    contents = [
        env.reset(seed=seed, options={"split": split})[1]["level"]["content"]
        for split in ("train", "val", "test")
        for seed in range(32)
    ]
    assert hashlib.sha256("".join(contents).encode()).hexdigest() == GOLDEN


# -- rewards -------------------------------------------------------------------------------------


def test_boxes_earn_their_iou_and_a_quarter_of_the_format_a_tag():
    env = make(sources=["vagen/grounding"], strategy="no_think")
    env.reset(seed=1)
    box = read_boxes(env.sample.reward_model.truth)[0]
    wider = json.dumps(
        [
            {
                "bbox_2d": [box.x1, box.y1, box.x2 + 0.1 * (box.x2 - box.x1), box.y2],
                "label": box.label,
            }
        ]
    )
    _, reward, terminated, truncated, info = env.step(f"<answer>{wider}</answer>")
    turn = info["turn"]
    terms = {term.name: term.value for term in turn.rewards}
    assert terms == {"accuracy": pytest.approx(0.9 / 1.1), "tag_format": pytest.approx(0.1 * 0.5)}
    assert reward == pytest.approx(0.9 / 1.1 + 0.05)
    assert turn.metrics["iou"] == pytest.approx(1 / 1.1)
    assert (terminated, truncated, turn.success) == (True, False, True)


def test_the_threshold_moves_also_in_vector_environments():
    envs = gym.make_vec(ID, 2, vectorization_mode="async", sources=["vagen/grounding"])
    try:
        for threshold, earned in ((0.85, True), (0.95, False)):
            envs.call("set_iou_threshold", threshold)
            envs.reset(seed=3)
            truths = [
                read_boxes(sample.reward_model.truth)[0] for sample in envs.get_attr("sample")
            ]
            replies = [
                "<think>t</think><answer>"
                + json.dumps(
                    [{"bbox_2d": [b.x1, b.y1, b.x2 + 0.1 * (b.x2 - b.x1), b.y2], "label": b.label}]
                )
                + "</answer>"
                for b in truths
            ]
            _, rewards, terminations, _, _ = envs.step(replies)
            assert terminations.all()
            assert ((rewards > 0.5) == earned).all()
    finally:
        envs.close()
    with pytest.raises(ConfigError, match="iou_threshold=0 "):
        make().set_iou_threshold(0)


def test_looking_does_not_move_the_threshold_back():
    env = make(
        observation="text", render_mode="rgb_array", sources=["vagen/grounding"], iou_threshold=0.5
    )
    env.reset(seed=1)
    box = read_boxes(env.sample.reward_model.truth)[0]
    half = json.dumps(
        [{"bbox_2d": [box.x1, box.y1, 2 * box.x2 - box.x1, box.y2], "label": box.label}]
    )
    env.set_iou_threshold(0.9)
    assert env.render().shape == (224, 224, 3)
    assert not env.step(say(env, half))[4]["turn"].success


@pytest.mark.parametrize(
    ("reply", "accuracy", "tags"),
    [
        ("<think>x</think><answer>\\boxed{TRUTH}</answer>", 1, 1.0),
        ("<think>\\boxed{TRUTH}</think><answer>\\boxed{99}</answer>", 0, 1.0),
        ("<think>x</think><answer>TRUTH</answer>", 0, 1.0),  # not boxed: no answer
        ("<answer>\\boxed{TRUTH}</answer>", 1, 0.5),  # malformed, and read all the same
        ("\\boxed{99} no, wait: \\boxed{TRUTH} and then \\boxed{", 1, 0.0),  # the last whole box
        ("\\boxed{TRUTH}", 1, 0.0),  # without tags it is the answer all the same
        ("", 0, 0.0),
    ],
)
def test_values_are_right_or_wrong(reply, accuracy, tags):
    env = make(sources=["vagen/counting"])
    env.reset(seed=5)
    turn = env.step(reply.replace("TRUTH", env.sample.reward_model.answer))[4]["turn"]
    assert turn.metrics["accuracy"] == accuracy
    assert turn.metrics["tag_format"] == tags
    assert turn.reward == accuracy  # its format_ratio is 0
    assert turn.terminated


def test_the_feedback_and_the_state_say_what_was_answered():
    env = make(sources=["vagen/counting"])
    _, info = env.reset(seed=5)
    assert info["state"].given is None
    observation, _, _, _, info = env.step(say(env, "\\boxed{55}"))
    assert "The answer is wrong" in observation["text"]
    assert info["state"].given == "\\boxed{55}"
    assert "the answer given is \\boxed{55}" in info["state"].sentences()
    state = SampleState("q", ("a", "b"), "3", None)
    assert State.from_json(json.loads(json.dumps(state.to_json()))) == state
    assert pickle.loads(pickle.dumps(state)) == state


def test_neither_picture_nor_text_tells_the_answer_before():
    for mode in ("image", "text", "both"):
        env = make(sources=["vagen/detection"], observation=mode)
        observation, _ = env.reset(seed=2)
        assert env.sample.reward_model.answer not in observation["text"]
        assert env.sample.reward_model.answer not in env.system_prompt


# -- data sets and scoring of one's own ----------------------------------------------------------


class Echo:
    """Scores by length."""

    prepared = 0

    def prepare(self):
        self.prepared += 1

    def score(self, sample, response, iou_threshold):
        if "break" in response:
            return VerifierResult.unscored("out of order")
        if "raise" in response:
            raise RuntimeError("worse")
        return VerifierResult(
            0.5, 1.0, response, f"{iou_threshold}", {"length": float(len(response))}
        )

    def reference(self, sample):
        return f"\\boxed{{{sample.reward_model.truth}}}"


def plain(width, height):
    return SampleImage(Picture(np.full((height, width, 3), (width, 0, 0), np.uint8)).png, "plain")


def mine(images, number, verifier="mathverify"):
    prompt = (
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": f"<image><image> $x {number}?"},
    )
    return Sample("mine", tuple(images), prompt, "own", RewardModel("7", "7", 2.0, 0.5, verifier))


def test_pictures_of_all_sizes_stand_side_by_side(tmp_path):
    samples = [mine([plain(20 + i, 10), plain(5, 30)], i) for i in range(40)]
    from samples import write_samples

    write_samples(samples, tmp_path / "a.parquet")
    env = make(dataset=str(tmp_path))
    assert env.observation_space["image"].shape == (30, 59 + 8 + 5, 3)
    observation, _ = env.reset(seed=4)
    width = env.sample.images[0].size[0]
    picture = observation["image"]
    assert (picture[:10, :width] == (width, 0, 0)).all()
    assert (picture[10:, :width] == 128).all()
    assert (picture[:, width + 8 : width + 13] == (5, 0, 0)).all()
    assert observation["text"].startswith("[Question] Be kind.\n $x ")
    assert observation["text"].count("<image>") == 1
    _, reward, *_ = env.step(env.oracle_reply())
    assert reward == 2.5  # α_acc 2 and α_format 0.5


def test_scoring_of_ones_own(tmp_path, monkeypatch):
    module = type(sys)("my_scoring")
    module.echo = Echo()
    monkeypatch.setitem(sys.modules, "my_scoring", module)
    env = make(scoring="my_scoring:echo", iou_threshold=0.7)
    env.reset(seed=0)
    turn = env.step(env.oracle_reply())[4]["turn"]
    assert turn.metrics["accuracy"] == 0.5
    assert turn.metrics["length"] == len(turn.reply)
    assert module.echo.prepared == 1
    for word in ("break", "raise"):
        env.reset(seed=0)
        with pytest.raises(SimulatorError, match=r"vagen/Sample-v0 broke: .*(out of order|worse)"):
            env.step(say(env, f"\\boxed{{{word}}}"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scoring": "nowhere:x"}, "scoring='nowhere:x' can't be found"),
        (
            {"scoring": "vagen_rewards.verifiers:DYNAMIC"},
            "it needs the methods prepare, score and reference",
        ),
        ({"sources": ["vagen/countin"]}, "Did you mean 'vagen/counting'?"),
        ({"max_turns": 2}, "max_turns=2"),
        ({"max_side": 0}, "max_side=0"),
        ({"iou_threshold": 1.5}, "iou_threshold=1.5"),
    ],
)
def test_wrong_options_are_said(options, said):
    with pytest.raises(ConfigError) as caught:
        make(**options)
    assert said in str(caught.value)


def test_an_unknown_verifier_and_an_empty_split_are_said(tmp_path):
    from samples import write_samples

    write_samples([mine([], 1, verifier="mathverfy")], tmp_path / "a.parquet")
    texts = []
    for split in ("train", "val", "test"):
        env = make(dataset=str(tmp_path), split=split, observation="text")
        try:
            env.reset(seed=0)
            env.oracle_reply()
        except (LevelError, ValueError) as error:
            texts.append(str(error))
    assert sum("this split has no level" in text for text in texts) == 2
    assert (
        sum(
            "unknown verifier 'mathverfy'" in text and "Did you mean 'mathverify'?" in text
            for text in texts
        )
        == 1
    )


def test_a_turn_says_its_iou_at_each_threshold_and_0_without_an_answer():
    names = {"iou", "iou@50", "iou@75", "iou@95", "iou@99"}
    for reply, worth in ((None, 1.0), ("<think>I see none.</think>", 0.0)):
        env = make(sources=["vagen/grounding"])
        env.reset(seed=1)
        metrics = env.step(reply or env.oracle_reply())[4]["turn"].metrics
        assert {name: metrics[name] for name in names} == dict.fromkeys(names, worth)
        assert metrics["accuracy"] == worth
