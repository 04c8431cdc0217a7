"""Generated samples: the pictures against what is said of them, and the answers against the pictures."""

from __future__ import annotations

import ast
import json

import numpy as np
import pytest

from vagen_envs.sample.generated import SOURCES, generated_samples
from vagen_envs.sample.shapes import COLOURS

ndimage = pytest.importorskip("scipy.ndimage")


def seen_shapes(sample):
    """Colour and box in thousandths of each shape, found in the pixels alone."""
    pixels = sample.images[0].pixels.astype(int)
    found = []
    for name, colour in COLOURS.items():
        labelled, _ = ndimage.label((np.abs(pixels - colour).sum(axis=2)) < 60)
        for rows, columns in ndimage.find_objects(labelled):
            if (rows.stop - rows.start) * (
                columns.stop - columns.start
            ) >= 80:  # else the edge of another colour
                found.append((name, columns.start, rows.start, columns.stop, rows.stop))
    return found


def facts_of(sample):
    shapes = []
    for fact in sample.facts:
        _, _, shape = fact.partition(" has a")
        words, _, box = shape.removeprefix("n").strip().partition(" at ")
        shapes.append((*words.split(), ast.literal_eval(box)))
    return shapes


@pytest.mark.parametrize("source", ["vagen/counting", "vagen/detection", "vagen/grounding"])
def test_shapes_are_where_the_facts_say(source):
    for sample in generated_samples(25, "val", [source]):
        said = sorted((colour, *(v * 0.224 for v in box)) for colour, _, box in facts_of(sample))
        seen = sorted(seen_shapes(sample))
        assert [each[0] for each in said] == [each[0] for each in seen]
        for one in said:  # sorting by left edges may swap neighbours, so the nearest is taken
            nearest = min(
                seen,
                key=lambda other: (
                    sum(abs(a - b) for a, b in zip(one[1:], other[1:], strict=True))
                    + 1000 * (one[0] != other[0])
                ),
            )
            assert one[0] == nearest[0]
            assert np.allclose(one[1:], nearest[1:], atol=2.2)  # the tips of a star are thin


def test_counts_follow_from_the_facts():
    for sample in generated_samples(60, "train", ["vagen/counting"]):
        asked = sample.question.removeprefix("How many ").partition(" are in")[0]
        words = asked.split()
        shapes = facts_of(sample)
        right = sum(
            (len(words) == 1 or colour == words[0]) and words[-1] in (f"{kind}s", f"{kind}es")
            for colour, kind, _ in shapes
        )
        assert sample.reward_model.answer == str(right)
        assert right >= 1


def test_detected_boxes_are_all_of_the_asked_and_no_other():
    for sample in generated_samples(60, "train", ["vagen/detection"]):
        label = sample.question.partition("The label is '")[2].partition("'")[0]
        right = [[*box] for colour, kind, box in facts_of(sample) if f"{colour} {kind}" == label]
        said = json.loads(sample.reward_model.answer)
        assert [each["bbox_2d"] for each in said] == right
        assert {each["label"] for each in said} == {label}
        assert 1 <= len(said) <= 10


def test_grounded_boxes_are_the_only_ones_that_fit():
    for sample in generated_samples(80, "train", ["vagen/grounding"]):
        word, kind = sample.question.removeprefix("Find the ").partition(".")[0].split()
        own = [(colour, box) for colour, each, box in facts_of(sample) if each == kind]
        measure = {
            "largest": lambda box: box[2] - box[0],
            "smallest": lambda box: box[0] - box[2],
            "leftmost": lambda box: -box[0] - box[2],
            "rightmost": lambda box: box[0] + box[2],
            "topmost": lambda box: -box[1] - box[3],
            "lowest": lambda box: box[1] + box[3],
        }.get(word)
        if measure is None:
            fitting = [box for colour, box in own if colour == word]
            assert len(fitting) == 1
            right = fitting[0]
        else:
            right = max((box for _, box in own), key=measure)
        assert json.loads(sample.reward_model.answer)[0]["bbox_2d"] == [*right]


def test_sums_are_right_and_drawn():
    pictures = {}
    for sample in generated_samples(120, "train", ["vagen/arithmetic"]):
        text = sample.facts[0].removeprefix("the picture shows ")
        first, sign, second = text.split()
        operate = {"+": int.__add__, "−": int.__sub__, "×": int.__mul__}[sign]
        assert sample.reward_model.answer == str(operate(int(first), int(second)))
        assert int(sample.reward_model.answer) >= 0
        pixels = sample.images[0].pixels.astype(int)
        ink = np.abs(pixels - pixels[0, 0]).sum(axis=2) > 40
        assert not ink[:, :6].any()
        assert not ink[:, -6:].any()
        rows, columns = np.where(ink)
        crop = ink[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert pictures.setdefault(crop.tobytes(), text) == text  # other signs, another picture


def test_all_sources_are_drawn_from_and_few_samples_repeat():
    samples = list(generated_samples(400))
    counts = {source: sum(sample.data_source == source for sample in samples) for source in SOURCES}
    assert min(counts.values()) > 60
    assert len({sample.extra_info["id"] for sample in samples}) > 390
