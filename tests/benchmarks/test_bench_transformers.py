"""A model in this process, loaded from a folder in the layout that real weights have."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from vagen_benchmarks.errors import ProtocolError  # noqa: E402
from vagen_benchmarks.lineup import Asked, make_agents  # noqa: E402
from vagen_benchmarks.protocol import Protocol, make_tasks  # noqa: E402
from vagen_benchmarks.run_folder import RunFolder, RunWriter  # noqa: E402
from vagen_benchmarks.runner import run  # noqa: E402


def test_model_from_a_folder_plays(weights, tmp_path):
    (agent,) = make_agents([f"transformers:{weights}"], Asked(max_tokens=12))
    tasks, _ = make_tasks(["sokoban"], episodes=2)
    with RunWriter(tmp_path / "run", Protocol(tuple(tasks), (agent.describe(),))) as folder:
        outcome = run(folder, [agent])
    assert (outcome.played, outcome.failed) == (2, 0), next(iter(RunFolder(tmp_path / "run").episodes()))
    for episode in RunFolder(tmp_path / "run").episodes():
        for call in episode.calls:
            assert call["ending"] in ("length", "stop", "empty")
            assert 1 <= call["completion_tokens"] <= 12
        tokens = [call["prompt_tokens"] for call in episode.calls]
        assert tokens == sorted(set(tokens))  # the history grows with every turn


def test_greedy_replies_are_the_same_each_time(weights, tmp_path):
    replies = []
    for name in ("1", "2"):
        (agent,) = make_agents([f"transformers:{weights}"], Asked(max_tokens=6, temperature=0.0))
        tasks, _ = make_tasks(["sokoban"], episodes=1)
        with RunWriter(tmp_path / name, Protocol(tuple(tasks), (agent.describe(),))) as folder:
            run(folder, [agent])
        replies.append([turn["reply"] for e in RunFolder(tmp_path / name).episodes() for turn in e.turns])
    assert replies[0] == replies[1]


def test_folder_without_a_model_is_one_clear_error(tmp_path):
    with pytest.raises(ProtocolError, match="holds no vision-language model"):
        make_agents([f"transformers:{tmp_path}"], Asked())
