"""What a training asks of its process: to keep memory that it will want again, and to look for garbage seldom."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys
from collections.abc import Iterator

KEPT, OF_ITS_OWN = 1 << 29, 1 << 25
"""Bytes that stay though they were freed, and from which memory is taken for each tensor alone: the most of glibc's."""
SELDOM = (50_000, 20, 100)
"""New objects between two looks for garbage among them, and how often then among older ones. Python's own first number
is 700 or 2,000, which a batch of one turn has."""


@functools.cache
def keep_freed_memory() -> None:
    """Have this process keep memory that it has freed, where that is glibc's.

    Left to itself glibc gives a batch's larger tensors back to the system and takes them anew, emptied page by page:
    49,000 faults in a rollout of the tiny model with its updates, for 22,000 so, and 2 % of its time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for parameter, size in ((-1, KEPT), (-3, OF_ITS_OWN)):  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
            mallopt(parameter, size)


@contextlib.contextmanager
def garbage_looked_for_seldom() -> Iterator[None]:
    """While this lasts what is there now isn't searched for garbage, and what comes is seldom: 3 % of a tiny step."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
