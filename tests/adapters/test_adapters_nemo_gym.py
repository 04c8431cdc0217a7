"""NeMo Gym's own servers, agent base and commands on our environments."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import MagicMock

import gymnasium as gym
import pytest

pytest.importorskip("nemo_gym", reason="needs the extra nemo-gym")

import yaml
from chat_endpoint import Endpoint
from fastapi.encoders import jsonable_encoder
from fastapi.testclient import TestClient
from nemo_gym.server_utils import ServerClient
from oracle import oracle_episode
from other_rows import CHANGES, says_both
from ports import free_port
from responses_api_agents.gymnasium_agent.app import (
    GymnasiumAgentRunRequest,
)

from vagen_adapters.context import ContextPolicy, chat_messages
from vagen_adapters.nemo_gym_agent import AgentConfig, VagenAgent
from vagen_adapters.nemo_gym_env import ServerConfig, VagenServer, levels
from vagen_envs import Picture, Turn
from vagen_envs.core import VagenEnv
from vagen_envs.errors import SimulatorError

FOLDER = Path(__file__).parents[2] / "deploy" / "nemo_gym"
EASY = {"is_slippery": False, "strategy": "free_think"}


def client(**config):
    asked = {"host": "127.0.0.1", "port": 8080, "entrypoint": "app.py", "name": "vagen", **config}
    server = VagenServer(config=ServerConfig(**asked), server_client=MagicMock(spec=ServerClient))
    return TestClient(server.setup_webserver(), raise_server_exceptions=False)


def response(text, thought=None):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    output = [
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    ]
    if thought is not None:
        output.insert(
            0,
            {
                "id": "t",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": thought}],
            },
        )
    return {
        "id": "r",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": "m",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        },
    }


def picture(content):
    (url,) = [part["image_url"] for part in content if part["type"] == "input_image"]
    return Picture.from_png(base64.b64decode(url.removeprefix("data:image/png;base64,")))


@pytest.mark.parametrize("env_id", ["vagen/Sokoban-v0", "vagen/FrozenLake-v0"])
def test_episodes_equal_those_of_gymnasium(env_id):
    door, alone = client(), gym.make(env_id, strategy="grounding")
    for row in levels(env_id, split="test", first_seed=3, num_levels=2, strategy="grounding"):
        replies, turns = oracle_episode(alone, row["seed"], "test")
        begun = door.post("/reset", json=row).json()
        assert picture(begun["info"]["content"]).sha256 == turns[0].observed.picture.sha256
        for reply, turn in zip(replies, turns, strict=True):
            played = door.post("/step", json={**row, "response": response(reply)}).json()
            assert Turn.from_json(played["info"]["turn"]) == turn
            assert played["reward"] == turn.reward
            assert (played["terminated"], played["truncated"]) == (turn.terminated, turn.truncated)
            if turn is not turns[-1]:
                assert picture(played["info"]["content"]).sha256 == turn.result.picture.sha256
        assert played["info"]["metrics"]["success"] == 1.0
        assert door.post("/step", json={**row, "response": response("again")}).status_code == 409
        assert door.post("/close").json() == {"closed": True}


def test_a_repeated_request_is_answered_again_and_not_played_again():
    door = client()
    (row,) = levels("vagen/FrozenLake-v0", first_seed=1, num_levels=1, max_turns=2, **EASY)
    door.post("/reset", json=row)
    for number in range(2):
        asked = {**row, "response": response("I wait."), "_ng_step_request_id": str(number)}
        first, again = door.post("/step", json=asked).json(), door.post("/step", json=asked).json()
        assert first == again, again
        assert "info" in first, first
        assert first["info"]["metrics"]["turns"] == number + 1
    assert first["truncated"]


def test_what_a_reasoning_parser_took_out_is_put_back():
    (row,) = levels("vagen/FrozenLake-v0", num_levels=1, **EASY)
    for config, text, reply in [
        ({}, "<answer>Up</answer>", "<think>hm</think><answer>Up</answer>"),
        ({}, "<think>so</think><answer>Up</answer>", "<think>so</think><answer>Up</answer>"),
        ({"reasoning_in_reply": False}, "<answer>Up</answer>", "<answer>Up</answer>"),
    ]:
        door = client(**config)
        door.post("/reset", json=row)
        played = door.post("/step", json={**row, "response": response(text, thought="hm")}).json()
        assert played["info"]["turn"]["reply"] == reply


def test_rows_of_strangers_and_too_many_of_them():
    door = client(max_sessions=1)
    (row,) = levels("vagen/FrozenLake-v0", num_levels=1)
    for change, said in [
        ({"env_id": "vagen_nowhere:x"}, "would import"),
        ({"env_id": "vagen/Nowhere-v0"}, "unknown environment"),
        ({"env_id": 7}, "env_id"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": None}, "seed"),
        ({"split": "all"}, "split"),
        ({"options": [1]}, "options"),
        ({"options": {"prompt_pack": "/etc/passwd"}}, "prompt_pack"),
        ({"reasoning": {"judge": "llm:m"}}, "judge"),
    ]:
        refused = door.post("/reset", json={**row, **change})
        assert refused.status_code == 422, refused.text
        assert said in refused.text
    assert (
        door.post("/reset", json={key: row[key] for key in row if key != "env_id"}).status_code
        == 422
    )
    assert door.post("/step", json={**row, "response": response("x")}).status_code == 409
    assert door.post("/reset", json=row).status_code == 200
    assert door.post("/reset", json=row).status_code == 200, "the same session begins anew"
    door.cookies.clear()
    assert door.post("/reset", json=row).status_code == 503


def test_a_session_that_was_left_makes_room():
    door = client(max_sessions=1, session_ttl_s=0.01)
    (row,) = levels("vagen/FrozenLake-v0", num_levels=1)
    for _ in range(2):
        assert door.post("/reset", json=row).status_code == 200
        door.cookies.clear()
        time.sleep(0.05)


def test_a_broken_simulator_is_an_error(monkeypatch):
    door = client()
    (row,) = levels("vagen/FrozenLake-v0", num_levels=1)
    door.post("/reset", json=row)
    monkeypatch.setattr(
        VagenEnv, "step", MagicMock(side_effect=SimulatorError("the ice has melted"))
    )
    broken = door.post("/step", json={**row, "response": response("x")})
    assert broken.status_code == 500
    assert "the ice has melted" in broken.text
    assert door.post("/close").json() == {"closed": False}


class Wires:
    """The agent's way to its servers: ours in this process, and a model that says what it is told to."""

    def __init__(self, door, replies):
        self.door, self.replies, self.asked = door, iter(replies), []

    async def post(self, server_name, url_path, json, cookies=None):
        if server_name == "policy_model":
            self.asked.append(json)
            return Answer(200, response(next(self.replies)))
        done = self.door.post(url_path, json=jsonable_encoder(json))
        return Answer(done.status_code, done.json())


