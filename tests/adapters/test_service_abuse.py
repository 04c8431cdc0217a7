"""Hostile requests: the service answers with its protocol's errors, stays up, and stays small."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import struct
import sys
import threading

import httpx2 as httpx
import pytest
from costly import SPINS
from service_fixtures import ID, LAKE, SOKOBAN, Command, Served, ask, ask_once, kill, ws_url
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.client import Service
from vagen_adapters.service.framing import pack, unpack
from vagen_adapters.service.limits import Limits
from vagen_adapters.service.local_pool import local_pool
from vagen_adapters.service.pool import Pool
from vagen_adapters.service.remote_env import RemoteEnv
from vagen_adapters.service.sessions import DONE
from vagen_adapters.service.tenants import network
from vagen_envs.errors import SimulatorError

MIB = 1 << 20


@pytest.fixture(scope="module")
def command():
    """A server whose memory can be watched; it must still play at the end."""
    with Command("--workers", 1) as one:
        plays(one.url)
        yield one
        assert one.process.poll() is None, "".join(one.lines)
        plays(one.url)


def plays(url, key=None):
    service = Service(url, key)
    env = RemoteEnv(service, SOKOBAN)
    env.reset(seed=1)
    assert env.step("<answer>Up</answer>")[4]["turn"].index == 0
    env.close()
    service.close()


def error_of(answer, code):
    assert answer["error"]["code"] == code
    return answer["error"]["message"]


BAD_BODIES = [
    (b"", "not JSON"),
    (b"\x00\xff\xfe garbage", "not JSON"),
    (b'{"verb": "step"}', "items"),
    (b'{"verb": "step", "items": []}', "items: "),
    (b'{"verb": "step", "items": {"session": 1}}', "items: "),
    (b'{"verb": "step", "items": [1]}', "items.0"),
    (
        b'{"verb": "step", "items": [{"session": "short", "move": 1, "reply": ""}]}',
        "items.0.session",
    ),
    (
        b'{"verb": "step", "items": [{"session": "../../../../etc/passwd", "move": 1, "reply": ""}]}',
        "items.0.session",
    ),
    (
        b'{"verb": "step", "items": [{"session": "0123456789abcdef", "move": -1, "reply": ""}]}',
        "items.0.move",
    ),
    (
        b'{"verb": "step", "items": [{"session": "0123456789abcdef", "move": "1", "reply": ""}]}',
        "items.0.move",
    ),
    (
        b'{"verb": "step", "items": [{"session": "0123456789abcdef", "move": 1, "reply": 5}]}',
        "string, not 5",
    ),
    (
        b'{"verb": "reset", "items": [{"session": "0123456789abcdef", "move": 1, "more": 1}]}',
        "items.0.more",
    ),
    (b'{"verb": "step", "items": [{"session": "0123456789abcdef", "move": 1}]}', "items.0.reply"),
    (b"[" * 200_000, "not JSON"),
    (b'{"verb": "step", "items": ' + b"9" * 10_000 + b"}", "not JSON"),
    (b'{"verb": "step", "items": [NaN]}', "items.0"),
]


@pytest.mark.parametrize(("body", "why"), BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_a_bad_body_is_a_bad_request(command, body, why):
    with connect(ws_url(command.url)) as ws:
        assert why in error_of(ask(ws, body)[0], "bad_request")
        answer, _ = ask(ws, {"verb": "close", "items": [{"session": ID}]})  # the connection goes on
        assert answer == {"items": [{}]}


def test_unknown_things_are_named(command):
    for verb, more in (("step", {"move": 1, "reply": ""}), ("reset", {"move": 1})):
        (item,) = ask_once(command.url, verb, {"session": ID, **more})["items"]
        assert item["error"]["code"] == "unknown_session"
    assert "known: open, reset" in error_of(ask_once(command.url, "fly", {}), "bad_request")
    assert httpx.get(f"{command.url}/v2").status_code == 404
    assert httpx.put(f"{command.url}/healthz").status_code == 405
    assert "1 to 256" in error_of(
        ask_once(command.url, "close", *[{"session": ID}] * 257), "bad_request"
    )


def test_garbage_frames(command):
    with connect(ws_url(command.url)) as ws:
        for frame in (b"", b"\x00" * 1000, os.urandom(5000)):
            assert "not JSON" in error_of(ask(ws, frame)[0], "bad_request")
        for verb in ([], ["step"], {}, 7, None, True):
            error_of(ask(ws, {"verb": verb, "items": [{"session": ID}]})[0], "bad_request")
    # no text, not masked, reserved bits, a length of 2**63: closed by the protocol
    for junk in (
        client_frame(1, b"\xff\xfe"),
        b"\x81\x05hello",
        b"\xff" * 64,
        os.urandom(4096),
        b"\x81\xff" + b"\xff" * 8,
    ):
        with raw_socket(command.port) as raw:
            raw.sendall(junk)
            raw.shutdown(socket.SHUT_WR)
            drain(raw)


def raw_socket(port, host="127.0.0.1", status="101"):
    """A connection on which a WebSocket was asked for by hand."""
    raw = socket.create_connection(("127.0.0.1", port), 10)
    raw.sendall(
        b"GET /v1/ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        % host.encode()
    )
    assert status.encode() in raw.recv(4096)
    return raw


def client_frame(operation, data, ends=True):
    """A frame from a client, masked with zeros."""
    size = len(data)
    head = bytes([operation | 0x80 * ends, 0x80 | (size if size < 126 else 126)])
    return head + (b"" if size < 126 else struct.pack(">H", size)) + bytes(4) + data


def drain(raw):
    """Read until the other end closes."""
    raw.settimeout(20)
    with contextlib.suppress(ConnectionError):
        while raw.recv(1 << 16):
            pass


def test_messages_of_ten_megabytes(command):
    before = command.memory
    item = {"session": ID, "move": 1, "reply": "x" * (10 * MIB)}
    for _ in range(10):
        with connect(ws_url(command.url)) as ws, pytest.raises((ConnectionClosed, OSError)):
            ask(ws, {"verb": "step", "items": [item]})
    assert command.memory - before < 60 * MIB
    env = RemoteEnv(Service(command.url, patience=5), LAKE)
    env.reset(seed=1)
    with pytest.raises(ServiceError, match="the server takes 2097152: send less"):
        env.step(item["reply"])
    crowd = [
        RemoteEnv(env._service, LAKE) for _ in range(20)
    ]  # together they are too large: several requests
    for one in crowd:
        one.reset(seed=1)
    answers = env._service.ask("step", [one.step_item("é" * 100_000) for one in crowd])
    assert [
        one.take_step(answer)[4]["turn"].index for one, answer in zip(crowd, answers, strict=True)
    ] == [0] * 20
    assert command.memory - before < 60 * MIB


def test_an_endless_body_is_not_kept(command):
    before = command.memory
    with socket.create_connection(("127.0.0.1", command.port), 10) as raw:
        raw.sendall(
            b"POST /v1/environments HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        with contextlib.suppress(ConnectionError):
            raw.sendall((b"10000\r\n" + b"x" * 65536 + b"\r\n") * 2_000)
    assert command.memory - before < 60 * MIB


@pytest.mark.parametrize(
    "flood",
    [
        client_frame(2, b"{}") * 20_000,  # refused, all of them
        client_frame(9, b"x" * 100) * 20_000,  # pings whose answers nobody reads
        client_frame(2, b"{", ends=False)
        + client_frame(0, b"", ends=False) * 60_000,  # a message that never ends
    ],
    ids=["requests", "pings", "fragments"],
)
def test_a_flood_of_small_frames_ends_nothing_and_stays_small(command, flood):
    before = command.memory
    with raw_socket(command.port) as raw:
        threading.Thread(target=pour, args=(raw, flood), daemon=True).start()
        for _ in range(20):
            plays(command.url)
    assert (
        command.memory - before < 250 * MIB
    )  # it is cut off once a second; without that it grows for ever


def pour(raw, flood):
    with contextlib.suppress(OSError):
        while True:
            raw.sendall(flood)


def test_options_that_are_nested_deep_or_many_are_refused(command):
    service = Service(command.url)
    nested = 1
    for _ in range(200):
        nested = {"a": [nested]}
    for options in ({"desc": nested}, {"size": [[[[[[[3]]]]]]]}):
        with pytest.raises(ServiceError, match="nested deeper than 6"):
            RemoteEnv(service, LAKE, **options)
    with pytest.raises(ServiceError, match="1000 options; at most 256"):
        RemoteEnv(service, LAKE, **{f"option{i}": 1 for i in range(1000)})
    service.close()


def test_a_replay_of_too_many_turns_is_refused(command):
    before = command.memory
    replay = {"seed": 1, "replies": ["x"] * 400_000, "digest": ""}
    item = {
        "session": ID,
        "env_id": LAKE,
        "options": {"max_turns": 10**6},
        "move": 9,
        "replay": replay,
    }
    body = json.dumps({"verb": "open", "items": [item]}, separators=(",", ":")).encode()
    with connect(ws_url(command.url)) as ws:
        assert "at most 10000" in error_of(ask(ws, body)[0], "bad_request")
    assert command.memory - before < 60 * MIB


def test_one_address_cannot_take_all_places():
    with Served(max_sessions=8, trusted_proxies=["127.0.0.1"]) as served:
        here, there = (Service(served.url, patience=0.1) for _ in range(2))
        items = [{"session": f"session-of-here-{i:04}", "env_id": LAKE} for i in range(12)]
        assert [reply.code for reply in here.ask("open", items)] == [None] * 4 + ["full"] * 8
        forwarded = {"x-forwarded-for": "192.0.2.1"}  # from a proxy on this machine
        other = ask_once(
            served.url, "open", {"session": "session-of-another", "env_id": LAKE}, **forwarded
        )
        assert "error" not in other["items"][0]
        assert there.ask("open", [{**items[0], "session": "session-of-there"}])[0].code == "full"
        sockets = [
            connect(ws_url(served.url)).__enter__() for _ in range(4 - 2)
        ]  # two are the services' own
        with pytest.raises(InvalidStatus, match="429"):
            connect(ws_url(served.url)).__enter__()
        with connect(ws_url(served.url), additional_headers=forwarded):
            for ws in sockets:
                ws.close()


@pytest.mark.parametrize("trusted_proxies", [[], ["192.0.2.7"]])
def test_a_forged_address_takes_no_further_places(trusted_proxies):
    with Served(max_sessions=8, trusted_proxies=trusted_proxies) as served:
        codes = []
        for number in range(8):
            forged = {
                "x-forwarded-for": f"198.51.100.{number}",
                "forwarded": f"for=198.51.100.{number}",
            }
            item = {"session": f"session-forged-{number:04}", "env_id": LAKE}
            (answer,) = ask_once(served.url, "open", item, **forged)["items"]
            codes.append(answer.get("error", {}).get("code"))
        assert codes == [None] * 4 + ["full"] * 4


def test_a_request_with_a_length_and_chunks_is_one_request_and_the_next_is_answered():
    first = (
        b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    second = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with Served() as served, socket.create_connection(("127.0.0.1", served.port), 30) as raw:
        raw.sendall(first + second)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"405", b"200"]


def test_costly_neighbours_hold_no_quick_turn_up():
    """A costly call keeps its worker for itself: a quick session of anybody is in another one."""
    svg, lake = "vagen/SVGReconstruction-v0", LAKE
    with Served(workers=1) as served:
        service = Service(served.url)
        items = [{"session": f"session-of-costly-{i:03}", "env_id": svg} for i in range(4)]
        items.append({"session": "session-of-the-lake", "env_id": lake})
        if any(reply.code for reply in service.ask("open", items)):
            pytest.skip("needs the extra svg")
        sessions = served.server.config.app.state.sessions._sessions
        slots = {name: session.slot for name, session in sessions.items()}
        quick = slots.pop("session-of-the-lake")
        assert quick not in slots.values()
        assert quick.worker.pid not in {slot.worker.pid for slot in slots.values()}
        service.close()


def test_clients_with_one_key_have_workers_of_their_own(monkeypatch):
    """A call that takes long holds its own client up and no other, whatever environment it is."""
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    costly = "costly:test/Costly-v0"
    pool = local_pool(1, limits=Limits(cpu=20.0))
    with Served(pool, env_ids=[costly, LAKE]) as served:
        hog, other = (Service(served.url) for _ in range(2))
        slow, quick = RemoteEnv(hog, costly), RemoteEnv(other, LAKE)
        slow.reset(seed=1)

        def play_for_long():
            with pytest.raises(SimulatorError):
                slow.reset(seed=SPINS)

        player = threading.Thread(target=play_for_long)
        player.start()
        for seed in range(3):
            quick.reset(seed=seed)
            assert quick.step("<answer>Down</answer>")[4]["turn"].index == 0
        assert player.is_alive()
        assert len(pool.workers) == 2
        kill(pool.workers[0].pid)
        player.join()
        hog.close()
        other.close()


@pytest.mark.parametrize("costly", [False, True])
def test_a_pool_grows_for_clients_and_shrinks_again(monkeypatch, costly):
    monkeypatch.setattr("vagen_adapters.service.pool.SPARE_FOR", 0.05)
    monkeypatch.setattr("vagen_adapters.service.pool.CHECK_EVERY", 0.02)

    class Idle:
        where = "an idle worker"

        async def start(self):
            """It is ready at once."""

        def run(self, call):
            answer = asyncio.get_running_loop().create_future()
            answer.set_result(DONE)
            return answer

        def close(self):
            """It is gone."""

    async def play():
        pool = Pool(lambda _: Idle(), 2, most=4)
        await pool.start()
        slots = {}
        for client in ("first", "first", "second", "third", "fourth", "first", "second"):
            slot = pool.quietest(costly, client)
            slot.sessions[f"{client}-{len(slot.sessions)}"] = client
            slots.setdefault(client, []).append(slot)
            await asyncio.sleep(0.001)
        assert len({*slots["first"]}) == 2  # as many as the pool's size
        own = [slots[client][0] for client in ("second", "third")]
        assert len({*slots["first"], *own}) == 4  # one more for each client, as far as they go
        assert slots["second"] == [slots["second"][0]] * 2
        assert slots["fourth"][0] in (*slots["first"], *own)  # then they share
        for slot in {slot for each in slots.values() for slot in each}:
            for session, client in list(slot.sessions.items()):
                slot.end(session, client)
        while len(pool.workers) > (4 if costly else 2):
            await asyncio.sleep(0.02)
        await pool.close()

    asyncio.run(asyncio.wait_for(play(), 20))


def test_addresses_of_one_network_are_one_tenant():
    assert network("127.0.0.1") == network("127.8.9.1") == network("::1")
    assert (
        network("2001:db8:1:2::1") == network("2001:db8:1:2:ffff::9") != network("2001:db8:1:3::1")
    )
    assert network("192.0.2.1") != network("192.0.2.2")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8765", 200),
        ("localhost", 200),
        ("[::1]:8765", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
def test_a_page_that_resolves_to_this_machine_is_refused(command, host, status):
    """DNS rebinding: the page's own name stands in the Host header."""
    for path in ("/v1/environments", "/healthz", "/metrics"):
        assert httpx.get(command.url + path, headers={"host": host}).status_code == status
    with raw_socket(command.port, host, "101" if status == 200 else "403"):
        """A WebSocket is judged by the same rule."""


