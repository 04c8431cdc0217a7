"""scripts/run_pages.py: what a page shows is run, what fails fails, and what is marked is left out."""

from __future__ import annotations

import os
import socket
import sys
import threading
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("packaging")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import run_pages  # noqa: E402
from page_steps import PageError, steps_of  # noqa: E402

METADATA = """Metadata-Version: 2.4
Name: vagen-envs
Version: 0
Provides-Extra: bench
Provides-Extra: far
Requires-Dist: pytest>=1
Requires-Dist: vagen-envs[bench]; extra == "far"
Requires-Dist: pytest>=1000; extra == "bench"
"""
WHEEL = """Wheel-Version: 1.0
Generator: test
Root-Is-Purelib: true
Tag: py3-none-any
"""


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "vagen_envs-0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vagen_envs-0.dist-info/METADATA", METADATA)
        archive.writestr("vagen_envs-0.dist-info/WHEEL", WHEEL)
        archive.writestr("vagen_envs-0.dist-info/RECORD", "")
        archive.writestr("vagen_envs.py", "")
    return run_pages.Wheel(path)


class Here(run_pages.Environments):
    """This Python, without a virtual environment of its own."""

    def with_libraries(self, extras):
        return [Path(sys.executable).parent], ""


def run(text: str, wheel, folder: Path, capsys) -> tuple[list[str], str]:
    """The failures of a page and what was printed."""
    page = folder / "page.md"
    page.write_text(text)
    failures = run_pages.run_page(page, Here(wheel, folder, []), install=False, long=False)
    return failures, capsys.readouterr().out


def test_shell_and_python_share_a_folder_and_an_order(wheel, tmp_path, capsys):
    page = """
```sh
mkdir made && cd made
export GREETING=hello
echo $GREETING >said    # a comment
```
```python
seen = open("said").read().strip()
print(seen)  # hello
```
```python
open("again", "w").write(seen)
```
```sh
test "$(cat again)" = hello
```
"""
    failures, printed = run(page, wheel, tmp_path, capsys)
    assert failures == []
    assert printed.count("ran, ") == 6


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("```sh\necho before; false\n```", "exit code 1"),
        ("```sh\nno-such-program\n```", "exit code 127"),
        ("```sh\nexit 0\n```", "the shell ended"),
        ("```python\n1 / 0\n```", "ZeroDivisionError"),
        ("```python\nprint(1)  # 2\n```", "doesn't print ['2']"),
        ("```python\nimport os\nos._exit(0)\n```", "Python ended"),
        ("```sh\nfalse   # on http://127.0.0.1:9\n```", "nothing listens"),
        ("```\ntrue\n```", "without a language"),
        ('```sh\npip install "vagen-envs[nothing]"\n```', "no extra nothing"),
    ],
)
def test_what_fails_is_a_failure(block, reason, wheel, tmp_path, capsys):
    failures, printed = run(f"{block}\n```sh\ntouch after\n```\n", wheel, tmp_path, capsys)
    assert failures == ["page.md"]
    assert reason in printed
    assert not list(tmp_path.rglob("after"))


def test_a_foreign_server_on_the_port_is_named_or_waited_for(wheel, tmp_path, capsys, monkeypatch):
    foreign = socket.create_server(("127.0.0.1", 0))
    port = foreign.getsockname()[1]
    page = f"```sh\npython -m http.server {port}   # on http://127.0.0.1:{port}\ntouch after\n```\n"
    monkeypatch.setattr(run_pages, "PORT_PATIENCE", 0.5)
    failures, printed = run(page, wheel, tmp_path, capsys)
    assert failures == ["page.md"]
    assert f"port {port} is taken by another program" in printed
    monkeypatch.setattr(run_pages, "PORT_PATIENCE", 60)
    threading.Timer(1, foreign.close).start()
    failures, _ = run(page, wheel, tmp_path, capsys)
    assert failures == []


def test_a_command_beyond_its_time_is_ended(wheel, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run_pages, "LIMIT", 1)
    failures, printed = run("```sh\nsleep 60\n```\n", wheel, tmp_path, capsys)
    assert failures == ["page.md"]
    assert "not done after 1 s" in printed


def test_what_is_marked_is_left_out_with_its_reason(wheel, tmp_path, capsys):
    page = """
```sh
true
false \\
    --with more   # needs a GPU
false   # takes minutes
# needs a key
false
false
```
```py
1 / 0
```
"""
    failures, printed = run(page, wheel, tmp_path, capsys)
    assert failures == []
    assert printed.splitlines()[1:] == [
        "    ran, 0 s: true",
        "    left out, needs a GPU: false --with more",
        "    left out, takes minutes: false",
        "    left out, needs a key: false",
        "    left out, needs a key: false",
        "    left out, only shown: (Python) 1 / 0",
    ]


def test_an_extra_is_lacking_through_another(wheel):
    libraries = Path(pytest.__file__).parent.parent
    assert wheel.lacking(set(), libraries) == []
    assert wheel.lacking({"far"}, libraries) == ['pytest>=1000; extra == "bench"']


def test_folders_of_libraries_may_be_relative(wheel, tmp_path, monkeypatch, capsys):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    page = tmp_path / "page.md"
    page.write_text("```python\nimport pytest, vagen_envs\n```\n")
    libraries = [Path(os.path.relpath(sys.prefix))]
    environments = run_pages.Environments(wheel, tmp_path, libraries)
    failures = run_pages.run_page(page, environments, install=False, long=False)
    assert (failures, "ran, " in capsys.readouterr().out) == ([], True)


def test_every_page_can_be_split_into_steps():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        list(steps_of(page.read_text(encoding="utf-8")))


def test_a_block_without_a_language_is_refused():
    with pytest.raises(PageError, match="without a language"):
        list(steps_of("```\nls\n```\n"))