class Answer:
    def __init__(self, status, payload):
        self.status, self.payload, self.cookies, self.ok = status, payload, {}, status < 400

    async def read(self):
        return json.dumps(self.payload)


def play(door, row, replies, **config):
    agent = VagenAgent.model_construct(
        config=AgentConfig(
            host="127.0.0.1",
            port=8080,
            entrypoint="app.py",
            name="vagen_agent",
            resources_server={"type": "resources_servers", "name": "vagen"},
            model_server={"type": "responses_api_models", "name": "policy_model"},
            **config,
        ),
        server_client=Wires(door, replies),
    )
    body = GymnasiumAgentRunRequest.model_validate(row)
    return asyncio.run(agent.run(MagicMock(cookies={}), body)), agent.server_client.asked


def test_what_the_agent_shows_and_where_it_stops():
    (row,) = levels("vagen/FrozenLake-v0", num_levels=1, max_turns=9, **EASY)
    played, asked = play(client(), row, ["I wait."] * 9, max_steps=3)
    assert (played.terminated, played.truncated, played.turns) == (False, True, 3)
    assert [len(each.input) for each in asked] == [2, 4, 6], (
        "the system prompt, and all that was seen and said"
    )
    assert [item.content[-1].text for item in asked[-1].input if item.role == "assistant"] == [
        "I wait."
    ] * 2
    assert played.response.usage.total_tokens == 45