def test_with_a_key_any_host_is_served_and_no_page():
    with Served(key="s3cret") as served:
        headers = {"authorization": "Bearer s3cret", "host": "vagen.example"}
        assert httpx.get(f"{served.url}/v1/environments", headers=headers).status_code == 200
        page = {**headers, "origin": "https://example.org"}
        assert httpx.get(f"{served.url}/v1/environments", headers=page).status_code == 403
        for address in (ws_url(served.url), ws_url(served.url) + "?key=s3cret"):
            with pytest.raises(InvalidStatus, match="401"):
                connect(address).__enter__()


def test_memory_stays_flat_over_sessions_and_turns():
    """Every round opens, plays, closes and abandons sessions; the later rounds add nothing."""
    with Command("--workers", 1, "-e", "frozenlake") as served:
        sizes = []
        for number in range(5):
            service = Service(served.url)
            for k in range(40):
                env = RemoteEnv(service, LAKE)
                env.reset(seed=100 * number + k)
                env.step("x" * 5000)
                env.step("<answer>Down</answer>")
                if k % 8:
                    env.close()
            service.close()
            sizes.append(served.memory)
        assert sizes[-1] - sizes[1] < 8 * MIB, [size // MIB for size in sizes]


def test_what_is_packed_is_unpacked_and_nothing_else():
    pictures = [("ab" * 32, b"png"), ("cd" * 32, b"")]
    message = pack(b'{"a": 1}', pictures)
    assert unpack(message) == (b'{"a": 1}', pictures)
    assert unpack(pack(b"", [])) == (b"", [])
    for cut in set(range(len(message))) - {12, 51}:  # where a picture ends
        with pytest.raises(ValueError, match="a message of"):
            unpack(message[:cut])


def test_the_server_ends_while_clients_stay_connected():
    with Served() as served, contextlib.ExitStack() as stack:
        for _ in range(5):
            ws = stack.enter_context(connect(ws_url(served.url)))
            ask(ws, {"verb": "open", "items": [{"session": ID, "env_id": LAKE}]})
        served.server.should_exit = True
        served.thread.join(30)
        assert not served.thread.is_alive()
        assert not served.pool.workers
