"""A worker process: `python -m vagen_adapters.service.worker FD CPU MEMORY NICENESS`. Started by
`local_pool.LocalWorker`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from multiprocessing.connection import Connection

from vagen_adapters.service.host import EnvHost
from vagen_adapters.service.limits import Limits
from vagen_envs.workers import answer_calls

if __name__ == "__main__":
    os.nice(int(sys.argv[4]))
    host = EnvHost(Limits(cpu=float(sys.argv[2]), memory=int(sys.argv[3])))
    gc.freeze()  # loaded modules stay, so collections needn't look through them
    # The server is gone, and with it the need for this process.
    with contextlib.suppress(OSError, EOFError):
        answer_calls(Connection(int(sys.argv[1])), host.run, lambda: None)
