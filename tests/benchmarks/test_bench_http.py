"""What servers may answer with, as HTTP has it and as it doesn't."""

import asyncio
import gzip
import zlib
from collections.abc import Callable

import pytest

from vagen_benchmarks.clients.http_exchange import (
    LARGEST_ANSWER,
    LARGEST_HEAD,
    Exchange,
    GarbledError,
    Response,
    TooLargeError,
)

OK = b"HTTP/1.1 200 OK\r\n"
RAW = zlib.compress(b"body")[2:-4]
"""Deflate without zlib's head, as some servers send it."""
BIG = b" " * (LARGEST_ANSWER + 1)


def ask(*answers: bytes, requests: int = 1, headers: dict[str, str] | None = None, timeout: float = 20.0,
        path: str = "/v1?a=b", user: str = "", seen: list[bytes] | None = None) -> tuple[list[Response], int]:  # fmt: skip
    """What is made of answers, and how many connections it took. A server that has said all closes."""
    heard = [] if seen is None else seen
    connections = 0
    said = iter(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                heard.append(head + await reader.readexactly(length))
                answer = next(said, b"")
                for first in range(0, len(answer), 1 << 20):
                    writer.write(answer[first : first + (1 << 20)])
                    await writer.drain()
                if b"keep-me" not in answer:
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def main() -> list[Response]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        exchange = Exchange(f"http://{user}127.0.0.1:{port}{path}", headers or {}, timeout, 10.0)
        try:
            return [await exchange.post(lambda: b"{}") for _ in range(requests)]
        finally:
            exchange.close()
            server.close()

    return asyncio.run(main()), connections


def chunked(body: bytes) -> bytes:
    return b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def sized(body: bytes) -> bytes:
    return b"content-length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    "answer",
    [
        OK + sized(b"body"),
        OK + chunked(b"body"),
        OK + b"\r\nbody",  # until the server closes
        b"HTTP/1.0 200 OK\r\n\r\nbody",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + sized(b"body"),
        b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + OK + sized(b"body"),
        OK + b"Content-Encoding: gzip\r\n" + sized(gzip.compress(b"body", mtime=0)),
        OK + b"content-encoding: deflate\r\n" + chunked(zlib.compress(b"body")),
        OK + b"content-encoding: deflate\r\n" + chunked(RAW),
        OK + b"content-encoding: gzip\r\n" + sized(gzip.compress(b"bo", mtime=0) + gzip.compress(b"dy", mtime=0)),
    ],
)
def test_each_form_of_an_answer_is_read(answer):
    [response], _ = ask(answer)
    assert (response.status, response.body) == (200, b"body")


def test_body_that_was_unpacked_on_its_way_is_read_as_it_is():
    [response], _ = ask(OK + b"content-encoding: gzip\r\n" + sized(b'{"a": 1}'))
    assert response.body == b'{"a": 1}'


def test_a_connection_serves_one_request_after_the_other():
    responses, connections = ask(*[OK + b"x: keep-me\r\n" + sized(b"%d" % i) for i in range(5)], requests=5)
    assert [each.body for each in responses] == [b"0", b"1", b"2", b"3", b"4"]
    assert connections == 1


def test_a_server_that_wants_no_more_on_a_connection_gets_another():
    responses, connections = ask(*[OK + b"connection: close\r\n" + sized(b"x")] * 3, requests=3)
    assert len(responses) == connections == 3


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", OSError),
        (b"SSH-2.0-OpenSSH_9.9\r\n", GarbledError),
        (OK + b"content-length: 10\r\n\r\nbody", OSError),
        (OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n", GarbledError),
        (OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\nxx", GarbledError),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n", GarbledError),
        (OK + b"content-encoding: gzip\r\n" + sized(b"no gzip"), GarbledError),
        (OK + b"x: " + b"x" * (LARGEST_HEAD + 1) + b"\r\n" + sized(b""), TooLargeError),
        (OK + b"".join(b"x%d: 1\r\n" % i for i in range(LARGEST_HEAD)) + b"\r\n", TooLargeError),
        (OK + b"\r\n" + BIG, TooLargeError),
        (OK + b"content-encoding: gzip\r\n" + sized(gzip.compress(b"\0" * 1_000_000_000, 1)), TooLargeError),
    ],
)
def test_what_is_no_answer_is_one_error(answer, error):
    with pytest.raises(error):
        ask(answer)


