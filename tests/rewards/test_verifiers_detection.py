"""Boxes: reading them, IoU against pixels, matching against all permutations, and equations 2 and 3."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_envs.errors import NotBoxesError
from vagen_envs.sample.answer import Box, iou, read_boxes
from vagen_envs.sample.schema import RewardModel, Sample
from vagen_rewards.errors import VerifierError
from vagen_rewards.verifiers import score, verifier_named
from vagen_rewards.verifiers.base import TAGS, tag_format
from vagen_rewards.verifiers.detection import true_boxes
from vagen_rewards.verifiers.matching import match


def sample(truth, parm=None, ratios=(0.9, 0.1)):
    prompt = ({"role": "user", "content": "Find it."},)
    return Sample(
        "mine", (), prompt, "detection", RewardModel(truth, truth, *ratios, "detection", parm or {})
    )


def written(boxes):
    return json.dumps([{"bbox_2d": [*box[:4]], "label": box[4]} for box in boxes])


def reply(boxes):
    return f"<think>t</think><answer>{boxes if isinstance(boxes, str) else written(boxes)}</answer>"


edges = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted)
boxes = st.builds(
    lambda x, y, label: Box(x[0], y[0], x[1], y[1], label), edges, edges, st.sampled_from("ab")
)


def painted(box):
    grid = np.zeros((20, 20), bool)
    grid[int(box.y1) : int(box.y2), int(box.x1) : int(box.x2)] = True
    return grid


@given(boxes, boxes)
def test_iou_is_that_of_painted_pixels(one, other):
    both, either = (painted(one) & painted(other)).sum(), (painted(one) | painted(other)).sum()
    assert iou(one, other) == pytest.approx(both / either if either else 0.0)
    assert iou(one, other) == iou(other, one)


@given(st.lists(boxes, max_size=5), st.lists(boxes, min_size=1, max_size=4), st.randoms())
def test_matching_is_the_best_of_all_permutations(predicted, truth, random):
    """Every way to give true boxes to predicted ones of their label; the largest sum of IoU."""
    size = max(len(predicted), len(truth))
    padded = [*predicted, *[None] * (size - len(predicted))]
    best = max(
        sum(
            iou(p, t)
            for p, t in zip(order, truth, strict=False)
            if p is not None and p.label == t.label
        )
        for order in itertools.permutations(padded)
    )
    found = match(predicted, truth)
    assert found.mean == pytest.approx(best / size)
    assert found.of == size
    shuffled = predicted[:]
    random.shuffle(shuffled)
    assert match(shuffled, truth).mean == pytest.approx(found.mean)


@given(boxes.filter(lambda box: box.area), boxes, st.floats(0.05, 1.0))
def test_for_one_box_it_is_equation_3(truth, predicted, threshold):
    predicted = predicted._replace(label=truth.label)
    overlap = (painted(truth) & painted(predicted)).sum() / (
        painted(truth) | painted(predicted)
    ).sum()
    verdict = score(sample(written([truth])), reply([predicted]), threshold)
    if abs(overlap - threshold) > 1e-9:
        assert verdict.accuracy == pytest.approx(overlap if overlap >= threshold else 0.0)
    assert verdict.reward(sample("x")) == pytest.approx(0.9 * verdict.accuracy + 0.1)


def released(predicted, truth, threshold, completeness=0.0):
    """The released reward by its description, in loops: label first, duplicates once, 0.6 for each box too many."""

    def once(boxes):
        kept = []
        for box in boxes:
            if (
                box.x1 <= box.x2
                and box.y1 <= box.y2
                and all(box[:4] != other[:4] for other in kept)
            ):
                kept.append(box)
        return kept

    predicted, truth = once(predicted), once(truth)
    if not predicted or not truth:
        return 0.0
    free, total, hits = set(range(len(predicted))), 0.0, 0
    for box in truth:
        overlaps = [
            (painted(predicted[i]) & painted(box)).sum()
            / max(1, (painted(predicted[i]) | painted(box)).sum())
            if i in free and predicted[i].label == box.label
            else -1.0
            for i in range(len(predicted))
        ]
        best = int(np.argmax(overlaps))
        if overlaps[best] >= threshold:
            free.remove(best)
            total, hits = total + overlaps[best], hits + 1
    missed, false_alarms = (
        (len(truth) - hits) / len(truth),
        (len(predicted) - hits) / len(predicted),
    )
    mixed = (
        total / len(truth) * (1 - completeness) + (1 - (missed + false_alarms) / 2) * completeness
    )
    return mixed * 0.6 ** abs(len(predicted) - len(truth))


@given(
    st.lists(boxes, max_size=5),
    st.lists(boxes.filter(lambda box: box.area), min_size=1, max_size=4),
    st.sampled_from([0.3, 0.5, 0.85]),
    st.sampled_from([0.0, 0.3]),
)
def test_several_boxes_earn_what_the_released_code_pays(predicted, truth, threshold, completeness):
    parm = {
        "det_reward_ratio": {"iou_max_label_first": 1.0, "iou_completeness": completeness, "map": 0}
    }
    verdict = score(sample(written(truth), parm), reply(predicted), threshold)
    assert verdict.accuracy == pytest.approx(released(predicted, truth, threshold, completeness))


def test_pairing_by_iou_first_takes_the_best_pair_whatever_its_label():
    truth = [Box(0, 0, 10, 10, "a"), Box(0, 0, 10, 8, "b")]
    parm = {"det_reward_ratio": {"iou_max_iou_first": 1}}
    assert score(sample(written(truth), parm), reply(truth), 0.5).accuracy == pytest.approx(1)
    swapped = [truth[0]._replace(label="b"), truth[1]._replace(label="a")]
    assert score(sample(written(truth), parm), reply(swapped), 0.5).accuracy == 0


class Picture:
    """Of a size, and nothing else is asked of it."""

    size = (640, 480)


def test_answers_in_pixels_are_held_against_released_truths_in_thousandths():
    asked = sample(written([Box(100, 200, 500, 700, "dog")]), {"det_verifier_normalized": True})
    asked = dataclasses.replace(asked, images=(Picture(),))
    assert score(asked, reply([Box(64, 96, 320, 336, "dog")]), 0.99).accuracy == 1
    assert score(asked, reply([Box(100, 200, 500, 700, "dog")]), 0.5).accuracy == 0
    right = f"<answer>{verifier_named('detection').reference(asked)}</answer>"
    assert score(asked, right, 0.999).metrics["iou"] == 1


def test_thousandths_may_be_the_unit_of_both():
    truth = [Box(100, 200, 500, 700, "dog")]
    assert (
        score(sample(written(truth), {"coordinates": "thousandths"}), reply(truth), 0.99).accuracy
        == 1
    )


def test_several_boxes_may_be_divided_by_the_larger_number():
    truth = [Box(0, 0, 10, 10, "a"), Box(20, 20, 30, 30, "a")]
    asked = sample(written(truth), {"matching": "assignment"})
    assert score(asked, reply(truth[::-1]), 0.99).accuracy == 1
    assert score(asked, reply(truth[:1]), 0.99).accuracy == 0.5
    assert (
        score(asked, reply([*truth, Box(0, 0, 1, 1, "a"), Box(0, 0, 1, 1, "zebra")]), 0.99).accuracy
        == 0.5
    )
    assert score(asked, reply([*truth, *truth]), 0.99).accuracy == 0.5  # said twice
    half = score(asked, reply([truth[0], Box(20, 20, 30, 28, "a")]), 0.9)
    assert half.accuracy == 0.5  # 0.8 is below
    assert half.metrics["iou"] == pytest.approx(0.9)
    assert [half.metrics[f"iou@{at}"] for at in (50, 75, 95, 99)] == [1, 1, 0.5, 0.5]


def test_labels_count_but_not_their_case():
    truth = [Box(0, 0, 10, 10, "Red  Cup")]
    assert score(sample(written(truth)), reply([Box(0, 0, 10, 10, " red cup")])).accuracy == 1
    assert score(sample(written(truth)), reply([Box(0, 0, 10, 10, "blue cup")])).accuracy == 0


def test_a_samples_own_threshold_goes_before_the_schedules():
    truth, guess = [Box(0, 0, 10, 10, "a")], [Box(0, 0, 10, 6, "a")]
    assert score(
        sample(written(truth), {"iou_threshold": 0.5}), reply(guess), 0.99
    ).accuracy == pytest.approx(0.6)
    assert score(sample(written(truth)), reply(guess), 0.99).accuracy == 0


@pytest.mark.parametrize(
    "parm",
    [
        {"iou_threshold": 0},
        {"iou_threshold": "0.5"},
        {"iou_threshold": True},
        {"iou_treshold": 0.5},
        {"matching": "hungarian"},
        {"coordinates": 1000},
        {"det_reward_ratio": {"map": 1}},
        {"det_reward_ratio": {"iou": 1}},
        {"det_reward_ratio": [1]},
    ],
)
def test_wrong_parameters_are_said(parm):
    with pytest.raises(VerifierError, match=rf"verifier_parm\['{next(iter(parm))}"):
        score(sample(written([Box(0, 0, 1, 1, "a")]), parm), reply([]))


@pytest.mark.parametrize(
    "truth", ["7", "[]", "[{'bbox_2d': [0, 0, 0, 5], 'label': 'a'}]", "[{'bbox': [1, 2, 3, 4]}]"]
)
def test_a_truth_that_is_none_is_the_datas_mistake(truth):
    with pytest.raises(VerifierError, match="the ground truth"):
        score(sample(truth), reply([]))
    with pytest.raises(VerifierError):
        true_boxes(truth)


# -- the format ----------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([*TAGS, "x", "<answer", "\n"]), max_size=10))
def test_the_format_is_equation_2(parts):
    text = "".join(parts)
    once = 0
    for tag in ("<think>", "</think>", "<answer>", "</answer>"):
        places = [i for i in range(len(text)) if text[i : i + len(tag)] == tag]
        once += len(places) == 1
    assert tag_format(text) == 0.25 * once


def test_what_no_answer_earns():
    truth = sample(written([Box(0, 0, 10, 10, "a")]))
    verdict = score(truth, "no tags")
    assert (verdict.accuracy, verdict.format, verdict.answer) == (0, 0, None)
    verdict = score(truth, reply("somewhere on the left"))
    assert (verdict.accuracy, verdict.format) == (0, 1)
    assert "not a list of boxes" in verdict.reason
    assert verdict.metrics["iou@50"] == 0


# -- reading -------------------------------------------------------------------------------------


@given(
    st.lists(boxes, max_size=6),
    st.booleans(),
    st.sampled_from(["{}", "```json\n{}\n```", "Here: {} there."]),
)
def test_what_was_written_is_read(given_boxes, as_python, around):
    entries = [{"bbox_2d": [*box[:4]], "label": box.label, "score": None} for box in given_boxes]
    text = repr(entries) if as_python else json.dumps(entries)
    assert read_boxes(around.replace("{}", text)) == given_boxes


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["[", "'", "{'a':", "-", "1", "\\", "(", "[1,", "'\\"])
def test_a_long_text_is_refused(unit):
    """At once; in the square of its length it would be hours."""
    with pytest.raises(NotBoxesError):
        read_boxes("[" + unit * (190_000 // len(unit)) + "]")


@given(st.text(max_size=60) | st.text("[]{}():,'\"bbox_2dlabel0123456789.-eE \\\n", max_size=80))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(NotBoxesError):
        assert all(isinstance(box, Box) for box in read_boxes(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no list"),
        ("[1, 2, 3, 4]", "four numbers"),
        ("[[1, 2, 3, 4]]", "entry 0 is not a dictionary"),
        ("[{'bbox_2d': [1, 2, 3], 'label': 'a'}]", "four numbers"),
        ("[{'bbox_2d': [1, 2, 3, 'x'], 'label': 'a'}]", "finite"),
        ("[{'bbox_2d': [1, 2, 3, 1e999], 'label': 'a'}]", "finite"),
        ("[{'bbox_2d': [1, 2, 3, 1" + "0" * 400 + "], 'label': 'a'}]", "finite"),
        ("[{'bbox_2d': [1, 2, 3, 4], 'label': 5}]", "label of entry 0"),
        ("[{'bbox_2d': [1, 2, 3, 2**9]}]", "neither JSON nor Python"),
        ("[__import__('os').system('true')]", "neither JSON nor Python"),
        ("[{[1]: 2}]", "neither JSON nor Python"),
        ("[" * 5000 + "]" * 5000, "neither JSON nor Python"),
        ("[" + "{'bbox_2d': [1, 2, 3, 4], 'label': 'a'}," * 1001 + "]", "1001 boxes"),
        ("[" + " " * 300_000 + "]", "300002 characters"),
    ],
)
def test_what_is_refused_is_said(text, said):
    with pytest.raises(NotBoxesError) as caught:
        read_boxes(text)
    assert said in str(caught.value)
