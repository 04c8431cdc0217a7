"""A worker process: `python -m vagen_adapters.service.worker FD`. Started by `pool.LocalHost` only."""

from __future__ import annotations

import contextlib
import sys
from multiprocessing.connection import Connection

from vagen_adapters.service.host import EnvHost
from vagen_envs.workers import answer_calls


def main(connection: Connection) -> None:
    """Serve until the other end is gone."""
    answer_calls(connection, EnvHost().do, lambda: None)


if __name__ == "__main__":
    with contextlib.suppress(EOFError, OSError):  # the other end is gone, and with it the need for this process
        main(Connection(int(sys.argv[1])))
