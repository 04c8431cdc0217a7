"""The data sets of the experiment `sample-iou`: the imitated answers are off, the others are
right.
"""

import ast

import draw_boxes
from vagen_envs.seeding import HashStream
from vagen_experiments.checkpoint import IMITATED, _scripted_play
from vagen_experiments.experiment import load_experiment


def edges_of(row):
    (box,) = ast.literal_eval(row["reward_model"]["answer"])
    return box["bbox_2d"]


def rows(careless):
    stream = HashStream("test")
    return [draw_boxes.row(stream.child(number), careless=careless) for number in range(50)]


def test_careless_answers_are_off_by_odd_numbers_of_pixels_and_their_facts_are_true():
    right, careless = rows(careless=False), rows(careless=True)
    assert [row["extra_info"] for row in right] == [row["extra_info"] for row in careless]
    assert all(edge % 2 == 0 for row in right for edge in edges_of(row))
    off = [
        told - edge
        for one, other in zip(right, careless, strict=True)
        for edge, told in zip(edges_of(one), edges_of(other), strict=True)
        if 3 <= edge <= draw_boxes.SIDE - 3  # nearer to the border they are cut
    ]
    assert set(off) == {0, -1, 1, -3, 3}


def test_scripted_play_has_the_checkpoints_options(monkeypatch):
    seen = {}

    def play(env, options, *_, **__):
        seen.update(options)
        return iter(())

    monkeypatch.setattr("vagen_experiments.imitation.demonstrations", play)
    experiment = load_experiment("sample-iou")
    list(_scripted_play(experiment, "", IMITATED, 1, 1.0))
    assert experiment.options["dataset"] == "runs/boxes"
    assert seen["dataset"] == "runs/boxes-careless"
    assert seen["strategy"] == experiment.options["strategy"]
