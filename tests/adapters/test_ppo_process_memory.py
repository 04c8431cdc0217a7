"""A process keeps what a training asked of it only as long as it trains."""

import gc
import multiprocessing

import pytest

pytest.importorskip("trl")

from vagen_adapters.ppo.process_memory import SELDOM, garbage_looked_for_seldom, keep_freed_memory


def test_garbage_is_found_as_before_afterwards_and_after_a_failure():
    def fail():
        with garbage_looked_for_seldom():
            inside.extend([gc.get_threshold(), gc.get_freeze_count()])
            raise KeyError

    before, inside = gc.get_threshold(), []
    with pytest.raises(KeyError):
        fail()
    assert inside[0] == SELDOM
    assert inside[1] > 10_000
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_rings_of_objects_are_still_found_in_between():
    class Ring:
        gone = 0

        def __init__(self):
            self.self = self

        def __del__(self):
            Ring.gone += 1

    with garbage_looked_for_seldom():
        for _ in range(3 * SELDOM[0]):
            Ring()
    assert Ring.gone > SELDOM[0]


def test_memory_that_is_freed_and_wanted_again_costs_no_new_pages():
    """Of tensors as large as those of a batch; in a process of its own, since it can't be taken back."""
    pytest.importorskip("resource")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        without, kept = pool.apply(_faults)
    assert kept < without / 2


def _faults():
    import resource

    import torch

    def faults():
        begun = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(20):
            torch.ones(3, 1 << 20).add(1)  # 12 MiB, twice
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begun

    without = faults()
    keep_freed_memory()
    faults()
    return without, faults()
