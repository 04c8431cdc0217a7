"""Run what README, CONTRIBUTING, AGENTS and the documentation show, from a wheel, each page in an
empty folder.

    python scripts/run_pages.py --wheel dist/….whl --libraries .venv .venv-adapters/*
    python scripts/run_pages.py docs/service.md --wheel … --install --long  # as a reader downloads

A page's blocks of shell and Python run in its order, in one shell and one session of Python;
page_steps.py says how a page marks what can't run everywhere. The wheel
stands for what `pip install "vagen-envs[EXTRA]"` names: with --install the line is run, in a
virtual environment of the page. Without, the page uses the first of --libraries that has what its
extras want, and is left out where none has.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.parser import Parser
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from page_steps import PageError, Step, missing_lines, steps_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = re.compile(r'"vagen-envs(?:\[([^\]]*)\])?(?: @ git\+https:[^"]*)?"')
LIMIT = 600
"""Seconds that a command or block may take."""
PORT_PATIENCE = 60
"""Seconds to wait for a port that another program listens on."""

PYTHON_SESSION = """
import contextlib, io, json, sys, traceback
sys.path.insert(0, "")
seen = {"__name__": "page"}
for line in sys.stdin:
    printed, error = io.StringIO(), ""
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(sys.__stderr__):
        try:
            exec(compile(json.loads(line), "page", "exec"), seen)
        except BaseException:
            error = traceback.format_exc()
    print(json.dumps([printed.getvalue(), error]), file=sys.__stdout__, flush=True)
"""


class Wheel:
    """The wheel under test, and what its extras want."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
            told = Parser().parsestr(archive.read(name).decode())
        self.extras = set(told.get_all("Provides-Extra", []))
        self.requirements = [Requirement(line) for line in told.get_all("Requires-Dist", [])]

    def lacking(self, extras: set[str], libraries: Path) -> list[str]:
        """What a folder of libraries lacks of the package and these extras, as requirements."""
        wanted, left = {*extras}, [*extras]
        while left:  # extras that name extras of ours
            for requirement in self._of({left.pop()}):
                if canonicalize_name(requirement.name) == "vagen-envs":
                    left += requirement.extras - wanted
                    wanted |= requirement.extras
        asked = [each for each in self._of({"", *wanted}) if each.name != "vagen-envs"]
        return [str(each) for each in asked if not is_met(each, installed(libraries))]

    def _of(self, extras: set[str]) -> list[Requirement]:
        return applying(self.requirements, extras)


def applying(requirements: list[Requirement], extras: set[str]) -> list[Requirement]:
    """The requirements that apply on this machine for any of the extras."""
    return [
        each
        for each in requirements
        if each.marker is None or any(each.marker.evaluate({"extra": name}) for name in extras)
    ]


@functools.cache
def installed(libraries: Path) -> dict[str, Distribution]:
    """The distributions in a `site-packages`, by name."""
    found = distributions(path=[str(libraries)])
    return {canonicalize_name(each.metadata["Name"]): each for each in found}


def is_met(wanted: Requirement, there: dict[str, Distribution]) -> bool:
    """Whether a requirement is installed, with what its own extras want, such as `ray[rllib]`."""
    found = there.get(canonicalize_name(wanted.name))
    if found is None or not wanted.specifier.contains(found.version, prereleases=True):
        return False
    own = [Requirement(line) for line in found.requires or []]
    further = [each for each in applying(own, wanted.extras) if each.marker is not None]
    return all(is_met(each, there) for each in further) if wanted.extras else True


def extras_of(steps: list[Step], wheel: Wheel) -> set[str]:
    """The extras that a page installs.

    Raises:
        PageError: the package has no such extra.
    """
    named = [names for step in steps if step.pip for names in PACKAGE.findall(step.text)]
    extras = {name for names in named for name in names.split(",") if name}
    if unknown := extras - wheel.extras:
        raise PageError(f"the package has no extra {', '.join(sorted(unknown))}")
    return extras


