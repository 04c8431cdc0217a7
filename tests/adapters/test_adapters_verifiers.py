"""verifiers' own evaluation command, against a chat endpoint on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("verifiers.v1")

import published
import verifiers.v1 as vf
from oracle import oracle_episode, picture_of
from other_rows import CHANGES, says_both

from vagen_adapters.context import ContextPolicy, chat_messages
from vagen_adapters.verifiers_env import PlayConfig, load_environment
from vagen_adapters.verifiers_taskset import Levels, LevelsConfig, LevelTask
from vagen_envs import Turn
from vagen_rewards import ReasoningReward


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("LOCAL_KEY", "none")


def oracle(env_id, seeds, split="test", **options):
    """By the picture a level opens with: what the oracle replies there, turn by turn, and the episode's turns."""
    env = gym.make(env_id, **options)
    episodes = [oracle_episode(env, seed, split) for seed in seeds]
    return {turns[0].observed.picture.sha256: (replies, turns) for replies, turns in episodes}


def evaluate(folder, endpoint, *args, taskset="vagen-adapters"):
    """`vf-eval`, and the traces it wrote."""
    asked = (
        f"{taskset} -m local --no-push --no-rich --client.base-url {endpoint.url}"
        f" --client.api-key-var LOCAL_KEY -o {folder} --run.name run"
    )
    command = [Path(sys.executable).with_name("vf-eval"), *asked.split(), *args]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, cwd=folder, check=False
    )
    lines = (folder / "run" / "traces.jsonl").read_text().splitlines()
    episodes = [json.loads(line) for line in lines]
    assert episodes, done.stderr[-2000:]
    return [trace for episode in episodes for trace in episode.get("traces", [episode])]


def test_a_new_package_is_a_taskset_of_its_own(endpoint, tmp_path, monkeypatch):
    pytest.importorskip("typer", reason="needs the extra bench")
    from typer.testing import CliRunner

    from vagen_benchmarks.commands.new import new

    done = CliRunner().invoke(new, ["env", "hunt", "--package", "--out", str(tmp_path / "hunt")])
    assert done.exit_code == 0, done.output
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hunt"), prepend=os.pathsep)
    endpoint.script = lambda number, body: "<answer>Up</answer>"
    traces = evaluate(tmp_path, endpoint, "--env.taskset.split", "test", "-n", "2", taskset="hunt")
    seeds = {trace["task"]["data"]["seed"] for trace in traces}
    assert {trace["task"]["data"]["env_id"] for trace in traces} == {"hunt:example/Hunt-v0"}
    assert seeds == {0, 1}
    assert {trace["task"]["data"]["split"] for trace in traces} == {"test"}


def play(environment, endpoint, **changes):
    """One episode of the environment's only task, in this process; `changes` of its data."""
    client = vf.EvalClientConfig(base_url=endpoint.url, api_key_var="LOCAL_KEY")

    async def run():
        async with environment.serving():
            (task,) = environment.taskset
            task = LevelTask(task.data.model_copy(update=changes), task.config)
            context = vf.ModelContext(model="local", client=client, sampling=vf.SamplingConfig())
            return await environment.run_episode(task, context)

    return asyncio.run(run())


def test_the_oracle_solves_all_in_the_evaluation_command(endpoint, tmp_path):
    known = oracle("vagen/Sokoban-v0", range(3))

    def reply(number, body):
        shown = [message for message in body["messages"] if message["role"] == "user"]
        return known[picture_of(shown[0]).sha256][0][len(shown) - 1]

    endpoint.script = reply
    traces = evaluate(
        tmp_path,
        endpoint,
        "--env.taskset.env-id",
        "vagen/Sokoban-v0",
        "--env.taskset.split",
        "test",
        "-n",
        "3",
    )
    assert len(traces) == 3
    expected = sorted(sum(turn.reward for turn in turns) for _, turns in known.values())
    assert sorted(
        sum(each["score"] * each["weight"] for each in trace["rewards"].values())
        for trace in traces
    ) == (pytest.approx(expected))
    for trace in traces:
        assert trace["ok"]
        assert trace["metrics"]["success"] == 1.0
        assert trace["metrics"]["action_is_valid"] == 1.0
        assert {"success", "format"} <= set(trace["rewards"])
        turns = [Turn.from_json(turn) for turn in trace["info"]["turns"]]
        assert trace["metrics"]["turns"] == len(turns)
        assert turns in [played for _, played in known.values()]
    first = endpoint.requests[0]["messages"]
    assert first[0] == {
        "role": "system",
        "content": gym.make("vagen/Sokoban-v0").unwrapped.system_prompt,
    }


