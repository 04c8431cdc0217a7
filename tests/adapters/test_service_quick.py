"""The quick ways that most messages take give what the slow ones do."""

from __future__ import annotations

import json
import random
import socket
import struct

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from tests.adapters.test_service_abuse import raw_socket
from tests.helpers.service_fixtures import Served
from vagen_adapters.service import worker
from vagen_adapters.service.pipe import Unpacker, packed
from vagen_adapters.service.wire import parted

BINARY, TEXT, PING, PONG, CONTINUED = 2, 1, 9, 10, 0


@pytest.fixture(scope="module")
def served():
    with Served() as made:
        yield made


def client_frame(draw, operation, data, *, ends=True):
    size = len(data)
    long = size.bit_length() > 16
    head = bytes([operation | 0x80 * ends, 0x80 | (size if size < 126 else 127 if long else 126)])
    head += b"" if size < 126 else struct.pack(">Q" if long else ">H", size)
    mask = draw.randbytes(4)
    return head + mask + bytes(each ^ mask[i % 4] for i, each in enumerate(data))


def request(number, size):
    """One that is refused with its number."""
    return json.dumps({"id": number, "do": "renew", "items": [{"session": "s" * 20}], "x": "x" * size}).encode()


def answers(raw, count):
    """Operation and data of so many frames."""
    file = raw.makefile("rb")
    for _ in range(count):
        operation, size = file.read(2)
        assert not size & 0x80
        if size >= 126:
            size = int.from_bytes(file.read(2 if size == 126 else 8))
        yield operation & 0x7F, file.read(size)


@pytest.mark.parametrize("seed", range(6))
def test_messages_are_heard_however_they_come(served, seed):
    """In one piece, in any pieces, many at once, in fragments with a ping between."""
    draw = random.Random(seed)
    pieces, wanted = [], []
    for number in range(40):
        data = request(number, draw.choice([0, 0, 0, 100, 9_000, 70_000]))
        kind = draw.choice([BINARY, BINARY, BINARY, TEXT])
        if draw.random() < 0.2:
            cut = draw.randrange(len(data))
            pieces += [client_frame(draw, kind, data[:cut], ends=False), client_frame(draw, PING, b"%d" % number),
                       client_frame(draw, CONTINUED, data[cut:])]  # fmt: skip
            wanted.append((PONG, b"%d" % number))
        else:
            pieces.append(client_frame(draw, kind, data))
        wanted.append((kind, number))
    with raw_socket(served.server.port) as raw:
        got = []
        reading = answers(raw, len(wanted))
        if seed % 2:  # one after the other
            for piece in pieces:
                raw.sendall(piece)
                if piece[0] & 0x80 and draw.random() < 0.7:
                    got += [next(reading) for _ in range(min(1, len(wanted) - len(got)))]
        else:
            stream = b"".join(pieces)
            while stream:
                size = draw.choice([1, 2, 5, 7, 100, 3_000, 20_000])
                raw.sendall(stream[:size])
                stream = stream[size:]
        got += list(reading)
    said = [(kind, data if kind == PONG else json.loads(data if kind == TEXT else parted(data)[0])["id"])
            for kind, data in got]  # fmt: skip
    assert sorted(map(str, said)) == sorted(map(str, wanted))
    assert [each for each in said if each[0] != PONG] == [each for each in wanted if each[0] != PONG]


def test_a_frame_that_isnt_masked_or_is_too_large_ends_the_connection(served):
    draw = random.Random(0)
    for bad in (b"\x82\x02{}", b"\xc2\x82\0\0\0\0{}", client_frame(draw, BINARY, b"x" * 70_000)[:10]):
        with raw_socket(served.server.port) as raw:
            raw.sendall(client_frame(draw, BINARY, request(1, 0)))
            assert next(answers(raw, 1))[0] == BINARY
            raw.sendall(bad)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(1 << 16):
                pass


class Clock:
    """A processor that is taken away for a while by each yield, or isn't."""

    def __init__(self):
        self.now, self.taken, self.yields = 100.0, 1e-6, 0

    def monotonic(self):
        return self.now

    def sched_yield(self):
        self.now += self.taken
        self.yields += 1


@pytest.fixture
def heard(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(worker, "time", clock)
    monkeypatch.setattr(worker.os, "sched_yield", clock.sched_yield)
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 10_000))
    with ours, theirs:
        yield worker.Ears(Unpacker(ours)), theirs, clock


def test_a_worker_looks_for_more_only_while_more_comes_soon(heard):
    ears, asks, clock = heard
    for _ in range(3):  # the first was waited for long, as far as is known
        asks.send(packed("one"))
        assert ears.receive() == ["one"]
    assert not clock.yields
    with pytest.raises(BlockingIOError):
        ears.receive()  # for a millisecond of the clock, and then asleep
    looks = clock.yields
    assert looks == pytest.approx(worker.SOON / clock.taken, rel=0.01)
    with pytest.raises(BlockingIOError):
        ears.receive()
    assert clock.yields == looks


def test_a_worker_that_others_keep_from_looking_sleeps_longer_each_time(heard):
    ears, asks, clock = heard
    clock.taken = 2 * worker.TAKEN
    for _ in range(60):
        with pytest.raises(BlockingIOError):
            ears.receive()
        ears._waited = 0.0
    assert 3 <= clock.yields <= 6
    asks.close()
    assert ears.receive() is None


def test_a_worker_beside_somebody_who_computes_sleeps_for_long(heard):
    ears, _, clock = heard
    clock.taken, ears._waited = 2 * worker.LOST, 0.0
    with pytest.raises(BlockingIOError):
        ears.receive()
    assert (clock.yields, ears._asleep) == (1, worker.MOST)
