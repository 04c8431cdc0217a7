"""What a shell's Tab offers."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from vagen_benchmarks.cli import app


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("vagen be", {"bench"}),
        ("vagen bench -e so", {"sokoban"}),
        ("vagen bench -a bli", {"blind"}),
        ("vagen bench -a claude-opus-5-nosuch", set()),
        ("vagen play fr", {"frozenlake"}),
    ],
)
def test_names_are_completed(typed, offered):
    asked = {"_VAGEN_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = CliRunner().invoke(app, [], env=asked, prog_name="vagen")
    assert set(done.output.split()) == offered
