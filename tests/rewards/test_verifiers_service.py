"""The verifier service and its client, with faults that are real: killed processes, closed sockets, garbage, floods."""

from __future__ import annotations

import asyncio
import dataclasses
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from chat_endpoint import Endpoint, raw

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("math_verify")

from vagen_envs.sample.generated import generated_samples
from vagen_rewards.errors import VerifierError, VerifierServiceError
from vagen_rewards.verifiers import VerifierClient, score, score_many, verifier_named
from vagen_rewards.verifiers.service import MOST_BYTES, VerifierService

SAMPLES = list(generated_samples(40))


def answers(samples):
    for i, sample in enumerate(samples):
        answer = verifier_named(sample.reward_model.verifier).reference(sample)
        yield f"<think>x</think><answer>{answer if i % 3 else answer.replace('1', '2')}</answer>"


REPLIES = list(answers(SAMPLES))


@pytest.fixture(scope="module")
def service():
    with VerifierService(workers=2) as running:
        yield running


@pytest.fixture
def client(service):
    return VerifierClient(service.address, wait=0.05)


def post(service, body, path="/score", method="POST", headers=None):
    host = service.address.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def alive(service):
    return service.process.poll() is None and post(service, None, "/health", "GET")[0] == 200


# -- the same as without a service ---------------------------------------------------------------


@pytest.mark.parametrize("batch", [7, 1000])
def test_it_scores_as_here_in_order(service, batch):
    client = VerifierClient(service.address, batch=batch)
    expected = score_many(SAMPLES, REPLIES, 0.95)
    assert client.score_many_sync(SAMPLES, REPLIES, 0.95) == expected
    assert {verdict.correct for verdict in expected} == {True, False}


def test_pixels_are_converted_there_as_here(client):
    """Released truths are in thousandths: their pictures' sizes go along, although no picture does."""
    given = next(generated_samples(1, sources=["vagen/grounding"]))
    truth = json.dumps([{"bbox_2d": [100, 200, 500, 700], "label": "dog"}])
    parameters = {"det_verifier_normalized": True}
    model = dataclasses.replace(
        given.reward_model, ground_truth=truth, verifier_parm=parameters, verifier="detection"
    )
    asked = dataclasses.replace(given, reward_model=model)
    right = f"<answer>{verifier_named('detection').reference(asked)}</answer>"
    (verdict,) = client.score_many_sync([asked], [right], iou_threshold=0.99)
    assert verdict == score(asked, right, 0.99)
    assert verdict.metrics["iou"] == 1
    blank = dataclasses.replace(asked, images=())
    with pytest.raises(VerifierError, match="needs the picture's size"):
        score(blank, right)


def test_the_threshold_goes_along(client):
    sample = next(each for each in SAMPLES if each.data_source == "vagen/grounding")
    entry = json.loads(sample.reward_model.truth)[0]
    x1, y1, x2, y2 = entry["bbox_2d"]
    reply = (
        f"<answer>{json.dumps([{**entry, 'bbox_2d': [x1, y1, x2 + 0.1 * (x2 - x1), y2]}])}</answer>"
    )
    assert client.score_many_sync([sample], [reply], 0.9)[0].accuracy == pytest.approx(1 / 1.1)
    assert client.score_many_sync([sample], [reply], 0.95)[0].accuracy == 0


def test_many_callers_at_once(client):
    async def everybody():
        return await asyncio.gather(*(client.score_many(SAMPLES, REPLIES) for _ in range(6)))

    expected = score_many(SAMPLES, REPLIES)
    assert asyncio.run(everybody()) == [expected] * 6


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "\ud800 lone \udfff",
        "\0",
        "x" * 300_000,
        "\\boxed{" * 500,
        "<answer>" * 999,
        "�" * 50,
        "\\boxed{\ud800}",
    ],
)
def test_any_reply_is_scored(client, reply):
    told = client.score_many_sync(SAMPLES[:6], [reply] * 6)
    assert told == score_many(SAMPLES[:6], [reply] * 6)
    assert all(verdict.accuracy == 0 for verdict in told)


