"""No text reads a file, opens a socket, takes long, takes much memory, or stops the environment."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("resvg")

from vagen_envs import workers
from vagen_envs.errors import SvgError
from vagen_envs.svg.check import clean
from vagen_envs.svg.renderer import Renderer

sys.path.insert(0, str(Path(__file__).parent))
from hostile_svgs import hostile, svg

GOOD = svg('<circle cx="50" cy="50" r="40" fill="red"/>')
MOST_MEMORY_KB = 1 << 20


def peak_memory_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmPeak")).split()[1])


@pytest.fixture
def renderer():
    made = Renderer(workers=1)
    assert made.draw(GOOD).problem is None
    yield made
    pids = made.pids
    made.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids), "a process is left running"


class Listener:
    """Counts connections to a local port."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.connections = 0
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                self.socket.accept()[0].close()
            except OSError:
                return
            self.connections += 1


@pytest.fixture
def listener():
    made = Listener()
    yield made
    made.socket.close()


def test_hostile_inputs_read_nothing_and_stay_within_the_limits(tmp_path, listener, renderer):
    canary = tmp_path / "canary.svg"
    canary.write_text(GOOD)
    os.utime(canary, (1, 1))
    inputs = hostile(str(canary), listener.address)
    assert len(inputs) >= 150
    canary_pixels = renderer.draw(GOOD, 64).pixels
    heavy, read = [], []
    for name, text in inputs.items():
        renderer.draw(GOOD, 64)  # waits for the process that follows one whose time was up
        drawing = renderer.draw(text, 64)
        assert (drawing.pixels is None) == bool(drawing.problem), name
        # The canary is a red disc, and nothing red is in these inputs.
        if name.startswith("outside") and drawing.pixels is not None:
            read += [name] * bool((drawing.pixels == canary_pixels).all())
        heavy += [name for pid in renderer.pids if peak_memory_kb(pid) > MOST_MEMORY_KB]
    assert (heavy, read) == ([], [])
    assert listener.connections == 0
    assert canary.stat().st_atime == 1, "the file was read"
    assert renderer.draw(GOOD).problem is None


@pytest.mark.parametrize(
    "href", ["#x", "#/../x.png", "x.png", "{folder}/x.png", "file://{folder}/x.png"]
)
@pytest.mark.parametrize("element", ["image", "feImage"])
def test_an_image_names_no_file(tmp_path, monkeypatch, element, href):
    """resvg opens what an image names, relative to the working directory."""
    Image.new("RGB", (8, 8), "red").save(tmp_path / "x.png")
    shutil.copy(tmp_path / "x.png", tmp_path / "#x")
    monkeypatch.chdir(tmp_path)
    made = Renderer(workers=1)
    name = href.format(folder=tmp_path)
    body = f'<image width="100" height="100" href="{name}"/>'
    if element == "feImage":
        body = f'<filter id="f"><feImage href="{name}"/></filter><rect width="100" height="100" filter="url(#f)"/>'
    inside = base64.b64encode(svg(body).encode()).decode()
    for text in (
        svg(body),
        svg(f'<image width="100" height="100" href="data:image/svg+xml;base64,{inside}"/>'),
    ):
        pixels = made.draw(text, 32).pixels
        assert pixels is not None
        assert not (pixels == (255, 0, 0)).all(axis=2).any()
    made.close()


def test_an_image_of_gigapixels_is_left_out(renderer):
    buffer = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(buffer, "PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    text = svg(f'<image width="100" height="100" href="data:image/png;base64,{data[:30_000]}"/>')
    assert (renderer.draw(text, 32).pixels == 255).all()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        svg("", f'width="{"1" * 30_000}%" height="9"'),
        svg("", f'width="{"1" * 30_000}" height="9"'),
        svg("", f'width="9" height="{"." * 30_000}"'),
        svg(f'<rect fill="{"url(" * 7_500}"/>'),
        svg(f'<rect x="{"1." * 15_000}_"/>'),
        svg(f"<style>{'@a{' * 10_000}</style>"),
        svg(f"<style>{'@a ' * 10_000}</style>"),
        svg(f"<style>{'opacity:' * 4_000}</style>"),
        svg(f'<rect style="{"filter:" * 4_000}"/>'),
        svg(f"<style>{'/* ' * 10_000}</style>"),
        svg(f"<style>{'/*/' * 10_000}</style>"),
        "<!DOCTYPE svg" + ' ""' * 10_000 + svg(""),
        "<!--" * 8_000 + "<!DOCTYPE svg>" + svg(""),
        svg("<a/>x" * 6_000),
        svg("<set/>x" * 4_500),
    ],
    ids=lambda text: text[:110][-24:],
)
def test_a_long_text_is_checked(text):
    """In some 20 ms; the square of 32,000 characters would be a billion steps, and the cube took hours."""
    with contextlib.suppress(SvgError):
        clean(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (svg("<g>"), "not well-formed XML"),
        (svg("<g>" * 65 + "</g>" * 65), "more than 64 deep"),
        (svg("<rect/>", 'width="0" height="9"'), 'viewBox="0 0 100 100"'),
        (svg("", 'viewBox="0 0 0 9"'), "positive width and height"),
        (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><use xlink:href="#a"/></svg>',
            "add xmlns:xlink",
        ),
    ],
)
def test_the_author_is_told_what_is_wrong(text, words):
    with pytest.raises(SvgError, match=re.escape(words)):
        clean(text)