def shown(items):
    """A request's items after the system prompt: the role and the text of each, and whether it has a picture."""
    plain = [item if isinstance(item, dict) else item.model_dump() for item in items[1:]]
    contents = [
        item["content"] if isinstance(item["content"], list) else [{"text": item["content"]}]
        for item in plain
        if item.get("type", "message") == "message"
    ]
    texts = ["".join(part.get("text") or "" for part in content) for content in contents]
    return [
        (item["role"], text, any(part.get("type") == "input_image" for part in content))
        for item, text, content in zip(plain, texts, contents, strict=True)
    ]


@pytest.mark.parametrize("context", ["last:1", "last:0", "answers", "last:2,current-picture"])
def test_prompts_are_the_policys(context):
    (row,) = levels("vagen/FrozenLake-v0", num_levels=1, max_turns=4, **EASY)
    replies = [f"<think>{number}</think><answer></answer>" for number in range(4)]
    played, asked = play(client(), row, replies, context=context)
    env, policy, turns = (
        gym.make("vagen/FrozenLake-v0", **{**EASY, "max_turns": 4}).unwrapped,
        context,
        [],
    )
    env.reset(seed=0, options={"split": "train"})
    for request, reply in zip(asked, replies, strict=True):
        messages = chat_messages("", turns, env.observed, context=ContextPolicy.parse(policy))[1:]
        expected = [
            (
                message["role"],
                "".join(part.get("text", "") for part in parts),
                any("image_url" in part for part in parts),
            )
            for message in messages
            for parts in [
                [{"text": message["content"]}]
                if isinstance(message["content"], str)
                else message["content"]
            ]
        ]
        assert shown(request.input) == expected
        turns.append(env.step(reply)[4]["turn"])
    assert [Turn.from_json(turn) for turn in played.turns_played] == turns
    assert [item.role for item in played.response.output] == ["assistant", "user"] * 3 + [
        "assistant"
    ]


def test_a_summary_replaces_the_turns_before_it():
    (row,) = levels("vagen/FrozenLake-v0", num_levels=1, max_turns=3, **EASY)
    played, asked = play(client(), row, ["one", "two", "I saw ice.", "three"], context="summary:2")
    assert [len(request.input) for request in asked] == [2, 4, 6, 2]
    assert "Your summary of turns 1 to 2:\nI saw ice." in shown(asked[3].input)[0][1]
    assert played.turns == 3
    assert [item.role[0] for item in played.response.output] == list(
        "auauaua"
    )  # with the request and the summary


def test_the_sample_of_a_broken_simulator_is_masked(monkeypatch):
    door = client()
    (row,) = levels("vagen/FrozenLake-v0", num_levels=1, **EASY)
    step, left = VagenEnv.step, iter([True, False])

    def breaks(self, reply):
        if next(left):
            return step(self, reply)
        raise SimulatorError("the ice has melted")

    monkeypatch.setattr(VagenEnv, "step", breaks)
    played, _ = play(door, row, ["I wait."] * 2)
    assert (played.mask_sample, played.failure_kind, played.turns) == (
        True,
        "vagen:environment_broke",
        1,
    )
    assert "the ice has melted" in played.failure_reason


def test_the_folder_is_what_nemo_gym_looks_for(tmp_path):
    config = yaml.safe_load((FOLDER / "resources_servers/vagen/configs/vagen.yaml").read_text())
    for group, name in [("resources_servers", "vagen"), ("responses_api_agents", "vagen_agent")]:
        server = config[name][group][name]
        assert (FOLDER / group / name / server["entrypoint"]).is_file()
        assert (FOLDER / group / name / "requirements.txt").read_text() == "vagen-envs[nemo-gym]\n"
    example = (FOLDER / "resources_servers/vagen/data/example.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in example] == list(
        levels("vagen/FrozenLake-v0", num_levels=5, **EASY)
    )
    test = FOLDER / "resources_servers/vagen/tests/test_app.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test], check=False
    )
    assert done.returncode == 0


