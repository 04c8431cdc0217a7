"""The labelled set, RuleJudge on it, and the commands."""

from __future__ import annotations

import json

import pytest

from vagen_rewards import Judge, RuleJudge, Score
from vagen_rewards.calibration import CATEGORIES, calibrate, labelled_file, labelled_set
from vagen_rewards.calibration.labelled import ENVS
from vagen_rewards.errors import JudgeConfigError

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


FLOORS = {"sokoban": (0.85, 0.03), "frozen_lake": (0.85, 0.02), "navigation": (0.85, 0.02), "primitive_skill": (0.85, 0.02),
          "svg": (0.70, 0.02)}  # fmt: skip
"""Of the independent set's true English statements the share that is accepted at least and refused at most."""


@pytest.mark.parametrize("kind", FLOORS)
def test_rule_judge_on_statements_by_somebody_else(kind):
    items = [item for item in labelled_file() if item.statement.state.kind == kind]
    report = calibrate(RuleJudge("direct"), items)
    accepted, rejected = FLOORS[kind]
    assert report.total.precision >= 0.98
    assert report.total.accepted >= accepted
    assert report.total.rejected <= rejected


def test_other_languages_are_read_or_left_alone():
    items = [item for item in labelled_file() if item.category == "other_language"]
    counts = calibrate(RuleJudge("direct"), items).by_category["other_language"]
    assert len(items) == 30
    assert counts.false_yes == counts.false_no == 0


def test_a_file_of_your_own(tmp_path):
    path = tmp_path / "mine.json"
    state = {"kind": "frozen_lake", "size": 4, "player": [1, 1], "target": [2, 3], "holes": []}
    one = {"environment": "frozen_lake", "state": "a", "part": "grounding", "style": "mine", "label": "true",
           "text": "The goal is below."}  # fmt: skip
    data = {"states": {"a": {"kind": "frozen_lake", "json": state}}, "statements": [one, {**one, "label": "vacuous"}]}
    path.write_text(json.dumps(data), encoding="utf-8")
    assert [(item.label, item.category) for item in labelled_file(path)] == [(True, "true"), (False, "vacuous")]
    data["statements"][1]["label"] = "yes"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(JudgeConfigError, match="statement 1 has label 'yes'"):
        labelled_file(path)


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
