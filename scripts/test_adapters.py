"""Test every adapter against its real library, in an environment of its own that is made of pinned
versions.

    python3 scripts/test_adapters.py [NAME …]

Without names all are tested. tests/adapters/pins/NAME.txt says every version, or shared.txt does
for those that agree. An environment is made once for each state of that file (and of
pyproject.toml), in .venv-adapters/, and used again until it changes. TRL is tested by `make test`,
whose environment constraints.txt pins.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "tests" / "adapters" / "pins"
VENVS = ROOT / ".venv-adapters"
RUN_TESTS = ("pytest", "pytest-timeout", "hypothesis")


@dataclass(frozen=True)
class Adapter:
    """What is tested of an adapter.

    Attributes:
        extra: that brings the library; empty for Gymnasium, which is always there.
        module: ours, imported first, so that a failure says what is missing and not that tests were
            skipped.
        library: its distribution.
        tests: files under tests/.
        page: under docs/adapters/; its blocks of Python are run as they stand.
        further: what the tests need beside: extras of ours, or requirements.
        pins: the file of versions; the adapter's own by default. Those that share one share the
            environment.
        python: the oldest that the library runs on, where ours is older.
    """

    extra: str
    module: str
    library: str
    tests: tuple[str, ...]
    page: str
    further: tuple[str, ...] = ()
    pins: str = ""
    python: tuple[int, int] = (3, 11)


SHARED = "shared"
ADAPTERS = {
    "gymnasium": Adapter(
        "",
        "vagen_adapters.gymnasium_env",
        "gymnasium",
        ("adapters/test_chat_observation.py",),
        "gymnasium",
        (),
        SHARED,
    ),
    "pettingzoo": Adapter(
        "pettingzoo",
        "vagen_adapters.pettingzoo_env",
        "pettingzoo",
        ("adapters/test_adapters_pettingzoo.py",),
        "pettingzoo",
        ("vagen-envs[human]",),
        SHARED,
    ),
    "verifiers": Adapter(
        "verifiers",
        "vagen_adapters.verifiers_env",
        "verifiers",
        ("adapters/test_adapters_verifiers.py", "adapters/test_parity_verifiers.py"),
        "verifiers",
        ("torch>=2.9", "accelerate>=1.15"),  # the parity kit's model
    ),
    "openenv": Adapter(
        "openenv",
        "vagen_adapters.openenv_env",
        "openenv",
        ("adapters/test_adapters_openenv.py",),
        "openenv",
    ),
    "inspect": Adapter(
        "inspect",
        "vagen_adapters.inspect_env",
        "inspect-ai",
        ("adapters/test_adapters_inspect.py",),
        "inspect",
        ("vagen-envs[bench]",),
        SHARED,
    ),
    "nemo_gym": Adapter(
        "nemo-gym",
        "vagen_adapters.nemo_gym_env",
        "nemo-gym",
        ("adapters/test_adapters_nemo_gym.py",),
        "nemo_gym",
        python=(3, 13),
    ),
    "torchrl": Adapter(
        "torchrl",
        "vagen_adapters.torchrl_env",
        "torchrl",
        ("adapters/test_adapters_torchrl.py",),
        "torchrl",
        (),
        SHARED,
    ),
    "sb3": Adapter(
        "sb3",
        "vagen_adapters.gymnasium_env",
        "stable_baselines3",
        ("adapters/test_adapters_sb3.py",),
        "sb3",
        (),
        SHARED,
    ),
    "rllib": Adapter(
        "rllib",
        "vagen_adapters.gymnasium_env",
        "ray",
        ("adapters/test_adapters_rllib.py",),
        "rllib",
    ),
    "skyrl": Adapter(
        "skyrl",
        "vagen_adapters.skyrl_env",
        "skyrl-gym",
        ("adapters/test_adapters_skyrl.py",),
        "skyrl",
        (),
        SHARED,
    ),
    "skyrl_train": Adapter(
        "skyrl",
        "vagen_adapters.skyrl_env",
        "skyrl",
        ("adapters/test_parity_skyrl.py",),
        "skyrl",
        (
            "skyrl>=0.4",
            "torch>=2.9",
            "loguru",
            "func_timeout",
            "hydra-core",
            "accelerate",
            "ray",
            "tensordict",
            "jaxtyping",
            "orjson",
            "pybase64",
            "fastapi",
            "uvicorn",
        ),  # skyrl[fsdp] without what needs CUDA
        python=(3, 12),
    ),
    "verl": Adapter(
        "verl",
        "vagen_adapters.verl_env",
        "verl",
        ("adapters/test_adapters_verl.py", "adapters/test_parity_verl.py"),
        "verl",
    ),
}


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(ADAPTERS))
    if unknown:
        print(f"unknown adapter {', '.join(unknown)}; there are {', '.join(ADAPTERS)}")
        return 2
    failed = []
    for name in names or ADAPTERS:
        if too_old := wants(name):
            print(
                f"{name}: not tested, for it needs {too_old}: make test-adapters "
                f"PYTHON={too_old} ADAPTERS={name}"
            )
            failed += [name] if names else []
            continue
        began = time.monotonic()
        python = pinned(name)
        made = time.monotonic()
        wrong = test(name, python)
        print(
            f"{name}: {wrong or 'passed'} ({made - began:.0f} s to set up, "
            f"{time.monotonic() - made:.0f} s)",
            flush=True,
        )
        failed += [name] if wrong else []
    return int(bool(failed))


def wants(name: str) -> str:
    """The Python that an adapter's library needs, if this one is too old."""
    needed = ADAPTERS[name].python
    return "python{}.{}".format(*needed) if sys.version_info < needed else ""


