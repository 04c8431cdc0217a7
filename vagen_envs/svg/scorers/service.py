"""One process that owns a scorer's weights and scores for all others of this machine.

    with ScorerService("dreamsim", weights=folder) as service:
        gym.make_vec("vagen/SVGReconstruction-v0", 16, scorer_address=service.address)

Requests that arrive together are scored as one batch. The channel is a Unix socket in a folder that only this user
may enter.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, NamedTuple, Self

from vagen_envs.errors import ScorerError, VagenError
from vagen_envs.pictures import Pixels
from vagen_envs.svg.scorers.choosing import Scorer, make_scorer
from vagen_envs.workers import started

_Scores = list[Mapping[str, float]]


class _Request(NamedTuple):
    targets: Sequence[Pixels]
    pictures: Sequence[Pixels]
    scores: Future[_Scores]


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
        arguments = (self.address, scorer, weights, device, str(most), str(wait))
        self._process, ours = started(__name__, *arguments)
        self._connection = Connection(ours.detach())
        try:
            problem = self._connection.recv()
        except EOFError:
            problem = "the scorer service did not start; its messages are on the standard error"
        if problem:
            self.close()
            raise ScorerError(problem)

    def close(self) -> None:
        """End the process. May be called twice."""
        self._connection.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteScorer:
    """A scorer that asks a service, over a connection for each request.

    Raises:
        ScorerError: nothing answers at the address, or it serves another scorer than `expected`.
    """

    def __init__(self, address: str, expected: str = "auto") -> None:
        self._address = address
        self.name, self.version = self._ask(None)
        if expected not in ("auto", self.name):
            raise ScorerError(f"the service at {address} serves {self.name!r}, not scorer={expected!r}; ask for that")

    def score(self, targets: Sequence[Pixels], pictures: Sequence[Pixels]) -> _Scores:
        scores: _Scores = self._ask((list(targets), list(pictures)))
        return scores

    def _ask(self, request: object) -> Any:
        try:
            with Client(self._address, "AF_UNIX") as connection:
                connection.send(request)
                good, answer = connection.recv()
        except (OSError, EOFError) as error:
            raise ScorerError(f"no scorer service answers at {self._address} ({error}); start one") from error
        if not good:
            raise ScorerError(f"the scorer service failed: {answer}")
        return answer


class BatchingScorer:
    """Scores the requests of several threads together. Those of one batch have pictures of one size.

    Args:
        scorer: called in one thread.
        most, wait: as for `ScorerService`.
    """

    def __init__(self, scorer: Scorer, most: int, wait: float) -> None:
        self.name, self.version = scorer.name, scorer.version
        self._scorer, self._most, self._wait = scorer, most, wait
        self._requests: queue.Queue[_Request] = queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def score(self, targets: Sequence[Pixels], pictures: Sequence[Pixels]) -> _Scores:
        request = _Request(targets, pictures, Future())
        self._requests.put(request)
        return request.scores.result()

    def _run(self) -> None:
        while True:
            batch = [self._requests.get()]
            with contextlib.suppress(queue.Empty):
                while sum(len(request.targets) for request in batch) < self._most:
                    batch.append(self._requests.get(timeout=self._wait))
            for shape in {request.targets[0].shape for request in batch}:
                self._score([request for request in batch if request.targets[0].shape == shape])

    def _score(self, batch: list[_Request]) -> None:
        try:
            targets = [picture for request in batch for picture in request.targets]
            pictures = [picture for request in batch for picture in request.pictures]
            scores = iter(self._scorer.score(targets, pictures))
        except Exception as error:
            for request in batch:
                request.scores.set_exception(error)
            return
        for request in batch:
            request.scores.set_result([next(scores) for _ in request.targets])


def _serve(connection: Connection, scorer: BatchingScorer) -> None:
    with contextlib.suppress(OSError, EOFError), connection:
        request = connection.recv()
        answer: tuple[bool, Any] = True, (scorer.name, scorer.version)
        if request is not None:
            try:
                answer = True, scorer.score(*request)
            except Exception as error:
                answer = False, f"{type(error).__name__}: {error}"
        connection.send(answer)


def main() -> None:
    """Serve until the process that started this one ends."""
    parent = Connection(int(sys.argv[1]))
    address, name, weights, device, most, wait = sys.argv[2:]
    try:
        scorer = BatchingScorer(make_scorer(name, weights, device), int(most), float(wait))
    except VagenError as error:
        parent.send(str(error))
        return
    listener = Listener(address, "AF_UNIX", backlog=128)
    parent.send("")

    def accept() -> None:
        while True:
            threading.Thread(target=_serve, args=(listener.accept(), scorer), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with contextlib.suppress(EOFError):
        parent.recv()
    os._exit(0)


if __name__ == "__main__":
    main()
