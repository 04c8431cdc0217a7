"""A person at a terminal: slips of the fingers, and pictures in characters."""

from __future__ import annotations

import io
import sys

import gymnasium as gym
import pytest
from rich.console import Console

import vagen_envs  # noqa: F401
from vagen_benchmarks.agents.human import half_blocks, play
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


def test_a_picture_is_drawn_in_half_blocks():
    env = gym.make("vagen/FrozenLake-v0")
    picture = Picture(env.reset(seed=1)[0]["image"])
    lines = half_blocks(picture, 48).plain.splitlines()
    assert {len(line) for line in lines} == {-(-picture.pixels.shape[1] // 3)}
    assert len(lines) == picture.pixels.shape[0] // 6
