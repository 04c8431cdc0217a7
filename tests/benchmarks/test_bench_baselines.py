"""Agents of an environment's own: who plays what, and how SVG's tracer compares."""

from __future__ import annotations

import json

import pytest
import runs
from typer.testing import CliRunner

from vagen_benchmarks.cli import app
from vagen_envs.sokoban.env import SokobanEnv
from vagen_envs.svg.env import SvgEnv

pytest.importorskip("cairosvg")
pytest.importorskip("skimage")
pytest.importorskip("vtracer")


def test_by_default_an_environments_own_agents_play_it_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "vagen_envs.svg.scorers.SCORERS", ("classical",)
    )  # auto takes it wherever this runs
    monkeypatch.setattr(SokobanEnv, "blind_search", (8, 4))
    monkeypatch.setattr(SvgEnv, "blind_search", (2, 2))
    path = tmp_path / "run"
    done = CliRunner().invoke(
        app, ["bench", "-e", "sokoban", "-e", "svgreconstruction", "-n", "4", "--out", str(path)]
    )
    assert done.exit_code == 0, done.output
    rows = {(row["task"].partition("/")[2], row["agent"]): row for row in runs.rows(path)}
    svg = "SVGReconstruction-v0"
    assert list(rows) == [
        *[("Sokoban-v0", agent) for agent in ("oracle", "random", "blind")],
        *[(svg, agent) for agent in ("oracle", "tracer", "random", "blind")],
    ]
    scores = {
        agent: rows[svg, agent]["metrics"]["score"] for agent in ("oracle", "tracer", "random")
    }
    assert scores["oracle"] == 1 > scores["tracer"] > 0.5 > scores["random"] > 0
    assert rows[svg, "tracer"]["labels"] == {"scorer": "classical-2"}
    page = (path / "report.html").read_text()
    assert json.loads(page.split('id="page">')[1].split("</script>")[0])["planned"] == 7 * 4
