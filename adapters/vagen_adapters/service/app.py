"""The application: sessions behind HTTP and WebSocket, with a key and limits.

FastAPI and uvicorn, which OpenEnv's server is made of too. OpenEnv's own protocol has no batches, keys,
leases or step ids, and pictures in base64; adding them to it would be more code than this.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from vagen_envs.errors import MissingExtraError

try:
    from fastapi import FastAPI, Request, WebSocket
    from fastapi.responses import Response
    from starlette.requests import ClientDisconnect, HTTPConnection
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from vagen_adapters.service.doors import Door, WebSockets
    from vagen_adapters.service.messages import STATUS, TRY_AGAIN, VERBS, Refused, read_json
    from vagen_adapters.service.metrics import Metrics
    from vagen_adapters.service.sessions import Line, ServiceConfig, Sessions
except ImportError as error:
    raise MissingExtraError("the environment service", "serve", error.name or "fastapi") from error

from vagen_adapters.service.client import KEY_VARIABLE, MOST_HEADER, SERVER_HEADER
from vagen_adapters.service.host import Answer, Failure, Result
from vagen_adapters.service.keys import Holder, Keys
from vagen_adapters.service.pool import Pool
from vagen_adapters.service.wire import joined, written

log = logging.getLogger(__name__)

HOLDER = "vagen.holder"
"""Where a connection's scope has its `Holder`."""
KNOWN_PICTURES = 512
"""Pictures that a connection remembers to have sent. The client asks again for one that it lacks."""


def create_app(pool: Pool, config: ServiceConfig, key: str = "") -> FastAPI:
    """The application.

    Args:
        pool: where the environments live. Closed when the application ends.
        config: what it allows.
        key: what a client must show as `Authorization: Bearer …`, or several with commas between; empty for none.
    """
    keys = Keys(key)
    metrics = Metrics()
    greeting = [(MOST_HEADER.encode(), str(config.max_request).encode()),
                (SERVER_HEADER.encode(), secrets.token_hex(8).encode())]  # fmt: skip

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.sessions = sessions = Sessions(pool, config, metrics, len(keys) or 1)
        reaper = asyncio.create_task(_reap(sessions, min(1.0, config.lease / 4)))
        yield
        reaper.cancel()
        await asyncio.to_thread(pool.close)

    app = FastAPI(title="vagen environment service", lifespan=lifespan, docs_url=None, redirect_slashes=False)
    door = Door(config.max_connections, config.key_bytes, config.patience, time.monotonic, metrics.cut_off.inc)
    app.add_middleware(
        _Gate, keys=keys, metrics=metrics, door=door, patience=config.patience, health=lambda: _health(app)
    )
    app.state.pool, app.state.door = pool, door

    def refused_upgrade(scope: Scope) -> tuple[int, bytes] | None:
        failure = _stranger(HTTPConnection(scope), keys)
        if failure is None:
            return None
        metrics.failures.labels(failure.code).inc()
        return STATUS[failure.code], _error(failure)

    app.state.refused_upgrade = refused_upgrade
    app.state.metrics = metrics

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> Response:
        return _failed(error.failure, metrics)

    @app.get("/metrics")
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/environments")
    async def environments() -> Response:
        return _json(json.dumps({"env_ids": list(config.env_ids)}).encode())

    @app.get("/v1/pictures/{sha256}")
    async def picture(sha256: str) -> Response:
        png = app.state.sessions.png(sha256)
        if png is None:
            raise Refused("unknown_picture", f"no session's latest answers show a picture {sha256[:70]!r}")
        metrics.pictures.inc()
        return Response(png.data, media_type="image/png", headers={"cache-control": "private, immutable"})

    @app.post("/v1/{do}", openapi_extra=_described())
    async def post(do: str, request: Request) -> Response:
        with app.state.sessions.request():
            data = read_json(await _body(request, config))
            if not keys:  # a whole request is all that can be asked for
                _admit(door, request)
            return _json(_items(await app.state.sessions.handle(do, data.get("items"), request.scope[HOLDER])))

    @app.websocket("/v1/ws")
    async def socket(ws: WebSocket) -> None:
        try:
            _admit(door, ws)
        except Refused as error:
            await ws.send_denial_response(_failed(error.failure, metrics))
            return
        connection = door.socket_of(ws.client)
        if connection is None:  # it is gone already
            return
        talk = _Talk(connection, ws.scope[HOLDER], app.state.sessions, metrics)
        connection.hear = talk.hear
        try:
            await ws.accept(headers=greeting)
            while (await ws.receive())["type"] != "websocket.disconnect":
                """Messages go to `talk`."""
        except RuntimeError:  # it is gone already
            door.end(ws.client)
        finally:
            app.state.sessions.leave(talk.line)

    return app


