"""Every reply is kept when it comes: runs that are killed at any moment pay once, and say who answered."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
import runs
from chat_endpoint import GOOD, completion
from commands import vagen

from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.scripted import Random
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.report import write_report
from vagen_benchmarks.runs.journal import spending
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.runner import Policy
from vagen_benchmarks.sharing.files import count_attempts
from vagen_benchmarks.sharing.verify import verify


def start(*arguments):
    words = [sys.executable, "-m", "vagen_benchmarks", *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def spent(path):
    """By the journal, which there may not be yet."""
    is_there = (path / "protocol.json").exists()
    return spending(RunFolder(path).journal() if is_there else [], {})


def calm(count, seconds=0.4):
    """Wait until no request has come for so long."""
    seen = -1
    while seen != count():
        seen = count()
        time.sleep(seconds)


def test_killed_at_any_moment_our_count_is_the_endpoints(tmp_path, endpoint):
    """The process is killed while requests are under way, and after some replies; each call is made and paid once."""
    path, answered = tmp_path / "run", []

    def script(number, body):
        time.sleep(0.15 if number % 5 else 1.2)
        answered.append(number)
        return GOOD

    endpoint.script = script
    words = ["bench", "-e", "frozenlake", "-a", "vllm:m", "-n", 8, "-o", "max_turns=4"]
    words += ["--base-url", endpoint.url, "--concurrency", 3, "--out", path]
    kills = 0
    for more in (1, 2, 5, 3, 4, 6):
        wanted = len(endpoint.requests) + more
        process = start(*words)
        while process.poll() is None and len(endpoint.requests) < wanted:
            time.sleep(0.005)
        while process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.05)  # what was sent arrives; what is written down and not yet sent doesn't
            if len(endpoint.requests) == spent(path).requests:
                break
            process.send_signal(signal.SIGCONT)
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
        kills += process.returncode == -signal.SIGKILL
        calm(lambda: len(answered))
        found = spent(path)
        assert found.requests == len(endpoint.requests)
        words = ["resume", path]
    assert kills >= 4
    endpoint.script = lambda number, body: GOOD
    assert vagen("resume", path).returncode == 0
    found = spent(path)
    assert found.requests == len(endpoint.requests)
    replies = len(found.calls)
    assert (found.failed, replies + found.unanswered) == (0, len(endpoint.requests))
    stored = runs.episodes(path)
    turns = sum(len(episode.turns) for episode in stored)
    assert (len(stored), turns) == (8, replies)  # no reply is lost, and none is asked for twice
    attempts = count_attempts(RunFolder(path))
    assert attempts.continued > 0
    assert attempts.unanswered == found.unanswered > 0
    assert verify(RunFolder(path)).wrong == []
    assert "continued at their turn" in vagen("verify", path).stdout


def agent(url, **options):
    return ChatAgent(
        Registry().find("openai:m", url),
        base_url=url,
        **{"attempts": 2, "first_wait": 0.01, "patience": 0.0, **options},
    )


def killed_after(path, endpoint, replies, **options):
    """Play one episode, and end as if killed when so many replies have come. What the server answers is counted."""

    def script(number, body):
        return GOOD if number < replies else 30.0

    endpoint.script = script
    words = ["bench", "-e", "frozenlake", "-a", "vllm:m", "-n", 1, "-o", "max_turns=6"]
    given = [word for name, value in options.items() for word in (f"--{name}", value)]
    process = start(*words, "--base-url", endpoint.url, "--out", path, *given)
    while len(endpoint.requests) <= replies and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    process.stderr.close()


def test_an_episode_goes_on_at_its_turn_with_its_past(tmp_path, endpoint):
    """Also with summaries, which aren't asked for twice: the requests are those of a run that nobody killed."""
    path = tmp_path / "run"
    killed_after(path, endpoint, 4, context="summary:2")
    asked = [json.dumps(body) for body in endpoint.requests[:4]]
    endpoint.script = lambda number, body: GOOD
    endpoint.requests.clear()
    assert vagen("resume", path).returncode == 0
    asked += [json.dumps(body) for body in endpoint.requests]
    endpoint.requests.clear()
    words = ["bench", "-e", "frozenlake", "-a", "vllm:m", "-n", 1, "-o", "max_turns=6"]
    words += ["--base-url", endpoint.url, "--context", "summary:2", "--out", tmp_path / "calm"]
    assert vagen(*words).returncode == 0
    assert asked == [json.dumps(body) for body in endpoint.requests]
    one, other = runs.episodes(path)[0].to_json(), runs.episodes(tmp_path / "calm")[0].to_json()
    assert [turn["reply"] for turn in one["turns"]] == [turn["reply"] for turn in other["turns"]]
    assert one["turns"] == other["turns"]


@pytest.mark.parametrize("name", ["seen", "text"])
def test_an_episode_that_is_not_repeated_exactly_is_begun_anew(tmp_path, endpoint, name):
    path = tmp_path / "run"
    killed_after(path, endpoint, 2)
    journal = path / "journal.jsonl"
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    reply = next(entry for entry in entries if entry["event"] == "reply")
    reply[name] = "<think>t</think><answer>Down</answer>"
    journal.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    endpoint.script = lambda number, body: GOOD
    endpoint.requests.clear()
    assert vagen("resume", path).returncode == 0
    assert len(endpoint.requests) == 6
    assert verify(RunFolder(path)).wrong == []
    assert count_attempts(RunFolder(path)).dropped == 1


