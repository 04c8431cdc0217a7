"""A person at a terminal: arrow keys, slips of the fingers, and pictures in characters."""

from __future__ import annotations

import base64
import io
import os
import pty
import re
import select
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import vagen_envs  # noqa: F401
from vagen_benchmarks.agents.human import play
from vagen_benchmarks.agents.terminal import HalfBlocks, draws_pictures, kitty
from vagen_envs.pictures import Picture


def typed(lines, monkeypatch, env_id="vagen/FrozenLake-v0", seed=1):
    """An episode played by lines of standard input: what was shown, and the turns."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    env, turns = gym.make(env_id, render_mode="ansi"), []
    step = env.unwrapped.step
    env.unwrapped.step = lambda reply: (taken := step(reply), turns.append(taken[4]["turn"]))[0]
    console = Console(file=io.StringIO(), width=200)
    play(env, seed, console)
    return console.file.getvalue(), turns


def test_a_slip_of_the_fingers_costs_no_turn(monkeypatch):
    shown, turns = typed(["Upp", "h", "up up", "Up,Up,Up,Up,Up", "Right", "q"], monkeypatch)
    assert "'Upp' is not an action" in shown
    assert "only the first 3 action(s) count" in shown
    assert shown.count("whole reply that begins with") == 2
    assert [[each.text for each in turn.executed] for turn in turns] == [["Right"]]


def test_whole_replies_count_as_they_are_written(monkeypatch):
    _, turns = typed(["<answer>Upp</answer>", "q"], monkeypatch)
    assert [problem.code for problem in turns[0].parsed.problems][-1] == "unknown_action"


def test_an_icon_can_be_typed(monkeypatch):
    pytest.importorskip("cairosvg")
    svg = '<svg viewBox="0 0 100 100" xmlns="http://www.w3.org/2000/svg"><circle cx="50" cy="50" r="20"/></svg>'
    _, turns = typed([svg, "q"], monkeypatch, "vagen/SVGReconstruction-v0")
    assert turns[0].executed[0].effective


def test_arrow_keys_write_actions():
    """In a terminal of its own, with keys as they arrive: two arrows, one taken back, and Enter."""
    command = [sys.executable, "-m", "vagen_benchmarks", "play", "frozenlake", "--seed", "1"]
    leader, follower = pty.openpty()
    settings = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "120", "LINES": "40"}
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=settings) as process:
        os.close(follower)
        seen = until(leader, "> ")
        os.write(leader, b"\x1b[A\x1b[D" + b"\x7f" * 5 + b"\rq\r")
        seen += until(leader, "turn ")
        process.wait(60)
        os.close(leader)
    executed = re.findall(r"(Up|Left) +(?:done|no effect)", seen)
    assert executed == ["Up"]
    assert process.returncode == 0


def until(leader, words, seconds=60.0):
    seen, end = "", time.monotonic() + seconds
    while words not in seen:
        assert time.monotonic() < end, seen
        if select.select([leader], [], [], 1)[0]:
            seen += os.read(leader, 4096).decode(errors="replace")
    return seen


def test_grid_lines_survive_the_half_blocks():
    env = gym.make("vagen/FrozenLake-v0")
    pixels = env.reset(seed=1)[0]["image"]
    shown = np.asarray(HalfBlocks(Picture(pixels.copy()), 48).image).astype(int)
    faded = np.asarray(Image.fromarray(pixels).resize(shown.shape[1::-1], Image.Resampling.BOX)).astype(int)

    def contrast(picture):
        """Between the line under a tile of ice and the ice above and below it."""
        tile = picture.shape[0] // 4
        column = picture[tile - 4 : tile + 3, 5 * tile // 2].sum(1)
        return column.max() - column.min()

    assert contrast(shown) > 1.3 * contrast(faded)


def test_terminals_that_draw_get_the_picture_itself(monkeypatch):
    for name in ("KITTY_WINDOW_ID", "TERM_PROGRAM"):
        monkeypatch.delenv(name, raising=False)
    assert not draws_pictures()
    monkeypatch.setenv("TERM_PROGRAM", "ghostty")
    assert draws_pictures()
    picture = Picture(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    codes = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", kitty(picture, 40))
    assert codes[0][0] == "a=T,f=100,c=40,m=1"
    assert [head for head, _ in codes[1:]] == ["m=1"] * (len(codes) - 2) + ["m=0"]
    assert all(len(piece) <= 4096 for _, piece in codes)
    assert base64.standard_b64decode("".join(piece for _, piece in codes)) == picture.png


def test_who_looks_on_sees_the_oracle_solve_it(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))  # nobody is asked
    console = Console(file=io.StringIO(), width=200)
    assert play(gym.make("vagen/Sokoban-v0", render_mode="ansi"), 7, console, watch=True) > 0
    shown = console.file.getvalue()
    assert "Solved" in shown
    assert "<observation>" in shown
    assert "Write actions" not in shown