def test_a_verifier_of_ones_own_is_imported(tmp_path, monkeypatch):
    (tmp_path / "my_verifiers.py").write_text(
        "from vagen_rewards.verifiers import Verifier, VerifierResult, register\n"
        "class Broken(Verifier):\n"
        "    name = 'broken'\n"
        "    def verify(self, sample, response, iou_threshold):\n"
        "        if response == 'die': raise SystemError('as asked')\n"
        "        return VerifierResult(0.25, metrics={'bad': float('nan')} if response == 'nan' else {})\n"
        "register(Broken())\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    row = {**SAMPLES[0].to_row(images=False)}
    row["reward_model"].update(verifier="broken", verifier_parm={})
    with VerifierService(workers=1, modules=["my_verifiers"]) as own:
        items = [{"sample": row, "response": word} for word in ("fine", "die", "nan")]
        status, body = post(own, json.dumps({"items": items}))
        assert status == 200
        told = json.loads(body)["verdicts"]
        assert [verdict["accuracy"] for verdict in told] == [0.25, None, None]
        assert "as asked" in told[1]["reason"]
        assert json.loads(post(own, None, "/health", "GET")[1])["verifiers"] == [
            "broken",
            "detection",
            "mathverify",
        ]


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "not JSON"),
        (b"garbage", 400, "not JSON"),
        (b"\xff\xfe\x00", 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b"[]", 400, 'no list "items"'),
        (b'{"items": 3}', 400, 'no list "items"'),
        (b'{"items": [], "iou_threshold": 2}', 400, "iou_threshold=2"),
        (b'{"items": [], "iou_threshold": NaN}', 400, "iou_threshold=nan"),
        (b'{"items": [], "iou_threshold": "\xed\xa0\x80"}', 400, ""),
        (b'{"items": [' + b"0," * 5_000 + b"0]}", 413, "5001 items"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_requests_are_answered(service, body, status, said):
    told = post(service, body)
    assert told[0] == status
    assert said in json.loads(told[1])["error"]
    assert alive(service)


def test_bad_items_are_unscored_one_by_one(service):
    row = SAMPLES[0].to_row(images=False)
    items = [
        None,
        3,
        {},
        {"response": 5, "sample": row},
        {"response": "x", "sample": 1},
        {"response": "x", "sample": {**row, "ability": ""}},
        {"response": "x", "sample": {**row, "images": ["/etc/passwd"]}},
        {"response": REPLIES[1], "sample": SAMPLES[1].to_row(images=False)},
    ]
    status, body = post(service, json.dumps({"items": items}))
    verdicts = json.loads(body)["verdicts"]
    assert status == 200
    assert [verdict["accuracy"] is not None for verdict in verdicts] == [False] * 6 + [True] * 2
    assert "ability=''" in verdicts[5]["reason"]


def test_ten_megabytes_are_refused_declared_or_not(service):
    large = b"x" * (10 << 20)
    assert len(large) > MOST_BYTES
    for chunked in (False, True):
        host, port = service.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as raw:
            length = (
                b"transfer-encoding: chunked" if chunked else b"content-length: %d" % len(large)
            )
            raw.sendall(b"POST /score HTTP/1.1\r\nhost: x\r\n" + length + b"\r\n\r\n")
            try:
                raw.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(large), large) if chunked else large)
                first = raw.recv(200)
            except (ConnectionResetError, BrokenPipeError):
                first = b""  # it may hang up before all was sent
        assert first == b"" or b" 413 " in first.splitlines()[0]
        assert alive(service)
    status, body = post(service, large)
    assert (status, b"send it in several" in body) == (413, True)


def test_the_client_sends_much_in_several(client):
    samples, replies = [SAMPLES[0]] * 12, ["y" * (1 << 20)] * 12
    assert [verdict.accuracy for verdict in client.score_many_sync(samples, replies)] == [0] * 12


# -- faults --------------------------------------------------------------------------------------


