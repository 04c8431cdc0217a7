"""One process that owns a scorer's weights and scores for all others of this machine.

    with ScorerService("dreamsim", weights=folder) as service:
        gym.make_vec("vagen/SVGReconstruction-v0", 16, scorer_address=service.address)

Requests that arrive while others are scored are the next batch. The channel is a Unix socket in a
folder that only this user may enter.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, NamedTuple

from vagen_envs.errors import ScorerError, SimulatorError
from vagen_envs.pictures import Pixels
from vagen_envs.svg.scorers import make_scorer
from vagen_envs.svg.scorers.base import Scorer
from vagen_envs.workers import Worker, WorkerDied, answer_calls

_Scores = list[Mapping[str, float]]
_PATIENCE = 5.0  # seconds until a client that has connected and asks nothing is given up


class ScorerService(contextlib.AbstractContextManager["ScorerService"]):
    """Starts the service's process, and ends it.

    Args:
        scorer, weights, device: as for `make_scorer`.

    Raises:
        ScorerError: the scorer isn't complete, or the process did not start.
    """

    def __init__(self, scorer: str = "auto", weights: str = "", device: str = "auto") -> None:
        self._folder = tempfile.mkdtemp(prefix="vagen-scorer-")
        self.address = str(Path(self._folder) / "socket")
        self._worker = Worker("the scorer service", __name__, self.address, scorer, weights, device)
        try:
            self._worker.call()  # returns once it serves
        except (SimulatorError, WorkerDied) as error:
            self.close()
            cause = error.cause if isinstance(error, SimulatorError) else error
            raise ScorerError(f"the scorer service did not start: {cause}") from error

    def close(self) -> None:
        """End the process. May be called twice."""
        self._worker.close()
        shutil.rmtree(self._folder, ignore_errors=True)

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
            raise ScorerError(
                f"the service at {address} serves {self.name!r}, not scorer={expected!r}; ask "
                "for that"
            )

    def score(self, targets: Sequence[Pixels], pictures: Sequence[Pixels]) -> _Scores:
        scores: _Scores = self._ask((list(targets), list(pictures)))
        return scores

    def _ask(self, request: object) -> Any:
        try:
            with Client(self._address, "AF_UNIX") as connection:
                connection.send(request)
                good, answer = connection.recv()
        except (OSError, EOFError) as error:
            raise ScorerError(
                f"no scorer service answers at {self._address} ({error}); start one"
            ) from error
        if not good:
            raise ScorerError(f"the scorer service failed: {answer}")
        return answer


class _Request(NamedTuple):
    """Pairs to score, and the connection that waits for their scores."""

    connection: Connection
    targets: Sequence[Pixels]
    pictures: Sequence[Pixels]


def _receive(listener: Listener, about: tuple[str, str], waiting: queue.Queue[_Request]) -> None:
    """Tell each client what is served here, or queue what it wants scored."""
    while True:
        with contextlib.suppress(Exception):  # whatever a client sends ends nobody else's service
            connection = listener.accept()
            if not connection.poll(_PATIENCE):
                continue
            request = connection.recv()
            if request is None:
                connection.send((True, about))
            else:
                waiting.put(_Request(connection, *request))


def _score(scorer: Scorer, waiting: queue.Queue[_Request]) -> None:
    """Score what has come meanwhile as one batch."""
    while True:
        batch = [waiting.get()]
        while not waiting.empty():
            batch.append(waiting.get())
        answers: Iterable[tuple[bool, Any]]
        try:
            targets = [pixels for request in batch for pixels in request.targets]
            pictures = [pixels for request in batch for pixels in request.pictures]
            scores = iter(scorer.score(targets, pictures))
            answers = [
                (True, list(itertools.islice(scores, len(request.targets)))) for request in batch
            ]
        except Exception as error:
            answers = itertools.repeat((False, f"{type(error).__name__}: {error}"))
        for request, answer in zip(batch, answers, strict=False):
            with contextlib.suppress(OSError), request.connection:
                request.connection.send(answer)


def _serve(address: str, *arguments: str) -> None:
    scorer = make_scorer(*arguments)
    listener = Listener(address, "AF_UNIX", backlog=128)
    waiting = queue.Queue[_Request]()
    threading.Thread(
        target=_receive, args=(listener, (scorer.name, scorer.version), waiting), daemon=True
    ).start()
    threading.Thread(target=_score, args=(scorer, waiting), daemon=True).start()


if __name__ == "__main__":
    with contextlib.suppress(EOFError, OSError):  # the process that started this one has ended
        answer_calls(Connection(int(sys.argv[1])), lambda: None, lambda: _serve(*sys.argv[2:]))
    os._exit(0)
