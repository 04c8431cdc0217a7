"""Real proxies on loopback, in a thread: of bytes, of HTTP (forwarding and CONNECT) and SOCKS5."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from urllib.parse import urlsplit


class Balancer:
    """Passes bytes on, each connection to the next of its ports that takes it; at first to the first.

    Args:
        ports: of servers on this machine.
        cut_every: swallow each so-manieth answer that comes on a WebSocket, and cut the connection.
    """

    def __init__(self, *ports, cut_every=0):
        self.cuts, self._answers, self._cut_every, self._targets = 0, 0, cut_every, ports
        self._turn = itertools.cycle(ports)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        started = asyncio.run_coroutine_threadsafe(starting, self._loop)
        self.port = started.result(5).sockets[0].getsockname()[1]

    def close(self):
        asyncio.run_coroutine_threadsafe(self._end(), self._loop)

    async def _end(self):
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        self._loop.stop()

    async def _serve(self, reader, writer):
        first = await self._greet(reader, writer)
        for port in itertools.islice(self._turn, len(self._targets)):
            with contextlib.suppress(OSError):
                there, to_there = await asyncio.open_connection("127.0.0.1", port)
                to_there.write(first)
                await asyncio.gather(
                    self._copy(reader, to_there), self._copy(there, writer, self._cut_every)
                )
                return
        writer.close()

    async def _greet(self, reader, writer):
        """What a client says to the proxy before it speaks to the server. Returns what goes on to the server."""
        return b""

    async def _copy(self, reader, writer, cut_every=0):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if cut_every and not data.startswith(b"HTTP"):
                    self._answers += 1
                    if self._answers % cut_every == 0:
                        self.cuts += 1
                        break
                writer.write(data)
                await writer.drain()
        writer.close()


class Proxy(Balancer):
    """What HTTPS_PROXY and its like name: whatever host is asked for, it's the server; `asked` has the hosts."""

    def __init__(self, port):
        self.asked = []
        super().__init__(port)

    async def _greet(self, reader, writer):
        first = await reader.readexactly(1)
        if first == b"\x05":
            await reader.readexactly((await reader.readexactly(1))[0])
            writer.write(b"\x05\x00")
            *_, kind = await reader.readexactly(4)
            size = 4 if kind == 1 else (await reader.readexactly(1))[0]
            self.asked.append((await reader.readexactly(size)).decode("latin-1"))
            await reader.readexactly(2)
            writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
            return b""
        head = first + await reader.readuntil(b"\r\n\r\n")
        method, where, _ = head.split(b"\r\n")[0].split()
        if method == b"CONNECT":
            self.asked.append(where.decode().partition(":")[0])
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            return b""
        parts = urlsplit(where.decode())
        self.asked.append(str(parts.hostname))
        return head.replace(where, parts.path.encode(), 1)
