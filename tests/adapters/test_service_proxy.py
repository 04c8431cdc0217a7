"""The proxy's configuration, as it stands in deploy/, before a server: TLS, a key, WebSockets, and slow clients."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

if shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin") is None:
    pytest.skip("needs nginx", allow_module_level=True)

import gymnasium as gym
import httpx2 as httpx
from ports import free_port
from service_fixtures import SOKOBAN, Served, wait_until

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.client import Service
from vagen_adapters.service.remote_env import RemoteEnv

ATTACKERS = Path(__file__).parents[1] / "helpers" / "attackers.py"
CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """A server with a key behind nginx: the address, and the certificate to trust."""
    folder = tmp_path_factory.mktemp("nginx")
    certificate = folder / "certificate.pem"
    request = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
        " -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    )
    files = ["-keyout", folder / "key.pem", "-out", certificate]
    subprocess.run([*request.split(), *files], check=True, capture_output=True)
    with Served(key="s3cret") as served:
        port = free_port()
        text = CONFIGURATION.read_text(encoding="utf-8")
        assert "127.0.0.1:8765" in text
        assert "listen 8443" in text
        text = text.replace("127.0.0.1:8765", f"127.0.0.1:{served.port}").replace(
            "listen 8443", f"listen 127.0.0.1:{port}"
        )
        (folder / "nginx.conf").write_text(text)
        command = [NGINX, "-p", str(folder), "-c", "nginx.conf"]
        tested = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
        assert tested.returncode == 0, tested.stderr
        assert "warn" not in tested.stderr
        process = subprocess.Popen([*command, "-g", "daemon off;"])
        try:
            wait_until(lambda: answers(port), 20)
            yield f"https://localhost:{port}", certificate, port
        finally:
            process.terminate()
            process.wait(20)


def answers(port):
    with socket.socket() as raw:
        return raw.connect_ex(("127.0.0.1", port)) == 0


def test_an_episode_through_the_proxy_is_the_one_here(proxied, monkeypatch):
    url, certificate, _ = proxied
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    service = Service(url, "s3cret")
    remote, local = RemoteEnv(service, SOKOBAN), gym.make(SOKOBAN).unwrapped
    (there, _), (here, _) = remote.reset(seed=7), local.reset(seed=7)
    assert (there["image"] == here["image"]).all()
    over = False
    while not over:
        reply = local.oracle_reply()
        (*_, info), (*_, local_info) = remote.step(reply), local.step(reply)
        assert info["turn"].to_json() == local_info["turn"].to_json()
        over = info["turn"].terminated or info["turn"].truncated
    remote.close()
    service.close()
    with pytest.raises(ServiceError, match="key is missing or wrong"):
        Service(url, "wrong").ask("close", [{"session": "0123456789abcdef"}])


def test_what_the_proxy_lets_through(proxied):
    url, certificate, port = proxied
    trusted = ssl.create_default_context(cafile=str(certificate))
    with httpx.Client(verify=trusted) as client:
        assert client.get(f"{url}/healthz").json() == {"status": "ok"}
        assert client.get(f"{url}/metrics").status_code == 403
        assert client.get(f"{url}/openapi.json").status_code == 404
        assert client.get(f"{url}/v1/environments").status_code == 401
        with_key = {"authorization": "Bearer s3cret"}
        assert SOKOBAN in client.get(f"{url}/v1/environments", headers=with_key).json()["env_ids"]
        assert (
            client.post(f"{url}/v1/step", content=b"x" * (3 << 20), headers=with_key).status_code
            == 413
        )
    with pytest.raises(httpx.ConnectError):  # the certificate is not trusted
        httpx.get(f"{url}/healthz")
    plain = httpx.get(f"http://localhost:{port}/healthz")
    assert plain.status_code == 400


@pytest.mark.parametrize(
    "way", ["slow_heads", "slow_bodies", "half_open", "connections", "requests"]
)
def test_an_attack_stops_at_the_proxy(proxied, way, monkeypatch):
    """Clients of another address play on through the proxy."""
    url, certificate, port = proxied
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    attack = subprocess.Popen(
        [sys.executable, ATTACKERS, way, str(port)], stderr=subprocess.DEVNULL
    )
    try:
        service = Service(url, "s3cret")
        for seed in range(10):
            env, local = RemoteEnv(service, SOKOBAN), gym.make(SOKOBAN).unwrapped
            env.reset(seed=seed), local.reset(seed=seed)
            assert (
                env.step("<answer>Up</answer>")[4]["turn"]
                == local.step("<answer>Up</answer>")[4]["turn"]
            )
            env.close()
            assert attack.poll() is None
        service.close()
    finally:
        attack.kill()
        attack.wait()


def test_an_unfinished_head_is_cut_off(proxied):
    _, certificate, port = proxied
    trusted = ssl.create_default_context(cafile=str(certificate))
    with trusted.wrap_socket(
        socket.create_connection(("127.0.0.1", port)), server_hostname="localhost"
    ) as raw:
        raw.settimeout(20)
        raw.sendall(b"POST /v1/step HTTP/1.1\r\nHost: x\r\nX: ")
        assert b"200" not in raw.recv(100)