class _Talk:
    """A WebSocket: requests as JSON, answered one after the other. While a client doesn't read, none is read from it.

    A request in a binary frame is answered by one (`wire.joined`). A request in a text frame is answered by a text
    frame, before which come the pictures, each as a binary frame of its SHA-256 (32 bytes) and the PNG. Either way
    a connection is sent the pictures that it hasn't had yet.

    Messages are taken from the protocol, and answers given to it, by plain calls: a task and a queue for each would
    take longer than all else that the server does for a turn.
    """

    def __init__(self, connection: WebSockets, holder: Holder, sessions: Sessions, metrics: Metrics) -> None:
        self._connection, self._sessions, self._metrics = connection, sessions, metrics
        self._sent: OrderedDict[str, None] = OrderedDict()
        self._waiting: deque[tuple[bytes, bool]] = deque()
        self._is_busy = self._is_beginning = False
        self.line = Line(holder)

    def hear(self, message: bytes, as_text: bool) -> None:
        """A whole message."""
        if self._is_busy:
            self._waiting.append((message, as_text))
            self._connection.hold(True)
        else:
            self._is_busy = True
            self._begin(message, as_text)

    def _begin(self, request: bytes, as_text: bool) -> None:
        self._is_beginning = True
        self._carry_out(request, as_text)
        self._is_beginning = False

    def _carry_out(self, request: bytes, as_text: bool) -> None:
        number: Any = None
        self._sessions.arrived()
        try:
            data = read_json(request)
            number = data.get("id")
            if not isinstance(number, int | str | None):
                number = None
                raise Refused("bad_request", "`id` must be a number or a string")
            if data.get("do") == "picture":
                self._answer(number, as_text, b"{}", [self._once_more(str(data.get("sha256")))])
                return
            self._sessions.ask(
                data.get("do"), data.get("items"), self.line.holder, self.line,
                lambda results: self._answer(number, as_text, _items(results), self._new_pictures(results)),
            )  # fmt: skip
        except Refused as refused:
            self._metrics.failures.labels(refused.failure.code).inc()
            self._answer(number, as_text, _error(refused.failure), [])
        except Exception:  # a defect of ours: its connection ends, and the server's end doesn't wait for it
            self._sessions.answered()
            raise

    def _answer(self, number: Any, as_text: bool, said: bytes, pictures: Sequence[tuple[str, bytes]]) -> None:
        head = written({"id": number})[:-1]
        body = head + b"," + said[1:] if len(said) > 2 else head + b"}"
        if as_text:
            for sha256, png in pictures:
                self._connection.say(bytes.fromhex(sha256) + png)
            self._connection.say(body, as_text=True)
        else:
            self._connection.say(joined(body, pictures))
        self._connection.once_read(self._next)

    def _next(self) -> None:
        """The client has read, or will; or it is gone."""
        self._sessions.answered()
        if self._is_beginning or self._waiting:  # a client that sends many at once doesn't hold up the others
            self._connection.loop.call_soon(self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        if self._waiting:
            self._begin(*self._waiting.popleft())
        else:
            self._is_busy = False
            self._connection.hold(False)

    def _new_pictures(self, results: Sequence[Result]) -> list[tuple[str, bytes]]:
        """Those of the answers that this connection hasn't had."""
        new = []
        for result in results:
            if not isinstance(result, Answer) or result.picture is None:
                continue
            sha256 = result.picture[0]
            if sha256 in self._sent:
                self._sent.move_to_end(sha256)
                self._metrics.spared.inc()
                continue
            self._sent[sha256] = None
            if len(self._sent) > KNOWN_PICTURES:
                self._sent.popitem(last=False)
            self._metrics.pictures.inc()
            new.append(result.picture)
        return new

    def _once_more(self, sha256: str) -> tuple[str, bytes]:
        png = self._sessions.png(sha256)
        if png is None:
            raise Refused("unknown_picture", f"no session's latest answers show a picture {sha256[:70]!r}")
        self._metrics.pictures.inc()
        return sha256, png.data


class _Gate:
    """Refuses who has no key, and pages of other sites in a browser, which can reach loopback too.

    It answers `/healthz` itself, and strangers, at a small part of what the application would take for it.
    """

    def __init__(
        self, app: ASGIApp, keys: Keys, metrics: Metrics, door: Door, patience: float, health: Callable[[], Response]
    ) -> None:
        self._app, self._keys, self._metrics = app, keys, metrics
        self._door, self._patience, self._health = door, patience, health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        failure = self._refusal(connection)
        if scope["type"] == "websocket":
            if failure is None:
                await self._app(scope, receive, send)
            else:
                await WebSocket(scope, receive, send).send_denial_response(_failed(failure, self._metrics))
            return
        app: ASGIApp = self._app
        if failure is not None:
            app = _failed(failure, self._metrics, {"connection": "close"})  # one question each, for who has no key
        elif scope["path"] == "/healthz" and scope["method"] in ("GET", "HEAD"):
            app = self._health()

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._patience):
                await send(message)

        try:
            await app(scope, receive, send_in_time)
        except TimeoutError:  # it doesn't read
            self._door.end(scope["client"])

    def _refusal(self, connection: HTTPConnection) -> Failure | None:
        failure = _stranger(connection, self._keys)
        if failure is not None or connection.scope["path"] == "/healthz" or not self._keys:
            return failure
        try:
            _admit(self._door, connection)
        except Refused as error:
            return error.failure
        return None


