"""The chat agent against a real server and its faults."""

from __future__ import annotations

import json
import threading

import pytest

from vagen_benchmarks.chat_agent import ChatAgent, Sampling
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.protocol import Protocol, make_tasks
from vagen_benchmarks.run_folder import RunFolder, RunWriter
from vagen_benchmarks.runner import Policy, run
from vagen_envs.chat import History

KEY = "sk-secret-0123456789abcdef"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def play(tmp_path, url, episodes=2, policy=None, **options):
    agent = ChatAgent("m", base_url=url, **{"attempts": 3, "timeout": 5.0, "first_wait": 0.01, **options})
    tasks, _ = make_tasks(["sokoban"], episodes=episodes)
    path = tmp_path / "run"
    with RunWriter(path, Protocol(tuple(tasks), (agent.describe(),))) as folder:
        outcome = run(folder, [agent], policy=policy or Policy(concurrency=2))
    return outcome, list(RunFolder(path).episodes())


def test_good_endpoint_is_played_and_costs_are_recorded(tmp_path, endpoint):
    outcome, episodes = play(tmp_path, endpoint.url, sampling=Sampling(max_tokens=150, top_p=0.9))
    assert (outcome.played, outcome.failed, outcome.left) == (2, 0, 0)
    for episode in episodes:
        assert [turn["reply"] for turn in episode.turns] == [endpoint.good] * 3
        assert all(
            (call["ending"], call["attempts"], call["prompt_tokens"]) == ("stop", 1, 11) for call in episode.calls
        )
    body = endpoint.requests[0]
    assert (body["model"], body["max_tokens"], body["temperature"], body["top_p"]) == ("m", 150, 0.7, 0.9)
    kinds = [part["type"] for message in body["messages"] if message["role"] == "user" for part in message["content"]]
    assert "image_url" in kinds


def test_history_window_limits_the_prompt(tmp_path, endpoint):
    play(tmp_path, endpoint.url, episodes=1, history=History(turns=0))
    assert [len(body["messages"]) for body in endpoint.requests] == [2, 2, 2]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (500, "server_error"),
        ((429, {"retry-after-ms": "5"}), "rate_limited"),
        (504, "timeout"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\n<html", "nonsense"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\n{{{{", "nonsense"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n{", "unreachable"),
        (b"\x00\x01 this is not HTTP\r\n\r\n", "unreachable"),
        (b"", "unreachable"),
        ({"choices": []}, "nonsense"),
        ({"choices": [{"message": None}]}, "nonsense"),
        ({"choices": [{"message": {"content": 7}}]}, "nonsense"),
        ({"error": {"message": "model is loading"}}, "nonsense"),
    ],
)
def test_fault_is_retried_then_recorded_as_what_it_is(tmp_path, endpoint, fault, kind):
    endpoint.script = lambda number, body: fault
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.played, outcome.failed) == (0, 1)
    assert len(endpoint.requests) == 3
    assert episode.failure.kind == kind
    assert episode.turns == []


@pytest.mark.parametrize("fault", [500, (429, {"retry-after": "0"}), b"", {"choices": []}])
def test_passing_fault_costs_only_time(tmp_path, endpoint, fault):
    endpoint.script = lambda number, body: fault if number % 2 == 0 else endpoint.good
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.played, outcome.failed) == (1, 0)
    assert [call["attempts"] for call in episode.calls] == [2, 2, 2]


def test_fault_in_the_middle_keeps_the_turns_before(tmp_path, endpoint):
    endpoint.script = lambda number, body: endpoint.good if number < 2 else 503
    _, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (len(episode.turns), episode.failure.kind) == (2, "server_error")


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_rejected_request_is_not_retried(tmp_path, endpoint, status):
    endpoint.script = lambda number, body: status
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.failed, len(endpoint.requests), episode.failure.kind) == (1, 1, "rejected")


def test_endpoint_that_is_down(tmp_path, closed_port):
    outcome, (episode,) = play(tmp_path, closed_port, episodes=1)
    assert (outcome.played, outcome.failed, episode.failure.kind) == (0, 1, "unreachable")


