"""The run folder under kill -9, half-written files and second writers; and the command that uses it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
import runs
from commands import vagen

from vagen_benchmarks.agents import Agent
from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.errors import RunFolderError, StorageError
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.run_writer import RunWriter
from vagen_benchmarks.sharing.files import count_attempts, edits
from vagen_benchmarks.sharing.verify import verify
from vagen_envs.core import Turn
from vagen_envs.pictures import Picture
from vagen_envs.seeding import HashStream


def protocol(agents, episodes=6, **options):
    return runs.protocol(agents, episodes=episodes, **options)


def play(path, agents):
    return runs.play(path, agents, episodes=6)


def start(*arguments, **options):
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "vagen_benchmarks.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_every_turn_can_be_read_back_and_pictures_are_stored_once(tmp_path):
    play(tmp_path / "run", [Oracle(), Random()])
    folder = RunFolder(tmp_path / "run")
    episodes = list(folder.episodes())
    assert len({episode.key for episode in episodes}) == 12
    for episode in episodes:
        pictures = {
            name: Picture.from_png(folder.pictures.get(name)) for name in episode.picture_names()
        }
        assert all(picture.sha256 == name for name, picture in pictures.items())
        turns = [Turn.from_json(turn, pictures) for turn in episode.turns]
        assert sum(turn.reward for turn in turns) == pytest.approx(episode.score)
        assert turns[-1].success == episode.success
        assert turns[-1].terminated or turns[-1].truncated
    named = set().union(*(episode.picture_names() for episode in episodes))
    assert sorted(name for name, _ in folder.pictures.all()) == sorted(named)


@pytest.mark.parametrize("cut", [1, 40, 2000])
def test_half_written_last_line_is_dropped_and_played_again(tmp_path, cut):
    path = tmp_path / "run"
    play(path, [Random()])
    file = path / "episodes.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    assert len(list(RunFolder(path).episodes())) == 5
    assert play(path, [Random()]).played == 1
    assert file.read_bytes() == whole


def test_damaged_line_in_the_middle_is_played_again(tmp_path):
    path = tmp_path / "run"
    play(path, [Random()])
    lines = (path / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (path / "episodes.jsonl").write_bytes(b"".join([*lines[:2], b"\0" * 50 + b"\n", *lines[3:]]))
    folder = RunFolder(path)
    assert len(list(folder.episodes())) == 5
    assert folder.damaged == 1
    assert play(path, [Random()]).played == 1
    assert {episode.seed for episode in RunFolder(path).episodes()} == set(range(6))


def test_episode_whose_picture_is_lost_is_played_again(tmp_path):
    path = tmp_path / "run"
    play(path, [Oracle()])
    whole = (path / "pictures.pack").read_bytes()
    (path / "pictures.pack").write_bytes(whole[:-3])
    assert RunFolder(path).pictures.torn
    assert play(path, [Oracle()]).played >= 1
    assert (path / "pictures.pack").read_bytes() == whole


def test_second_writer_is_refused_while_the_first_lives(tmp_path):
    path, asked = tmp_path / "run", protocol([Oracle()])
    with RunWriter(path, asked), pytest.raises(RunFolderError, match="another process"):
        RunWriter(path, asked)
    RunWriter(path, asked).close()


def test_file_system_without_locks_is_written_to(tmp_path, monkeypatch):
    def without_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", without_locks)
    RunWriter(tmp_path / "run", protocol([Oracle()])).close()


def test_run_that_was_killed_before_it_began_is_begun(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    (path / ".lock").touch()
    (path / "protocol.json.part").write_text('{"schema": 1, "ta')
    assert play(path, [Oracle()]).played == 6


def test_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunFolderError, match="no run"):
        RunWriter(tmp_path, protocol([Oracle()]))
    with pytest.raises(RunFolderError, match="not a run folder"):
        RunFolder(tmp_path)


def test_protocol_changed_by_hand_is_noticed(tmp_path):
    path = tmp_path / "run"
    play(path, [Oracle()])
    text = (path / "protocol.json").read_text()
    (path / "protocol.json").write_text(text.replace('"episodes": 6', '"episodes": 5'))
    with pytest.raises(RunFolderError, match="hash"):
        RunFolder(path)


def test_killed_at_any_moment_nothing_is_lost_or_played_twice(tmp_path):
    """kill -9 a real process again and again; in the end the file equals that of a run nobody killed."""
    arguments = ["bench", "-e", "sokoban", "-a", "random", "-n", 300]
    assert vagen(*arguments, "--out", tmp_path / "calm").returncode == 0
    folder = tmp_path / "killed"
    file = folder / "episodes.jsonl"
    stream = HashStream("when to kill")
    kills = 0
    for attempt in range(6):
        size = file.stat().st_size if file.exists() else 0
        process = start(*(["resume", folder] if size else [*arguments, "--out", folder]))
        if attempt < 3:  # while it starts, writes its protocol, opens its files
            while process.poll() is None and not folder.exists():
                time.sleep(0.0005)
        while (
            attempt >= 3
            and process.poll() is None
            and (not file.exists() or file.stat().st_size <= size)
        ):
            time.sleep(0.002)
        time.sleep(stream.random() * 0.05)
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        if process.returncode == 0:
            break
    last = vagen("resume", folder)
    assert last.returncode == 0, last.stdout
    assert kills >= 3
    assert not list(folder.rglob("*.part"))
    lines = file.read_bytes().splitlines()
    assert sorted(lines) == sorted((tmp_path / "calm" / "episodes.jsonl").read_bytes().splitlines())
    run = RunFolder(folder)
    assert edits(run) == []
    assert 0 < count_attempts(run).dropped <= kills  # what was in flight at a kill
    assert (
        f"{count_attempts(run).dropped} attempts begun and not stored"
        in vagen("verify", run.path).stdout
    )


def test_interrupt_leaves_a_valid_run(tmp_path, endpoint):
    endpoint.script = lambda number, body: 0.3
    path = tmp_path / "run"
    asked = f"bench -e sokoban -a openai:m -n 40 --base-url {endpoint.url} --concurrency 4"
    arguments = [*asked.split(), "--out", path]
    process = start(*arguments)
    while not (path / "episodes.jsonl").exists() or not (path / "episodes.jsonl").stat().st_size:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130, output + errors
    assert "interrupted" in errors
    before = {episode.key for episode in RunFolder(path).episodes()}
    assert 0 < len(before) < 40
    assert all(episode.failure is None for episode in RunFolder(path).episodes())
    assert (path / "report.html").exists()
    endpoint.script = lambda number, body: endpoint.good
    assert "holds a run already" in vagen(*arguments).stderr
    again = vagen("resume", path)
    assert again.returncode == 0, again
    assert f"{len(before)} of 40 episodes are there already" in again.stdout


def test_resume_needs_nothing_but_the_folder(tmp_path, endpoint):
    """Agents, sampling, options, strategy, history and endpoint are those that the run was begun with."""
    path = tmp_path / "run"
    endpoint.script = lambda number, body: endpoint.good if number < 4 else 400
    asked = (
        f"bench -e sokoban -a openai:m -n 4 --base-url {endpoint.url} --strategy no_think -o max_turns=2 -o dim_room=[7,7]"
        " --context last:0 --max-tokens 33 --temperature 0.25 --concurrency 1 --judge rule --repeats 2"
    )
    begun = vagen(*asked.split(), "--out", path)
    assert begun.returncode == 1, begun
    assert f"vagen resume {path}" in begun.stderr
    asked = endpoint.requests[0]
    endpoint.script = lambda number, body: endpoint.good
    endpoint.requests.clear()
    again = vagen("resume", path)
    assert again.returncode == 0, again
    assert "2 of 8 episodes are there already" in again.stdout
    assert len(endpoint.requests) == 6 * 2
    for body in endpoint.requests:
        assert (body["max_completion_tokens"], body["temperature"], len(body["messages"])) == (
            33,
            0.25,
            2,
        )
        assert body["messages"][0] == asked["messages"][0]
    assert all(episode.failure is None for episode in RunFolder(path).episodes())


def test_resume_refuses_what_became_different(tmp_path, monkeypatch):
    path = tmp_path / "run"
    play(path, [Oracle()])
    monkeypatch.setattr("vagen_envs.__version__", "99")
    done = vagen("resume", path)
    assert done.returncode == 2
    assert "99" in done.stderr


def test_a_password_in_a_url_is_not_written_down(tmp_path):
    path, url = tmp_path / "run", ["--base-url", "http://me:hunter2@host/v1?key=hunter2"]
    vagen("bench", "-e", "sokoban", "-a", "oracle", "-n", 1, *url, "--out", path)
    vagen("resume", path, *url)
    assert (path / "journal.jsonl").read_text().count('"http://host/v1"') == 2
    assert not [
        file for file in path.rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()
    ]


def test_no_key_of_the_environment_is_written_in_an_error(tmp_path, monkeypatch):
    """Not only the agent's own: another provider's key, too."""
    monkeypatch.setenv("OTHER_API_KEY", 'very-secret-"0123')

    class Leaky(Agent):
        name = "leaky"

        def reply(self, game):
            raise RuntimeError('very-secret-"0123 was refused')

    play(tmp_path / "run", [Leaky()])
    text = (tmp_path / "run" / "episodes.jsonl").read_text()
    assert "very-secret" not in text
    assert "[OTHER_API_KEY]" in text


@pytest.mark.parametrize("key", ["box", "Left", "observation"])
def test_a_key_that_is_a_word_changes_no_reply(tmp_path, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    play(tmp_path / "run", [Oracle()])
    stored = [
        turn["reply"]
        for episode in RunFolder(tmp_path / "run").episodes()
        for turn in episode.turns
    ]
    assert stored
    assert not [reply for reply in stored if "[OPENAI_API_KEY]" in reply]
    assert all(episode.success for episode in RunFolder(tmp_path / "run").episodes())


def test_what_others_wrote_is_printed_as_they_wrote_it(tmp_path, endpoint):
    """Brackets and colons in names and messages are rich's markup and emoji elsewhere."""
    name, path = "openai:llama:7b[q4]", tmp_path / "run"
    common = f"bench -e sokoban -a {name} -n 1 --base-url {endpoint.url} --patience 0 --attempts 1 --give-up-after 1"
    asked = [*common.split(), "--out", path]
    endpoint.script = lambda number, body: {"error": {"message": "unexpected [/INST]"}}
    stopped = vagen(*asked)
    assert "stopped:" in stopped.stderr
    assert "unexpected [/INST]" in stopped.stderr
    endpoint.script = lambda number, body: endpoint.good
    assert name in vagen("resume", path).stdout
    assert name in vagen("compare", path, path).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "-e", "sokobn"], "Did you mean 'sokoban'"),
        (["bench", "-e", "my_env", "-a", "oracle"], "MODULE:ID"),
        (["bench", "-e", "sokoban", "-o", "max_trns=3"], "Did you mean 'max_turns'"),
        (["bench", "-e", "sokoban", "-o", "max_turns"], "NAME=VALUE"),
        (["bench", "-e", "sokoban", "--split", "tset"], "Did you mean 'test'"),
        (["bench", "-e", "sokoban", "-a", "my_agent.py"], "my_agent.py:MyAgent"),
        (["bench", "-e", "sokoban", "-a", "tracer"], "plays only vagen/SVGReconstruction-v0"),
        (["bench", "-e", "sokoban", "--strategy", "think"], "strategy='think'"),
        (
            ["bench", "-e", "sokoban", "-a", "oracle", "--context", "lats:2"],
            "Did you mean 'last:N'",
        ),
        (["bench", "-e", "sokoban", "--out", "run", "--judge", "nobody"], "nobody"),
        (["view", "/nowhere"], "there is no folder /nowhere"),
        (["play", "sokoban", "-o", "num_boxes=9"], "num_boxes=9"),
    ],
)
def test_bad_input_is_one_clear_error(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    done = vagen(*arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("where", "limit", "code"),
    [("run", "ulimit -f 60;", 3), ("/proc/nowhere", "", 2)],
    ids=["full", "no place"],
)
def test_disk_that_takes_no_more_is_one_error(tmp_path, where, limit, code):
    """A limit on the size of files, which the system holds as it holds a full disk; and a place that takes none."""
    words = f"{limit} exec {sys.executable} -m vagen_benchmarks bench -e frozenlake -a oracle -a random -n 64 --out {where}"
    done = subprocess.run(
        ["bash", "-c", words],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    assert "can't be written" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    if code == 3:  # what is there is whole, and the run goes on once there is room
        again = vagen("resume", tmp_path / where)
        assert again.returncode == 0, again.stderr
        assert verify(RunFolder(tmp_path / where)).wrong == []


@pytest.mark.parametrize("text", ["[]", "5", '{"tasks": [5]}', "[" * 100_000])
def test_a_protocol_that_is_none_is_one_error(tmp_path, text):
    (tmp_path / "protocol.json").write_text(text)
    for word in ("verify", "resume"):
        done = vagen(word, tmp_path)
        assert (done.returncode, "can't be read" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"turns": None},
        {"turns": [5]},
        {"turns": [{}]},
        {"ended": {"kind": "won", "message": ""}},
        {"ended": None},
        {"new": 1},
        {"turns": [{"rewards": [{"name": "x", "value": 1e308}] * 3}]},
        {"turns": [{"rewards": [{"name": "x", "value": "1"}]}]},
    ],
)
def test_an_episode_that_no_run_stores_is_one_error(tmp_path, change):
    play(tmp_path / "run", [Oracle()])
    file = tmp_path / "run" / "episodes.jsonl"
    first, *others = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(first), **change}), *others, ""]))
    for word in ("verify", "resume"):
        done = vagen(word, tmp_path / "run")
        assert (done.returncode, "damaged or made up" in done.stderr) == (2, True), done.stderr


def test_a_disk_that_refuses_to_keep_what_was_written_ends_the_run(tmp_path, monkeypatch):
    def fsync(_descriptor):
        raise OSError(5, "Input/output error")

    play(tmp_path / "other", [Oracle()])
    folder = RunWriter(tmp_path / "run", protocol([Oracle()]))
    folder.add(runs.episodes(tmp_path / "other")[0], [])
    monkeypatch.setattr("os.fsync", fsync)
    with pytest.raises(StorageError, match="Input/output error"):
        folder.close()
