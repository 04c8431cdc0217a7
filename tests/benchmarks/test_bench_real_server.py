"""A real OpenAI-compatible server on loopback, `transformers serve`, with a real if untrained model in it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request

import pytest

for module in ("torch", "transformers", "fastapi", "uvicorn"):
    pytest.importorskip(module)

from ports import free_port  # noqa: E402
from runs import episodes, play  # noqa: E402

from vagen_benchmarks.agents.factory import Asked, make_agents  # noqa: E402

START = 120.0
"""Seconds within which the server must be up."""


@pytest.fixture(scope="module")
def server(weights, tmp_path_factory):
    """Its URL. It is asked until it is well, and killed in the end."""
    port = free_port()
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("w") as file:
        command = f"-m transformers.cli.transformers serve {weights} --host 127.0.0.1 --port {port} --device cpu"
        offline = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, *command.split()], stdout=file, stderr=file, env=offline
        )
    deadline = time.monotonic() + START
    try:
        while not _well(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def _well(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as response:
            return response.status == 200
    except OSError:
        return False


def replies(path, name, **asked):
    (agent,) = make_agents(
        [name], Asked(sampling={"max_tokens": 8, "temperature": 0.0}, patience=0.0, **asked)
    )
    outcome = play(path, [agent], episodes=2)
    played = sorted(episodes(path), key=lambda episode: episode.seed)
    assert (outcome.played, outcome.failed) == (2, 0), played[0].failure
    calls = [call for episode in played for call in episode.calls]
    return [turn["reply"] for episode in played for turn in episode.turns], calls


def test_a_real_server_says_what_its_model_says(server, weights, tmp_path):
    """Prompt, pictures and sampling arrive: the same weights in this process write the same replies."""
    served, calls = replies(tmp_path / "served", f"openai:{weights}", base_url=server)
    own, known = replies(tmp_path / "own", f"transformers:{weights}")
    assert served == own
    for call, other in zip(calls, known, strict=True):
        assert (call["prompt_tokens"], call["completion_tokens"]) == (
            other["prompt_tokens"],
            other["completion_tokens"],
        )
        assert call["attempts"] == 1
