"""Modules import each other in one direction: no circle, not in functions and not for types either."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

PACKAGES = ("vagen_envs", "vagen_rewards", "vagen_adapters", "vagen_benchmarks")


@pytest.fixture(scope="module")
def imports():
    """Which modules each module imports, wherever in it, as import-linter's own reader finds them."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def circle(imports):
    """The modules of a circle, or none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_there_is_no_circle(imports):
    assert len(imports) > 300
    assert circle(imports) == []
