"""Test every adapter against the newest release of its library, and say which of our hooks broke
and where.

    python3 scripts/check_upstream.py [NAME …] [--pin]

The environments are new each time, in .venv-adapters/newest-NAME; adapters that share pins share
one. Upper bounds in pyproject.toml are left out, for what lies above them is the question. `--pin`
writes the versions of an adapter that passed into its file in tests/adapters/pins/.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from test_adapters import ADAPTERS, ROOT, RUN_TESTS, VENVS, install, make_venv, pins_of, test, wants


def main(words: list[str]) -> int:
    pin = "--pin" in words
    names = [word for word in words if word != "--pin"] or list(ADAPTERS)
    unknown = sorted(set(names) - set(ADAPTERS))
    if unknown:
        print(f"unknown adapter {', '.join(unknown)}; there are {', '.join(ADAPTERS)}")
        return 2
    broken = []
    for name in names:
        if too_old := wants(name):
            print(f"{name}: not tested, for it needs {too_old}")
            continue
        python = newest(pins_of(name))
        wrong = test(name, python)
        said = (
            f"{ADAPTERS[name].library} {version(python, ADAPTERS[name].library)} (pinned: "
            f"{pinned_version(name)})"
        )
        print(f"{name}: {said}: {wrong or 'passes'}", flush=True)
        if wrong:
            broken.append(f"{name}: {said}: {where(name, python) or wrong}")
        elif pin:
            pins_of(name).write_text(frozen(python), encoding="utf-8")
    print("\n".join(["", "Broken:", *broken] if broken else ["", "Nothing broke."]))
    return int(bool(broken))


@functools.cache
def newest(pins: Path) -> Path:
    """A new environment with the newest releases that pip finds, whatever our upper bounds are."""
    sharing = [adapter for name, adapter in ADAPTERS.items() if pins_of(name) == pins]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [adapter.extra for adapter in sharing if adapter.extra]
    by_extra = project["optional-dependencies"]
    wanted = [*project["dependencies"]]
    for each in [each for adapter in sharing for each in adapter.further]:
        ours = re.search(r"^vagen-envs\[(\w+)\]$", each)
        extras += [ours[1]] if ours else []
        wanted += [] if ours else [each]
    wanted += [line for extra in extras for line in by_extra[extra]]
    python = make_venv(VENVS / f"newest-{pins.stem}")
    install(python, *[without_upper_bound(line) for line in wanted], *RUN_TESTS)
    install(python, "--no-deps", "-e", str(ROOT))
    return python


def without_upper_bound(line: str) -> str:
    """`verl>=0.9.1` of `verl>=0.9.1,<0.10`."""
    return re.sub(r",?<=?[\w.]+", "", line)


def where(name: str, python: Path) -> str:
    """The lines of our adapter at which an import or a test broke."""
    adapter = ADAPTERS[name]
    file = f"{adapter.module.replace('.', '/')}.py"
    code = (
        f"import traceback\ntry:\n import {adapter.module}\nexcept Exception: traceback.print_exc()"
    )
    command = [python, "-c", code]
    found = at_lines(file, _output(command))
    if not found:
        tests = [f"tests/{each}" for each in adapter.tests]
        found = at_lines(
            file,
            _output(
                [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=native", *tests]
            ),
        )
    return "; ".join(dict.fromkeys(found))


def at_lines(file: str, said: str) -> list[str]:
    """`verl_env.py:25 from verl… import …: ImportError: …` for each traceback that went through
    `file`.
    """
    found = []
    for block in re.split(r"(?=Traceback \(most recent call last\))", said):
        places = re.findall(rf'File "[^"]*{re.escape(file)}", line (\d+), in \S+\n\s+(.+)', block)
        errors = re.findall(r"^(?:E\s+)?(\w[\w.]*(?:Error|Exception)\b.*)$", block, re.MULTILINE)
        if places and errors:
            number, code = places[-1]
            found.append(f"{Path(file).name}:{number} {code.strip()}: {errors[0]}")
    return found


def _output(command: list[Path | str]) -> str:
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout


def version(python: Path, library: str) -> str:
    return _output(
        [python, "-c", f"import importlib.metadata as m; print(m.version({library!r}))"]
    ).strip()


def pinned_version(name: str) -> str:
    library = ADAPTERS[name].library.replace("-", "[-_]")
    found = re.search(rf"^{library}==(\S+)", pins_of(name).read_text(encoding="utf-8"), re.M | re.I)
    return found[1] if found else "not"


def frozen(python: Path) -> str:
    """The environment's versions, a line each, without our own package."""
    return _output([python, "-c", FREEZE])


FREEZE = """
import importlib.metadata
found = {
    each.metadata["Name"].lower().replace("_", "-"): each
    for each in importlib.metadata.distributions()
}
for name in sorted(set(found) - {"pip", "vagen-envs"}):
    print(f"{found[name].metadata['Name']}=={found[name].version.partition('+')[0]}")
"""
"""Not pip's own, which names files where a version came from a folder of wheels, and builds such as
`+cpu`.
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
