"""Prints what the benchmarks mean, and fails where a promise is missed.

A group holds `ours` and, where there is one, `theirs`; or `extra_info` has `theirs` in seconds, so
that the ratio is the median over pairs of rounds, and, where ours isn't the median, `taken`. The
promise stands there too: `at_least` (theirs / ours), `at_most_us` or `at_least_per_s` (of ours
alone, `count` things in a round). Of several, one is enough.

A promise missed by more than `--slack` times ends the run with 1. `--ratios` runs only tests marked
`ratio`: a busy machine slows both sides of a pair.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest

SLACK = 1.3
"""The median of a quiet machine varies by some ten per cent from run to run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--slack` and `--ratios`."""
    parser.addoption("--slack", type=float, default=SLACK, help="times a promise may be missed")
    parser.addoption("--ratios", action="store_true", help="run the promised ratios alone")


def pytest_configure(config: pytest.Config) -> None:
    """The marker of pairs whose ratio is promised."""
    config.addinivalue_line("markers", "ratio: one side of a ratio that is promised")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--ratios` the tests of promised ratios are left."""
    if not config.getoption("--ratios"):
        return
    pairs = [item for item in items if item.get_closest_marker("ratio")]
    config.hook.pytest_deselected(items=[item for item in items if item not in pairs])
    items[:] = pairs


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table of ratios, after pytest-benchmark's own."""
    groups = _groups(config)
    if not groups:
        return
    terminalreporter.section(f"ratios on {machine()}")
    terminalreporter.write_line(f"{'what':44} {'ours':>12} {'theirs':>12} {'ratio':>9}   promised")
    for name, pair in groups.items():
        count = pair["ours"].extra_info.get("count", 1)
        terminalreporter.write_line(_line(name, *_times(pair), _promises(config, pair), count))


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Any:
    """Set the exit status to 1 where a promise is missed by more than the slack."""
    result = yield
    slack = session.config.getoption("--slack")
    for pair in _groups(session.config).values():
        shares = [_share(*_times(pair), promise) for promise in _promises(session.config, pair)]
        if shares and max(shares) < 1 / slack and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return result


def _groups(config: pytest.Config) -> dict[str, dict[str, Any]]:
    """The benchmarks by group, those with something of ours."""
    run = getattr(config, "_benchmarksession", None)
    groups: dict[str, dict[str, Any]] = {}
    for each in run.benchmarks if run is not None else ():
        groups.setdefault(each.group, {})["theirs" if "theirs" in each.name else "ours"] = each
    return {name: pair for name, pair in groups.items() if "ours" in pair}


def _times(pair: dict[str, Any]) -> tuple[float, float]:
    """Microseconds of ours and of theirs, 0 where there is nothing to compare with."""
    info = pair["ours"].extra_info
    mine = info.get("taken", pair["ours"].stats.median)
    other = pair["theirs"].stats.median if "theirs" in pair else 0.0
    return mine * 1e6, info.get("theirs", other) * 1e6


def _promises(config: pytest.Config, pair: dict[str, Any]) -> list[tuple[str, float]]:
    """Kind and value of each promise; a rate is one of its round."""
    info = pair["ours"].extra_info
    kinds = ("at_least",) if config.getoption("--ratios") else KINDS
    count = info.get("count", 1)
    found = [(kind, float(info[kind])) for kind in kinds if kind in info]
    return [(kind, value / count if kind == "at_least_per_s" else value) for kind, value in found]


KINDS = {"at_least": "≥ {:g}×", "at_most_us": "≤ {:g} µs", "at_least_per_s": "≥ {:,.4g} a second"}


def _share(mine: float, theirs: float, promise: tuple[str, float]) -> float:
    """How well a promise is kept: 1 where it just is."""
    kind, value = promise
    if kind == "at_least":
        return theirs / mine / value
    if kind == "at_most_us":
        return value / mine
    return 1e6 / mine / value


def _line(
    name: str, mine: float, theirs: float, promises: list[tuple[str, float]], count: int
) -> str:
    shares = [_share(mine, theirs, promise) for promise in promises]
    words = " or ".join(KINDS[kind].format(value * count) for kind, value in promises)
    missed = f"  ← missed by {1 / max(shares):.1f}×" if shares and max(shares) < 1 else ""
    against = f"{theirs:9.1f} µs {theirs / mine:8.1f}×" if theirs else f"{'':12} {'':9}"
    return f"{name:44} {mine:9.1f} µs {against}   {words}{missed}"


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
