"""Real proxies on loopback: HTTP (forwarding and CONNECT) and SOCKS5, with a list of the hosts they were asked for."""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import urlsplit


class Proxy:
    """Sends every connection to `target`, whatever host was asked for, and remembers that host in `asked`."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target, self.asked = target, []
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        started = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self.port = started.result(5).sockets[0].getsockname()[1]

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _serve(self, reader, writer):
        first = await reader.readexactly(1)
        rest = b""
        if first == b"\x05":
            await reader.readexactly((await reader.readexactly(1))[0])
            writer.write(b"\x05\x00")
            *_, kind = await reader.readexactly(4)
            size = 4 if kind == 1 else (await reader.readexactly(1))[0]
            host = (await reader.readexactly(size)).decode("latin-1")
            await reader.readexactly(2)
            writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        else:
            head = first + await reader.readuntil(b"\r\n\r\n")
            method, where, _ = head.split(b"\r\n")[0].split()
            if method == b"CONNECT":
                host = where.decode().partition(":")[0]
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                parts = urlsplit(where.decode())
                host, rest = str(parts.hostname), head.replace(where, parts.path.encode(), 1)
        self.asked.append(host)
        there, to_there = await asyncio.open_connection(*self.target)
        to_there.write(rest)
        await asyncio.gather(_copy(reader, to_there), _copy(there, writer))


async def _copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
