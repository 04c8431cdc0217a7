"""An endpoint on loopback that answers chat completions after a fixed time: `python -m … .endpoint
SECONDS REPLY`.

A process of its own, so that its work isn't the runner's. Prints its port.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

REPLY = (
    "<think><observation>The box is above the player.</observation><reasoning>I push "
    "it.</reasoning><prediction>The box is on the "
    "target.</prediction></think><answer>Up,Left,Down</answer>"
)
LENGTH = b"content-length:"


def response(reply: str) -> bytes:
    """HTTP's whole answer."""
    body = json.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": reply},
                }
            ],
            "usage": {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960},
        }
    ).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


class Replies:
    """Calls due after `delay` seconds, by one clock: timers for each request took a sixth of the
    endpoint's time.
    """

    def __init__(self, delay: float, answer: bytes) -> None:
        self.delay, self.answer = delay, answer
        self._loop = asyncio.get_running_loop()
        self._due: deque[tuple[float, asyncio.Transport]] = deque()

    def asked(self, transport: asyncio.Transport) -> None:
        """A whole request has come."""
        if self.delay == 0:
            transport.write(self.answer)
            return
        self._due.append((self._loop.time() + self.delay, transport))
        if len(self._due) == 1:
            self._loop.call_at(self._due[0][0], self._ring)

    def _ring(self) -> None:
        now = self._loop.time()
        while self._due and self._due[0][0] <= now:
            self._due.popleft()[1].write(self.answer)
        if self._due:
            self._loop.call_at(self._due[0][0], self._ring)


class Endpoint(asyncio.Protocol):
    """A connection: whatever is asked is answered alike."""

    def __init__(self, replies: Replies) -> None:
        self.replies, self.read, self.whole = replies, bytearray(), 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        self.read += data
        while self.whole or (end := self.read.find(b"\r\n\r\n")) >= 0:
            if not self.whole:
                head = self.read[:end].lower()
                self.whole = (
                    end + 4 + int(head[head.index(LENGTH) + len(LENGTH) :].split(b"\r\n")[0])
                )
            if len(self.read) < self.whole:
                return
            del self.read[: self.whole]
            self.whole = 0
            self.replies.asked(self.transport)


async def serve(delay: float, reply: str) -> None:
    """Serve until killed."""
    replies = Replies(delay, response(reply))
    server = await asyncio.get_running_loop().create_server(
        lambda: Endpoint(replies), "127.0.0.1", 0, backlog=512
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextmanager
def endpoint(delay: float, reply: str = REPLY) -> Iterator[str]:
    """Its URL, while it runs."""
    command = [sys.executable, "-m", "perf.endpoint", str(delay), reply]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), sys.argv[2]))