def test_a_model_that_fails_is_an_error_and_no_score(endpoint):
    endpoint.script = lambda number, body: 400
    episode = play(load_environment("vagen/Sokoban-v0", num_levels=1), endpoint)
    assert not episode.ok
    assert episode.traces[0].errors
    assert "success" not in episode.traces[0].metrics


def test_the_players_limit_ends_the_exchange(endpoint):
    endpoint.script = lambda number, body: "nothing"
    environment = load_environment("vagen/Sokoban-v0", num_levels=1, max_model_turns=2)
    (trace,) = play(environment, endpoint).traces
    assert len(endpoint.requests) == 2
    assert trace.metrics["turns"] == 2
    assert trace.metrics["success"] == 0.0


def test_load_environment_plays_with_weights_and_options(endpoint):
    known = oracle("vagen/FrozenLake-v0", [5], "val", is_slippery=False)
    (replies, turns), *_ = known.values()
    endpoint.script = lambda number, body: replies[
        sum(each["role"] == "user" for each in body["messages"]) - 1
    ]
    environment = load_environment(
        "vagen/FrozenLake-v0",
        split="val",
        first_seed=5,
        num_levels=1,
        weights={"format": 0.0},
        is_slippery=False,
    )
    episode = play(environment, endpoint)
    assert episode.ok, episode.errors
    (trace,) = episode.traces
    without_format = sum(
        term.value for turn in turns for term in turn.rewards if term.name != "format"
    )
    assert trace.reward == pytest.approx(without_format)
    paid = trace.info["turn_rewards"]
    assert sum(each["reward"] for each in paid) == pytest.approx(trace.reward)
    assert [trace.nodes[each["node"]].message.content for each in paid] == replies
    pictures = [
        picture_of(message)
        for message in endpoint.requests[-1]["messages"]
        if message["role"] == "user"
    ]
    assert [each.sha256 for each in pictures] == [turn.observed.picture.sha256 for turn in turns]
    assert all(
        np.array_equal(each.pixels, turn.observed.picture.pixels)
        for each, turn in zip(pictures, turns, strict=True)
    )


def test_reasoning_is_paid_as_the_reward_alone_pays_it(endpoint):
    options = {"weighting": "plain", "judge": "rule", "penalty": "paper"}
    known = oracle("vagen/Sokoban-v0", [5], "val")
    (replies, turns), *_ = known.values()
    endpoint.script = lambda number, body: replies[
        sum(each["role"] == "user" for each in body["messages"]) - 1
    ]
    episode = play(
        load_environment(
            "vagen/Sokoban-v0", split="val", first_seed=5, num_levels=1, reasoning=options
        ),
        endpoint,
    )
    assert episode.ok, episode.errors
    (trace,) = episode.traces
    reward = ReasoningReward.from_options(options)
    owed = sum(term.value for turn in turns for term in reward(turn))
    assert owed > 0
    assert trace.reward == pytest.approx(sum(turn.reward for turn in turns) + owed)


def test_published_levels_are_played_in_order(endpoint, tmp_path):
    options = published.boards(tmp_path)
    endpoint.script = lambda number, body: "<answer>Up</answer>"
    played = []
    for seed in range(3):
        environment = load_environment(
            published.SOKOBAN,
            split="test",
            first_seed=seed,
            num_levels=1,
            max_model_turns=1,
            **options,
        )
        played.append(play(environment, endpoint).traces[0].info["turns"][0]["level"]["content"])
    assert played == published.contents(options)
    assert len(list(load_environment(published.SOKOBAN, split="test", **options).taskset)) == 3