# -- each limit alone, the pre-check left out --------------------------------------------------


def test_spent_time_ends_a_drawing_and_the_next_one_works():
    renderer = Renderer(workers=1, seconds=0.7)
    slow = hostile("/x", "http://x")["slow: star"]
    renderer.draw(GOOD)  # the process has started
    drawing = renderer.draw(slow)
    assert drawing.pixels is None
    assert "takes longer than 0.7 seconds" in drawing.problem
    assert renderer.draw(GOOD).problem is None
    renderer.close()


def test_memory_is_bounded():
    code = (
        "import sys; from vagen_envs.svg import worker; worker.limit(1 << 29)\n"
        "try: bytearray(1 << 30)\nexcept MemoryError: sys.exit(42)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 42


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/passwd')",
        "__import__('socket').create_connection(('127.0.0.1', 9))",
        "os.listdir('/')",
        "os.system('true')",
        "os.fork()",
        "__import__('subprocess').run(['true'])",
        "__import__('urllib.request').request.urlopen('file:///etc/passwd')",
    ],
)
def test_a_warm_worker_can_open_nothing(attempt):
    code = (
        "import os, sys, socket, subprocess, urllib.request\n"
        "from vagen_envs.svg import worker; worker.forbid_the_outside()\n"
        f"try: {attempt}\nexcept PermissionError: os._exit(42)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 42


def test_a_killed_worker_is_replaced(renderer):
    for _ in range(3):
        os.kill(renderer.pids[0], signal.SIGKILL)
        assert renderer.draw(GOOD).problem is None


@pytest.mark.parametrize("ended", ["before it is asked", "as it is asked"])
def test_workers_killed_while_they_start_are_replaced(renderer, monkeypatch, ended):
    starting = []

    def start_and_kill(*arguments, **environment):
        starting.append(started(*arguments, **environment))
        if len(starting) <= 4:
            starting[-1][0].kill()
        return starting[-1]

    started = workers.started
    monkeypatch.setattr(workers, "started", start_and_kill)
    (pid,) = renderer.pids
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if ended == "as it is asked":
        monkeypatch.setattr(subprocess.Popen, "poll", lambda self: None)
    assert renderer.draw(GOOD).problem is None
    assert len(starting) == 5


def test_a_stopped_worker_is_replaced_and_costs_the_text_nothing():
    renderer = Renderer(workers=1, seconds=0.5, patience=0.5)
    renderer.draw(GOOD)
    os.kill(renderer.pids[0], signal.SIGSTOP)
    assert renderer.draw(GOOD).problem is None
    renderer.close()


def test_the_limit_is_cpu_time_and_not_the_clock():
    """As on a machine that is busy with something else: the process gets no CPU for longer than its limit."""
    renderer = Renderer(workers=1, seconds=0.5)
    renderer.draw(GOOD)
    (pid,) = renderer.pids
    os.kill(pid, signal.SIGSTOP)
    waker = threading.Timer(2.0, os.kill, (pid, signal.SIGCONT))
    waker.start()
    assert renderer.draw(GOOD).problem is None
    assert renderer.pids == (pid,)
    waker.join()
    renderer.close()


def test_workers_end_with_the_process_that_started_them():
    code = (
        "import os, sys; from vagen_envs.svg.renderer import Renderer; r = Renderer(1)\n"
        f"r.draw({GOOD!r}); print(r.pids[0], flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"worker {pid} outlives its parent")


def test_threads_draw_the_same(renderer):
    many = Renderer(workers=2)
    with ThreadPoolExecutor(8) as threads:
        drawings = list(threads.map(many.draw, [GOOD] * 40))
    assert len(many.pids) <= 2
    many.close()
    assert all(np.array_equal(each.pixels, renderer.draw(GOOD).pixels) for each in drawings)


def test_a_fork_has_its_own_workers(renderer):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        ok = renderer.draw(GOOD).problem is None
        pids = renderer.pids
        renderer.close()
        os.write(writer, b"1" if ok and pids else b"0")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1) == b"1"
    assert renderer.draw(GOOD).problem is None
