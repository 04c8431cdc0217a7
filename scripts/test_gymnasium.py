"""Run Gymnasium's own wrapper and vector tests with FrozenLake in CartPole's place.

    .venv/bin/python scripts/test_gymnasium.py [--source CLONE] [--report FILE.xml]

The tests come from a clone of Gymnasium at the installed version (the source distribution has
none of them). What fails there for a known cause stands in tests/helpers/gymnasium_wrappers.toml;
any other failure ends this with 1. `--report` judges an earlier run's JUnit file.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import gymnasium

TOP = Path(__file__).parent.parent
EXPECTED = TOP / "tests" / "helpers" / "gymnasium_wrappers.toml"
REPOSITORY = "https://github.com/Farama-Foundation/Gymnasium"


def fetched(folder: Path) -> Path:
    """A clone of Gymnasium at the installed version."""
    tag = f"v{gymnasium.__version__}"
    words = ["git", "clone", "-q", "--depth", "1", "--branch", tag, REPOSITORY, str(folder)]
    subprocess.run(words, check=True)
    return folder


def played(source: Path, folder: Path) -> Path:
    """Run the tests; the JUnit file."""
    tests = folder / "tests"
    folder.mkdir()
    shutil.copytree(source / "tests", tests)
    for file in [*tests.glob("wrappers/**/*.py"), *tests.glob("vector/**/*.py")]:
        text = file.read_text(encoding="utf-8")
        for version in ("v0", "v1"):
            text = text.replace(f"CartPole-{version}", "vagen/FrozenLake-v0")
        file.write_text(text, encoding="utf-8")
    (folder / "conftest.py").write_text("import vagen_envs\n")
    report = folder / "report.xml"
    words = ["-q", "-c", "/dev/null", "--rootdir=.", "--timeout=120", f"--junitxml={report}"]
    words += ["tests/wrappers", "tests/vector"]
    subprocess.run([sys.executable, "-m", "pytest", *words], cwd=folder, check=False)
    return report


def failures(report: Path) -> tuple[set[str], int]:
    """The functions of which a test failed, as FILE::FUNCTION, and how many tests passed."""
    failed: set[str] = set()
    passed = 0
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - of pytest
        inner = {child.tag for child in case}
        if inner & {"failure", "error"}:
            file = case.get("classname", "").removeprefix("tests.").replace(".", "/")
            failed.add(f"{file}.py::{case.get('name', '').partition('[')[0]}")
        elif "skipped" not in inner:
            passed += 1
    return failed, passed


def main() -> None:
    """Print what is unexpected; end with 1 for a failure that isn't listed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, help="a clone of Gymnasium")
    parser.add_argument("--report", type=Path, help="the JUnit file of an earlier run")
    args = parser.parse_args()
    causes = tomllib.loads(EXPECTED.read_text(encoding="utf-8"))
    listed = {test for tests in causes.values() for test in tests}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report = args.report or played(args.source or fetched(folder / "clone"), folder / "run")
        failed, passed = failures(report)
    for test in sorted(listed - failed):
        print(f"passes, though it is listed: {test}")
    for test in sorted(failed - listed):
        print(f"fails: {test}")
    print(f"{passed} tests pass; of {len(failed)} functions some fail, {len(failed - listed)} new")
    sys.exit(bool(failed - listed) or not passed)


if __name__ == "__main__":
    main()
