"""HTTP/1.1 requests to one address, over connections that are kept: what asking a model takes, and nothing else.

The parser is llhttp's, as httptools hands it on, and the event loop has the TLS. aiohttp took 0.36 ms of CPU for a
request of 6 kB that takes 0.14 ms here (one after the other on one machine, 16 in flight, an endpoint on loopback).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httptools

from vagen_benchmarks.clients.unpacking import Unpacking

LARGEST_ANSWER = 32 * 2**20
"""Bytes, unpacked; what is longer is no chat completion."""
LARGEST_HEAD = 2**16
"""Bytes of an answer's header fields."""
KEPT = 15.0
"""Seconds for which an idle connection is kept: servers close theirs after a while, and a request may cross that."""
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class TooLargeError(Exception):
    """An answer that doesn't end."""


class GarbledError(Exception):
    """What came isn't an answer in HTTP/1.1."""


class _DeadError(Exception):
    """A kept connection ended before anything came on it: the server had ended it while it was idle."""


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer; the names of its header fields are in small letters."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        """The media type, without its parameters."""
        return self.headers.get("content-type", "application/octet-stream").partition(";")[0].strip().lower()


class Exchange:
    """POSTs to one URL. Lives in one event loop, any number of requests at once, a connection for each.

    Args:
        url: http or https; a user and password in it are sent as HTTP's basic authentication.
        headers: of each request.
        timeout: seconds for a request, from its beginning to the last byte of its answer.
        connect: seconds of these for a connection.
        trust: for https.

    Raises:
        ValueError: the URL or a header field isn't one.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], timeout: float, connect: float, trust: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL that begins with http:// or https:// and names a host")
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._trust = (trust or ssl.create_default_context()) if parts.scheme == "https" else None
        self._timeout, self._connect_timeout = timeout, connect
        said = {"host": parts.netloc.rpartition("@")[2], "accept-encoding": "gzip, deflate"}
        said.update((name.lower(), value) for name, value in headers.items())
        if parts.username is not None:
            named = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            said["authorization"] = f"Basic {base64.b64encode(named.encode()).decode()}"
        for name, value in said.items():
            if not _FIELD.fullmatch(name) or re.search("[\r\n\0]", value):
                raise ValueError(f"header field {name!r} has a name or a value that HTTP doesn't allow")
        path = quote(parts.path or "/", safe="/%:=&~+!$,;'@()*[]")
        query = f"?{quote(parts.query, safe='/%:=&?~+!$,;@()*[]')}" if parts.query else ""
        lines = [f"POST {path}{query} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items())]
        self._head = "\r\n".join([*lines, "content-length: "]).encode()
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._due: dict[_Connection, float] = {}  # deadlines of what is under way
        self._clock: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    async def post(self, write: Callable[[], bytes]) -> Response:
        """The answer to a body, which is written when it is sent and not kept.

        Kept until their answers came, bodies were 8 MB at 512 in flight: a turn took 6 % longer for want of cache.

        Raises:
            TimeoutError: it didn't come in time.
            OSError: there is no connection, or it ended.
            GarbledError: what came isn't HTTP.
            TooLargeError: it is too large.
        """
        deadline = time.monotonic() + self._timeout
        connection = self._kept()
        if connection is not None:
            with contextlib.suppress(_DeadError):
                return await self._post_on(connection, write, deadline)
        async with asyncio.timeout(deadline - time.monotonic()):
            connection = await self._connected()
        return await self._post_on(connection, write, deadline)

    async def _post_on(self, connection: _Connection, write: Callable[[], bytes], deadline: float) -> Response:
        try:
            answer = connection.ask(self._request(write()))
            self._due[connection] = deadline
            self._look_at(deadline)
            return await answer
        finally:
            self._due.pop(connection, None)
            if connection.is_free:
                connection.idle_since = time.monotonic()
                self._idle.append(connection)
            else:
                connection.end()

    def _request(self, body: bytes) -> bytes:
        return b"%b%d\r\n\r\n%b" % (self._head, len(body), body)

    def _look_at(self, deadline: float) -> None:
        """Set the clock: one for all requests, since one for each, set and stopped, is a tenth of a request's time."""
        if self._clock is not None and self._rings_at <= deadline:
            return
        self._stop_clock()
        self._rings_at = deadline
        self._clock = asyncio.get_running_loop().call_later(max(0.0, deadline - time.monotonic()), self._ring)

    def _ring(self) -> None:
        self._clock, now = None, time.monotonic()
        for connection, deadline in self._due.items():
            if deadline <= now:
                connection.fail(TimeoutError())
        left = [deadline for connection, deadline in self._due.items() if not connection.is_over]
        if left:
            self._look_at(min(left))

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
        self._clock = None

    def close(self) -> None:
        """Cut what is under way."""
        self._stop_clock()
        for connection in list(self._all):
            connection.end()

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_free and time.monotonic() - connection.idle_since < KEPT:
                return connection
            connection.end()
        return None

    async def _connected(self) -> _Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_timeout):
            name = None if self._trust is None else self._host
            _, connection = await loop.create_connection(
                lambda: _Connection(loop, self._all), self._host, self._port, ssl=self._trust, server_hostname=name
            )
        return connection


