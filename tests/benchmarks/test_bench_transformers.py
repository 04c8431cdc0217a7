"""A model in this process, loaded from a folder in the layout that real weights have."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from runs import episodes, play  # noqa: E402

from vagen_benchmarks.agents.factory import Asked, make_agents  # noqa: E402
from vagen_benchmarks.errors import ProtocolError  # noqa: E402


def test_model_from_a_folder_plays(weights, tmp_path):
    (agent,) = make_agents([f"transformers:{weights}"], Asked(sampling={"max_tokens": 12}))
    outcome = play(tmp_path / "run", [agent], episodes=2)
    assert (outcome.played, outcome.failed) == (2, 0), episodes(tmp_path / "run")[0]
    for episode in episodes(tmp_path / "run"):
        for call in episode.calls:
            assert call["ending"] in ("length", "stop", "empty")
            assert 1 <= call["completion_tokens"] <= 12
        tokens = [call["prompt_tokens"] for call in episode.calls]
        assert tokens == sorted(set(tokens))  # the history grows with every turn


def test_greedy_replies_are_the_same_each_time(weights, tmp_path):
    replies = []
    for name in ("1", "2"):
        (agent,) = make_agents([f"transformers:{weights}"], Asked(sampling={"max_tokens": 6, "temperature": 0.0}))
        play(tmp_path / name, [agent], episodes=1)
        replies.append([turn["reply"] for e in episodes(tmp_path / name) for turn in e.turns])
    assert replies[0] == replies[1]


def test_folder_without_a_model_is_one_clear_error(tmp_path):
    with pytest.raises(ProtocolError, match="holds no vision-language model"):
        make_agents([f"transformers:{tmp_path}"], Asked())
