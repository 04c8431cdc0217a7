"""What `gym env test` runs: one level through the server's own doors."""

from unittest.mock import MagicMock

from fastapi.testclient import TestClient
from nemo_gym.server_utils import ServerClient

from vagen_adapters.nemo_gym_env import ServerConfig, VagenServer


def test_a_level_is_played_over_http():
    config = ServerConfig(host="127.0.0.1", port=8080, entrypoint="app.py", name="vagen")
    client = TestClient(
        VagenServer(config=config, server_client=MagicMock(spec=ServerClient)).setup_webserver()
    )
    row = {
        "responses_create_params": {"input": []},
        "env_id": "vagen/FrozenLake-v0",
        "seed": 7,
        "split": "test",
    }
    begun = client.post("/reset", json=row).json()
    assert [part["type"] for part in begun["info"]["content"]].count("input_image") == 1
    text = [{"type": "output_text", "text": "<answer>Down</answer>", "annotations": []}]
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": text,
    }
    response = {
        "id": "r", "object": "response", "created_at": 0, "model": "m", "output": [message],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }  # fmt: skip
    played = client.post("/step", json={**row, "response": response}).json()
    assert played["info"]["turn"]["reply"] == "<answer>Down</answer>"
    assert client.post("/close").json() == {"closed": True}
