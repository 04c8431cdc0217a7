"""The server's application: sessions behind a WebSocket, health and metrics behind HTTP.

FastAPI on stock uvicorn. OpenEnv's own protocol has no batches, keys, leases or numbered moves, and pictures in base64.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from vagen_envs.errors import MissingExtraError

try:
    from fastapi import FastAPI, Request, WebSocket
    from fastapi.responses import Response
    from starlette.requests import HTTPConnection
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.websockets import WebSocketDisconnect

    from vagen_adapters.service.messages import STATUS, Refused, read_request
    from vagen_adapters.service.metrics import Metrics
    from vagen_adapters.service.sessions import ServiceConfig, Sessions
except ImportError as error:
    raise MissingExtraError("the environment service", "serve", error.name or "fastapi") from error

from vagen_adapters.service.client import KEY_VARIABLE, SERVER_HEADER
from vagen_adapters.service.framing import pack, written
from vagen_adapters.service.host import Answer, Failure
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
    sockets: set[WebSocket] = set()
    server_name = [(SERVER_HEADER.encode(), secrets.token_hex(8).encode())]

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

    @app.websocket("/v1/ws")
    async def socket(ws: WebSocket) -> None:
        tenant: Tenant = ws.scope[TENANT]
        if len(sockets) >= config.max_sessions or tenant.connections >= tenants.share:
            raise Refused("full", "all connections that this server allows are in use; try again in a moment")
        sockets.add(ws)
        tenant.connections += 1
        try:
            await ws.accept(headers=server_name)
            # One request after the other: a client that doesn't read isn't read from.
            while (message := await ws.receive())["type"] == "websocket.receive":
                request = message.get("bytes") or (message.get("text") or "").encode()
                await ws.send_bytes(await _answer(request, tenant, app.state.sessions, metrics))
        except (WebSocketDisconnect, RuntimeError):  # it went away while it was answered
            log.debug("a client went away")
        finally:
            sockets.discard(ws)
            tenant.connections -= 1

    return app


async def _answer(request: bytes, tenant: Tenant, sessions: Sessions, metrics: Metrics) -> bytes:
    """The message that answers a request."""
    try:
        data = read_request(request)
        results = await sessions.handle(data.get("verb"), data.get("items"), tenant)
    except Refused as refused:
        metrics.failures.labels(refused.failure.code).inc()
        return pack(_error(refused.failure), ())
    bodies = [result.body if isinstance(result, Answer) else _error(result) for result in results]
    pictures = dict(result.picture for result in results if isinstance(result, Answer) and result.picture)
    return pack(b'{"items":[' + b",".join(bodies) + b"]}", list(pictures.items()))


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


def _error(failure: Failure) -> bytes:
    return written({"error": failure._asdict()})


def _failed(failure: Failure, metrics: Metrics) -> Response:
    metrics.failures.labels(failure.code).inc()
    return _json(_error(failure), STATUS[failure.code])


def _json(data: bytes, status: int = 200) -> Response:
    return Response(data, status, media_type="application/json")
