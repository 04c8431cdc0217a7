"""Attacks on a server from outside, in a process of its own: `python attackers.py WAY PORT`, until it is ended."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
import sys

HALF = b"POST /v1/step HTTP/1.1\r\nHost: x\r\nX-Slow: "
BODY = b"POST /v1/open HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{"
WHOLE = b"GET /v1/environments HTTP/1.1\r\nHost: x\r\n\r\n"
TLS = ssl._create_unverified_context()  # noqa: S323
SOURCE = ("127.0.0.2", 0)
"""Not the address of those who play meanwhile."""


async def drip(port, opening):
    """Begin a request and add a byte every second."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=TLS, local_addr=SOURCE)
    writer.write(opening)
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(1)


async def slow_heads(port):
    await drip(port, HALF)


async def slow_bodies(port):
    await drip(port, BODY)


async def half_open(port):
    """Connect, begin a TLS handshake, and fall silent."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=SOURCE)
    writer.write(b"\x16\x03\x01")
    await asyncio.sleep(3600)


async def connections(port):
    _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=SOURCE)
    writer.transport.abort()


async def requests(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=TLS, local_addr=SOURCE)
    while True:
        writer.write(WHOLE * 20)
        if not await reader.read(65536):
            return


WAYS = {
    way.__name__: (way, many)
    for way, many in [
        (slow_heads, 700),
        (slow_bodies, 700),
        (half_open, 2000),
        (connections, 50),
        (requests, 50),
    ]
}


async def again_and_again(way, port):
    """Come back after being thrown out."""
    while True:
        with contextlib.suppress(OSError):
            await way(port)
        await asyncio.sleep(0.05)


async def main(name, port):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    way, many = WAYS[name]
    await asyncio.gather(*(again_and_again(way, port) for _ in range(many)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