class Environments:
    """Virtual environments that hold the wheel."""

    def __init__(self, wheel: Wheel, folder: Path, libraries: list[Path]) -> None:
        self.wheel, self.folder = wheel, folder
        # A .pth file takes a relative path as relative to itself.
        self.libraries = [
            next(each.resolve().glob("lib/python*/site-packages")) for each in libraries
        ]
        self._made: dict[Path, Path] = {}

    def with_libraries(self, extras: set[str]) -> tuple[list[Path], str]:
        """The folders of programs of an environment with the wheel and what the extras want, or
        none and the reason.
        """
        lacking: list[str] = []
        for libraries in self.libraries:
            if not (lacking := self.wheel.lacking(extras, libraries)):
                if libraries not in self._made:
                    self._made[libraries] = self._beside(libraries)
                return [self._made[libraries], libraries.parents[2] / "bin"], ""
        return [], f"nothing of --libraries has {', '.join(lacking[:3])}"

    def new(self) -> list[Path]:
        """The folder of programs of an empty environment."""
        made = self.folder / f"venv{len(list(self.folder.glob('venv*')))}"
        _call(sys.executable, "-m", "venv", made)
        return [made / "bin"]

    def _beside(self, libraries: Path) -> Path:
        """An environment in which the package is the wheel's and the rest is in `libraries`."""
        made = self.folder / f"venv{len(self._made)}"
        python = libraries.parents[2] / "bin" / "python"
        _call(python, "-m", "venv", "--without-pip", made)
        pip = [sys.executable, "-m", "pip", "--python", made / "bin" / "python", "install"]
        _call(*pip, "-q", "--no-deps", self.wheel.path)
        (own,) = made.glob("lib/python*/site-packages")
        # After the wheel on the path; the libraries' own .pth files, such as that of a clone, are
        # not read.
        (own / "libraries.pth").write_text(f"{libraries}\n")
        return made / "bin"


def _call(*words: Path | str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}:\n{done.stdout}{done.stderr}")


@dataclass
class Session:
    """One shell and one Python in one folder, as a reader has them open beside each other."""

    folder: Path
    programs: list[Path]
    log: Path
    _processes: list[subprocess.Popen] = field(default_factory=list)
    _shell: subprocess.Popen | None = None
    _python: subprocess.Popen | None = None

    def shell(self, command: str) -> str:
        """Run a command and return what it printed. Raises PageError if it fails."""
        if self._shell is None:
            self._shell = self._start(["bash", "--norc", "--noprofile"], self.folder)
        done = f"--- done {time.monotonic_ns()}"
        self._send(
            self._shell, f"{{ {command}\n}} </dev/null 2>&1\nprintf '\\n%s %d\\n' '{done}' $?\n"
        )
        printed = []
        for line in self._lines(self._shell, command):
            if line.startswith(done):
                if status := int(line.rsplit(" ", 1)[1]):
                    raise PageError(f"exit code {status}:\n{''.join(printed[-30:])}")
                return "".join(printed)
            printed.append(line)
        raise PageError(f"the shell ended:\n{''.join(printed[-30:])}")

    def serve(self, command: str, port: int) -> None:
        """Start a server and wait until it listens. Raises PageError if another one already does:
        the page would talk to that.
        """
        until = time.monotonic() + PORT_PATIENCE
        while _is_listening(port):
            if time.monotonic() > until:
                raise PageError(
                    f"port {port} is taken by another program for {PORT_PATIENCE} s; end it "
                    f"(`ss -ltnp 'sport = :{port}'` names it) and run the page again"
                )
            time.sleep(0.2)
        where, words = self.shell("pwd").strip(), ["bash", "-c", f"exec {command}"]
        with self.log.open("w") as log:
            server = self._start(words, Path(where), log)
        until = time.monotonic() + LIMIT
        while server.poll() is None and time.monotonic() < until:
            if _is_listening(port):
                return
            time.sleep(0.2)
        raise PageError(f"nothing listens on port {port}:\n{self.log.read_text()[-2000:]}")

    def python(self, block: str) -> None:
        """Run a block of Python. Raises PageError if it fails or doesn't print what it says."""
        if self._python is None:
            where = Path(self.shell("pwd").strip())
            self._python = self._start(["python", "-c", PYTHON_SESSION], where)
        self._send(self._python, json.dumps(block) + "\n")
        answer = next(self._lines(self._python, block), "")
        if not answer.startswith("["):
            raise PageError(f"the session of Python ended: {answer}")
        printed, error = json.loads(answer)
        if error:
            raise PageError(error)
        if missing := missing_lines(block, printed):
            raise PageError(f"it doesn't print {missing}, but:\n{printed}")

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(60)

    def _start(
        self, words: list[str], folder: Path, stdout: object = subprocess.PIPE
    ) -> subprocess.Popen:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        env["PATH"] = os.pathsep.join([*map(str, self.programs), env["PATH"]])
        env["OPENAI_API_KEY"] = "none"  # clients are made, and ask nobody
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=None if stdout == subprocess.PIPE else subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def _send(self, process: subprocess.Popen, text: str) -> None:
        process.stdin.write(text)
        process.stdin.flush()

    def _lines(self, process: subprocess.Popen, what: str) -> Iterator[str]:
        """The lines that a process prints; it is ended after LIMIT seconds."""
        late: list[bool] = []

        def end(*_: object) -> None:
            late.append(True)
            os.killpg(process.pid, signal.SIGKILL)

        before = signal.signal(signal.SIGALRM, end)
        signal.alarm(LIMIT)
        try:
            yield from iter(process.stdout.readline, "")
            if late:
                raise PageError(f"not done after {LIMIT} s: {what}")
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)


