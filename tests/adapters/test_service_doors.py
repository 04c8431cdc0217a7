"""Nobody can keep others out: under each attack, /healthz and sessions with a key are answered within a second."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="needs httpx2")

import attackers
from service_fixtures import LAKE, Command

from vagen_adapters.service.client import Service
from vagen_adapters.service.remote_env import RemoteEnv

KEY = "s3cret"
SECONDS = 1.0


@pytest.fixture(scope="module")
def command():
    with Command("--workers", 1, "-e", "frozenlake", key=KEY) as one:
        yield one
        assert one.process.poll() is None, "".join(one.lines)


def asked(port, timeout=20):
    """Seconds until a new connection is told how the server is."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        said = raw.recv(1000)
    assert said.startswith(b"HTTP/1.1 200"), said
    return time.monotonic() - began


@pytest.mark.parametrize("way", attackers.WAYS)
def test_health_and_sessions_with_a_key_are_answered_under_attack(command, way):
    service = Service(command.url, KEY)
    env = RemoteEnv(service, LAKE, max_turns=10_000, max_steps=100_000)
    env.reset(seed=1)
    attack = subprocess.Popen([sys.executable, attackers.__file__, way, str(command.port)])
    try:
        time.sleep(1.5)
        health, turns, opens = [], [], []
        until = time.monotonic() + 3.0
        while time.monotonic() < until:
            assert attack.poll() is None
            health.append(asked(command.port))
            began = time.monotonic()
            env.step("<answer>Up</answer>") if env._running else env.reset(seed=1)
            turns.append(time.monotonic() - began)
            began = time.monotonic()
            other = Service(command.url, KEY)  # a new connection with a key
            other.ask("renew", [{"session": env._session}])
            opens.append(time.monotonic() - began)
            other.close()
    finally:
        attack.kill()
        attack.wait()
    print(way, *(f"{max(each):.3f}" for each in (health, turns, opens)), len(turns))
    assert max(health) < SECONDS
    assert max(turns) < SECONDS
    assert max(opens) < 2 * SECONDS  # two of them: a handshake and a request
    env.close()
    service.close()
