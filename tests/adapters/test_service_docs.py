"""What docs/service.md shows runs as it stands, and its simulation says what queueing theory says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from service_fixtures import Command

from perf.service_scale import Site, simulate

PAGE = Path(__file__).parents[2] / "docs" / "service.md"
CLIENT, RAY = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_client_of_the_page_runs():
    with Command("--workers", 1) as served:
        exec(compile(CLIENT.replace("http://127.0.0.1:8765", served.url), str(PAGE), "exec"), {})  # noqa: S102


@pytest.mark.slow
def test_the_pool_of_the_page_runs(monkeypatch):
    pytest.importorskip("ray", reason="needs the extra ray")
    import ray

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    try:
        exec(compile(RAY, str(PAGE), "exec"), {})  # noqa: S102
    finally:
        ray.shutdown()


def test_the_simulation_keeps_to_the_law_of_one_queue():
    """Turns a second can't exceed what the fullest part serves, and fall short of what is asked for only then."""
    easy = simulate(Site(environments=1000, think=5.0))
    assert easy.turns_per_s == pytest.approx(1000 / 5.0, rel=0.03)
    assert easy.p50 < 2 * (Site.front_s + Site.worker_s)
    half = simulate(Site(environments=6000, think=5.0, cores=8), seconds=60)
    assert half.p50 > Site.front_s + Site.worker_s
    full = simulate(Site(environments=20_000, think=5.0, cores=8), seconds=60)
    assert full.turns_per_s == pytest.approx(1 / Site.front_s, rel=0.02)
    # a closed loop: what waits is what doesn't think, n = λ (think + wait)
    assert full.p50 == pytest.approx(20_000 * Site.front_s - 5.0, rel=0.05)
