"""One process that owns a scorer's weights and scores for all others of this machine.

    with ScorerService("dreamsim", weights=folder) as service:
        gym.make_vec("vagen/SVGReconstruction-v0", 16, scorer_address=service.address)

Requests that arrive together are scored as one batch; targets are remembered by the scorer. The channel is
a Unix socket in a folder that only this user may enter, and carries pictures and JSON, never pickles.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Self

import numpy as np

from vagen_envs.errors import VagenError
from vagen_envs.pictures import Pixels
from vagen_envs.svg.scorers.base import ScorerError
from vagen_envs.svg.scorers.choosing import make_scorer

_HEAD = struct.Struct("<IHH")  # number of pairs, height, width


class ScorerService:
    """Starts the service's process, and ends it.

    Args:
        scorer, weights, device: as for `make_scorer`.
        most: most pairs in a batch.
        wait: seconds that a batch waits for more.

    Raises:
        ScorerError: the scorer isn't complete, or the process did not start.
    """

    def __init__(
        self, scorer: str = "auto", weights: str = "", device: str = "auto", most: int = 64, wait: float = 0.002
    ) -> None:
        self._folder = tempfile.mkdtemp(prefix="vagen-scorer-")
        self.address = str(Path(self._folder) / "socket")
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", __name__, self.address, scorer, weights, device, str(most), str(wait)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            text=True,
        )
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        line = self._process.stdout.readline()
        if line.strip() != "ready":
            self.close()
            raise ScorerError(line.strip() or "the scorer service did not start; see its messages above")

    def close(self) -> None:
        """End the process. May be called twice."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteScorer:
    """A scorer that asks a service. One connection each thread and process.

    Raises:
        ScorerError: nothing answers at the address, or it serves another scorer than `expected`.
    """

    def __init__(self, address: str, expected: str = "auto") -> None:
        self._address = address
        self._local = threading.local()
        told = json.loads(self._ask(_HEAD.pack(0, 0, 0)))
        self.name, self.version = str(told["name"]), str(told["version"])
        if expected not in ("auto", self.name):
            raise ScorerError(f"the service at {address} serves {self.name!r}, not scorer={expected!r}; ask for that")

    def served(self) -> tuple[int, int]:
        """How many pairs the service has scored for all who asked, and in how many batches."""
        told = json.loads(self._ask(_HEAD.pack(0, 0, 0)))
        return told["pairs"], told["batches"]

    def score(self, targets: Sequence[Pixels], pictures: Sequence[Pixels]) -> list[Mapping[str, float]]:
        height, width = targets[0].shape[:2]
        parts = [_HEAD.pack(len(targets), height, width), *(each.tobytes() for each in (*targets, *pictures))]
        told = json.loads(self._ask(b"".join(parts)))
        if "error" in told:
            raise ScorerError(f"the scorer service failed: {told['error']}")
        scores: list[Mapping[str, float]] = told["scores"]
        return scores

    def _ask(self, message: bytes) -> bytes:
        try:
            if getattr(self._local, "pid", None) != os.getpid():  # a fork must not share its parent's connection
                self._local.connection = Client(self._address, "AF_UNIX")
            self._local.pid = None  # until the answer is here: that to an interrupted call would be the next one's
            self._local.connection.send_bytes(message)
            answer: bytes = self._local.connection.recv_bytes()
            self._local.pid = os.getpid()
        except (OSError, EOFError) as error:
            raise ScorerError(f"no scorer service answers at {self._address} ({error}); start one") from error
        return answer


@dataclass
class _Request:
    targets: list[Pixels]
    pictures: list[Pixels]
    answer: queue.SimpleQueue[bytes]


class _Server:
    """Reads requests in a thread each connection, and scores them together in one."""

    def __init__(self, address: str, scorer: str, weights: str, device: str, most: int, wait: float) -> None:
        self._scorer = make_scorer(scorer, weights, device)
        self._listener = Listener(address, "AF_UNIX", backlog=128)
        self._requests: queue.Queue[_Request] = queue.Queue()
        self._most, self._wait = most, wait
        self._pairs = self._batches = 0

    def run(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()
        while True:
            self._answer(self._collect())

    def _accept(self) -> None:
        while True:
            connection = self._listener.accept()
            threading.Thread(target=self._listen, args=(connection,), daemon=True).start()

    def _listen(self, connection: Connection) -> None:
        with contextlib.suppress(OSError, EOFError), connection:
            while True:
                connection.send_bytes(self._serve(connection.recv_bytes()))

    def _serve(self, message: bytes) -> bytes:
        count, height, width = _HEAD.unpack_from(message)
        if count == 0:
            about = {"name": self._scorer.name, "version": self._scorer.version}
            return json.dumps({**about, "pairs": self._pairs, "batches": self._batches}).encode()
        size = height * width * 3
        if len(message) != _HEAD.size + 2 * count * size:
            return json.dumps({"error": "the message has not the length that it says"}).encode()
        pixels = np.frombuffer(message, np.uint8, offset=_HEAD.size).reshape(2, count, height, width, 3)
        answer: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._requests.put(_Request(list(pixels[0]), list(pixels[1]), answer))
        return answer.get()

    def _collect(self) -> list[_Request]:
        """Requests that are there, or come while a batch waits; all of one size of pictures."""
        batch = [self._requests.get()]
        pairs = len(batch[0].targets)
        while pairs < self._most:
            try:
                request = self._requests.get(timeout=self._wait)
            except queue.Empty:
                break
            if request.targets[0].shape != batch[0].targets[0].shape:
                self._requests.put(request)
                break
            batch.append(request)
            pairs += len(request.targets)
        return batch

    def _answer(self, batch: list[_Request]) -> None:
        try:
            scores = self._scorer.score(
                [each for request in batch for each in request.targets],
                [each for request in batch for each in request.pictures],
            )
        except Exception as error:
            for request in batch:
                request.answer.put(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
            return
        self._pairs, self._batches = self._pairs + len(scores), self._batches + 1
        for request in batch:
            mine, scores = scores[: len(request.targets)], scores[len(request.targets) :]
            request.answer.put(json.dumps({"scores": [dict(each) for each in mine]}).encode())


def _end_with_parent() -> None:
    sys.stdin.read()  # ends when the process that started us does
    os._exit(0)


def main() -> None:
    """Serve until the process that started this one ends."""
    address, scorer, weights, device, most, wait = sys.argv[1:]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        server = _Server(address, scorer, weights, device, int(most), float(wait))
    except VagenError as error:
        sys.stdout.write(f"{error}\n")
        return
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.run()


if __name__ == "__main__":
    main()
