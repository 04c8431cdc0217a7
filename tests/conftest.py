"""Shared by all tests."""

from __future__ import annotations

import os
import signal

# Two busy threads of a numeric library on two cores only wait for each other. Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings

# A shell without job control starts what runs in the background deaf to Ctrl-C, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "repository", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=100
)
settings.load_profile("repository")


def pytest_collection_modifyitems(config, items):
    """`gpu`, `api` and `slow` run only when asked for by name with -m."""
    import pytest

    asked = config.getoption("-m") or ""
    for item in items:
        for marker in ("gpu", "api", "slow"):
            if item.get_closest_marker(marker) and marker not in asked:
                item.add_marker(pytest.mark.skip(reason=f"opt in with -m {marker}"))
