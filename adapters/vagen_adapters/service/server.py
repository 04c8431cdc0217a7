"""Run the application under uvicorn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from vagen_adapters.errors import ServiceError
from vagen_envs.errors import MissingExtraError

try:
    import uvicorn
except ImportError as error:
    raise MissingExtraError("the environment service", "serve", error.name or "uvicorn") from error

from vagen_adapters.service.app import create_app
from vagen_adapters.service.client import KEY_VARIABLE
from vagen_adapters.service.config import ServiceConfig
from vagen_adapters.service.framing import MAX_REQUEST
from vagen_adapters.service.pool import Pool
from vagen_adapters.service.tenants import network

UNREAD = 1 << 20
"""Bytes of output that may wait for a client that goes on sending."""
FRAGMENTS = 4096
"""The most fragments of one WebSocket message; our clients send one."""


def make_server(
    pool: Pool, config: ServiceConfig, key: str, host: str, port: int
) -> uvicorn.Server:
    """Configure a uvicorn server. `run(sockets=[…])` starts it."""
    unread: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    async def watch() -> None:
        _cut_off(server.server_state.connections, unread)

    options = uvicorn.Config(
        create_app(pool, config, key, host),
        host=host,
        port=port,
        http="h11",  # bounds the head of a request, which httptools doesn't
        ws="websockets-sansio",  # reads the next message only when the one before has been handled
        ws_max_size=MAX_REQUEST,
        # PNGs don't shrink, and a small message may inflate to a large one
        ws_per_message_deflate=False,
        limit_concurrency=config.max_sessions
        + 512,  # of plain HTTP, beside a WebSocket for every session
        timeout_graceful_shutdown=5,
        callback_notify=watch,
        timeout_notify=1,
        # Else any client could name an address of its choice, and take the places of all others.
        proxy_headers=bool(config.trusted_proxies),
        forwarded_allow_ips=list(config.trusted_proxies),
        access_log=False,
        log_level="error",
    )
    server = uvicorn.Server(options)
    return server


def _cut_off(connections: Iterable[Any], unread: MutableMapping[Any, int]) -> None:
    """End WebSockets that send pings without reading the pongs, or fragments without end: uvicorn
    bounds neither.

    An answer is written only when the one before has been read, so only pongs add to an output that
    is waiting.
    """
    for connection in list(connections):
        size = connection.transport.get_write_buffer_size()
        if (
            size > unread.get(connection, size) > UNREAD
            or len(getattr(connection, "frames", ())) > FRAGMENTS
        ):
            connection.transport.abort()
        unread[connection] = size


def serve(
    pool: Pool,
    config: ServiceConfig,
    key: str,
    host: str,
    port: int,
    started: Callable[[int], object] = lambda _: None,
) -> None:
    """Serve until an interrupt or SIGTERM. Moves that are cut off then can be asked for again of
    another server.

    Args:
        pool: closed at the end.
        config: limits.
        key: see `create_app`. Needed if other machines can connect.
        host: where to listen.
        port: 0 for any free one.
        started: called with the port.

    Raises:
        ServiceError: it would be open to other machines without a key, or its port is in use.
    """
    if not key and network(host) not in ("loopback", "localhost"):
        raise ServiceError(
            "no_key",
            f"host {host!r} can be reached from other machines; set {KEY_VARIABLE} to a key",
        )
    # A connection takes a file, and a shell often allows 1,024.
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = make_server(pool, config, key, host, port)
    try:
        listening = server.config.bind_socket()
    except SystemExit:  # uvicorn has logged the reason
        raise ServiceError(
            "no_port", f"port {port} of {host} can't be used; name another with --port"
        ) from None
    listening.listen(server.config.backlog)  # clients that come before the application is up wait
    started(listening.getsockname()[1])
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