@pytest.fixture
def model():
    """An endpoint that knows the oracle's reply to each picture of the five levels of the example."""
    env, known = gym.make("vagen/FrozenLake-v0", **EASY), {}
    for seed in range(5):
        for turn in oracle_episode(env, seed, "train")[1]:
            known[turn.observed.picture.sha256] = turn.reply
    endpoint = Endpoint()

    def answer(number, body):
        latest = [message["content"] for message in body["input"] if message["role"] == "user"][-1]
        return response(known.get(picture(latest).sha256, "I am lost."))

    endpoint.script = answer
    yield endpoint
    endpoint.close()


@pytest.mark.timeout(600)
def test_evaluations_by_nemo_gyms_own_commands(model, tmp_path):
    """Its servers in processes of their own, started and asked three times by its commands; a fake model, real rewards."""
    for each in [
        "resources_servers/vagen",
        "responses_api_agents/vagen_agent",
        "environment_servers/legacy_agent",
        "responses_api_models/openai_model",
    ]:
        (tmp_path / "venvs" / each).mkdir(parents=True)
        (tmp_path / "venvs" / each / ".venv").symlink_to(sys.prefix)
    command = Path(sys.executable).with_name("gym")
    head = [f"+head_server.port={free_port()}", "+head_server.host=127.0.0.1"]
    asked = (
        f"env start --resources-server vagen --search-dir {FOLDER} --model-type openai_model --model m"
        f" --model-url {model.url} --model-api-key x +skip_venv_if_present=true +uv_venv_dir={tmp_path / 'venvs'}"
    )
    start = [command, *asked.split(), *head]
    log = tmp_path / "servers.log"
    with log.open("w") as out:
        servers = subprocess.Popen(
            start, cwd=tmp_path, stdout=out, stderr=out, start_new_session=True
        )
    try:
        until = time.monotonic() + 400
        while "servers ready" not in log.read_text():
            assert servers.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < until, log.read_text()[-3000:]
            time.sleep(0.2)
        rows = FOLDER / "resources_servers/vagen/data/example.jsonl"
        for step in range(3):
            output = tmp_path / f"rollouts-{step}.jsonl"
            asked = f"eval run --no-serve --agent vagen_agent --input {rows} --output {output} --limit 4"
            collect = [command, *asked.split(), *head]
            done = subprocess.run(
                collect, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
            check(output)
    finally:
        os.killpg(servers.pid, 2)
        servers.wait(60)


def check(output):
    env = gym.make("vagen/FrozenLake-v0", **EASY)
    played = sorted(
        map(json.loads, output.read_text().splitlines()), key=lambda each: each["_ng_task_index"]
    )
    assert len(played) == 4
    for seed, each in enumerate(played):
        _, turns = oracle_episode(env, seed, "train")
        assert [Turn.from_json(turn) for turn in each["turns_played"]] == turns
        assert each["reward"] == pytest.approx(sum(turn.reward for turn in turns))
        assert each["reward"] > 1
        assert (each["terminated"], each["success"], each["mask_sample"]) == (True, 1.0, False)
        assert each["reward"] == pytest.approx(sum(each["reward_components"].values()))
        opening = each["responses_create_params"]["input"]
        assert [message["role"] for message in opening] == ["system", "user"]
        assert [item["role"] for item in each["response"]["output"]] == [
            *["assistant", "user"] * (len(turns) - 1),
            "assistant",
        ]
    (metrics,) = json.loads(output.with_name(f"{output.stem}_aggregate_metrics.json").read_text())
    assert metrics["agent_metrics"]["mean/success"] == 1.0


@pytest.mark.parametrize("change", CHANGES)
def test_a_row_of_another_environment_is_refused(change):
    (row,) = levels("vagen/FrozenLake-v0", num_levels=1)
    refused = client().post("/reset", json={**row, **change})
    assert refused.status_code == 422
    assert says_both(refused.json()["detail"], row, change)
