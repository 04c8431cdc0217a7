"""What the environment says about connections holds for every provider: proxies and certificates, really used."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from urllib.parse import urlsplit

import pytest
from local_proxy import Proxy

from vagen_benchmarks.agents.factory import Asked, make_agents
from vagen_benchmarks.clients.base import Sampling
from vagen_benchmarks.errors import EndpointError, ProtocolError

MODELS = ["openai:m", "anthropic:m", "gemini:m"]
VARIABLES = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "a-secret-of-some-length")


@pytest.fixture
def proxy(endpoint):
    made = Proxy(urlsplit(endpoint.url).port)
    yield made
    made.close()


def ask(model, url):
    """A reply, by the agent's own client."""
    (agent,) = make_agents([model], Asked(base_url=url, timeout=10.0), None, [])
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "hello \ud800"}]

    async def once():
        try:
            return await agent._client.ask(messages, Sampling())
        finally:
            await agent.aclose()

    return asyncio.run(once())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h"])
def test_a_proxy_of_the_environment_is_used(model, scheme, endpoint, proxy, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", f"{scheme}://127.0.0.1:{proxy.port}")
    assert ask(model, "http://models.example:81/v1").text == endpoint.good
    assert proxy.asked == ["models.example"]
    assert "hello" in str(endpoint.requests[0])


@pytest.mark.parametrize("model", MODELS)
def test_what_no_proxy_names_is_asked_directly(model, endpoint, proxy, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    assert ask(model, endpoint.url).text == endpoint.good
    assert proxy.asked == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for models.example, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("certificate")
    request = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=models.example -addext subjectAltName=DNS:models.example"
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run([*request.split(), *files], check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def encrypted(endpoint, certificate):
    """The endpoint behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = endpoint._server
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return endpoint


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_certificates_of_the_environment_are_trusted(
    model, variable, encrypted, certificate, proxy, monkeypatch
):
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
    with pytest.raises(EndpointError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(model, "https://models.example/v1")
    monkeypatch.setenv(variable, str(certificate[0]))
    assert ask(model, "https://models.example/v1").text == encrypted.good
    assert proxy.asked == ["models.example"] * 2


WRONG = {
    "ALL_PROXY": "carrier-pigeon://127.0.0.1:1",
    "SSL_CERT_FILE": "/nonexistent/certificates.pem",
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("variable", WRONG)
def test_what_the_environment_names_wrongly_is_one_error(model, variable, monkeypatch):
    monkeypatch.setenv(variable, WRONG[variable])
    with pytest.raises(ProtocolError, match=variable):
        make_agents([model], Asked(base_url="https://models.example/v1"), None, [])


@pytest.mark.parametrize("model", MODELS)
def test_an_answer_without_end_is_cut(model, endpoint):
    head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n"
    endpoint.script = lambda number, body: head + b" " * 40 * 2**20
    with pytest.raises(EndpointError, match="longer than") as caught:
        ask(model, endpoint.url)
    assert not caught.value.retry
