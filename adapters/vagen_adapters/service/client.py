"""A client of the environment service."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.host import OPENS
from vagen_adapters.service.journal import Journal, Reply
from vagen_adapters.service.places import Pictures
from vagen_adapters.service.wire import parted, read, written
from vagen_envs.errors import MissingExtraError

try:
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException
    from websockets.sync.client import ClientConnection, connect
except ImportError as error:
    raise MissingExtraError("vagen_adapters.service.client", "serve", "websockets") from error

KEY_VARIABLE = "VAGEN_SERVE_KEY"
"""The environment variable that holds the key, at the server and at the client."""
TRY_AGAIN = frozenset({"busy", "shutting_down"})
"""Failures of which nothing came, and that pass."""
TOO_BIG = 1009
"""WebSocket's code for a message that is too large."""
MOST_HEADER = "x-vagen-max-request"
"""In which the server says how many bytes a request may have."""
SERVER_HEADER = "x-vagen-server"
"""In which the server says which one it is: behind one address there may be many, and each start makes another."""
ENVELOPE = 1000
"""Bytes around a request's items, and to spare."""
MAX_ITEMS = 256
"""Items of one request; more are sent as several, one after the other."""


class Service:
    """An address of one or many servers, and connections. Threads may share one; each then talks over its own.

    What gets no answer is said again, over a new connection, until `patience` is over: moves are numbered,
    so the server never plays one twice. A session whose server is gone, or that this address doesn't lead to any
    more, is opened again and goes on (see `journal`).

    Args:
        url: such as `http://127.0.0.1:8765`.
        key: the server's key; by default from the environment variable `VAGEN_SERVE_KEY`.
        timeout: seconds to wait for an answer before asking again.
        patience: seconds to go on trying while the server can't be reached or is busy.
    """

    # A server gives a silent worker 120 s (`vagen serve --timeout`), and what it says then is waited for.
    def __init__(self, url: str, key: str | None = None, *, timeout: float = 130.0, patience: float = 60.0) -> None:
        scheme, found, rest = url.rstrip("/").partition("://")
        if not found or scheme not in ("http", "https"):
            raise ServiceError("bad_url", f"{url!r} is not an address; write it as http://127.0.0.1:8765")
        self.url = url
        self._address = f"{'wss' if scheme == 'https' else 'ws'}://{rest}/v1/ws"
        self._key = os.environ.get(KEY_VARIABLE, "") if key is None else key
        self._timeout, self._patience = timeout, patience
        self._most = 1 << 20  # bytes of the items of a request, until a server has said how many it takes
        self._idle: list[Line] = []
        self._homes: dict[str, str] = {}  # which server has a session
        self._journal = Journal(self._send)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._pictures = Pictures()

    def ask(self, do: str, items: Sequence[dict[str, Any]]) -> list[Reply]:
        """Carry out items of one kind, beside each other.

        Raises:
            ServiceError: the server can't be reached or refuses the request as a whole.
        """
        return self._journal.ask(do, items)

    def _send(self, do: str, items: Sequence[dict[str, Any]]) -> list[Reply]:
        """Ask each server for the sessions that it has."""
        homes: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            homes.setdefault("" if do == OPENS else self._homes.get(item["session"], ""), []).append(i)
        replies: dict[int, Reply] = {}
        for home, places in homes.items():
            for some in self._requests(items, places):
                replies.update(zip(some, self._ask_all(do, [items[i] for i in some], home), strict=True))
        if do == "close":
            for item in items:
                self._homes.pop(item["session"], None)
        return [replies[i] for i in range(len(items))]

    def _requests(self, items: Sequence[dict[str, Any]], places: Sequence[int]) -> Iterator[list[int]]:
        """As many items in a request as the server takes."""
        request: list[int] = []
        size = 0
        for i in places:
            length = len(written(items[i])) + 2
            if request and (len(request) == MAX_ITEMS or size + length > self._most):
                yield request
                request, size = [], 0
            request.append(i)
            size += length
        yield request

    def _ask_all(self, do: str, items: Sequence[dict[str, Any]], home: str) -> list[Reply]:
        """Ask until no item is told to try again."""
        deadline = time.monotonic() + self._patience
        replies: dict[int, Reply] = {}
        left = list(range(len(items)))
        wait = 0.02
        while True:
            said = self._retried(do, [items[i] for i in left], home)
            replies.update(zip(left, said, strict=True))
            left = [i for i in left if _passes(items[i], replies[i])]
            if not left or time.monotonic() > deadline:
                return [replies[i] for i in range(len(items))]
            time.sleep(wait)
            wait = min(2 * wait, 1.0)

    def _retried(self, do: str, items: Sequence[dict[str, Any]], home: str) -> list[Reply]:
        wait = 0.05
        deadline = float("inf")  # patience begins with the first failure: a turn may take its time
        while True:
            try:
                return self._talk(do, items, home)
            except ServiceError as error:
                deadline = min(deadline, time.monotonic() + self._patience)
                if error.code not in TRY_AGAIN or time.monotonic() >= deadline:
                    raise
            except (OSError, WebSocketException) as error:  # TimeoutError is an OSError
                self._refuse_for_good(error)
                deadline = min(deadline, time.monotonic() + self._patience)
                if time.monotonic() >= deadline:
                    why = f"{type(error).__name__}: {error}"
                    raise ServiceError("unreachable", f"{self.url} gives no answer ({why})") from error
            time.sleep(wait)
            wait = min(2 * wait, 2.0)

    def _refuse_for_good(self, error: Exception) -> None:
        """Raise ServiceError where asking again can't help."""
        if isinstance(error, InvalidStatus):
            body = error.response.body or b""
            try:
                said = json.loads(body)["error"]
                code, message = said["code"], said["message"]
            except (ValueError, KeyError, TypeError):  # not the service's own words: a proxy before it
                return
            if code not in ("full", *TRY_AGAIN):
                raise ServiceError(code, message) from None
        elif isinstance(error, InvalidHandshake) and not isinstance(
            error.__cause__, EOFError
        ):  # cut off: it may be back
            raise ServiceError("bad_answer", f"{self.url} is not an environment service ({error})") from None
        elif isinstance(error, ConnectionClosed) and error.rcvd is not None and error.rcvd.code == TOO_BIG:
            raise ServiceError("too_large", "the request is larger than the server takes") from None

    def _talk(self, do: str, items: Sequence[dict[str, Any]], home: str) -> list[Reply]:
        line = self._take(home)
        connection = line.connection
        try:
            said = self._say(connection, {"do": do, "items": items})
            replies = [Reply(data, None) for data in said["items"]]
            replies = [self._with_picture(connection, reply) for reply in replies]
        except BaseException as error:
            connection.socket.close()
            if isinstance(error, ValueError | KeyError | TypeError):
                why = f"{self.url} is no environment service, by what it answers ({error!r:.200})"
                raise ServiceError("bad_answer", why) from error
            raise
        with self._lock:
            self._idle.append(line)
            if do != "close":
                self._homes.update((item["session"], line.server) for item in items)
        return replies

    def _say(self, connection: ClientConnection, request: dict[str, Any]) -> dict[str, Any]:
        data = written({"id": 1, **request})
        if len(data) > self._most + ENVELOPE:
            raise ServiceError("too_large", f"a request of {len(data)} bytes; the server takes {self._most + ENVELOPE}")
        connection.send(data)
        frame = connection.recv(timeout=self._timeout)
        if not isinstance(frame, bytes):
            raise ValueError("a text frame")
        body, pictures = parted(frame)
        for picture in pictures:
            self._pictures.add(*picture)
        said: dict[str, Any] = read(body)
        if "error" in said:
            raise ServiceError(said["error"]["code"], said["error"]["message"])
        return said

    def _with_picture(self, connection: ClientConnection, reply: Reply) -> Reply:
        try:
            return Reply(reply.data, self._pictures.named(reply.data))
        except KeyError:  # the server sent it once, and it isn't kept any more
            self._say(connection, {"do": "picture", "sha256": reply.data["picture"]["sha256"]})
            return Reply(reply.data, self._pictures.named(reply.data))

    def _take(self, home: str) -> Line:
        """An idle connection to this server, or a new one to whichever answers."""
        with self._lock:
            if self._pid != os.getpid():  # after a fork, the parent's connections are the parent's
                self._idle, self._pid = [], os.getpid()
            for line in reversed(self._idle):
                if line.server == home or not home:
                    self._idle.remove(line)
                    return line
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        # It lives as long as this object, not as a block of code.
        opened: ClientConnection = connect(
            self._address, additional_headers=headers, compression=None, max_size=None, open_timeout=30,
            proxy=None, ping_interval=20, ping_timeout=20,
        ).__enter__()  # fmt: skip
        said = {} if opened.response is None else opened.response.headers
        self._most = int(said.get(MOST_HEADER, self._most + ENVELOPE)) - ENVELOPE
        return Line(opened, said.get(SERVER_HEADER, ""))

    def close(self) -> None:
        """Close the connections. The server keeps the sessions for a while."""
        with self._lock:
            idle, self._idle = self._idle, []
        for line in idle:
            line.connection.close()


class Line(NamedTuple):
    """A connection, and which server it leads to."""

    connection: ClientConnection
    server: str


def _passes(item: dict[str, Any], reply: Reply) -> bool:
    """Whether it may be had in a moment. A session that was open before waits for room; a new one is told."""
    code = reply.data.get("error", {}).get("code")
    return code in TRY_AGAIN or (code == "full" and "move" in item)
