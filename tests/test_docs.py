"""What the README and the documentation show runs as it stands."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shlex
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from ports import free_port

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import page_steps  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

NEEDS = {
    "adapters/inspect.md": "inspect_ai",
    "adapters/nemo_gym.md": "nemo_gym",
    "adapters/openenv.md": "openenv",
    "adapters/parity.md": "trl",
    "adapters/pettingzoo.md": "pettingzoo",
    "adapters/rllib.md": "lz4",
    "adapters/sb3.md": "stable_baselines3",
    "adapters/skyrl.md": "skyrl_gym",
    "adapters/torchrl.md": "torchrl",
    "adapters/trl.md": "trl",
    "adapters/verifiers.md": "verifiers",
    "adapters/verl.md": "verl",
    "judges.md": "openai",
    "service.md": "uvicorn",
    "verifiers.md": "math_verify",
}


def blocks_of(page: Path) -> list[str]:
    """The blocks of Python that are run."""
    steps = page_steps.steps_of(page.read_text(encoding="utf-8"))
    return [step.text for step in steps if step.python and not step.needs]


SERVERS = {
    "adapters/openenv.md": (
        ["vagen_adapters.openenv_env", "--env-id", "vagen/Sokoban-v0"],
        "127.0.0.1:8000",
    ),
    "service.md": (["vagen_benchmarks", "serve", "--workers", "2"], "127.0.0.1:8765"),
}
"""The server that a page starts, and the address that it shows."""


@contextlib.contextmanager
def served(module: list[str], shown: str):
    """The server of a page, as the page starts it but for its port: another program may have that.
    Gives what stands for what in the page's blocks.
    """
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", *module, "--port", str(port)])
    deadline = time.monotonic() + 120
    try:
        while server.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        assert server.poll() is None, "the server ended"
        yield shown, f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks_of(page)],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_python_of_a_page_runs(page, monkeypatch, tmp_path, capsys):
    """The blocks of a page in order, as a reader would paste them into one session, print what their comments say."""
    name = (
        page.relative_to(ROOT / "docs").as_posix()
        if page.is_relative_to(ROOT / "docs")
        else page.name
    )
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr(
        sys,
        "path",
        [str(tmp_path / "treasure_hunt"), str(ROOT / "examples" / "lights_out"), *sys.path],
    )
    if name == "your_environment.md":  # the page's first line makes the environment it speaks of
        subprocess.run(
            [sys.executable, "-m", "vagen_benchmarks", "new", "env", "treasure_hunt"], check=True
        )
    seen: dict[str, object] = {}
    server = served(*SERVERS[name]) if name in SERVERS else contextlib.nullcontext(("", ""))
    with server as (shown, used):
        for block in blocks_of(page):
            capsys.readouterr()
            block = block.replace(shown, used) if shown else block  # noqa: PLW2901
            exec(compile(block, name, "exec"), seen)  # noqa: S102
            missing = page_steps.missing_lines(block, capsys.readouterr().out)
            assert missing == [], f"{name} doesn't print it"


SHELL = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`(vagen [^`]+)`")


def commands_of(page: Path) -> list[list[str]]:
    """The words of each `vagen` command that a page shows; spans and lines with placeholders such as … are left out."""
    text = page.read_text(encoding="utf-8")
    lines = [
        line for block in SHELL.findall(text) for line in block.replace("\\\n", " ").splitlines()
    ]
    found = [
        line
        for line in [*lines, *SPAN.findall(text)]
        if line.startswith("vagen ") and "…" not in line
    ]
    return [shlex.split(line.replace("\\|", "|"), comments=True)[1:] for line in found]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands_of(page)], ids=lambda page: page.stem
)
def test_commands_of_a_page_can_be_parsed(page, tmp_path, monkeypatch):
    """Every command, option and choice exists, and nothing that is required is missing."""
    typer_main = pytest.importorskip("typer.main")
    from vagen_benchmarks.cli import app

    monkeypatch.chdir(tmp_path)
    for words in commands_of(page):
        command = typer_main.get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        if (
            words and "--help" not in words and "--install-completion" not in words
        ):  # a bare name refers to the command
            command.make_context(command.name, words)


def test_the_package_index_shows_no_dead_link():
    """README's links are made absolute there, and name what is in the repository."""
    pytest.importorskip("hatch_fancy_pypi_readme")
    command = [sys.executable, "-m", "hatch_fancy_pypi_readme", str(ROOT / "pyproject.toml")]
    shown = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60, cwd=ROOT
    ).stdout
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = project["urls"]["Homepage"]
    raw = home.replace("github.com", "raw.githubusercontent.com")
    targets = re.findall(r"\]\(([^)]+)\)", shown)
    assert len(targets) > 20
    for target in targets:
        assert target.startswith(("https://", "http://"))
        for base in (f"{home}/blob/main/", f"{raw}/main/"):
            if target.startswith(base):
                assert (ROOT / target.removeprefix(base).partition("#")[0]).exists(), target
    assert sum(target.startswith(home) for target in targets) > 10


def test_the_version_is_the_changelogs_first():
    import vagen_envs

    version = vagen_envs.__version__
    headings = re.findall(
        r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert headings[0] == version
