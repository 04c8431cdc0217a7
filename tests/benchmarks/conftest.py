"""Models for the runner: keys, and small real weights in a folder."""

from __future__ import annotations

import pytest
from chat_endpoint import KEY
from ports import free_port


@pytest.fixture
def keys(monkeypatch):
    """Every provider's key is `KEY`, and OpenAI's address its own."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def closed_port():
    """The URL of a port at which nothing listens."""
    return f"http://127.0.0.1:{free_port()}/v1"


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    """A LLaVA of random weights, saved as real ones are."""
    pytest.importorskip("transformers")
    import families

    return families.save("llava", tmp_path_factory.mktemp("weights"))
