"""Causes of failed episodes, with counts and fixes."""

from __future__ import annotations

import functools
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vagen_benchmarks.phrases import plain_words, says
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
"""Words of failures with their fixes."""
_STATUS = re.compile(r"HTTP (\d{3})")


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
        fix = next(entry["do"] for entry in _fixes() if _fits(entry, kind, message))
        cause = (kind, fix.format(key=key), Stop(kind) in RESUME_HELPS)
        found[cause] += count
        first.setdefault(cause, message)
    advice: list[Advice] = []
    for cause, count in found.most_common():
        _, fix, resume_helps = cause
        advice.append(Advice(count, first[cause], fix, resume_helps))
    return advice


def _fits(entry: Mapping[str, Any], kind: str, message: str) -> bool:
    """Whether an entry is about failures of a kind and, where it has words, about these."""
    if entry.get("kind", kind) != kind or not message.startswith(entry.get("begins", "")):
        return False
    if "says" not in entry and "status" not in entry:
        return True
    statuses = {int(status) for status in _STATUS.findall(message)}
    told = says(plain_words(message), entry.get("says", ()))
    return told or not statuses.isdisjoint(entry.get("status", ()))


@functools.cache
def _fixes() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = tomllib.loads(FIXES.read_text(encoding="utf-8"))["fix"]
    return entries
