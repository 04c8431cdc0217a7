"""Metrics a source: mAP against a literal loop, the 15 words, and what a batch of several sources adds up to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pycocotools")

from vagen_envs.sample.answer import Box, iou
from vagen_envs.sample.generated import generated_samples
from vagen_envs.sample.schema import RewardModel, Sample
from vagen_rewards.verifiers import Scored, VerifierResult, score, source_metrics
from vagen_rewards.verifiers.metrics import REFLECTIVE_WORDS, is_reflective, mean_average_precision

edges = st.tuples(st.integers(0, 12), st.integers(1, 12)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)
boxes = st.builds(
    lambda x, y, label: Box(x[0], y[0], x[1], y[1], label), edges, edges, st.sampled_from("ab")
)
pictures = st.lists(
    st.tuples(st.lists(boxes, max_size=4), st.lists(boxes, max_size=4)), min_size=1, max_size=4
)


def literal_ap(pages, label, threshold, area):
    """COCO's average precision of one label, step by step."""
    ranked = []
    for page, (predicted, _) in enumerate(pages):
        own = [box for box in predicted if box.label == label]
        own.sort(key=lambda box: -box.area)  # stable: the earlier first
        ranked += [(box.area / area, page, box) for box in own]
    order = sorted(range(len(ranked)), key=lambda i: -ranked[i][0])  # stable
    total = sum(box.label == label for _, truth in pages for box in truth)
    taken = set()
    hits = []
    verdicts = {}
    for page in range(len(pages)):
        for i in range(len(ranked)):
            if ranked[i][1] != page:
                continue
            best, chosen = threshold - 1e-10, None
            for j, box in enumerate(pages[page][1]):
                if box.label == label and (page, j) not in taken and iou(ranked[i][2], box) >= best:
                    best, chosen = iou(ranked[i][2], box), (page, j)
            if chosen is not None:
                taken.add(chosen)
            verdicts[i] = chosen is not None
    hits = [verdicts[i] for i in order]
    recalls, precisions = [], []
    right = 0
    for n, hit in enumerate(hits, 1):
        right += hit
        recalls.append(right / total)
        precisions.append(right / n)
    points = []
    for step in range(101):
        reachable = [p for r, p in zip(recalls, precisions, strict=True) if r >= step / 100]
        points.append(max(reachable, default=0.0))
    return sum(points) / 101


@settings(max_examples=60)
@given(pictures.filter(lambda pages: any(truth for _, truth in pages)))
def test_map_is_that_of_a_literal_loop(pages):
    area = 24.0 * 24.0
    labels = sorted({box.label for _, truth in pages for box in truth})
    thresholds = [0.5 + 0.05 * i for i in range(10)]
    each = {
        t: sum(literal_ap(pages, label, t, area) for label in labels) / len(labels)
        for t in thresholds
    }
    found, at_50 = mean_average_precision(
        [p for p, _ in pages], [t for _, t in pages], [area] * len(pages)
    )
    assert at_50 == pytest.approx(each[0.5], abs=1e-9)
    assert found == pytest.approx(sum(each.values()) / 10, abs=1e-9)


def test_map_needs_a_true_box(capsys):
    with pytest.raises(ValueError, match="give as many of each, and a box"):
        mean_average_precision([[]], [[]], [1.0])
    assert mean_average_precision([[]], [[Box(0, 0, 1, 1, "a")]], [1.0]) == (0, 0)
    mean_average_precision([[Box(0, 0, 1, 1, "a")]], [[Box(0, 0, 1, 1, "a")]], [1.0])
    assert capsys.readouterr().out == ""


# -- reflection ----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", REFLECTIVE_WORDS)
def test_each_word_counts_in_any_case(word):
    assert is_reflective(f"Hm, {word.upper()}: no.")
    assert is_reflective(word)
    assert not is_reflective(f"x{word}")
    assert not is_reflective(f"{word}y")
    assert len(set(REFLECTIVE_WORDS)) == 15


# -- a batch -------------------------------------------------------------------------------------


def plain(source, accuracy_ratio=1.0, format_ratio=0.0):
    prompt = ({"role": "user", "content": "?"},)
    return Sample(
        source, (), prompt, "x", RewardModel("7", "7", accuracy_ratio, format_ratio, "mathverify")
    )


def test_a_batch_adds_up_for_each_source():
    one, other = plain("one", 0.8, 0.2), plain("other")
    batch = [
        Scored(one, "wait, 7", VerifierResult(1.0, 0.5), truncated=False, tokens=3),
        Scored(one, "seven!", VerifierResult(0.0, 1.0), truncated=True, tokens=5),
        Scored(one, "yet 8 ", VerifierResult(0.0, 0.0), tokens=7),
        Scored(one, "verify", VerifierResult.unscored("down"), tokens=1),
        Scored(other, "7", VerifierResult(1.0)),
    ]
    assert source_metrics(batch) == {
        "one/count": 4.0,
        "one/unscored": 0.25,
        "one/reward/total": pytest.approx((0.8 + 0.1 + 0.2 + 0) / 3),
        "one/reward/accuracy": pytest.approx(0.8 / 3),
        "one/reward/format": pytest.approx(0.3 / 3),
        "one/accuracy": pytest.approx(1 / 3),
        "one/format": 0.5,
        "one/length/characters": 6.25,
        "one/length/tokens": 4.0,
        "one/truncated": 0.25,
        "one/reflection/ratio": 0.75,
        "one/reflection/correct": 0.5,
        "other/count": 1.0,
        "other/unscored": 0.0,
        "other/reward/total": 1.0,
        "other/reward/accuracy": 1.0,
        "other/reward/format": 0.0,
        "other/accuracy": 1.0,
        "other/format": 0.0,
        "other/length/characters": 1.0,
        "other/truncated": 0.0,
        "other/reflection/ratio": 0.0,
    }
    assert source_metrics([]) == {}
    broken = source_metrics([Scored(one, "x", VerifierResult.unscored("down"))])
    assert broken["one/unscored"] == 1
    assert "one/accuracy" not in broken  # no value, so not 0


def test_boxes_have_iou_and_map():
    samples = list(generated_samples(12, sources=["vagen/grounding"]))
    batch = []
    for i, sample in enumerate(samples):
        answer = sample.reward_model.truth if i < 9 else "[]" if i < 11 else "nothing"
        response = f"<think>x</think><answer>{answer}</answer>"
        batch.append(Scored(sample, response, score(sample, response)))
    found = source_metrics(batch)
    for name in ("iou", "iou@50", "iou@75", "iou@95", "iou@99", "accuracy"):
        assert found[f"vagen/grounding/{name}"] == 0.75
    assert found["vagen/grounding/map"] == pytest.approx(found["vagen/grounding/map@50"])
    assert 0.5 < found["vagen/grounding/map"] < 0.95  # a mean over labels, not over boxes
