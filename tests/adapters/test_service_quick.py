"""The quick ways that most messages take give what the slow ones do."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from tests.adapters.test_service_abuse import raw_socket
from tests.helpers.service_fixtures import Served
from vagen_adapters.service import awake
from vagen_adapters.service.awake import Awake
from vagen_adapters.service.host import Answer
from vagen_adapters.service.keys import Holder
from vagen_adapters.service.metrics import Metrics
from vagen_adapters.service.pipe import Unpacker, packed
from vagen_adapters.service.sessions import ServiceConfig, Sessions
from vagen_adapters.service.wire import parted
from vagen_adapters.service.worker import Ears

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
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(awake, "time", made)
    monkeypatch.setattr(awake.os, "sched_yield", made.sched_yield)
    return made


@pytest.fixture
def heard(clock):
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 10_000))
    with ours, theirs:
        yield Ears(Unpacker(ours)), theirs, clock


def test_a_worker_looks_for_more_only_while_more_comes_soon(heard):
    ears, asks, clock = heard
    for _ in range(3):  # the first was waited for long, as far as is known
        asks.send(packed("one"))
        assert ears.receive() == ["one"]
    assert not clock.yields
    with pytest.raises(BlockingIOError):
        ears.receive()  # for a millisecond of the clock, and then asleep
    looks = clock.yields
    assert looks == pytest.approx(awake.SOON / clock.taken, rel=0.01)
    with pytest.raises(BlockingIOError):
        ears.receive()
    assert clock.yields == looks


def waits(each, count):
    """So many waits for what comes at once, or within what a look takes."""
    for _ in range(count):
        looks = each.begin() and each.look()
        each.end(awake=looks)


def test_a_client_that_takes_the_processor_to_ask_again_is_waited_for_awake(clock):
    each = Awake()
    clock.taken = 0.9 * awake.TAKEN
    waits(each, 1)
    waits(each, 50)
    assert clock.yields >= 50


def test_one_hiccup_is_no_reason_to_sleep_for_long(clock):
    each = Awake()
    waits(each, 10)
    clock.taken = 2 * awake.TAKEN
    waits(each, 1)
    clock.taken, looks = 1e-6, clock.yields
    waits(each, 50)
    assert clock.yields == looks + 50


def test_who_shares_with_somebody_who_computes_is_asleep_nearly_always(clock):
    each = Awake()
    clock.taken = 0.003
    waits(each, 20_000)
    assert 3 <= clock.yields <= 20_000 * awake.ASLEEP / clock.taken + 3
    clock.taken = 1e-6
    looks, rest = clock.yields, int((awake.MOST - awake.CREDIT) / awake.ASLEEP)
    waits(each, rest + 100)
    assert clock.yields >= looks + 100  # it is tried again, and nobody computes any more


class Workers:
    """Stands for a pool; what is asked is answered when it is told to."""

    lives, replaced, hosts, pids = True, 0, (), ()

    def __init__(self):
        self.told = []

    def attend(self, loop):
        """In this loop."""

    def submit(self, calls, done, flow=""):
        self.told += done

    def answer(self):
        for done in self.told:
            done(Answer(b'{"a":1}'))
        self.told = []


def test_the_server_stays_awake_for_the_only_call_alone(clock):
    async def rounds():
        """How often it looked in twenty rounds of the loop."""
        before = clock.yields
        for _ in range(20):
            await asyncio.sleep(0)
        return clock.yields - before

    async def play():
        workers, holder = Workers(), Holder()
        sessions = Sessions(workers, ServiceConfig(), Metrics())

        def ask(do, session, **item):
            sessions.ask(do, [{"session": session * 20, **item}], holder, None, answers.append)

        answers = []
        for session in "ab":
            ask("open", session, env_id="vagen/Sokoban-v0")
            workers.answer()
        assert not await rounds()
        ask("reset", "a", move=1)
        assert await rounds() > 10
        ask("reset", "b", move=1)
        assert await rounds() == 0
        workers.answer()
        assert (len(answers), await rounds()) == (4, 0)
        ask("step", "a", move=2, reply="")
        await rounds()
        clock.now += awake.SOON
        assert await rounds() <= 1  # it is a long one
        workers.answer()
        ask("step", "a", move=3, reply="")
        assert await rounds() == 0

    asyncio.run(play())
