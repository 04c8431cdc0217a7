"""Prints what the benchmarks mean: medians side by side, their ratio, and what was promised.

A group holds `ours` and, where there is one, `theirs`; or `extra_info` has `theirs` in seconds,
such that the ratio is the median over pairs of rounds, and, where ours isn't the median, what was
`taken`. What was promised stands in `extra_info`:
`at_least` (theirs / ours), `at_most` (ours / theirs), `at_most_us` or `at_least_per_s` of ours
alone. Nothing here fails a run: timings on shared machines are for reading.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table of ratios, after pytest-benchmark's own."""
    session = getattr(config, "_benchmarksession", None)
    if session is None or not session.benchmarks:
        return
    groups: dict[str, dict[str, Any]] = {}
    for each in session.benchmarks:
        groups.setdefault(each.group, {})["theirs" if "theirs" in each.name else "ours"] = each
    terminalreporter.section(f"ratios on {machine()}")
    terminalreporter.write_line(f"{'what':44} {'ours':>12} {'theirs':>12} {'ratio':>9}   promised")
    for name, pair in groups.items():
        if "ours" in pair:
            terminalreporter.write_line(_line(name, pair["ours"], pair.get("theirs")))


def _line(name: str, ours: Any, theirs: Any) -> str:
    promises = dict(ours.extra_info)
    mine = promises.pop("taken", ours.stats.median) * 1e6
    its = promises.pop("theirs", theirs.stats.median if theirs else 0.0) * 1e6
    promised, kept = "", True
    for key, value in promises.items():
        ratio = its / mine if its else 0.0
        kept = {
            "at_least": ratio >= value,
            "at_most": bool(its) and mine / (its or 1) <= value,
            "at_most_us": mine <= value,
            "at_least_per_s": 1e6 / mine >= value,
        }[key]
        promised = {
            "at_least": f"≥ {value}×",
            "at_most": f"≤ {value}× of theirs",
            "at_most_us": f"≤ {value} µs",
            "at_least_per_s": f"≥ {value:,} a second; here {1e6 / mine:,.0f}",
        }[key]
    against = f"{its:9.1f} µs {its / mine:8.1f}×" if its else f"{'':12} {'':9}"
    return f"{name:44} {mine:9.1f} µs {against}   {promised}{'' if kept else '  ← not kept'}"


def machine() -> str:
    """The processor's name and the Python version."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(
            line.partition(":")[2].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        cpu = platform.processor() or platform.machine()
    return f"{cpu}, Python {platform.python_version()}"