def test_a_trickle_is_cut_off_in_time():
    async def trickle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"content-length: 100000\r\n\r\n")
        try:
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.01)
        except OSError:
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(trickle, "127.0.0.1", 0)
        exchange = Exchange(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", {}, 0.5, 10.0)
        with pytest.raises(TimeoutError):
            await exchange.post(lambda: b"{}")
        exchange.close()
        server.close()

    asyncio.run(main())


def test_what_is_said_after_an_answer_is_not_taken_for_the_next_one():
    stray = OK + b"x: keep-me\r\n" + sized(b"first") + OK + sized(b"stray")
    responses, connections = ask(stray, OK + sized(b"second"), requests=2)
    assert [each.body for each in responses] == [b"first", b"second"]
    assert connections == 2


def test_a_request_says_what_it_was_given():
    seen: list[bytes] = []
    ask(OK + sized(b""), headers={"X-Key": "kéy"}, path="/v1/ü x?q=a b", user="me:p%40ss@", seen=seen)
    head = seen[0].partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert head[0] == b"POST /v1/%C3%BC%20x?q=a%20b HTTP/1.1"
    assert "x-key: kéy".encode() in head
    assert b"authorization: Basic bWU6cEBzcw==" in head


@pytest.mark.parametrize(
    "made",
    [
        lambda: Exchange("http://h/", {"x": "a\r\nb: c"}, 1, 1),
        lambda: Exchange("http://h/", {"x y": "a"}, 1, 1),
        lambda: Exchange("ftp://h/", {}, 1, 1),
        lambda: Exchange("h:8000/v1", {}, 1, 1),
    ],
)
def test_what_is_no_request_is_refused(made: Callable[[], Exchange]):
    with pytest.raises(ValueError, match=r"is not a URL|doesn't allow"):
        made()


def test_requests_in_flight_end_at_their_own_time():
    """Begun 0.1 s apart, one of them answered in between, one after all others had ended."""

    async def main() -> tuple[list[float], bytes]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if b"answer me" in await reader.readuntil(b"}"):
                writer.write(OK + sized(b"{}"))
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        exchange = Exchange(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", {}, 0.5, 10.0)

        async def late(after: float) -> float:
            await asyncio.sleep(after)
            began = asyncio.get_running_loop().time()
            with pytest.raises(TimeoutError):
                await exchange.post(lambda: b"{}")
            return asyncio.get_running_loop().time() - began

        waited = asyncio.gather(late(0.0), late(0.1), late(0.2), late(0.3), late(1.2))
        answered = await exchange.post(lambda: b'{"answer me": 1}')
        took = await waited
        exchange.close()
        server.close()
        return list(took), answered.body

    took, body = asyncio.run(main())
    assert body == b"{}"
    assert all(0.49 <= each < 1.5 for each in took), took


class Server:
    """Answers each request after how it is told: `"rst"` cuts the connection once it has answered, `"cut"` before."""

    def __init__(self, *hows: str) -> None:
        self.hows, self.asked = iter(hows), 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"{}")
                self.asked += 1
                how = next(self.hows, "")
                if how == "begin":
                    writer.write(OK + b"content-length: 10\r\n\r\nbo")
                    await writer.drain()
                if how in ("begin", "cut"):
                    break
                writer.write(OK + sized(b"body"))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.transport.abort() if how == "cut" else writer.close()


def asked_of(server: Server, requests: int) -> list[Response]:
    async def main() -> list[Response]:
        made = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        exchange = Exchange(f"http://127.0.0.1:{made.sockets[0].getsockname()[1]}/v1", {}, 20.0, 10.0)
        try:
            return [await exchange.post(lambda: b"{}") for _ in range(requests)]
        finally:
            exchange.close()
            made.close()

    return asyncio.run(main())


def test_kept_connection_that_died_in_the_meantime_is_no_fault():
    """A server may end it while the next request is on its way; that request is sent again on a new one."""
    server = Server("", "cut", "", "", "cut", "")
    assert [each.body for each in asked_of(server, 4)] == [b"body"] * 4
    assert server.asked == 6


@pytest.mark.parametrize("how", [("cut",), ("", "cut", "cut"), ("", "begin")])
def test_other_ends_of_a_connection_are_faults(how):
    """The first request of a connection, or an answer that had begun: it may have been billed, and isn't sent again."""
    server = Server(*how)
    with pytest.raises(ConnectionResetError):
        asked_of(server, 2)
    assert server.asked == len(how)
