"""inspect_ai's own command and log reader on our environments, with a chat endpoint on loopback and its mock model."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

pytest.importorskip("inspect_ai", reason="needs the extra inspect")

import inspect_ai
import runs
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import (
    ModelCost,
    ModelInfo,
    ModelOutput,
    ModelUsage,
    get_model,
    set_model_info,
)
from oracle import oracle_episode, picture_of
from other_rows import CHANGES, says_both

from vagen_adapters import inspect_env
from vagen_envs import Turn
from vagen_envs.errors import ConfigError
from vagen_rewards import ReasoningReward

OPTIONS = {"strategy": "no_think", "is_slippery": False}
SMALL = {**OPTIONS, "size": 3, "min_solution_length": 1, "max_solution_length": 1}
"""So few fields that levels recur."""


@pytest.fixture(autouse=True)
def _logs(tmp_path, monkeypatch):
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("INSPECT_DISPLAY", "none")


def player(env_id, seeds, split="test", wrong=(), **options):
    """A model: what the oracle says at a level and turn, known by the first picture; nonsense first at `wrong` seeds."""
    env = gym.make(env_id, **options)
    known = {}
    for seed in seeds:
        replies, turns = oracle_episode(env, seed, split)
        replies = ["I don't know.", *replies] if seed in wrong else replies
        known[turns[0].observed.picture.sha256] = (replies, turns)

    def reply(number, body):
        users = [message for message in body["messages"] if message["role"] == "user"]
        replies = known[picture_of(users[0]).sha256][0]
        return replies[len(users) - 1]

    return reply


def evaluate(folder, *args, **variables):
    """`inspect eval`, and its log."""
    command = [
        Path(sys.executable).with_name("inspect"),
        "eval",
        *args,
        "--log-dir",
        folder / "cli",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=folder,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (file,) = (folder / "cli").glob("*.eval")
    return read_eval_log(str(file), resolve_attachments=True)


def turns_of(sample):
    return [Turn.from_json(turn) for turn in sample.store["turns"]]


def mock(*replies, usage=None):
    """inspect's mock model, which says these in order. Its own counting of tokens would fetch a tokenizer."""
    usage = usage or ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
    outputs = [
        each if isinstance(each, ModelOutput) else ModelOutput.from_content("mockllm", each)
        for each in replies
    ]
    for output in outputs:
        output.usage = usage
    return get_model("mockllm/model", custom_outputs=outputs, memoize=False)


def evaluated(task, model, **options):
    (log,) = inspect_ai.eval(task, model=model, **options)
    return read_eval_log(log.location, resolve_attachments=True)


def metrics_of(log):
    return {
        (score.name, name): metric.value
        for score in log.results.scores
        for name, metric in score.metrics.items()
    }


def test_the_command_plays_the_episodes_that_our_runner_plays(endpoint, tmp_path):
    from vagen_benchmarks.agents.chat import ChatAgent
    from vagen_benchmarks.clients.registry import Registry

    endpoint.script = player("vagen/Sokoban-v0", range(3), wrong=(1,))
    agent = ChatAgent(Registry().find("openai:m", endpoint.url), base_url=endpoint.url)
    runs.play(tmp_path / "ours", [agent], ["vagen/Sokoban-v0"], split="test", episodes=3)
    ours = {episode.seed: episode for episode in runs.episodes(tmp_path / "ours")}
    asked = len(endpoint.requests)

    log = evaluate(
        tmp_path,
        "vagen_adapters/sokoban",
        "--model",
        "openai-api/local/m",
        "-T",
        "num_levels=3",
        "--max-connections",
        "4",
        LOCAL_BASE_URL=endpoint.url,
        LOCAL_API_KEY="none",
    )
    assert log.status == "success"
    assert len(log.samples) == 3
    for sample in log.samples:
        episode = ours[sample.metadata["seed"]]
        assert sample.store["turns"] == episode.turns
        assert sample.store["ended"] == episode.ended.kind.value
        assert sample.metadata["level"] == episode.content
        assert sample.scores["success"].value == float(episode.success)
        assert sample.scores["episode_return"].value == pytest.approx(episode.score)
    assert conversations(endpoint.requests[:asked]) == conversations(endpoint.requests[asked:])
    metrics = metrics_of(log)
    assert metrics["success", "mean"] == pytest.approx(
        sum(each.success for each in ours.values()) / 3
    )
    assert metrics["grounding", "judged_mean"] > 0.9  # the oracle tells the truth


def conversations(requests):
    """What a model was asked, whatever the order; a lone text may be a string or one part."""

    def plain(content):
        return (
            content
            if isinstance(content, str)
            else [part.get("text") or part["image_url"]["url"] for part in content]
        )

    return sorted(
        str([(each["role"], plain(each["content"])) for each in body["messages"]])
        for body in requests
    )


