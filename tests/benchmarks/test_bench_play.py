"""A person at a terminal: slips of the fingers, and pictures in characters."""

from __future__ import annotations

import io
import sys

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import vagen_envs  # noqa: F401
from vagen_benchmarks.agents.human import play
from vagen_benchmarks.agents.terminal import HalfBlocks
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


def test_who_looks_on_sees_the_oracle_solve_it(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))  # nobody is asked
    console = Console(file=io.StringIO(), width=200)
    assert play(gym.make("vagen/Sokoban-v0", render_mode="ansi"), 7, console, watch=True) > 0
    shown = console.file.getvalue()
    assert "Solved" in shown
    assert "<observation>" in shown
    assert "Write actions" not in shown
