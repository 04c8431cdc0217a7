"""Several servers behind one address, as a plain round-robin proxy of bytes gives it; each can be killed at any time."""

from __future__ import annotations

import contextlib
import threading

from local_proxy import Balancer
from service_fixtures import Command, kill


class Fleet:
    """Servers on ports of their own and a proxy before them. What is killed is started again."""

    def __init__(self, fronts, *arguments):
        self._arguments = arguments
        self.fronts = [Command(*arguments) for _ in range(fronts)]
        self._starting = []
        self._down = []
        self.killed = {"fronts": 0, "workers": 0}

    def __enter__(self):
        for front in self.fronts:
            front.__enter__()
        self._proxy = Balancer(*(front.port for front in self.fronts))
        self.url = f"http://127.0.0.1:{self._proxy.port}"
        return self

    def strike(self, draw):
        """Kill a server or a worker, each kind once before chance decides; whether there was one to kill."""
        front = draw.choice(self.fronts)
        # not `poll`, which can't tell while another thread waits for the process
        if front in self._down:
            return False
        workers = front.workers
        is_for_worker = (
            draw.random() < 0.5 if min(self.killed.values()) else not self.killed["workers"]
        )
        if workers and is_for_worker:
            with contextlib.suppress(ProcessLookupError):
                kill(draw.choice(workers))
                self.killed["workers"] += 1
            return True
        self._down.append(front)
        front.process.kill()
        self.killed["fronts"] += 1
        self._starting.append(threading.Thread(target=self._start_again, args=(front,)))
        self._starting[-1].start()
        return True

    def _start_again(self, front):
        front.process.wait()
        again = Command(*self._arguments, "--port", front.port)
        again.__enter__()
        self.fronts[self.fronts.index(front)] = again

    def __exit__(self, *_):
        for thread in self._starting:
            thread.join()
        self._proxy.close()
        for front in self.fronts:
            front.__exit__()
