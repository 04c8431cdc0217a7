"""What is exported, and what the doctor says."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from runs import play
from typer.testing import CliRunner

import vagen_envs
from vagen_adapters.context import ContextPolicy
from vagen_benchmarks.agents import Agent, Reply
from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.cli import app
from vagen_benchmarks.commands.printing import out, print_table
from vagen_benchmarks.errors import EndpointError, ProtocolError
from vagen_benchmarks.results.summary import summarise
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.export import export
from vagen_envs.pictures import Picture


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "run"
    play(path, [Oracle(), Random()], episodes=5)
    return RunFolder(path)


def words(message):
    return "".join(part["text"] for part in message["content"] if part["type"] == "text")


def test_chat_samples_hold_the_episodes_words_and_pictures(folder, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    assert export(folder, tmp_path / "a.parquet", "chat", keep=lambda episode: episode.success) == 5
    table = pq.read_table(tmp_path / "a.parquet")
    rows = table.to_pylist()
    assert b"huggingface" in table.schema.metadata
    episodes = [episode for episode in folder.episodes() if episode.success]
    for row, episode in zip(rows, episodes, strict=True):
        said = [words(message) for message in row["messages"] if message["role"] == "assistant"]
        assert said == [turn["reply"] for turn in episode.turns]
        assert words(row["messages"][0]) == folder.protocol.tasks[0].system_prompt
        for message in row["messages"]:
            kinds = [part["type"] for part in message["content"]]
            assert kinds.count("image") == (message["role"] == "user")
        shown = [Picture.from_png(image["bytes"]).sha256 for image in row["images"]]
        assert shown == [turn["observed"]["picture"]["sha256"] for turn in episode.turns]
        assert (row["return"], row["success"]) == (pytest.approx(episode.score), True)


def test_trl_can_train_on_the_file(folder, tmp_path):
    datasets = pytest.importorskip("datasets")
    file = str(tmp_path / "a.parquet")
    assert (
        export(
            folder, tmp_path / "a.parquet", "chat", keep=lambda episode: episode.agent == "oracle"
        )
        == 5
    )
    loaded = datasets.load_dataset(
        "parquet", data_files=file, split="train", cache_dir=str(tmp_path / "cache")
    )
    assert len(loaded) == 5
    episode = next(folder.episodes())
    row = loaded[0]
    assert [Picture(np.array(image)).sha256 for image in row["images"]] == [
        turn["observed"]["picture"]["sha256"] for turn in episode.turns
    ]
    prepare = pytest.importorskip("trl.data_utils").prepare_multimodal_messages
    asked = [each for each in prepare(row["messages"], row["images"]) if each["role"] == "user"]
    for message, image in zip(asked, row["images"], strict=True):  # each turn has its own picture
        assert [part["image"] for part in message["content"] if part["type"] == "image"] == [image]


def test_windowed_samples_are_one_a_turn(folder, tmp_path):
    count = export(folder, tmp_path / "a.jsonl", "chat", context=ContextPolicy(turns=1))
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    turns = sum(len(episode.turns) for episode in folder.episodes())
    assert count == len(rows) == turns
    assert {len(row["messages"]) for row in rows} == {3, 5}
    assert all(len(row["images"]) == (len(row["messages"]) - 1) // 2 for row in rows)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_turns_add_up_to_the_run(folder, tmp_path, ending):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "new" / f"turns.{ending}"
    export(folder, path, "turns")
    lines = path.read_bytes().splitlines() if ending == "jsonl" else []
    rows = [json.loads(line) for line in lines] or parquet.read_table(path).to_pylist()
    assert sum(row["reward"] for row in rows) == pytest.approx(
        sum(episode.score for episode in folder.episodes())
    )
    assert np.mean([row["success"] for row in rows if row["agent"] == "random"]) < 0.5
    assert {row["ending"] for row in rows} == {None}


def test_without_pyarrow_nothing_is_left_behind(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ProtocolError, match=r"vagen-envs\[export\]"):
        export(folder, tmp_path / "a.parquet", "chat")
    assert list(tmp_path.iterdir()) == []


def test_doctor_plays_every_environment(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = CliRunner().invoke(app, ["doctor"])
    for env_id in vagen_envs.ENV_IDS:
        assert env_id in done.output
    assert "export OPENAI_API_KEY" in done.output
    assert "backend=thor" in done.output
    assert (
        "scorer=dreamsim" in done.output or "libcairo2" in done.output
    )  # of no use without the other
    assert done.exit_code == ("✗" in done.output)


def test_doctor_says_what_is_broken(monkeypatch):
    monkeypatch.setattr("vagen_envs.sokoban.env.SokobanEnv.plan", lambda self: 1 / 0)
    monkeypatch.setattr(
        vagen_envs, "ENV_IDS", ("vagen/Sokoban-v0", "vagen/FrozenLake-v0")
    )  # the others take seconds
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    assert "division by zero" in done.output


class Odd(Agent):
    """Writes what no file and no terminal should get as it is."""

    name = "odd\x1b[2J"

    def reply(self, game):
        if game.seed == 1:
            raise EndpointError("server_error", "gone \x1b]0;owned\x07 \ud800", retry=False)
        return Reply("half \ud83d, whole \ud83d\ude00 <answer>Up</answer>")


@pytest.mark.parametrize("form", ["chat", "turns"])
@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_halves_of_characters_are_exported(tmp_path, form, ending):
    parquet = pytest.importorskip("pyarrow.parquet")
    play(tmp_path / "run", [Odd()], ["frozenlake"], episodes=1)
    path = tmp_path / f"out.{ending}"
    assert export(RunFolder(tmp_path / "run"), path, form) > 0
    row = (
        json.loads(path.read_text().splitlines()[0])
        if ending == "jsonl"
        else parquet.read_table(path).to_pylist()[0]
    )
    assert "half \ufffd, whole 😀" in str(row)


def test_no_escape_code_reaches_the_terminal(tmp_path):
    play(tmp_path / "run", [Odd()], ["frozenlake"], episodes=2)
    for words in (["view", "--no-browser"], ["verify"], ["export", str(tmp_path / "a.jsonl")]):
        shown = CliRunner().invoke(app, [words[0], str(tmp_path / "run"), *words[1:]], color=True)
        assert "\x1b]" not in shown.output
        assert "\x1b[2J" not in shown.output
        if words[0] == "export":
            assert "‡" in shown.output
            assert "odd␛[2J: 1 episodes failed" in " ".join(shown.output.split())
            assert "levels of test" in shown.output  # which a model should not be trained on
    with out.capture() as printed:
        print_table(summarise(RunFolder(tmp_path / "run")))
    assert "odd␛[2J" in printed.get()