def test_killed_workers_are_replaced(service, client):
    client.score_many_sync(SAMPLES, REPLIES)
    psutil = pytest.importorskip("psutil")
    workers = psutil.Process(service.process.pid).children()
    assert workers
    for worker in workers:
        worker.kill()
    assert client.score_many_sync(SAMPLES, REPLIES) == score_many(SAMPLES, REPLIES)


def test_a_service_that_is_killed_and_comes_back_is_waited_for():
    expected = score_many(SAMPLES, REPLIES)
    first = VerifierService(workers=1)
    port = int(first.address.rpartition(":")[2])
    client = VerifierClient(first.address, batch=5, attempts=40, wait=0.05)
    told = []
    asking = threading.Thread(
        target=lambda: told.extend(client.score_many_sync(SAMPLES * 8, REPLIES * 8))
    )
    asking.start()
    time.sleep(0.3)
    os.kill(first.process.pid, signal.SIGKILL)
    first.close()
    time.sleep(0.3)
    with VerifierService(port=port, workers=1):
        asking.join(timeout=120)
    assert told == expected * 8


def test_a_service_that_stays_away_is_an_error():
    service = VerifierService(workers=1)
    service.close()
    client = VerifierClient(service.address, attempts=3, wait=0.01)
    with pytest.raises(
        VerifierServiceError, match=r"failed 3 times, the last time so: Connect.*start it again"
    ):
        client.score_many_sync(SAMPLES[:2], REPLIES[:2])


GOOD = {"verdicts": [{"accuracy": 1.0, "format": 1.0, "answer": "7", "reason": "", "metrics": {}}]}


@pytest.fixture
def endpoint():
    made = Endpoint()
    yield made
    made.close()


@pytest.mark.parametrize(
    "fault",
    [
        b"",  # closes without a word
        3.0,  # stalls
        b"garbage\r\n\r\n",
        raw(json.dumps(GOOD))[:100],  # breaks off
        500,
        429,
        raw("<html>a proxy's page</html>"),
        {"verdicts": []},
        {"verdicts": [{"acc": 1}]},
        {"verdicts": 7},
        raw("[" * 100_000),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_client_asks_again_after_any_fault(endpoint, fault):
    endpoint.script = lambda number, body: fault if number < 2 else GOOD
    client = VerifierClient(endpoint.url, attempts=4, timeout=0.5, wait=0.01)
    assert client.score_many_sync(SAMPLES[:1], ["x"])[0].accuracy == 1
    assert len(endpoint.requests) == 3
    endpoint.script = lambda number, body: fault
    client = VerifierClient(endpoint.url, attempts=2, timeout=0.3, wait=0.01)
    with pytest.raises(VerifierServiceError, match="failed 2 times"):
        client.score_many_sync(SAMPLES[:1], ["x"])


def test_a_refused_request_is_not_sent_again(endpoint):
    endpoint.script = lambda number, body: 400
    with pytest.raises(VerifierError, match=r"refuses the request \(400\)"):
        VerifierClient(endpoint.url, wait=0.01).score_many_sync(SAMPLES[:1], ["x"])
    assert len(endpoint.requests) == 1


def test_it_ends_with_the_process_that_started_it():
    code = (
        "import os, sys\n"
        "from vagen_rewards.verifiers.service import VerifierService\n"
        "print(VerifierService(workers=1).process.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    pid = int(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
    )
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("it goes on")


def test_what_is_wrong_at_the_start_is_said(service):
    port = int(service.address.rpartition(":")[2])
    with pytest.raises(VerifierServiceError, match="in use"):
        VerifierService(port=port)
    with pytest.raises(VerifierError, match="must begin with http"):
        VerifierClient("localhost:80")
    with pytest.raises(VerifierError, match="at least 1"):
        VerifierClient("http://x", batch=0)
    assert VerifierClient("http://127.0.0.1:9").score_many_sync([], []) == []
    with pytest.raises(VerifierError, match="2 samples and 1 responses"):
        VerifierClient("http://x").score_many_sync(SAMPLES[:2], ["x"])
