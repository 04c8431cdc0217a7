"""Servers for the tests of the environment service: in a thread, or as the command."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from websockets.sync.client import connect

from perf.processes import children, resident
from vagen_adapters.service.config import ServiceConfig
from vagen_adapters.service.framing import unpack
from vagen_adapters.service.local_pool import local_pool
from vagen_adapters.service.server import make_server

SOKOBAN, LAKE = "vagen/Sokoban-v0", "vagen/FrozenLake-v0"
ID = "0123456789abcdef"


class Served:
    """A server in a thread of this process."""

    def __init__(self, pool=None, key="", workers=1, port=0, **config):
        self.pool = pool or local_pool(workers)
        self.server = make_server(self.pool, ServiceConfig(**config), key, "127.0.0.1", port)
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )

    def __enter__(self):
        self.thread.start()
        wait_until(lambda: self.server.started and len(self.pool.workers) == self.pool.size)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(60)
        assert not self.thread.is_alive()


class Command:
    """`vagen serve` in a process of its own."""

    def __init__(self, *arguments, key=""):
        environment = {**os.environ, "VAGEN_SERVE_KEY": key}
        command = [
            sys.executable,
            "-m",
            "vagen_benchmarks.cli",
            "serve",
            "--port",
            "0",
            *map(str, arguments),
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        self.lines = []

    def __enter__(self):
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(r"serving on http://127.0.0.1:(\d+)", line)
            if found:
                self.port = int(found[1])
                self.url = f"http://127.0.0.1:{self.port}"
                threading.Thread(target=self._read, daemon=True).start()
                return self
        raise AssertionError("".join(self.lines))

    def _read(self):
        self.lines.extend(self.process.stdout)

    @property
    def workers(self):
        """The worker processes now."""
        return children(self.process.pid)

    @property
    def memory(self):
        """Resident bytes of the server's process."""
        return resident(self.process.pid)

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()


def ws_url(url):
    return url.replace("http", "ws") + "/v1/ws"


def ask(ws, request):
    """The answer to a request on a WebSocket, and the pictures of its message."""
    ws.send(request if isinstance(request, bytes) else json.dumps(request))
    body, pictures = unpack(ws.recv(60))
    return json.loads(body), dict(pictures)


def ask_once(url, verb, *items, **headers):
    """The answer to a request on a connection of its own."""
    with connect(ws_url(url), additional_headers=headers) as ws:
        return ask(ws, {"verb": verb, "items": list(items)})[0]


def wait_until(true, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def random_reply(draw):
    """Replies that move, and some that are nonsense."""
    if draw.random() < 0.1:
        return "nonsense \ud800 <answer>"
    words = [draw.choice(["Up", "Down", "Left", "Right"]) for _ in range(draw.randint(1, 3))]
    thoughts = "<think><observation>é</observation><prediction>\U0001f600</prediction></think>"
    return f"{thoughts}<answer>{','.join(words)}</answer>"
