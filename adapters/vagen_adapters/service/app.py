"""The server's application: sessions behind a WebSocket, health and metrics behind HTTP.

FastAPI on stock uvicorn. OpenEnv's own protocol has no batches, keys, leases or numbered moves, and
pictures in base64.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from vagen_adapters.errors import ServiceError
from vagen_envs.errors import MissingExtraError

try:
    from fastapi import Depends, FastAPI, Request, WebSocket
    from fastapi.responses import JSONResponse, Response
    from starlette.requests import HTTPConnection
    from starlette.websockets import WebSocketDisconnect

    from vagen_adapters.service.config import ServiceConfig
    from vagen_adapters.service.messages import STATUS, read_request
    from vagen_adapters.service.metrics import Metrics
    from vagen_adapters.service.sessions import Sessions
except ImportError as error:
    raise MissingExtraError("the environment service", "serve", error.name or "fastapi") from error

from vagen_adapters.service.client import CLIENT_HEADER, KEY_VARIABLE, SERVER_HEADER
from vagen_adapters.service.framing import pack, written
from vagen_adapters.service.host import Failure, HostAnswer, Result
from vagen_adapters.service.pool import Pool
from vagen_adapters.service.tenants import Tenant, Tenants

LONGEST_NAME = 64
"""Characters of a client's name that are read."""


def create_app(
    pool: Pool, config: ServiceConfig, key: str = "", host: str = "127.0.0.1"
) -> FastAPI:
    """The application.

    Args:
        pool: where the environments live. Started and closed with the application.
        config: limits.
        key: what a client must send as `Authorization: Bearer …`, or several separated by commas;
            empty for none.
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

    def admit(connection: HTTPConnection) -> None:
        connection.state.tenant = _tenant(connection, tenants, host)

    app = FastAPI(lifespan=lifespan, dependencies=[Depends(admit)], openapi_url=None)
    sockets: set[WebSocket] = set()
    server_name = [(SERVER_HEADER.encode(), secrets.token_hex(8).encode())]

    @app.exception_handler(ServiceError)
    async def refused(_: Request, error: ServiceError) -> Response:
        metrics.failures.labels(error.code).inc()
        return JSONResponse(
            {"error": {"code": error.code, "message": error.message}}, STATUS[error.code]
        )

    _add_pages(app, pool, config, metrics)

    @app.websocket("/v1/ws")
    async def socket(ws: WebSocket) -> None:
        tenant: Tenant = ws.state.tenant
        client = ws.headers.get(CLIENT_HEADER, "")[:LONGEST_NAME]
        if len(sockets) >= config.max_sessions or tenant.connections >= tenants.share:
            raise ServiceError(
                "full", "all connections that this server allows are in use; try again in a moment"
            )
        sockets.add(ws)
        tenant.connections += 1
        try:
            with suppress(WebSocketDisconnect, RuntimeError):  # it went away while it was answered
                await ws.accept(headers=server_name)
                # One request after the other: a client that doesn't read isn't read from.
                handle = partial(app.state.sessions.handle, tenant=tenant, client=client)
                while (message := await ws.receive())["type"] == "websocket.receive":
                    request = message.get("bytes") or (message.get("text") or "").encode()
                    await ws.send_bytes(await _answer(request, handle, metrics))
        finally:
            sockets.discard(ws)
            tenant.connections -= 1

    return app


def _add_pages(app: FastAPI, pool: Pool, config: ServiceConfig, metrics: Metrics) -> None:
    """What is asked for by GET."""

    @app.get("/healthz")
    async def health() -> Response:
        is_ready = bool(pool.workers)
        return JSONResponse(
            {"status": "ok" if is_ready else "no worker is ready"}, 200 if is_ready else 503
        )

    @app.get("/metrics")
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/environments")
    async def environments() -> Response:
        return JSONResponse({"env_ids": list(config.env_ids)})


async def _answer(
    request: bytes, handle: Callable[[Any, Any], Awaitable[list[Result]]], metrics: Metrics
) -> bytes:
    """The message that answers a request. `handle` carries out its verb and items."""
    try:
        data = read_request(request)
        results = await handle(data.get("verb"), data.get("items"))
    except ServiceError as error:
        metrics.failures.labels(error.code).inc()
        return pack(_error(error), ())
    bodies = [
        result.body if isinstance(result, HostAnswer) else _error(result) for result in results
    ]
    pictures = dict(
        result.picture for result in results if isinstance(result, HostAnswer) and result.picture
    )
    return pack(b'{"items":[' + b",".join(bodies) + b"]}", list(pictures.items()))


def _tenant(connection: HTTPConnection, tenants: Tenants, host: str) -> Tenant | None:
    """The tenant of a connection. Raises ServiceError without the key, for foreign Host headers,
    and for web pages.

    Pages reach a loopback server too. Without a key one could do so by a name of its own that
    resolves to this machine (DNS rebinding).
    """
    headers = connection.headers
    if "origin" in headers:
        raise ServiceError(
            "forbidden", "requests of web pages are refused; this service is for programs"
        )
    if not tenants.has_keys and not _is_own_name(headers.get("host", ""), host):
        raise ServiceError(
            "forbidden", "the Host header must be an IP address or localhost where there is no key"
        )
    address = connection.client.host if connection.client else ""
    tenant = tenants.find(headers.get("authorization", ""), address)
    if tenant is None and connection.scope["path"] != "/healthz":
        raise ServiceError(
            "unauthorized", f"the key is missing or wrong; set {KEY_VARIABLE} to the server's key"
        )
    return tenant


def _is_own_name(header: str, host: str) -> bool:
    name, _, port = header.rpartition(":")
    name = name if port.isdecimal() else header
    if name.lower() in ("localhost", host.lower()):
        return True
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name.removeprefix("[").removesuffix("]")))
    return False


def _error(failure: Failure | ServiceError) -> bytes:
    return written({"error": {"code": failure.code, "message": failure.message}})
