"""Shared by all tests."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path

# Two busy threads of a numeric library on two cores only wait for each other. Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
from chat_endpoint import Endpoint
from hypothesis import HealthCheck, settings

# A shell without job control starts what runs in the background deaf to Ctrl-C, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "repository",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100,
)
settings.load_profile("repository")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """PyTorch and the like are a million objects. Garbage isn't looked for while they are imported."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        _leave_be()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    if item.path != _leave_be.file:
        _leave_be.file = item.path
        _leave_be()
    return (yield)


def _leave_be():
    """Have the garbage collector pass over all that is there now.

    It would read it again at each full collection, of which accelerate, ManiSkill and others ask for some in every
    training and reset: two fifths of a small training's time.
    """
    gc.collect()
    gc.freeze()


_leave_be.file = None


NEEDED = {"test_ppo_*.py": "trl", "test_service*.py": "fastapi", "test_ray_pool.py": "fastapi"}
"""What tests of adapters need, beside what single files ask for."""
collect_ignore_glob = [
    f"adapters/{files}" for files, module in NEEDED.items() if find_spec(module) is None
]


def pytest_report_header():
    """What isn't run."""
    return [f"left out: {files}, for an extra is missing" for files in collect_ignore_glob]


@pytest.fixture
def endpoint():
    """A chat endpoint on loopback."""
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """The folder of an untrained tiny model that knows FrozenLake's words."""
    pytest.importorskip("trl")
    from vagen_adapters.parity import tiny_model as tiny

    folder = tmp_path_factory.mktemp("tiny")
    options = {"strategy": "no_think", "max_turns": 2, "prompt_pack": tiny.PROMPTS}
    texts = tiny.texts_of(["vagen/FrozenLake-v0"], levels=5, **options)
    tiny.save_tiny(folder, texts, vocabulary=320, hidden=64, layers=2, vision_layers=1)
    return str(folder)


def pytest_collection_modifyitems(config, items):
    """`gpu`, `api` and `slow` run only when asked for by name with -m."""
    asked = config.getoption("-m") or ""
    for item in items:
        for marker in ("gpu", "api", "slow"):
            if item.get_closest_marker(marker) and marker not in asked:
                item.add_marker(pytest.mark.skip(reason=f"opt in with -m {marker}"))


def _lacking():
    """What this machine lacks beside Python: the words of an error that comes of it, and the packages that fix it."""
    vulkan = any(
        Path(folder).glob("*.json") for folder in ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d")
    )
    return [
        (re.compile(words, re.IGNORECASE), packages)
        for there, words, packages in (
            (find_library("cairo"), "cairo", "libcairo2"),
            (find_library("EGL"), "egl|opengl|AI2-THOR player", "libegl1 libgl1 libgl1-mesa-dri"),
            (
                find_library("X11") and vulkan,
                "libX11|vulkan",
                "Mesa's Vulkan drivers: vagen setup vulkan",
            ),
            (shutil.which("chromium"), "chromium", "chromium"),
        )
        if not there
    ]


LACKING = _lacking()


def _skipped_if_lacking(report, error):
    """A test that fails for want of a system package, on a machine that lacks it, is skipped with that reason."""
    words = []
    while error is not None:
        words.append(f"{type(error).__name__}: {error} {getattr(error, 'stderr', '')}")
        error = error.__cause__ or error.__context__
    for known, packages in LACKING:
        if known.search(" ".join(words)):
            report.outcome = "skipped"
            report.longrepr = (
                report.nodeid.split("::")[0],
                0,
                f"Skipped: this machine lacks {packages}",
            )
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    return (
        _skipped_if_lacking(report, report.call.excinfo.value)
        if LACKING and report.failed
        else report
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    return _skipped_if_lacking(report, call.excinfo.value) if LACKING and report.failed else report


@pytest.fixture(scope="session")
def chromium():
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium here; install Debian's package chromium")
    return found
