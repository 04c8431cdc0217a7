"""A client of the environment service."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from vagen_adapters.errors import ServiceError
from vagen_adapters.service.framing import MAX_ITEMS, MAX_REQUEST, read, unpack, written
from vagen_adapters.service.journal import Journal, SessionReply
from vagen_envs.errors import MissingExtraError

try:
    from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException
    from websockets.sync.client import ClientConnection, connect
except ImportError as error:
    raise MissingExtraError("vagen_adapters.service.client", "serve", "websockets") from error

KEY_VARIABLE = "VAGEN_SERVE_KEY"
"""The environment variable that holds the key, at the server and at the client."""
SERVER_HEADER = "x-vagen-server"
"""Names the server in its answer to a handshake: there may be many behind one address."""
CLIENT_HEADER = "x-vagen-client"
"""Names the client in its handshake, so that others with the same key don't wait for its turns."""
ENVELOPE = 1000
"""Bytes around the items of a request, and to spare."""


class Service:
    """The address of one or many servers. Threads may share one; each then talks over a connection
    of its own.

    A request without an answer is sent again, over a new connection, until `patience` is over;
    moves are numbered, so the server never plays one twice. A session whose server is gone, or that
    this address doesn't lead to any more, is opened again and goes on (see `journal`).

    Args:
        url: such as `http://127.0.0.1:8765`.
        key: the server's key; by default from the environment variable `VAGEN_SERVE_KEY`.
        timeout: seconds to wait for an answer before asking again. A server replaces a silent
            worker after 120 s.
        patience: seconds to go on trying while the server can't be reached or is full.
    """

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 130.0, patience: float = 60.0
    ) -> None:
        scheme, found, rest = url.rstrip("/").partition("://")
        if not found or scheme not in ("http", "https"):
            raise ServiceError(
                "bad_url", f"{url!r} is not an address; write it as http://127.0.0.1:8765"
            )
        self.url = url
        self._address = f"{'wss' if scheme == 'https' else 'ws'}://{rest}/v1/ws"
        self._key = os.environ.get(KEY_VARIABLE, "") if key is None else key
        self._name = secrets.token_hex(8)
        self._timeout = timeout
        self._patience = patience
        self._idle: list[tuple[ClientConnection, str]] = []  # with their servers' names
        self._homes: dict[str, str] = {}  # which server has a session
        self._journal = Journal(self._send)
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def ask(self, verb: str, items: Sequence[dict[str, Any]]) -> list[SessionReply]:
        """Carry out items of one kind (see `messages.VERBS`; moves are numbered here),
        concurrently.

        A session that is gone, with its worker or its server, is opened again and goes on.

        Raises:
            ServiceError: the server can't be reached or refuses.
        """
        return self._journal.ask(verb, items)

    def _send(self, verb: str, items: Sequence[dict[str, Any]]) -> list[SessionReply]:
        """Ask each server for the sessions that it has."""
        homes: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            homes.setdefault(
                "" if verb == "open" else self._homes.get(item["session"], ""), []
            ).append(i)
        replies: dict[int, SessionReply] = {}
        for home, indices in homes.items():
            for request in self._requests(items, indices):
                answers = self._retried(verb, [items[i] for i in request], home)
                replies.update(zip(request, answers, strict=True))
        if verb == "close":
            for item in items:
                self._homes.pop(item["session"], None)
        return [replies[i] for i in range(len(items))]

    def _requests(
        self, items: Sequence[dict[str, Any]], indices: Sequence[int]
    ) -> Iterator[list[int]]:
        """Split items into requests of the size that a server takes."""
        request: list[int] = []
        size = 0
        for i in indices:
            length = len(written(items[i])) + 2
            if request and (len(request) == MAX_ITEMS or size + length > MAX_REQUEST - ENVELOPE):
                yield request
                request = []
                size = 0
            request.append(i)
            size += length
        yield request

    def _retried(self, verb: str, items: Sequence[dict[str, Any]], home: str) -> list[SessionReply]:
        """Ask until there is an answer and room: sessions that nobody uses make room within half a
        minute.
        """
        replies: dict[int, SessionReply] = {}
        left = list(range(len(items)))
        # Patience begins with the first failure: a turn may take its time.
        wait = 0.05
        deadline = float("inf")
        while True:
            failure: ServiceError | None = None
            try:
                replies.update(
                    zip(left, self._talk(verb, [items[i] for i in left], home), strict=True)
                )
                left = [i for i in left if replies[i].code == "full"]
            except (OSError, WebSocketException) as error:  # TimeoutError is an OSError
                _raise_if_final(error, self.url)
                why = f"{self.url} gives no answer ({type(error).__name__}: {error})"
                failure = ServiceError("unreachable", why)
            deadline = min(deadline, time.monotonic() + self._patience)
            if time.monotonic() >= deadline and failure is not None:
                raise failure
            if failure is None and (not left or time.monotonic() >= deadline):
                return [replies[i] for i in range(len(items))]
            time.sleep(wait)
            wait = min(2 * wait, 2.0)

    def _talk(self, verb: str, items: Sequence[dict[str, Any]], home: str) -> list[SessionReply]:
        request = written({"verb": verb, "items": items})
        if len(request) > MAX_REQUEST:
            raise ServiceError(
                "too_large",
                f"{len(request)} bytes at once; the server takes {MAX_REQUEST}: send less",
            )
        socket, server = self._take(home)
        try:
            socket.send(request)
            body, pictures = unpack(socket.recv(timeout=self._timeout, decode=False))
            answer: dict[str, Any] = read(body)
            if "error" in answer:
                raise ServiceError(answer["error"]["code"], answer["error"]["message"])
            replies = [SessionReply.read(data, dict(pictures)) for data in answer["items"]]
        except BaseException as error:
            socket.socket.close()
            if isinstance(error, ValueError | KeyError | TypeError):
                why = f"{self.url} is no environment service, by what it answers ({error!r:.200})"
                raise ServiceError("bad_answer", why) from error
            raise
        with self._lock:
            self._idle.append((socket, server))
            if verb != "close":
                self._homes.update((item["session"], server) for item in items)
        return replies

    def _take(self, home: str) -> tuple[ClientConnection, str]:
        """An idle connection to this server, or a new one to whichever answers."""
        with self._lock:
            if self._pid != os.getpid():  # after a fork, the parent's connections are the parent's
                self._idle = []
                self._pid = os.getpid()
            for connection in reversed(self._idle):
                if home in ("", connection[1]):
                    self._idle.remove(connection)
                    return connection
        headers = {CLIENT_HEADER: self._name}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        # Open as long as this object lives.
        made: ClientConnection = connect(
            self._address,
            additional_headers=headers,
            compression=None,
            max_size=None,
            open_timeout=30,
            proxy=None,
        ).__enter__()
        server = "" if made.response is None else made.response.headers.get(SERVER_HEADER, "")
        return made, server

    def close(self) -> None:
        """Close the connections. The server keeps the sessions for a while."""
        with self._lock:
            idle = self._idle
            self._idle = []
        for socket, _ in idle:
            socket.close()


def _raise_if_final(error: Exception, url: str) -> None:
    """Raise ServiceError if asking again can't help."""
    if isinstance(error, InvalidStatus):
        try:
            failure = json.loads(error.response.body or b"")["error"]
            code = failure["code"]
            message = failure["message"]
        except (ValueError, KeyError, TypeError):  # the words of a proxy, not the service's
            return
        if code != "full":
            raise ServiceError(code, message) from None
    elif isinstance(error, InvalidHandshake) and not isinstance(error.__cause__, EOFError):
        # Cut off: it may be back.
        raise ServiceError("bad_answer", f"{url} is not an environment service ({error})") from None
