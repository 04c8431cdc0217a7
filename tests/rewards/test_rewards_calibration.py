"""The labelled set, RuleJudge on it, and the commands."""

from __future__ import annotations

import pytest

from vagen_rewards import Judge, RuleJudge, Score
from vagen_rewards.calibration import CATEGORIES, calibrate, labelled_set
from vagen_rewards.calibration.labelled import ENVS

BOARDS = ("sokoban", "frozen_lake")


@pytest.mark.parametrize("kind", ENVS)
def test_rule_judge_on_templates_it_was_not_mended_by(kind):
    items, skipped = labelled_set(250, kinds=[kind], levels=40 if kind in BOARDS else 5)
    if skipped:
        pytest.skip(skipped[kind])
    report = calibrate(RuleJudge("direct"), items)
    assert report.total.precision >= 0.98
    assert report.total.recall >= 0.95
    made = {item.category for item in items}
    assert made == set(CATEGORIES) - ({"appendix_e"} if kind == "svg" else set())  # the paper prints nothing on SVG


def test_labels_are_true_and_false():
    """Each category that must be refused is; of the true ones none is empty."""
    items, _ = labelled_set(360, templates="development", kinds=BOARDS)
    for item in items:
        if item.category in ("negated", "off_by_one", "catch_all", "empty"):
            assert not item.label
        if item.category in ("true", "equivalent", "other_language"):
            assert item.label
            assert item.statement.text.strip()


def test_pictures_come_with_the_statements():
    items, _ = labelled_set(20, kinds=["frozen_lake"], pictures=True)
    assert all((item.statement.picture or b"").startswith(b"\x89PNG") for item in items)


def test_the_set_is_the_same_each_time_and_another_for_another_seed():
    first, again, other = (labelled_set(50, seed, kinds=BOARDS)[0] for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_judge_that_says_yes_to_all_is_found_out():
    class Yes(Judge):
        name = "yes"

        def score(self, statement):
            return Score(1.0, "") if statement.text else Score.unscored("empty")

    report = calibrate(Yes(), labelled_set(200, kinds=BOARDS)[0])
    assert report.total.recall == 1.0
    assert report.total.precision < 0.6
    assert report.total.unscored > 0
