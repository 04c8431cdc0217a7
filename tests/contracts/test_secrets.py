"""Secrets: every key, header and secret-looking option is redacted by value in all that is written or printed."""

from __future__ import annotations

import base64
import gzip
import re

import pytest
from commands import vagen

SECRET = "sk-5f1c9e7a2b8d4c60"  # noqa: S105
WAYS = {
    "key of the environment": ([], {"OPENAI_API_KEY": SECRET}),
    "header with a variable": (["--header", "X-Mine=$MY_TOKEN"], {"MY_TOKEN": SECRET}),
    "header": (["--header", f"Authorization=Bearer {SECRET}"], {}),
    "option": (["--extra", f"api_key={SECRET}"], {}),
}
ECHOES = {
    "reply": lambda: f"<think>{SECRET}</think><answer>Up</answer>",
    "error": lambda: (400, {}, {"error": {"message": f"bad key {SECRET} was given"}}),
}


def unpacked(data):
    """A file's bytes, and what it holds compressed."""
    yield data
    for found in re.findall(rb">([A-Za-z0-9+/=]{40,})</script>", data):
        inner = base64.b64decode(found)
        yield gzip.decompress(inner) if inner[:2] == b"\x1f\x8b" else inner
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data)


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("way", WAYS)
def test_a_secret_stands_nowhere_after_a_run(tmp_path, endpoint, monkeypatch, way, echo):
    """However it was given and whatever sent it back, its bytes are in no file and on no screen."""
    words, variables = WAYS[way]
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    endpoint.script = lambda number, body: ECHOES[echo]()
    done = vagen(
        *("bench", "-e", "frozenlake", "-n", "1", "-a", "openai:m", "--base-url", endpoint.url),
        *("--out", str(tmp_path / "run"), *words),
    )
    assert SECRET not in done.stdout + done.stderr
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert files
    for path in files:
        for data in unpacked(path.read_bytes()):
            assert SECRET.encode() not in data, path.name
