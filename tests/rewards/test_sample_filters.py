"""V-Triune's filters over a data set: by rules, and by what a model makes of each sample."""

from __future__ import annotations

import dataclasses
import json

import pytest

from vagen_envs.sample.generated import generated_samples
from vagen_envs.sample.schema import sample_from_row
from vagen_envs.seeding import content_hash
from vagen_rewards.verifiers.filters import difficulty_fault, rule_fault


def sample(truth, ability="math", verifier="mathverify", **parm):
    reward = {
        "answer": "",
        "ground_truth": truth,
        "accuracy_ratio": 1.0,
        "format_ratio": 0.0,
        "verifier": verifier,
        "verifier_parm": parm,
    }
    row = {
        "data_source": "test",
        "prompt": [{"role": "user", "content": "How many?"}],
        "ability": ability,
        "reward_model": reward,
    }
    return sample_from_row(row)


def boxes(*found):
    return json.dumps([{"bbox_2d": list(box), "label": label} for box, label in found])


@pytest.mark.parametrize(
    ("truth", "fault"),
    [
        ("12", ""),
        ("3.5 cm", ""),
        ("B", "multiple choice"),
        ("(c)", "multiple choice"),
        ("True", "multiple choice"),
        ("x=3", "one of"),
        ("12:30", "one of"),
        ("a" * 20, ""),
        ("a" * 21, "more than 20 characters"),
    ],
)
def test_rules_for_reasoning(truth, fault):
    assert fault in rule_fault(sample(truth))
    assert bool(fault) == bool(rule_fault(sample(truth)))


@pytest.mark.parametrize(
    ("truth", "fault"),
    [
        ("x=3", ""),
        ("Café Zürich, open from 8 to 12", ""),
        ("出口", "not English"),
        ("выход", "not English"),
        ("\\frac{1", "doesn't accept the truth"),
    ],
)
@pytest.mark.parametrize("ability", ["ocr", "OCR", "Count", "counting"])
def test_counts_and_texts_must_be_english_and_be_verified(truth, fault, ability):
    pytest.importorskip("math_verify")
    found = rule_fault(sample(truth, ability))
    assert fault in found
    assert bool(fault) == bool(found)


def test_what_no_verifier_scores_is_discarded():
    assert "doesn't accept" in rule_fault(sample("12", verifier="mathverfy"))
    assert "doesn't accept" in rule_fault(sample("12", threshold=0.5))  # an unknown parameter


@pytest.mark.parametrize(
    ("truth", "fault"),
    [
        (boxes(((0, 0, 500, 999), "cat")), ""),
        (boxes(((0, 0, 600, 999), "cat")), "more than half"),
        (boxes(*[((n, n, n + 9, n + 9), "cat") for n in range(10)]), ""),
        (boxes(*[((n, n, n + 9, n + 9), "cat") for n in range(11)]), "more than 10 boxes"),
        (boxes(*[((n, n, n + 9, n + 9), f"cat{n}") for n in range(11)]), ""),
    ],
)
def test_rules_for_boxes(truth, fault):
    found = rule_fault(sample(truth, "detection", "detection", coordinates="thousandths"))
    assert fault in found
    assert bool(fault) == bool(found)


@pytest.mark.parametrize(("part", "is_large"), [(0.6, False), (0.9, True)])
def test_released_truths_are_in_thousandths_of_their_picture(part, is_large):
    """Whatever the picture's size: 1,000 by 1,000 is all of it."""
    given = next(generated_samples(1, sources=["vagen/grounding"]))
    assert max(given.images[0].size) < 600
    edge = int(1000 * part)
    model = dataclasses.replace(
        given.reward_model,
        ground_truth=boxes(((0, 0, edge, edge), "cat")),
        verifier_parm={"det_verifier_normalized": True},
    )
    changed = dataclasses.replace(given, reward_model=model)
    assert ("half" in rule_fault(changed)) == is_large
    assert bool(rule_fault(changed)) == is_large


def test_pixels_are_of_the_picture():
    given = next(generated_samples(1, sources=["vagen/grounding"]))
    height, width = given.images[0].size
    for part, is_large in ((0.6, False), (0.9, True)):  # 0.36 and 0.81 of the area
        truth = boxes(((0, 0, part * width, part * height), "cat"))
        model = dataclasses.replace(
            given.reward_model, ground_truth=truth, verifier="detection", verifier_parm={}
        )
        changed = dataclasses.replace(given, reward_model=model)
        assert ("half" in rule_fault(changed)) == is_large


