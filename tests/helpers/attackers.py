"""Ways to keep others out of a server, each in a process of its own: `python attackers.py WAY PORT`, until it is ended."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys

KEEP_ALIVE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"POST /v1/step HTTP/1.1\r\nHost: x\r\nX-Slow: "
BODY = b"POST /v1/open HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{"
UPGRADE = (b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n")  # fmt: skip


async def connected(port):
    return await asyncio.open_connection("127.0.0.1", port)


async def half_heads(port):
    """A request, and then half of another on the same connection: 2,100 times."""
    reader, writer = await connected(port)
    writer.write(KEEP_ALIVE)
    await reader.read(1000)
    writer.write(HALF)
    await asyncio.sleep(3600)


async def drip(port, opening):
    _, writer = await connected(port)
    writer.write(opening)
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(1)


async def slow_heads(port):
    await drip(port, HALF)


async def slow_bodies(port):
    await drip(port, BODY)


async def idle(port):
    await connected(port)
    await asyncio.sleep(3600)


async def half_handshakes(port):
    await drip(port, UPGRADE + b"X-Slow: ")


async def handshakes(port):
    reader, writer = await connected(port)
    writer.write(UPGRADE + b"\r\n")
    await reader.read(1000)
    writer.close()


async def comings_and_goings(port):
    _, writer = await connected(port)
    writer.transport.abort()


async def requests(port):
    """As many requests as it takes, and answers are read."""
    reader, writer = await connected(port)
    while True:
        writer.write(KEEP_ALIVE)
        if not await reader.read(65536):
            return


async def pipelines(port):
    """Requests without an end, and no answer is read."""
    _, writer = await connected(port)
    while True:
        writer.write(KEEP_ALIVE * 100)
        await writer.drain()


async def long_heads(port):
    _, writer = await connected(port)
    while True:
        writer.write(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100)
        await writer.drain()


WAYS = {each.__name__: (each, many) for each, many in [
    (half_heads, 2100), (slow_heads, 2500), (slow_bodies, 2500), (idle, 3000), (half_handshakes, 2500), (handshakes, 200),
    (comings_and_goings, 100), (requests, 300), (pipelines, 50), (long_heads, 100)]}  # fmt: skip


async def again_and_again(way, port):
    """When it is thrown out, it comes back."""
    while True:
        with contextlib.suppress(OSError):
            await way(port)
        await asyncio.sleep(0)


async def main(name, port):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    way, many = WAYS[name]
    await asyncio.gather(*(again_and_again(way, port) for _ in range(many)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