def _stranger(connection: HTTPConnection, keys: Keys) -> Failure | None:
    """Why somebody is refused who isn't let in at all. Who is has a `Holder` in the scope from here."""
    if "origin" in connection.headers:
        return Failure("forbidden", "requests of web pages are refused; this service is for programs")
    if connection.scope["path"] == "/healthz":
        return None
    holder = keys.holder(connection.headers.get("authorization", ""))
    if holder is None:
        return Failure("unauthorized", f"the key is missing or wrong; set {KEY_VARIABLE} as the server has it")
    connection.scope[HOLDER] = holder
    return None


def _admit(door: Door, connection: HTTPConnection) -> None:
    """Raises Refused if there is no room."""
    if not door.admit(connection.scope["client"], connection.scope[HOLDER]):
        raise Refused("full", "all connections that this server allows are in use; try again in a moment")


def _health(app: FastAPI) -> Response:
    """Whether a session could be played now."""
    status = "ending" if app.state.sessions.draining else "ok" if app.state.pool.lives else "no worker lives"
    return _json(json.dumps({"status": status}).encode(), 200 if status == "ok" else 503, {"connection": "close"})


async def _reap(sessions: Sessions, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            sessions.expire()
        except Exception:
            log.exception("sessions can't be ended")


async def _body(request: Request, config: ServiceConfig) -> bytes:
    """Raises Refused if it is too large or doesn't come. What is too large is read on for a while, and forgotten."""
    chunks: list[bytes] = []
    size = 0
    holder: Holder = request.scope[HOLDER]
    try:
        async with asyncio.timeout(config.patience):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= config.max_request:
                    chunks.append(chunk)
                    holder.reading += len(chunk)
                    if holder.reading + holder.held > config.key_bytes:
                        raise Refused("busy", "the requests of this key are too many bytes at a time; try again")
                # What is too large is read on and dropped: who still sends doesn't read why. But not for ever.
                elif size > 16 * config.max_request:
                    break
    except TimeoutError:
        raise Refused("bad_request", f"the request didn't come within {config.patience:g} s") from None
    except ClientDisconnect:
        raise Refused("bad_request", "the client went away") from None
    finally:
        holder.reading -= sum(map(len, chunks))
    if size > config.max_request:
        raise Refused("too_large", f"the request is larger than {config.max_request} bytes")
    return b"".join(chunks)


def _items(results: Sequence[Result]) -> bytes:
    bodies = [result.body if isinstance(result, Answer) else _error(result) for result in results]
    return b'{"items": [' + b", ".join(bodies) + b"]}"


def _error(failure: Failure) -> bytes:
    return written({"error": {"code": failure.code, "message": failure.message}})


def _failed(failure: Failure, metrics: Metrics, headers: Mapping[str, str] | None = None) -> Response:
    metrics.failures.labels(failure.code).inc()
    headers = {**(headers or {}), **({"retry-after": "1"} if failure.code in TRY_AGAIN else {})}
    if failure.code == "too_large":
        headers["connection"] = "close"
    return _json(_error(failure), STATUS[failure.code], headers)


def _json(data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(data, status, headers, media_type="application/json")


def _described() -> dict[str, Any]:
    """What a request's body may be, for `/openapi.json`: bodies are read by hand, to bound them."""
    schemas = [{"type": "object", "title": do, "required": ["items"],
                "properties": {"items": {"type": "array", "items": kind.model_json_schema()}}}
               for do, kind in VERBS.items()]  # fmt: skip
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": {"oneOf": schemas}}}}}