def test_difficulty_keeps_what_is_neither_easy_nor_hard():
    reasoning, perception = sample("12"), sample(boxes(((0, 0, 9, 9), "cat")), "detection")
    for rewards, fault in (
        ([], "not played"),
        ([0.0] * 8, "too hard"),
        ([1.0] * 8, "too easy"),
        ([0.0] * 7 + [1.0], ""),
    ):
        assert difficulty_fault(reasoning, rewards) == fault
    for total, fault in ((1.5, "too hard"), (2.0, ""), (10.0, ""), (10.5, "too easy")):
        assert difficulty_fault(perception, [total / 16] * 16) == fault


def test_the_command_writes_what_neither_rules_nor_a_run_discard(tmp_path):
    """A model that is right in as many of four tries as the seed says."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("math_verify")
    import runs
    from typer.testing import CliRunner

    from vagen_benchmarks.agents import Agent, Reply
    from vagen_benchmarks.cli import app
    from vagen_benchmarks.commands.samples import _write
    from vagen_envs.sample.reading import read_samples

    class Sometimes(Agent):
        name = "sometimes"

        def reply(self, game):
            right = game.env.oracle_reply()
            return Reply(right if game.repeat < game.seed else "<answer>\\boxed{99}</answer>")

    given = list(generated_samples(5, sources=["vagen/counting"]))
    dataset, run, kept = (tmp_path / name for name in ("raw.parquet", "run", "kept.parquet"))
    _write(given, dataset)
    assert [each.to_row() for each in read_samples(dataset)] == [each.to_row() for each in given]
    options = {"dataset": str(dataset), "split_by": "all"}
    runs.play(run, [Sometimes()], ["sample"], options=options, episodes=5, repeats=4)
    words = ["filter-samples", str(dataset), "--run", str(run), "--out", str(kept)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (done.output, done.exception)
    seeds = {episode.turns[0]["level"]["content"]: episode.seed for episode in runs.episodes(run)}
    mixed = [each for each in given if 0 < seeds[content_hash(each.content)] < 4]
    assert len(mixed) == 3
    assert [each.to_row() for each in read_samples(kept)] == [each.to_row() for each in mixed]
    runs.play(tmp_path / "none", [Sometimes()], ["sample"], options=options, episodes=1)
    words[3] = str(tmp_path / "none")  # one sample, one try
    assert "no sample is left" in str(CliRunner().invoke(app, words).exception)


def test_the_command_says_what_it_cannot_filter(tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("math_verify")
    import runs
    from typer.testing import CliRunner

    from vagen_benchmarks.agents.scripted import Oracle, Random
    from vagen_benchmarks.cli import app
    from vagen_envs.sample.reading import read_samples

    def invoke(*words):
        return CliRunner().invoke(app, ["filter-samples", *map(str, words)])

    questions, kept = tmp_path / "asked.jsonl", tmp_path / "new" / "kept.parquet"
    questions.write_text('{"question": "2 + 3?", "answer": "5"}\n')
    assert "reward_model" in str(invoke(questions, "--out", kept).exception)
    columns = '{"question": "prompt", "answer": "answer"}'
    assert invoke(questions, "--out", kept, "--columns", columns).exit_code == 0
    assert [each.reward_model.truth for each in read_samples(kept)] == ["5"]
    folder = tmp_path / "both"
    for name in ("train", "test"):
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.jsonl").write_text(f'{{"question": "2 + 3 {name}?", "answer": "5"}}')
    both = invoke(folder, "--out", tmp_path / "both.parquet", "--columns", columns)
    assert "the splits test, train, which become one" in both.output
    assert "JSON object" in str(invoke(questions, "--out", kept, "--columns", "a=b").exception)
    assert ".parquet" in str(invoke(kept, "--out", tmp_path / "kept.jsonl").exception)
    below = invoke(kept, "--out", questions / "kept.parquet").exception
    assert "can't be written" in str(below)
    assert "resume" not in str(below)
    runs.play(tmp_path / "grid", [Oracle()], ["frozenlake"], episodes=1)
    runs.play(tmp_path / "two", [Oracle(), Random()], ["sample"], episodes=1)
    for run in ("grid", "two"):
        refused = invoke(kept, "--run", tmp_path / run, "--out", kept)
        assert "a run of one model" in str(refused.exception)
    options = {"dataset": str(kept), "split_by": "all"}
    runs.play(tmp_path / "at85", [Random()], ["sample"], options=options, episodes=1)
    assert "iou_threshold=0.85" in invoke(kept, "--run", tmp_path / "at85", "--out", kept).output
