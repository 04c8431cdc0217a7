"""The server: the application under uvicorn, with an orderly end."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from vagen_adapters.errors import ServiceError
from vagen_envs.errors import MissingExtraError

try:
    import uvicorn
    from fastapi import FastAPI
except ImportError as error:
    raise MissingExtraError("the environment service", "serve", error.name or "fastapi") from error

from vagen_adapters.service.app import create_app
from vagen_adapters.service.client import KEY_VARIABLE
from vagen_adapters.service.doors import QUEUE, DoorConfig
from vagen_adapters.service.pool import Pool
from vagen_adapters.service.sessions import ServiceConfig


class Server(uvicorn.Server):
    """uvicorn's server, which finishes turns before it ends, and lets nobody stand in the door."""

    def __init__(self, app: FastAPI, config: ServiceConfig, host: str, port: int) -> None:
        super().__init__(
            DoorConfig(
                app, app.state.door, app.state.refused_upgrade,
                host=host, port=port, log_level="error", access_log=False,
                ws_max_size=config.max_request, ws_per_message_deflate=False,
                # Turns have had their grace before (`drain`): what is left after 5 s are connections that idle.
                ws_ping_interval=config.patience, ws_ping_timeout=config.patience, timeout_graceful_shutdown=5,
            )
        )  # fmt: skip
        self._app = app
        self._ticks = 0
        self._sockets: list[socket.socket] = []

    @property
    def port(self) -> int:
        """The port it listens on, once it has started."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Begin to listen. The door takes connections in: neither asyncio nor uvloop has a good pace for it."""
        self._sockets = sockets or _listening(self.config.host, self.config.port)
        await super().startup([])

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = self.config.http_protocol_class(
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state,
                _loop=asyncio.get_running_loop(),
            )  # fmt: skip
            return made

        for each in self._sockets:
            self._app.state.door.open(each, protocol)

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        await self._app.state.sessions.drain()
        for each in self._sockets:
            asyncio.get_running_loop().remove_reader(each)
            each.close()
        await super().shutdown()

    async def on_tick(self, counter: int) -> bool:
        self._ticks += 1
        if self._ticks % 10 == 0:  # uvicorn ticks ten times a second
            self._app.state.door.look()
        return await super().on_tick(counter)


def serve(
    pool: Pool, config: ServiceConfig, *, host: str = "127.0.0.1", port: int = 8765, key: str = "",
    started: Callable[[int], object] = lambda _: None,
) -> None:  # fmt: skip
    """Serve until an interrupt or SIGTERM, then finish the turns in progress.

    Args:
        pool: closed at the end.
        config: what it allows.
        host: where to listen.
        port: 0 for any that is free.
        key: see `create_app`. Needed where others than this machine can connect.
        started: told the port.

    Raises:
        ServiceError: it would be open to other machines without a key, or the port is taken.
    """
    if not key and not _is_loopback(host):
        pool.close()
        raise ServiceError("no_key", f"host {host!r} can be reached from other machines; set {KEY_VARIABLE} to a key")
    _raise_file_limit()
    server = Server(create_app(pool, config, key), config, host, port)

    async def run() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if not serving.done():
            started(server.port)
        await serving

    # uvicorn's choice of an event loop: uvloop where it is installed
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(run())


def _listening(host: str, port: int) -> list[socket.socket]:
    """A socket for each address that the name stands for. Raises ServiceError."""
    try:
        found = {each[4][0]: each[0] for each in socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM,
                                                                   flags=socket.AI_PASSIVE)}  # fmt: skip
        made: list[socket.socket] = []
        for address, family in found.items():
            made.append(socket.create_server((address, port), family=family, backlog=QUEUE))
            port = made[0].getsockname()[1]
    except OSError as error:
        raise ServiceError("no_port", f"{host}:{port} can't be listened on ({error}); choose another --port") from error
    return made


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _raise_file_limit() -> None:
    """Sockets are files, and the limit that a shell gives is often 1,024."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