@pytest.mark.parametrize(
    ("context", "lengths", "branches"),
    [
        ("all", [1, 3, 5, 7], 1),
        ("last:1", [1, 3, 3, 3], 3),
        ("last:0,current-picture", [1, 1, 1, 1], 4),
        ("answers", [1, 3, 5, 7], 4),
    ],
)
def test_prompts_are_the_policys_and_branches_of_the_trace(endpoint, context, lengths, branches):
    options = {"max_turns": 4, "is_slippery": False, "strategy": "free_think"}
    endpoint.script = lambda number, body: f"<think>{number}</think><answer></answer>"
    environment = load_environment("vagen/FrozenLake-v0", num_levels=1, context=context, **options)
    (trace,) = play(environment, endpoint).traces
    turns = [Turn.from_json(turn) for turn in trace.info["turns"]]
    asked = [request["messages"] for request in endpoint.requests]
    assert [len(messages) - 1 for messages in asked] == lengths
    policy = ContextPolicy.parse(context)
    local = gym.make("vagen/FrozenLake-v0", **options).unwrapped
    local.reset(seed=0, options={"split": "train"})
    played = []
    for messages, turn in zip(asked, turns, strict=True):
        assert messages == chat_messages(
            local.system_prompt, played, local.observed, context=policy
        )
        played.append(local.step(turn.reply)[4]["turn"])
    assert trace.num_branches == branches
    sampled = {id(node): node for branch in trace.branches for node in branch.nodes if node.sampled}
    assert [node.message.content for node in sampled.values()] == [turn.reply for turn in turns]


def test_a_summary_replaces_the_turns_before_it(endpoint):
    def reply(number, body):
        return (
            "I saw ice."
            if "Write a summary" in str(body["messages"][-1])
            else f"<answer>{number}</answer>"
        )

    endpoint.script = reply
    environment = load_environment(
        "vagen/FrozenLake-v0", num_levels=1, context="summary:2", max_turns=4
    )
    (trace,) = play(environment, endpoint).traces
    assert trace.metrics["turns"] == 4
    replies = [trace.nodes[each["node"]].message.content for each in trace.info["turn_rewards"]]
    assert replies == [turn["reply"] for turn in trace.info["turns"]]
    roles = [
        [message["role"][0] for message in request["messages"]] for request in endpoint.requests
    ]
    assert roles == [list("su"), list("suau"), list("suauau"), list("su"), list("suau")]
    assert (
        "Your summary of turns 1 to 2:\nI saw ice."
        in endpoint.requests[3]["messages"][1]["content"][0]["text"]
    )


def test_reasoning_that_is_kept_goes_back_with_its_reply(endpoint):
    endpoint.script = lambda number, body: {
        "content": f"<answer>{number}</answer>",
        "reasoning_content": f"hm {number}",
    }
    for context, kept in (("last:1,reasoning=keep", "hm 0"), ("last:1", None)):
        endpoint.requests.clear()
        environment = load_environment(
            "vagen/FrozenLake-v0", num_levels=1, context=context, max_turns=2
        )
        play(environment, endpoint)
        assert endpoint.requests[-1]["messages"][2].get("reasoning_content") == kept


def test_another_harness_keeps_the_conversation_itself():
    player = {"harness": {"id": "null"}}
    assert PlayConfig(player=player).context == "all"
    with pytest.raises(ValueError, match=r"context='last:1' is not possible with the harness"):
        PlayConfig(player=player, context="last:1")
    with pytest.raises(ValueError, match="Did you mean"):
        load_environment("vagen/FrozenLake-v0", num_levels=1, context="lst:1")
    for env_id, options in (
        ("vagen/FrozenLak-v0", {}),
        ("vagen/FrozenLake-v0", {"max_model_turn": 1}),
    ):
        with pytest.raises(ValueError, match="Did you mean"):
            load_environment(env_id, **options)


def test_a_limit_of_steps_truncates_and_does_not_terminate(endpoint):
    endpoint.script = lambda number, body: "no answer"
    environment = load_environment("vagen/FrozenLake-v0", num_levels=1, max_episode_steps=2)
    (trace,) = play(environment, endpoint).traces
    ends = [trace.metrics[name] for name in ("turns", "terminated", "truncated")]
    assert ends == [2, 0, 1]


def test_tasks_name_their_levels():
    tasks = list(Levels(LevelsConfig(id="vagen-adapters", split="val", first_seed=7, num_levels=2)))
    assert [task.data.name for task in tasks] == [
        "vagen/Sokoban-v0/val/7",
        "vagen/Sokoban-v0/val/8",
    ]
    assert len({task.key for task in tasks}) == 2


@pytest.mark.parametrize("change", CHANGES)
def test_a_task_of_another_environment_is_refused(endpoint, change):
    environment = load_environment("vagen/FrozenLake-v0", num_levels=1)
    (task,) = environment.taskset
    episode = play(environment, endpoint, **change)
    assert not episode.ok
    assert says_both(str(episode.errors), task.data.model_dump(), change)
    assert not endpoint.requests
