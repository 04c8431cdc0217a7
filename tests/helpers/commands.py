"""The command `vagen` without a process of its own, whose start costs more than most of what it does."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

from vagen_benchmarks.cli import main


class Done(NamedTuple):
    """What a process would have left."""

    returncode: int
    stdout: str
    stderr: str


def vagen(*words):
    """`vagen WORDS`, as its console script runs it, in this process."""
    said, errors, code = io.StringIO(), io.StringIO(), 0
    argv = mock.patch.object(sys, "argv", ["vagen", *map(str, words)])
    with argv, redirect_stdout(said), redirect_stderr(errors):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return Done(code, said.getvalue(), errors.getvalue())
