"""`benchmarks/experiments`: an experiment runs, survives a kill and is reported; the published results are whole."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("trl")
pytest.importorskip("matplotlib")

import vagen_envs  # noqa: F401
from vagen_experiments.report import table

EXPERIMENTS = Path(__file__).parents[2] / "benchmarks" / "experiments"
SMALL = Path(__file__).with_name("small_experiment.toml").read_text(encoding="utf-8")


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def run(*arguments, **options):
    command = [sys.executable, str(EXPERIMENTS / "run.py"), *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def test_an_experiment_that_is_killed_goes_on_where_it_was(small, tmp_path):
    out = tmp_path / "out"
    first = out / "vagen-base-0.json"
    with run(small, "--out", out) as process:
        until = time.monotonic() + 250
        while not first.is_file() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    assert first.is_file()
    assert not (out / "small-grpo-0.json").is_file()
    kept = {path: path.read_bytes() for path in (first, out / "checkpoint" / "model.safetensors")}
    with run(small, "--out", out) as process:
        said, errors = process.communicate(timeout=250)
    assert process.returncode == 0, errors
    assert "making the initial checkpoint" not in said
    assert all(path.read_bytes() == content for path, content in kept.items())
    written = (out / "table.md").read_text()
    assert written in said
    assert re.search(r"\| \*initial checkpoint\* \| \d\.\d{3} \|", written)
    assert all(
        text in written
        for text in (
            "`vagen-base`",
            "`small-grpo`",
            "gain over `vagen-base`",
            "shuffled images",
            "under `last:1`",
        )
    )
    base, grpo = (
        json.loads((out / f"{name}-0.json").read_text()) for name in ("vagen-base", "small-grpo")
    )
    assert [len(result["curves"]["rollout/success"]) for result in (base, grpo)] == [2, 2]
    assert [entry[0] for entry in base["evaluations"]] == [8, 16]
    assert len(base["critic"]) == 2
    assert "critic" not in grpo  # it has none
    assert all(
        (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        for name in ("curves", "evaluations", "critic", "memory")
    )

    small.write_text(SMALL.replace("max_turns = 1", "max_turns = 2"))
    with run(small, "--out", out) as process:
        errors = process.communicate(timeout=120)[1]
    assert process.returncode == 2
    assert "(its options differ)" in errors


def result(recipe, seed, solved, **figures):
    play = {
        "success": solved.count("1") / len(solved),
        "successes": solved.count("1"),
        "format": 1.0,
        "solved": solved,
    }
    return {
        "recipe": recipe,
        "seed": seed,
        "sampled": play | figures,
        "greedy": play | figures,
        "cpu_seconds": 1.0,
    }


def cells(runs, baseline, recipe, start=None):
    start = start or runs[0]
    checkpoint = {key: value for key, value in start.items() if key not in ("recipe", "seed")}
    head, _, *rows = (
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table({"checkpoint": checkpoint, "runs": runs}, baseline).splitlines()
    )
    (row,) = [row for row in rows if row[0] == f"`{recipe}`"]
    return dict(zip(head, row, strict=True))


def test_a_gain_is_judged_by_level_and_by_training():
    """Six of eight levels are solved by the second recipe only: McNemar's exact test gives 2 / 2^6."""
    row = cells([result("base", 0, "11000000"), result("other", 0, "11111111")], "base", "other")
    assert row["gain over `base`"].startswith("+0.750 (+0.")
    assert row["gain over `base`"].endswith(f"p = {2 / 2**6:.2g}")
    assert row["p over seeds"] == "–"  # one training of each says nothing of the recipes
    runs = [result("base", seed, 8 * "10") for seed in (0, 1)]
    runs += [result("other", 0, 8 * "10"), result("other", 1, 16 * "1")]
    row = cells(runs, "base", "other")
    assert (row["gain over `base`"].rpartition("p = ")[2], row["p over seeds"]) == (
        f"{2 / 2**8:.2g}",
        "1",
    )


def test_a_training_is_compared_with_the_start_on_its_levels():
    start = result("", 0, "11000000")
    runs = [result("base", 0, "11111111"), result("base", 1, "11111100")]
    row = cells(runs, "base", "base", start)
    assert row["gain over the start"].startswith("+0.625 (+0.")
    start["sampled_as"] = {"base": result("", 0, "11110000")["sampled"]}  # with its own options
    assert cells(runs, "base", "base", start)["gain over the start"].startswith("+0.375 (+0.")


def test_boxes_are_scored_by_iou_and_compared_by_level(tiny_folder):
    """The oracle answers with the true box; an episode that failed counts as none."""
    import gymnasium as gym

    from vagen_adapters.ppo.chat_encoder import load_policy
    from vagen_adapters.ppo.episodes import LevelSeed, PPOEpisode
    from vagen_experiments.evaluation import figures
    from vagen_experiments.imitation import demonstrate

    env = gym.make("vagen/Sample-v0", sources=("vagen/grounding",), strategy="no_think")
    encoder = load_policy(tiny_folder)[1]
    right = [demonstrate(env, encoder, LevelSeed(seed), oracle_share=1.0) for seed in range(4)]
    failed = PPOEpisode(LevelSeed(4), failure="the simulator broke")
    found = figures([*right, failed], None)
    assert found["iou_by_level"] == found["iou@99_by_level"] == [1, 1, 1, 1, 0]
    assert found["iou"] == pytest.approx(0.8)
    wrong = [demonstrate(env, encoder, LevelSeed(seed), oracle_share=0.0) for seed in range(4)]
    low = figures([*wrong, failed], None)
    assert low["iou"] < 0.5
    scores = ("iou", "iou_by_level")
    runs = [
        result(name, seed, "11110", **{each: of[each] for each in scores})
        for name, of in (("base", low), ("other", found))
        for seed in (0, 1)
    ]
    row = cells(runs, "base", "other")
    assert row["iou"] == "0.80 (0.80)"
    assert row["gain in iou"].startswith(f"{0.8 - low['iou']:+.3f}")
