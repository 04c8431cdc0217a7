"""A worker process: `python -m vagen_adapters.service.worker FD CPU MEMORY`. Started by `local_pool.LocalHost` only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection

from vagen_adapters.service.host import Call, EnvHost, Result
from vagen_adapters.service.limits import SLICE, Limits
from vagen_envs.workers import answer_calls


def main(connection: Connection, limits: Limits) -> None:
    """Serve until the other end is gone."""
    host = EnvHost(limits)

    def answer(calls: Sequence[Call]) -> list[Result]:
        return host.do(calls, SLICE)

    answer_calls(connection, answer, lambda: None)


if __name__ == "__main__":
    with contextlib.suppress(EOFError, OSError):  # the other end is gone, and with it the need for this process
        main(Connection(int(sys.argv[1])), Limits(cpu=float(sys.argv[2]), memory=int(sys.argv[3])))
