"""What anybody may send to the environment service: it answers with its protocol's errors, stays up, and stays small."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import struct
import threading
import time

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="needs httpx2")

import httpx2 as httpx
from service_fixtures import LAKE, SOKOBAN, Command, Served, wait_until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.client import Service
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_adapters.service.wire import parted

ID = "0123456789abcdef"
MIB = 1 << 20


@pytest.fixture(scope="module")
def command():
    """A server whose memory can be watched; it must still play at the end."""
    with Command("--workers", 1) as one:
        plays(one.url)
        yield one
        assert one.process.poll() is None, "".join(one.lines)
        plays(one.url)


def plays(url):
    service = Service(url)
    env = RemoteEnv(service, SOKOBAN)
    env.reset(seed=1)
    assert env.step("<answer>Up</answer>")[4]["turn"].index == 0
    env.close()
    service.close()


def error_of(response, status, code):
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"] == code
    return error["message"]


def ws_url(url):
    return url.replace("http", "ws") + "/v1/ws"


BAD_BODIES = [
    (b"", "not JSON"),
    (b"\x00\xff\xfe garbage", "not JSON"),
    (b"[1, 2]", "not an object"),
    (b"{}", "`items`"),
    (b'{"items": []}', "`items`"),
    (b'{"items": {"session": 1}}', "`items`"),
    (b'{"items": [1]}', "items.0"),
    (b'{"items": [{"session": "short", "move": 1, "reply": ""}]}', "items.0.session"),
    (b'{"items": [{"session": "../../../../etc/passwd", "move": 1, "reply": ""}]}', "items.0.session"),
    (b'{"items": [{"session": "0123456789abcdef", "move": -1, "reply": ""}]}', "items.0.move"),
    (b'{"items": [{"session": "0123456789abcdef", "move": "1", "reply": ""}]}', "items.0.move"),
    (b'{"items": [{"session": "0123456789abcdef", "move": 1, "reply": 5}]}', "items.0.reply"),
    (b'{"items": [{"session": "0123456789abcdef", "move": 1, "reply": "", "more": 1}]}', "items.0.more"),
    (b'{"items": [{"session": "0123456789abcdef", "move": 1}]}', "items.0.reply"),
    (b"[" * 200_000, "not JSON"),
    (b'{"items": ' + b"9" * 10_000 + b"}", "not JSON"),
    (b'{"items": [NaN]}', "items.0"),
]


@pytest.mark.parametrize(("body", "why"), BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_a_bad_body_is_a_bad_request(command, body, why):
    assert why in error_of(httpx.post(f"{command.url}/v1/step", content=body), 400, "bad_request")
    with connect(ws_url(command.url)) as ws:
        ws.send(body.decode("latin-1"))
        said = json.loads(ws.recv(20))
        assert said["error"]["code"] == "bad_request"
        ws.send(json.dumps({"id": 5, "do": "renew", "items": [{"session": ID}]}))  # the connection goes on
        said = json.loads(ws.recv(20))
        assert said["id"] == 5
        assert said["items"][0]["error"]["code"] == "unknown_session"


def test_unknown_things_are_named(command):
    for do in ("step", "reset", "close", "renew", "oracle"):
        more = {"step": {"move": 1, "reply": ""}, "reset": {"move": 1}}.get(do, {})
        answer = httpx.post(f"{command.url}/v1/{do}", json={"items": [{"session": ID, **more}]})
        assert answer.status_code == 200
        assert answer.json()["items"][0]["error"]["code"] == "unknown_session"
    answer = httpx.post(f"{command.url}/v1/fly", json={"items": [{}]})
    assert "known: open, reset" in error_of(answer, 400, "bad_request")
    assert httpx.get(f"{command.url}/v1/pictures/%2e%2e%2f").status_code == 404
    for name in ("0" * 64, "x", "é"):
        error_of(httpx.get(f"{command.url}/v1/pictures/{name}"), 404, "unknown_picture")
    assert httpx.get(f"{command.url}/v2").status_code == 404
    assert httpx.put(f"{command.url}/v1/step").status_code == 405
    many = [{"session": ID}] * 1025
    assert "several requests" in error_of(httpx.post(f"{command.url}/v1/renew", json={"items": many}), 413, "too_large")


def test_garbage_frames(command):
    with connect(ws_url(command.url)) as ws:
        for frame in (b"", b"\x00" * 1000, os.urandom(5000)):
            ws.send(frame)
            body, pictures = parted(ws.recv(20))
            assert "not JSON" in json.loads(body)["error"]["message"]
            assert pictures == []
        for ident in ({}, [], 1.5):
            ws.send(json.dumps({"id": ident, "do": "renew", "items": []}))
            assert json.loads(ws.recv(20))["error"]["code"] == "bad_request"
        for do in ([], ["step"], {}, 7, None, True):
            ws.send(json.dumps({"id": 1, "do": do, "items": [{"session": ID}]}))
            assert json.loads(ws.recv(20))["error"]["code"] == "bad_request"
        ws.send(json.dumps({"id": 1, "do": "picture", "sha256": "z" * 64}))
        assert json.loads(ws.recv(20))["error"]["code"] == "unknown_picture"
    for junk in (b"\x81\x05\xff\xfe\xfd\xfc\xfb", b"\xff" * 64, os.urandom(4096), b"\x81\xff" + b"\xff" * 8):
        with raw_socket(command.port) as raw:  # not masked, reserved bits, a length of 2**63: closed by the protocol
            raw.sendall(junk)
            assert drained(raw)


def raw_socket(port):
    """A connection on which a WebSocket was opened by hand."""
    raw = socket.create_connection(("127.0.0.1", port), 10)
    raw.sendall(b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")  # fmt: skip
    assert b"101" in raw.recv(4096)
    return raw


def drained(raw):
    """Whether the other end closes."""
    raw.settimeout(20)
    with contextlib.suppress(ConnectionError):
        while raw.recv(1 << 16):
            pass
    return True


def test_what_is_no_text_ends_its_connection_without_a_word_in_the_log():
    with Command("--workers", 1) as command:
        for _ in range(20):
            with connect(ws_url(command.url)) as ws:
                ws.send(b"\xff\xfe", text=True)
                with pytest.raises(ConnectionClosed) as closed:
                    ws.recv(20)
                assert closed.value.rcvd.code == 1007
        plays(command.url)
        assert len(command.lines) == 1, command.lines


def test_no_request_keeps_the_server_from_ending():
    with Served(grace=20) as served:
        with connect(ws_url(served.url)) as ws:
            for request in ({"id": 1, "do": ["step"], "items": [{"session": ID}]}, {"id": 1, "do": "step"}, []):
                ws.send(json.dumps(request).encode())
                ws.recv(20)
        began = time.monotonic()
    assert time.monotonic() - began < 15


def test_random_bytes_instead_of_http(command):
    draw = random.Random(5)
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", command.port), 10) as raw, contextlib.suppress(ConnectionError):
            raw.sendall(draw.randbytes(draw.randint(1, 3000)))
            raw.shutdown(socket.SHUT_WR)
            assert drained(raw)
    error_of(httpx.post(f"{command.url}/v1/step", content=b"x"), 400, "bad_request")


def test_replies_of_ten_megabytes(command):
    before = command.memory
    reply = "x" * (10 * MIB)
    item = {"session": ID, "move": 1, "reply": reply}
    for _ in range(5):
        answer = httpx.post(f"{command.url}/v1/step", json={"items": [item]}, timeout=60)
        assert "larger than 2097152 bytes" in error_of(answer, 413, "too_large")
    for _ in range(5):
        with connect(ws_url(command.url)) as ws, pytest.raises((ConnectionClosed, OSError)):
            say(ws, json.dumps({"id": 1, "do": "step", "items": [item]}))
    env = RemoteEnv(Service(command.url, patience=5), LAKE)
    env.reset(seed=1)
    with pytest.raises(ServiceError, match="the server takes 2097152") as caught:
        env.step(reply)
    assert caught.value.code == "too_large"
    env.reset(seed=1)
    turn = env.step("x" * MIB)[4]["turn"]  # one that is merely absurd is a turn with its problem
    assert [problem.code for problem in turn.parsed.problems][-1] == "too_long"
    env.close()
    crowd = [RemoteEnv(env._place, LAKE) for _ in range(20)]  # together they are too large: several requests
    items = [each.reset_item(1, None) for each in crowd]
    for each, answer in zip(crowd, env._place.ask("reset", items), strict=True):
        each.take_reset(answer)
    answers = env._place.ask("step", [each.step_item("é" * 100_000) for each in crowd])
    assert [each.take_step(answer)[4]["turn"].index for each, answer in zip(crowd, answers, strict=True)] == [0] * 20
    assert command.memory - before < 60 * MIB


def say(ws, text):
    ws.send(text)
    return ws.recv(20)


def test_an_endless_body_is_cut_off(command):
    before = command.memory
    with socket.create_connection(("127.0.0.1", command.port), 10) as raw:
        raw.sendall(b"POST /v1/step HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        with pytest.raises(ConnectionError):
            raw.sendall(chunk * 10_000)
    assert command.memory - before < 60 * MIB


def test_thousands_of_connections(command):
    """3,000 sockets that say nothing, and 500 that talk beside them; the silent ones are cut off."""
    before = command.memory
    silent = []
    for _ in range(3000):
        raw = socket.socket()
        raw.setblocking(False)
        raw.connect_ex(("127.0.0.1", command.port))
        silent.append(raw)
    codes = []
    for _ in range(20):  # over the limit, it is said; the rest is served
        with contextlib.suppress(httpx.HTTPError):
            codes.append(httpx.get(f"{command.url}/healthz", timeout=30).status_code)
        time.sleep(0.05)
    assert set(codes) <= {200, 503}
    assert codes
    wait_until(lambda: healthy(command.url), 60)
    plays(command.url)
    grown = command.memory - before
    for raw in silent:
        raw.close()
    talking = [connect(ws_url(command.url)) for _ in range(300)]
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in talking]
        for number, ws in enumerate(sockets):
            ws.send(json.dumps({"id": number, "do": "renew", "items": [{"session": ID}]}))
        assert [json.loads(ws.recv(30))["id"] for ws in sockets] == list(range(300))
    assert grown < 150 * MIB
    wait_until(lambda: "vagen_connections_cut_off_total" in httpx.get(f"{command.url}/metrics").text)
    first = command.memory
    for _ in range(3):  # again and again: nothing piles up
        crowd = [socket.create_connection(("127.0.0.1", command.port)) for _ in range(1000)]
        for raw in crowd:
            raw.close()
    wait_until(lambda: healthy(command.url), 60)
    assert command.memory - first < 40 * MIB


def healthy(url):
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/healthz", timeout=10).status_code == 200
    return False


def test_one_more_connection_than_allowed_is_refused():
    with Served(max_connections=3) as served:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(connect(ws_url(served.url)))
            with pytest.raises(Exception, match="429"):
                connect(ws_url(served.url)).__enter__()
        wait_until(lambda: healthy(served.url))


def test_a_slow_reader_is_cut_off_and_holds_up_nobody():
    """It asks for pictures and never reads. While it is waited for, others play; then it is gone."""
    with Served(patience=3.0, workers=1) as served:
        plays(served.url)
        raw = raw_socket(served.server.port)
        raw.settimeout(0.5)
        frame(raw, {"do": "open", "items": [{"session": ID, "env_id": SOKOBAN, "options": {"max_turns": 100_000}}]})
        frame(raw, {"do": "reset", "items": [{"session": ID, "move": 1, "seed": 1}]})
        sent = 0
        with contextlib.suppress(OSError):  # the server doesn't read on either, so at last we can't send
            for move in range(2, 20_000):
                frame(raw, {"do": "step", "items": [{"session": ID, "move": move, "reply": "x" * 4000}]})
                sent += 1
        assert sent < 19_998
        plays(served.url)
        wait_until(lambda: not served.server.server_state.connections, 60)  # by the door, or for want of a pong
        raw.close()
        plays(served.url)


def frame(raw, request):
    """A masked text frame."""
    data = json.dumps(request).encode()
    head = bytes([0x81, 0x80 | 126]) + struct.pack(">H", len(data)) + b"\0\0\0\0"
    raw.sendall(head + data)


def test_a_slow_writer_is_told():
    with Served(patience=1.0) as served, socket.create_connection(("127.0.0.1", served.server.port), 20) as raw:
        raw.sendall(b"POST /v1/step HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        said = b""
        while b"}" not in said:
            said += raw.recv(4096)
        assert b"didn't come within 1 s" in said


def test_expired_and_unguessed_sessions_stay_closed():
    with Served(lease=0.5) as served:
        url = f"{served.url}/v1"
        opened = httpx.post(f"{url}/open", json={"items": [{"session": ID, "env_id": LAKE}]}, timeout=60)
        assert opened.json()["items"][0]["lease"] == 0.5
        metrics = served.app.state.metrics
        wait_until(lambda: b'vagen_ended_sessions_total{why="expired"} 1.0' in metrics.text())
        for do, more in (("step", {"move": 1, "reply": ""}), ("open", {"env_id": LAKE}), ("renew", {}), ("close", {})):
            said = httpx.post(f"{url}/{do}", json={"items": [{"session": ID, **more}]}).json()["items"][0]
            assert said["error"]["code"] == "expired", do


def test_memory_stays_flat_over_sessions_and_turns():
    """Each round opens, plays and leaves sessions in every way; the later rounds add nothing."""
    with Command("--workers", 1, "-e", "frozenlake") as command:
        sizes = []
        for round_number in range(5):
            service = Service(command.url)
            for k in range(25):
                env = RemoteEnv(service, LAKE)
                env.reset(seed=100 * round_number + k)
                env.step("x" * 5000)
                env.step("<answer>Down</answer>")
                env.close()
            threads = [threading.Thread(target=plays_lake, args=(command.url,)) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            service.close()
            sizes.append(command.memory)
        assert sizes[-1] - sizes[1] < 8 * MIB, [size // MIB for size in sizes]


def plays_lake(url):
    service = Service(url)
    env = RemoteEnv(service, LAKE)
    env.reset(seed=1)
    env.step("y")
    service.close()


def websocket_frame(operation, data=b"", *, ends=True):
    """A frame of up to 125 bytes from a client, masked with zeros."""
    return bytes([(0x80 if ends else 0) | operation, 0x80 | len(data)]) + bytes(4) + data


@pytest.fixture(scope="module")
def flooded():
    """A server that is flooded, again and again."""
    with Command("--workers", 1) as served:
        yield served


@pytest.mark.parametrize(
    "flood",
    [
        websocket_frame(2, b"{}") * 20_000,  # refused, each of them
        websocket_frame(9, b"x" * 100) * 20_000,  # pings whose answers nobody reads
        websocket_frame(2, b"{", ends=False) + websocket_frame(0, ends=False) * 60_000,  # a message that never ends
    ],
)
def test_a_flood_of_small_frames_holds_nobody_up(flooded, flood):
    """One connection says 100,000 things at once: others play on meanwhile, and the server's memory stays."""
    service = Service(flooded.url)
    env = RemoteEnv(service, LAKE, max_turns=100_000)
    env.reset(seed=1)
    env.step("x")
    before = flooded.memory
    with socket.create_connection(("127.0.0.1", flooded.port), 10) as raw:
        raw.sendall(b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")  # fmt: skip
        assert b" 101 " in raw.recv(4096)
        threading.Thread(target=pour, args=(raw, flood), daemon=True).start()
        waits = []
        until = time.monotonic() + 1.0
        while time.monotonic() < until or len(waits) <= 10:
            began = time.monotonic()
            env.step("x")
            waits.append(time.monotonic() - began)
        assert flooded.memory - before < 64 << 20
    assert max(waits) < 5, sorted(waits)[-5:]  # a tenth of that here; without bounds it is the whole flood's time
    env.close()
    service.close()


def pour(raw, flood):
    with contextlib.suppress(OSError):
        while True:
            raw.sendall(flood)
