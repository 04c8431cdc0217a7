"""The IoU threshold over training, against the paper's words and a literal loop."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_envs.errors import ConfigError
from vagen_rewards.verifiers import DYNAMIC, LOOSE, STRICT, AdaptiveIoU, IoUSchedule


@pytest.mark.parametrize(
    ("schedule", "values"),
    [(DYNAMIC, (0.85, 0.95, 0.99)), (LOOSE, (0.7, 0.8, 0.85)), (STRICT, (0.9, 0.95, 0.99))],
)
def test_the_schedules_are_the_papers(schedule, values):
    for step in range(1000):
        expected = values[0] if step < 100 else values[1] if step < 250 else values[2]
        assert schedule.at(step / 1000) == expected
    assert schedule.at(1.0) == values[2]


def test_they_go_by_name_and_a_fixed_one_is_a_schedule():
    assert {IoUSchedule((0.5,), ()).at(share / 10) for share in range(11)} == {0.5}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: IoUSchedule((0.5, 1.2), (0.1,)), "thresholds="),
        (lambda: IoUSchedule((), ()), "thresholds="),
        (lambda: IoUSchedule((0.5, 0.6), ()), "ends="),
        (lambda: IoUSchedule((0.5, 0.6, 0.7), (0.3, 0.2)), "ends="),
        (lambda: DYNAMIC.at(1.01), "progress=1.01"),
        (lambda: DYNAMIC.at(math.nan), "progress=nan"),
        (lambda: AdaptiveIoU(1.0), "target=1.0"),
        (lambda: AdaptiveIoU().update([1.5]), "IoU of 1.5"),
        (lambda: AdaptiveIoU().update([math.nan]), "IoU of nan"),
        (lambda: AdaptiveIoU(0.5, 0.51), "threshold=0.51"),
    ],
)
def test_what_is_wrong_is_said(wrong, said):
    with pytest.raises(ConfigError) as caught:
        wrong()
    assert said in str(caught.value)


batches = st.lists(
    st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.52, 0.85, 0.9, 0.97, 0.99, 1.0]), max_size=6),
    max_size=40,
)


@given(batches, st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]))
def test_the_controller_is_equation_6(ious, target):
    milestones = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99]
    place = 0
    controller = AdaptiveIoU(target)
    assert controller.threshold == 0.5
    for batch in ious:
        if batch:
            hits = 0
            for value in batch:
                if value > milestones[place]:
                    hits += 1
            if hits / len(batch) > target and place + 1 < len(milestones):
                place += 1
            elif hits / len(batch) < target and place > 0:
                place -= 1
        assert controller.update(batch) == controller.threshold == milestones[place]
        controller = AdaptiveIoU(
            **json.loads(json.dumps(dataclasses.asdict(controller)))
        )  # as after a checkpoint