def test_the_log_shows_pictures_and_what_came_of_each_turn():
    replies, turns = oracle_episode(gym.make("vagen/FrozenLake-v0", **OPTIONS), 4, "test")
    task = inspect_env.TASKS["frozen_lake"](first_seed=4, num_levels=1, judge="", **OPTIONS)
    (sample,) = evaluated(task, mock(*replies)).samples
    assert [message.role for message in sample.messages] == [
        "system",
        *["user", "assistant"] * len(turns),
    ]
    shown = [
        part.image
        for message in sample.messages[1::2]
        for part in message.content
        if part.type == "image"
    ]
    assert shown == [turn.observed.picture.data_url for turn in turns]
    assert turns_of(sample) == turns
    said = [
        event.data for event in sample.events if event.event == "info" and event.source == "vagen"
    ]
    assert [each["executed"] for each in said] == [
        [done.text for done in turn.executed] for turn in turns
    ]


def test_a_window_of_history_is_what_the_model_reads_and_the_log_keeps_all():
    read = []

    def answer(messages, *_):
        read.append(len(messages))
        output = ModelOutput.from_content("mockllm", "<answer>Up</answer>")
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    task = inspect_env.TASKS["sokoban"](
        num_levels=1, context="last:1", judge=None, strategy="no_think", max_turns=4
    )
    (sample,) = evaluated(
        task, get_model("mockllm/model", custom_outputs=answer, memoize=False)
    ).samples
    assert read == [2, 4, 4, 4]
    assert len(sample.messages) == 9
    assert sample.store["ended"] == "budget"


def test_metrics_are_clustered_by_level():
    env = gym.make("vagen/FrozenLake-v0", **SMALL)
    contents = [
        env.reset(seed=seed, options={"split": "test"})[1]["level"]["content"] for seed in range(40)
    ]
    assert len(set(contents)) < len(contents)
    replies = [oracle_episode(env, seed, "test")[0] for seed in range(40)]
    said = [
        reply
        for seed in range(40)
        for reply in (replies[seed] if seed % 3 else ["<answer>Fly</answer>"] * 9)
    ]
    task = inspect_env.TASKS["frozen_lake"](num_levels=40, judge="", max_turns=9, **SMALL)
    log = evaluated(task, mock(*said), max_samples=1)
    values = [
        sample.scores["success"].value
        for sample in sorted(log.samples, key=lambda each: each.metadata["seed"])
    ]
    assert values == [float(seed % 3 > 0) for seed in range(40)]
    mean = sum(values) / 40
    sums = dict.fromkeys(contents, 0.0)
    for content, value in zip(contents, values, strict=True):
        sums[content] += value - mean
    clusters = len(sums)
    expected = math.sqrt(sum(each**2 for each in sums.values()) * clusters / (clusters - 1)) / 40
    assert metrics_of(log)["success", "stderr"] == pytest.approx(expected)


def test_what_nobody_can_judge_is_unscored_and_not_zero():
    sentence = (
        "<think><observation>{}</observation><reasoning>r</reasoning></think><answer>Up</answer>"
    )
    truth = gym.make("vagen/Sokoban-v0", max_turns=1)  # the budget is part of what a level is
    truth.reset(seed=0, options={"split": "test"})
    seen = (
        truth.unwrapped.oracle_reply().partition("<observation>")[2].partition("</observation>")[0]
    )
    task = inspect_env.TASKS["sokoban"](num_levels=2, max_turns=1, gate=False)
    log = evaluated(
        task, mock(sentence.format(seen), sentence.format("Colourless green ideas.")), max_samples=1
    )
    first, second = sorted(log.samples, key=lambda each: each.metadata["seed"])
    assert first.scores["reasoning"].value["grounding"] == 1.0
    assert math.isnan(first.scores["reasoning"].value["world_modeling"])
    assert math.isnan(second.scores["reasoning"].value)
    assert second.scores["reasoning"].reason == "grader_failed"
    (grounding,) = [score for score in log.results.scores if score.name == "grounding"]
    assert (grounding.scored_samples, grounding.unscored_samples) == (1, 1)
    found = {name: metric.value for name, metric in grounding.metrics.items()}
    assert found["judged_samples"] == 1
    assert found["judged_mean"] == first.scores["reasoning"].value["grounding"]


def test_a_summary_without_judged_statements_shows_no_nan():
    task = inspect_env.TASKS["sokoban"](num_levels=1, max_turns=1)
    log = evaluated(task, mock("<answer>Up</answer>"))
    shown = [
        (score.name, name, metric.value)
        for score in log.results.scores
        for name, metric in score.metrics.items()
    ]
    assert not [each for each in shown if math.isnan(each[2])]
    assert ("grounding", "judged_samples", 0) in shown


