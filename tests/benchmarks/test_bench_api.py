"""The providers themselves, for whoever has a key: `OPENAI_API_KEY=… pytest -m api`. One turn each, a cent at most."""

from __future__ import annotations

import os

import pytest
from runs import episodes, play

from vagen_benchmarks.agents.factory import Asked, make_agents

MODELS = {"openai": "gpt-4.1-mini", "anthropic": "claude-haiku-4-5", "gemini": "gemini-2.5-flash"}
"""Small ones that see. `VAGEN_OPENAI_MODEL` and the like name another."""


@pytest.mark.api
@pytest.mark.parametrize("provider", MODELS)
def test_a_provider_looks_and_answers(provider, tmp_path):
    if f"{provider.upper()}_API_KEY" not in os.environ:
        pytest.skip(f"set {provider.upper()}_API_KEY")
    model = os.environ.get(f"VAGEN_{provider.upper()}_MODEL", MODELS[provider])
    asked = Asked(
        sampling={"max_tokens": 400}, base_url=os.environ.get(f"{provider.upper()}_BASE_URL")
    )
    (agent,) = make_agents([f"{provider}:{model}"], asked)
    outcome = play(tmp_path, [agent], ["frozenlake"], episodes=1, options={"max_turns": 1})
    (episode,) = episodes(tmp_path)
    assert (outcome.played, outcome.failed) == (1, 0), episode.failure
    (turn,) = episode.turns
    assert turn["metrics"]["action_is_valid"], turn["reply"]
    (call,) = episode.calls
    assert call["prompt_tokens"] > 0
    assert call["completion_tokens"] > 0
