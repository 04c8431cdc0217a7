"""Causes of failed episodes, with counts and fixes."""

from __future__ import annotations

import functools
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vagen_benchmarks.stop_reasons import Stop

RESUME_HELPS = frozenset(
    {
        Stop.UNREACHABLE,
        Stop.TIMEOUT,
        Stop.RATE_LIMITED,
        Stop.SERVER_ERROR,
        Stop.NONSENSE,
        Stop.ENVIRONMENT,
    }
)
"""Causes that may disappear by themselves. All others need the fix before a resume."""

FIXES = Path(__file__).parent / "fixes.toml"
"""Patterns of failure messages with their fixes."""


@dataclass(frozen=True)
class Advice:
    """A cause of failure: affected episodes, its fix, and whether resuming alone may help."""

    count: int
    what: str
    fix: str
    resume_helps: bool


def advise(failures: Mapping[tuple[str, str], int], key: str = "the key") -> list[Advice]:
    """The failures of a run, those of one cause together, the most frequent first.

    Args:
        failures: kind and message → how often.
        key: the environment variable that holds the agents' key.
    """
    found: Counter[tuple[str, str, bool]] = Counter()
    first: dict[tuple[str, str, bool], str] = {}
    for (kind, message), count in failures.items():
        fix = next(do for of, words, do in _fixes() if of in ("", kind) and words.search(message))
        cause = (kind, fix.format(key=key), Stop(kind) in RESUME_HELPS)
        found[cause] += count
        first.setdefault(cause, message)
    return [Advice(count, first[cause], cause[1], cause[2]) for cause, count in found.most_common()]


@functools.cache
def _fixes() -> list[tuple[str, re.Pattern[str], str]]:
    entries = tomllib.loads(FIXES.read_text(encoding="utf-8"))["fix"]
    return [
        (each.get("kind", ""), re.compile(each["says"], re.IGNORECASE), each["do"])
        for each in entries
    ]
