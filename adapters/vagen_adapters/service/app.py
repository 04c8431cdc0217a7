"""The server's application: sessions behind HTTP and WebSocket.

FastAPI on stock uvicorn. OpenEnv's own protocol has no batches, keys, leases or numbered moves, and pictures in base64.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import logging
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from vagen_envs.errors import MissingExtraError

try:
    from fastapi import FastAPI, Request, WebSocket
    from fastapi.responses import Response
    from starlette.requests import ClientDisconnect, HTTPConnection
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.websockets import WebSocketDisconnect

    from vagen_adapters.service.messages import STATUS, Refused, read_request
    from vagen_adapters.service.metrics import Metrics
    from vagen_adapters.service.sessions import ServiceConfig, Sessions
except ImportError as error:
    raise MissingExtraError("the environment service", "serve", error.name or "fastapi") from error

from vagen_adapters.service.client import KEY_VARIABLE, SERVER_HEADER
from vagen_adapters.service.framing import MAX_REQUEST, pack, written
from vagen_adapters.service.host import Answer, Failure, Result
from vagen_adapters.service.pool import Pool
from vagen_adapters.service.tenants import Tenant, Tenants

log = logging.getLogger(__name__)

TENANT = "vagen.tenant"
"""Where a connection's scope has its `Tenant`."""


def create_app(pool: Pool, config: ServiceConfig, key: str = "", host: str = "127.0.0.1") -> FastAPI:
    """The application.

    Args:
        pool: where the environments live. Started and closed with the application.
        config: limits.
        key: what a client must send as `Authorization: Bearer …`, or several separated by commas; empty for none.
        host: the address it listens on; a name here is accepted in the Host header.
    """
    tenants = Tenants(key, config.max_sessions, config.client_sessions)
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await pool.start()
        app.state.sessions = sessions = Sessions(pool, config, tenants.share, metrics)
        reaper = asyncio.create_task(sessions.expire())
        yield
        reaper.cancel()
        await pool.close()

    app = FastAPI(title="vagen environment service", lifespan=lifespan, openapi_url=None)
    app.add_middleware(_Gate, tenants=tenants, metrics=metrics, host=host)
    sockets = _Sockets(config.max_sessions, tenants.share, metrics)

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> Response:
        return _failed(error.failure, metrics)

    @app.get("/healthz")
    async def health() -> Response:
        is_ready = bool(pool.workers)
        return _json(written({"status": "ok" if is_ready else "no worker is ready"}), 200 if is_ready else 503)

    @app.get("/metrics")
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/environments")
    async def environments() -> Response:
        return _json(written({"env_ids": list(config.env_ids)}))

    @app.post("/v1/{verb}")
    async def post(verb: str, request: Request) -> Response:
        items = read_request(await _body(request)).get("items")
        results = await app.state.sessions.handle(verb, items, request.scope[TENANT])
        pictures = {sha256: base64.b64encode(png).decode() for sha256, png in _pictures(results)}
        return _json(_items(results)[:-1] + b',"pictures":' + written(pictures) + b"}")

    @app.websocket("/v1/ws")
    async def socket(ws: WebSocket) -> None:
        await sockets.talk(ws, app.state.sessions)

    return app


class _Sockets:
    """The WebSockets of a server, bounded in number and for each tenant."""

    def __init__(self, most: int, share: int, metrics: Metrics) -> None:
        self._most, self._share, self._metrics = most, share, metrics
        self._open = 0
        self._headers = [(SERVER_HEADER.encode(), secrets.token_hex(8).encode())]

    async def talk(self, ws: WebSocket, sessions: Sessions) -> None:
        """Answer requests one after the other. A client that doesn't read isn't read from."""
        tenant: Tenant = ws.scope[TENANT]
        if self._open >= self._most or tenant.connections >= self._share:
            raise Refused("full", "all connections that this server allows are in use; try again in a moment")
        self._open += 1
        tenant.connections += 1
        try:
            await ws.accept(headers=self._headers)
            while (message := await ws.receive())["type"] == "websocket.receive":
                request = message.get("bytes") or (message.get("text") or "").encode()
                await ws.send_bytes(await self._answer(request, tenant, sessions))
        except (WebSocketDisconnect, RuntimeError):  # it went away while it was answered
            log.debug("a client went away")
        finally:
            self._open -= 1
            tenant.connections -= 1

    async def _answer(self, request: bytes, tenant: Tenant, sessions: Sessions) -> bytes:
        try:
            data = read_request(request)
            results = await sessions.handle(data.get("verb"), data.get("items"), tenant)
        except Refused as refused:
            self._metrics.failures.labels(refused.failure.code).inc()
            return pack(_error(refused.failure), ())
        return pack(_items(results), _pictures(results))


class _Gate:
    """Refuse clients without the key, foreign Host headers, and web pages, which reach a loopback server too."""

    def __init__(self, app: ASGIApp, tenants: Tenants, metrics: Metrics, host: str) -> None:
        self._app, self._tenants, self._metrics, self._host = app, tenants, metrics, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        failure = None if scope["type"] == "lifespan" else self._refusal(HTTPConnection(scope))
        app = self._app if failure is None else _failed(failure, self._metrics)
        await app(scope, receive, send)

    def _refusal(self, connection: HTTPConnection) -> Failure | None:
        headers = connection.headers
        if "origin" in headers:
            return Failure("forbidden", "requests of web pages are refused; this service is for programs")
        # Without a key a page could reach it by a name of its own that resolves to this machine (DNS rebinding).
        if not self._tenants.has_keys and not _is_own_name(headers.get("host", ""), self._host):
            return Failure("forbidden", "the Host header must be an IP address or localhost where there is no key")
        address = connection.client.host if connection.client else ""
        tenant = self._tenants.find(headers.get("authorization", ""), address)
        if tenant is None and connection.scope["path"] != "/healthz":
            return Failure("unauthorized", f"the key is missing or wrong; set {KEY_VARIABLE} to the server's key")
        connection.scope[TENANT] = tenant
        return None


def _is_own_name(header: str, host: str) -> bool:
    name, _, port = header.rpartition(":")
    name = name if port.isdecimal() else header
    if name.lower() in ("localhost", host.lower()):
        return True
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name.removeprefix("[").removesuffix("]")))
    return False


async def _body(request: Request) -> bytes:
    """The body of a request. Raises Refused if it is too large."""
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > MAX_REQUEST:
                raise Refused("too_large", f"the request is larger than {MAX_REQUEST} bytes")
    except ClientDisconnect:
        raise Refused("bad_request", "the client went away") from None
    return bytes(data)


def _pictures(results: Sequence[Result]) -> list[tuple[str, bytes]]:
    """The pictures of some answers, every one once."""
    return list(dict(result.picture for result in results if isinstance(result, Answer) and result.picture).items())


def _items(results: Sequence[Result]) -> bytes:
    bodies = [result.body if isinstance(result, Answer) else _error(result) for result in results]
    return b'{"items":[' + b",".join(bodies) + b"]}"


def _error(failure: Failure) -> bytes:
    return written({"error": failure._asdict()})


def _failed(failure: Failure, metrics: Metrics) -> Response:
    metrics.failures.labels(failure.code).inc()
    headers = {"connection": "close"} if failure.code in ("too_large", "unauthorized") else {}
    return _json(_error(failure), STATUS[failure.code], headers)


def _json(data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(data, status, headers, media_type="application/json")
