"""What processes hold, have used and have started, read from /proc."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def resident(*pids: int) -> int:
    """Bytes of memory that these processes hold now; this process where none is named."""
    pages = sum(
        int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids or (os.getpid(),)
    )
    return pages * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(*pids: int) -> float:
    """User and system time that these processes have used. Raises OSError if one is gone."""
    fields = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """The processes that a process has started and that live, in order."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            found += map(int, (task / "children").read_text().split())
    return sorted(found)