class _Connection(asyncio.Protocol):
    """One connection, on which one request is answered after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop, among: set[_Connection]) -> None:
        self._loop, self._among = loop, among
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self.idle_since = 0.0
        self.is_free = True
        self._answered = 0
        self._came = False

    @property
    def is_over(self) -> bool:
        """Whether it is known what comes of its request."""
        return self._answer is None or self._answer.done()

    def ask(self, request: bytes) -> asyncio.Future[Response]:
        """Send a request. Its answer is to come."""
        assert self._transport is not None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._head_size = self._size = self._status = 0
        self._reason = b""
        self._pieces: list[bytes] = []
        self._unpack: Any = None
        self._answer = self._loop.create_future()
        self.is_free = self._came = False
        self._transport.write(request)
        return self._answer

    def end(self) -> None:
        """Cut it off."""
        self.is_free = False
        if self._transport is not None:
            self._transport.abort()

    # -- told by the event loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
        self._among.add(self)
        made = transport.get_extra_info("socket")
        if made is not None and made.family in (socket.AF_INET, socket.AF_INET6):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if self.is_over:  # nobody asked for this
            self.end()
            return
        self._came = True
        try:
            self._parser.feed_data(data)
        except TooLargeError as error:
            self.fail(error)
        except httptools.HttpParserUpgrade:
            self.fail(GarbledError("not an answer in HTTP/1.1: it changes to another protocol"))
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, TooLargeError):
                self.fail(cause)
            elif isinstance(cause, zlib.error):
                self.fail(GarbledError(f"not an answer: it can't be unpacked: {cause}"))
            else:
                self.fail(GarbledError(f"not an answer in HTTP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._among.discard(self)
        self.is_free = False
        if self.is_over:
            return
        ends_so = self._status and not {"content-length", "transfer-encoding"} & self._headers.keys()
        if ends_so and exc is None:
            self._whole()
        elif self._answered and not self._came:
            self.fail(_DeadError())
        else:
            self.fail(exc or ConnectionResetError("the server ended the connection before a whole answer"))

    def fail(self, error: BaseException) -> None:
        """End it for this reason, if its answer is still to come."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.end()

    # -- told by the parser ----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.is_over:
            raise ConnectionError("it answers more than it was asked")

    def on_status(self, status: bytes) -> None:
        self._reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        if self._head_size > LARGEST_HEAD:
            raise TooLargeError(f"its head is longer than {LARGEST_HEAD} bytes")
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        packed = self._headers.get("content-encoding", "").strip().lower()
        if packed in ("gzip", "x-gzip", "deflate"):
            self._unpack = Unpacking(packed)

    def on_body(self, body: bytes) -> None:
        if self._unpack is not None:
            body = self._unpack(body, LARGEST_ANSWER + 1 - self._size)
        self._size += len(body)
        if self._size > LARGEST_ANSWER:
            raise TooLargeError(f"it is longer than {LARGEST_ANSWER} bytes")
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        if 100 <= self._status < 200:  # not the answer yet
            self._headers, self._reason, self._status = {}, b"", 0
            return
        self.is_free = bool(self._parser.should_keep_alive())
        self._whole()

    def _whole(self) -> None:
        self._answered += 1
        if self._answer is not None and not self._answer.done():
            reason = self._reason.decode("latin-1")
            self._answer.set_result(Response(self._status, reason, self._headers, b"".join(self._pieces)))