def pins_of(name: str) -> Path:
    """The file that says an adapter's versions."""
    return PINS / f"{ADAPTERS[name].pins or name}.txt"


def pinned(name: str) -> Path:
    """The Python of the adapter's environment, made if there is none for these pins."""
    pins = pins_of(name)
    asked = sys.version.encode() + pins.read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    folder = VENVS / f"{pins.stem}-{hashlib.sha256(asked).hexdigest()[:12]}"
    if not (folder / "made").is_file():
        for old in VENVS.glob(f"{pins.stem}-*"):
            shutil.rmtree(old)
        made = make_venv(folder)
        # they say everything; nemo-gym asks for a later patch release of Python than it needs
        install(made, "--no-deps", "--ignore-requires-python", "-r", str(pins))
        install(made, "--no-deps", "-e", str(ROOT))
        (folder / "made").touch()
    return folder / "bin" / "python"


def make_venv(folder: Path) -> Path:
    """A new virtual environment. Debian keeps `ensurepip` in a package of its own; `install` does
    without it.
    """
    has_pip = importlib.util.find_spec("ensurepip") is not None
    options = [] if has_pip else ["--without-pip"]
    command = [sys.executable, "-m", "venv", "--clear", *options, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"no virtual environment can be made with {sys.executable}: {done.stdout}{done.stderr}"
        )
    return folder / "bin" / "python"


def install(python: Path, *words: str) -> None:
    """With the environment's own pip, or with that of the environment that `make test` set up."""
    own = python.with_name("pip").exists()
    pip = (
        [python, "-m", "pip"]
        if own
        else [ROOT / ".venv/bin/python", "-m", "pip", "--python", python]
    )
    # The tests compile what they import: a few of the 18,000 files of a trainer's environment.
    quick = ["--disable-pip-version-check", "--no-input", "install", "--no-compile"]
    command = [*pip, *quick, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-3000:])
        raise SystemExit(f"pip install {' '.join(words)} failed, see above")


def test(name: str, python: Path) -> str:
    """What is wrong with an adapter, or nothing."""
    adapter = ADAPTERS[name]
    alone = dict(os.environ, PYTHONDONTWRITEBYTECODE="")
    alone.pop("PYTHONPATH", None)  # what is installed is tested
    done = run([python, "-c", f"import {adapter.module}"], alone)
    if done.returncode:
        print(done.stdout, end="")
        return done.stdout.strip().splitlines()[-1]
    files = [f"tests/{each}" for each in adapter.tests]
    page = f"tests/test_docs.py::test_python_of_a_page_runs[docs/adapters/{adapter.page}.md]"
    done = run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, page], alone)
    print(done.stdout, end="")
    said = done.stdout.strip().splitlines()
    skipped = [
        line
        for line in said
        if re.match(rf"SKIPPED.*(test_adapters_|test_parity_|{adapter.library})", line)
    ]
    if done.returncode or skipped:
        return (skipped or said or ["no output"])[-1]
    return ""


def run(command: list[Path | str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