def _is_listening(port: int) -> bool:
    with socket.socket() as link:
        link.settimeout(1)
        return link.connect_ex(("127.0.0.1", port)) == 0


def run_page(page: Path, environments: Environments, *, install: bool, long: bool) -> list[str]:
    """Run a page and return its failures. Says what was run and what was left out."""
    name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name
    failures: list[str] = []
    try:
        steps = list(steps_of(page.read_text(encoding="utf-8")))
        extras = extras_of(steps, environments.wheel)
    except PageError as error:
        print(f"{name}: FAILED: {error}", flush=True)
        return [name]
    if not steps:
        return []
    unmet = next((step.needs for step in steps if step.pip and step.needs), "")
    if install:
        programs, reason = [] if unmet else environments.new(), unmet
    else:
        programs, reason = environments.with_libraries(extras)
    if not programs:
        print(f"{name}: left out: {reason}", flush=True)
        return []
    folder = Path(tempfile.mkdtemp(dir=environments.folder))
    session = Session(folder, programs, environments.folder / "server.log")
    print(f"{name}:", flush=True)
    try:
        for step in steps:
            said = run_step(step, session, environments.wheel, install=install, long=long)
            print(f"    {said}: {step.title}", flush=True)
            if said.startswith("FAILED"):
                failures.append(name)
                break  # what comes after only follows
    finally:
        session.close()
    return failures


def run_step(step: Step, session: Session, wheel: Wheel, *, install: bool, long: bool) -> str:
    """Run a step; return what became of it."""
    if step.needs:
        return f"left out, {step.needs}"
    if step.long and not long:
        return "left out, takes minutes"
    if step.pip and not install:
        return "libraries are there"
    began = time.monotonic()
    try:
        if step.python:
            session.python(step.text)
        elif step.port:
            session.serve(step.text, step.port)
        else:
            session.shell(PACKAGE.sub(lambda found: _from(wheel, found[1]), step.text))
    except PageError as error:
        return f"FAILED ({error})"
    return f"ran, {time.monotonic() - began:.0f} s"


def _from(wheel: Wheel, extras: str | None) -> str:
    """The package with these extras, as pip takes it from the wheel."""
    return f'"vagen-envs{f"[{extras}]" if extras else ""} @ {wheel.path.as_uri()}"'


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, help="all by default")
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--libraries", nargs="+", type=Path, default=[])
    parser.add_argument("--install", action="store_true", help="run pip's lines, too")
    parser.add_argument("--long", action="store_true", help="run what takes minutes, too")
    given = parser.parse_args(arguments)
    top = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "AGENTS")]
    pages = [each.resolve() for each in given.pages] or [
        *top,
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pages-") as folder:
        environments = Environments(Wheel(given.wheel), Path(folder), given.libraries)
        for page in pages:
            failures += run_page(page, environments, install=given.install, long=given.long)
    print(f"failed: {', '.join(failures)}" if failures else "every page runs from the wheel")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