def test_a_cap_holds_over_kills(tmp_path, endpoint):
    """Calls whose reply never came count at their worst."""
    path = tmp_path / "run"
    killed_after(path, endpoint, 2, **{"max-total-tokens": 6000})
    before = spent(path)
    assert (before.unanswered, before.tokens > 400) == (1, True)
    endpoint.script = lambda number, body: GOOD
    left = vagen("resume", path, "--max-total-tokens", before.tokens + 36 + 500)
    assert (left.returncode, "the budget of" in left.stderr) == (3, True), left
    assert len(endpoint.requests) == 3


class Wanderer(ChatAgent):
    """A model with another prompt, which may remember what no journal holds."""


def test_agents_of_ones_own_pay_and_begin_anew(tmp_path, endpoint):
    """What they paid is known, and their episodes aren't continued: nobody knows what they remember."""
    endpoint.script = lambda number, body: GOOD if number < 3 else 400

    def made():
        return Wanderer(
            Registry().find("openai:m", endpoint.url), base_url=endpoint.url, attempts=1
        )

    runs.play(tmp_path / "run", [made()], ["frozenlake"], episodes=2, policy=Policy(concurrency=1))
    journal = tmp_path / "run" / "journal.jsonl"
    (tmp_path / "run" / "episodes.jsonl").unlink()
    journal.write_text("".join(line for line in journal.open() if '"end"' not in line))
    endpoint.script = lambda number, body: GOOD
    outcome = runs.play(tmp_path / "run", [made()], ["frozenlake"], episodes=2)
    assert "turns" not in {
        name
        for entry in RunFolder(tmp_path / "run").journal()
        for name in entry
        if entry["event"] == "begin"
    }
    assert outcome.usage["openai:m"].requests == 3 + sum(
        len(e.turns) for e in runs.episodes(tmp_path / "run")
    )


def test_a_timeout_is_counted_at_its_worst(tmp_path, endpoint):
    endpoint.script = lambda number, body: 1.0 if number == 0 else GOOD
    runs.play(tmp_path, [agent(endpoint.url, timeout=0.2)], ["frozenlake"], episodes=1)
    found = spent(tmp_path)
    assert (found.requests, found.failed, found.unanswered) == (len(endpoint.requests), 1, 1)


def served(names):
    def script(number, body):
        name = names[min(number, len(names) - 1)]
        return {**completion({"content": GOOD}, "stop"), "model": name, "system_fingerprint": "fp"}

    return script


def test_the_models_that_answered_are_known(tmp_path, endpoint):
    """`m` that becomes `m-mini` after five replies is marked in the terminal, the report and by verify."""
    path = tmp_path / "run"
    words = ["bench", "-e", "frozenlake", "-a", "vllm:m", "-n", 2, "--base-url", endpoint.url]
    endpoint.script = served(["m"] * 5 + ["m-mini"])
    done = vagen(*words, "--out", path, "--concurrency", 1)
    assert "2 models answered: m (5 replies), m-mini" in done.stdout
    assert "2 models answered: m (5 replies), m-mini" in vagen("verify", path).stdout
    (row,) = runs.rows(path)
    assert row["served"]["m"] == 5
    assert set(row["served"]) == {"m", "m-mini"}
    assert {call["fingerprint"] for e in runs.episodes(path) for call in e.calls} == {"fp"}
    assert '"m-mini"' in write_report(RunFolder(path)).read_text()
    endpoint.requests.clear()
    endpoint.script = served(["m"])
    done = vagen(*words, "--out", tmp_path / "one")
    assert "answered by m" in done.stdout
    assert "models answered" not in done.stdout


@pytest.mark.parametrize("name", [None, 5, {"a": 1}, "", "x" * 10_000])
def test_a_name_that_is_none_is_no_error(tmp_path, endpoint, name):
    endpoint.script = served([name])
    assert runs.play(tmp_path, [agent(endpoint.url)], ["frozenlake"], episodes=1).played == 1
    assert max(map(len, runs.rows(tmp_path)[0]["served"]), default=0) <= 200


@pytest.mark.parametrize(
    "line",
    [
        "5",
        "[]",
        '{"event": 5}',
        '{"event": "reply"}',
        '{"event": "reply", "request": 0, "key": "k", "seen": "", "text": "", "call": []}',
        '{"event": "request", "request": 0, "key": "k", "tokens": "many", "dollars": 0}',
        '{"event": "failed", "request": {}, "spent": 1}',
        '{"event": "end", "scored": "all"}',
        '{"event": "begin"}',
        "\xff",
    ],
)
def test_a_journal_of_a_stranger_stops_nothing(tmp_path, line):
    runs.play(tmp_path, [Random()], ["frozenlake"], episodes=2)
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write(f"{line}\n")
    assert vagen("verify", tmp_path).returncode == 0
    assert runs.play(tmp_path, [Random()], ["frozenlake"], episodes=2).played == 0


def test_replies_of_another_version_are_asked_for_anew(tmp_path, endpoint):
    path = tmp_path / "run"
    killed_after(path, endpoint, 2)
    journal = path / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"ending": "stop"', '"ending": "odd"'))
    endpoint.script = lambda number, body: GOOD
    endpoint.requests.clear()
    assert vagen("resume", path).returncode == 0
    assert len(endpoint.requests) == 6