def test_endpoint_that_is_too_slow(tmp_path, endpoint):
    endpoint.script = lambda number, body: 3.0
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1, timeout=0.1, attempts=2)
    assert (outcome.failed, episode.failure.kind) == (1, "timeout")


@pytest.mark.parametrize(
    ("answer", "ending", "reply"),
    [
        ({"content": "<answer>Up", "finish": "length"}, "length", "<answer>Up"),
        ({"content": None, "refusal": "I can't help."}, "refusal", "I can't help."),
        ({"content": "", "finish": "content_filter"}, "filtered", ""),
        ({"content": None}, "empty", ""),
        ({"content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]}, "stop", "in parts"),
    ],
)
def test_odd_replies_are_played_as_what_they_are(tmp_path, endpoint, answer, ending, reply):
    endpoint.script = lambda number, body: answer
    outcome, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (outcome.played, outcome.failed) == (1, 0)
    assert {call["ending"] for call in episode.calls} == {ending}
    assert {turn["reply"] for turn in episode.turns} == {reply}


def test_hidden_reasoning_is_kept_beside_the_reply(tmp_path, endpoint):
    endpoint.script = lambda number, body: {"content": endpoint.good, "reasoning_content": "hm"}
    _, (episode,) = play(tmp_path, endpoint.url, episodes=1)
    assert (episode.calls[0]["reasoning"], episode.turns[0]["reply"]) == ("hm", endpoint.good)


def test_run_stops_when_nothing_works(tmp_path, endpoint):
    endpoint.script = lambda number, body: 401
    outcome, episodes = play(tmp_path, endpoint.url, episodes=40, policy=Policy(concurrency=2, give_up_after=5))
    assert "in a row failed" in outcome.reason
    assert 5 <= outcome.failed <= 7
    assert outcome.left == 40 - outcome.failed
    assert len(episodes) == outcome.failed


def test_failed_episodes_are_played_again_on_resume(tmp_path, endpoint):
    endpoint.script = lambda number, body: 400
    outcome, _ = play(tmp_path, endpoint.url)
    assert outcome.failed == 2
    endpoint.script = lambda number, body: endpoint.good
    outcome, episodes = play(tmp_path, endpoint.url)
    assert (outcome.played, outcome.failed) == (2, 0)
    assert [episode.failure for episode in episodes] == [None, None]


def test_key_is_sent_and_written_nowhere(tmp_path, endpoint, capfd):
    """Even an endpoint that echoes it, in an error or in a reply, doesn't get it into a file."""
    steps = [{"content": f"I know {KEY}", "reasoning_content": KEY}, (401, {"x": "y"}), {"oops": KEY}]
    endpoint.script = lambda number, body: steps[min(number, 2)]
    play(tmp_path, endpoint.url, episodes=3, policy=Policy(concurrency=1))
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    from vagen_benchmarks.report import write_report

    write_report(RunFolder(tmp_path / "run"))
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert len(files) > 5
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    assert KEY not in "".join(capfd.readouterr())
    assert "[OPENAI_API_KEY]" in (tmp_path / "run" / "episodes.jsonl").read_text()


def test_no_key_for_openai_itself_is_said_at_once(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ProtocolError, match="OPENAI_API_KEY"):
        ChatAgent("gpt-4o")


def test_concurrency_is_used(tmp_path, endpoint):
    inside, most, lock = 0, 0, threading.Lock()
    gate = threading.Barrier(4, timeout=10)

    def script(number, body):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        if number < 4:
            gate.wait()  # passes only if four requests are in flight at once
        with lock:
            inside -= 1
        return endpoint.good

    endpoint.script = script
    outcome, episodes = play(tmp_path, endpoint.url, episodes=8, policy=Policy(concurrency=4))
    assert (outcome.played, most) == (8, 4)
    assert json.dumps(sorted(episode.seed for episode in episodes)) == json.dumps(list(range(8)))