@pytest.mark.parametrize(("gate", "judged"), [(True, False), (False, True)])
def test_reasoning_is_what_the_reward_alone_pays(gate, judged):
    broken = "<observation>The box is above the player.</observation> and no answer"
    task = inspect_env.TASKS["sokoban"](
        num_levels=1, max_turns=1, gate=gate, weighting="plain", penalty="paper"
    )
    (sample,) = evaluated(task, mock(broken), max_samples=1).samples
    (turn,) = turns_of(sample)
    alone = ReasoningReward(gate=gate, weighting="plain", penalty=True)
    owed = {term.name: term.value for term in alone(turn)}
    score = sample.scores["reasoning"]
    assert isinstance(score.value, dict) is judged
    if judged:
        assert score.metadata["owed"] == owed

    oracle, _ = oracle_episode(gym.make("vagen/Sokoban-v0"), 0, "test")
    (sample,) = evaluated(
        inspect_env.TASKS["sokoban"](num_levels=1, gate=gate), mock(*oracle), max_samples=1
    ).samples
    terms = [
        term
        for turn in turns_of(sample)
        for term in ReasoningReward(gate=gate, weighting="plain")(turn)
    ]
    owed = {
        name: sum(each.value for each in terms if each.name == name)
        for name in ("grounding", "world_modeling")
    }
    assert owed["grounding"] > 0
    assert sample.scores["reasoning"].metadata["owed"] == pytest.approx(owed)


@pytest.mark.parametrize(
    ("reason", "ended"), [("model_length", "context full"), ("content_filter", "content filter")]
)
def test_what_the_model_ran_into_is_an_ending_and_its_words_are_not_played(reason, ended):
    output = ModelOutput.from_content("mockllm", "<answer>Up</answer>", stop_reason=reason)
    task = inspect_env.TASKS["sokoban"](num_levels=1, judge="", strategy="no_think")
    log = evaluated(task, mock("<answer>Up</answer>", output))
    (sample,) = log.samples
    assert len(sample.store["turns"]) == 1
    assert sample.store["ended"] == ended
    assert sample.scores["success"].value == 0.0


@pytest.mark.parametrize(
    "limit", [{"token_limit": 40}, {"cost_limit": 50e-6}], ids=["token", "cost"]
)
def test_inspects_limits_end_episodes(limit):
    """A reply takes 15 tokens, which cost 20e-6."""
    cost = ModelCost(input=1.0, output=2.0, input_cache_write=0.0, input_cache_read=0.0)
    set_model_info("mockllm/model", ModelInfo(cost=cost))
    task = inspect_env.TASKS["sokoban"](num_levels=1, judge="", strategy="no_think")
    (sample,) = evaluated(task, mock(*["<answer>Up</answer>"] * 9), **limit).samples
    (kind,) = limit
    assert sample.limit.type == kind.removesuffix("_limit")
    assert sample.store["ended"] == kind.replace("_", " ")
    assert len(sample.store["turns"]) == 2
    assert sample.scores["success"].value == 0.0


@pytest.mark.parametrize("score", [False, True])
def test_a_broken_environment_is_an_error_and_no_score(monkeypatch, score):
    from vagen_envs.sokoban.env import SokobanEnv

    def fails(self, action):
        raise OSError("pipe")

    monkeypatch.setattr(SokobanEnv, "_execute", fails)
    task = inspect_env.TASKS["sokoban"](num_levels=1, judge="", strategy="no_think")
    log = evaluated(task, mock("<answer>Up</answer>"), fail_on_error=False, score_on_error=score)
    (sample,) = log.samples
    assert "pipe" in sample.error.message
    if score:
        assert math.isnan(sample.scores["success"].value)
        assert all(each.scored_samples == 0 for each in log.results.scores)
    else:
        assert not sample.scores


def test_a_misspelt_argument_is_not_taken_for_an_option():
    with pytest.raises(ConfigError, match="'num_levels'"):
        inspect_env.TASKS["sokoban"](num_level=1)


def test_a_data_set_of_a_stranger_makes_only_what_a_row_may():
    metadata = {
        "env_id": "vagen/Sokoban-v0",
        "options": {"prompt_pack": "/etc"},
        "split": "test",
        "seed": 0,
        "level": "x",
    }
    sample = Sample(input="x", metadata=metadata)
    task = Task(dataset=[sample], solver=inspect_env.play(), scorer=inspect_env.success())
    log = evaluated(task, mock("<answer>Up</answer>"), fail_on_error=False)
    assert "ConfigError" in log.samples[0].error.message


@pytest.mark.parametrize("change", CHANGES)
def test_a_sample_of_another_environment_is_refused(change):
    task = inspect_env.TASKS["frozen_lake"](num_levels=1, judge=None)
    (sample,) = task.dataset
    row = dict(sample.metadata)
    sample.metadata.update(change)
    log = evaluated(task, mock("<answer>Up</answer>"), fail_on_error=False)
    assert says_both(log.samples[0].error.message, row, change)
