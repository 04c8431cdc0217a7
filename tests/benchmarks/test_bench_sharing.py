"""Runs on a hub and in trackers, by their own clients."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import types

import pytest
import runs
from commands import vagen
from hub_server import Hub
from typer.testing import CliRunner

from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.cli import app
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.trackers import library

VAGEN = [sys.executable, "-m", "vagen_benchmarks"]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    path = tmp_path_factory.mktemp("sharing") / "my-run"
    runs.play(path, [Oracle(), Random()], ["frozenlake"], episodes=3)
    return path


@pytest.fixture
def hub():
    made = Hub()
    yield made
    made.close()


def push(path, hub, **env):
    """In a process of its own: the client reads its settings when it is imported."""
    hub_s = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_standin", "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1"}
    settings = {**os.environ, **hub_s, **env}
    return subprocess.run(
        [*VAGEN, "push", str(path), "--repo", "me/run"],
        env=settings,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_push_uploads_the_run_as_it_is(played, hub, tmp_path):
    pytest.importorskip("huggingface_hub")
    done = push(played, hub)
    assert done.returncode == 0, done.stderr
    assert f"{hub.url}/datasets/me/run" in done.stdout
    assert hub.repos[0]["type"] == "dataset"
    assert hub.tokens == {"Bearer hf_standin"}
    kept = {
        str(file.relative_to(played)): file.read_bytes()
        for file in played.rglob("*")
        if file.is_file() and file.name != ".lock"
    }
    assert hub.files == kept
    assert "vagen verify" in hub.files["README.md"].decode()
    for name, data in hub.files.items():  # what comes down is a run that can be checked
        file = tmp_path / "down" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    down = vagen("verify", tmp_path / "down")
    assert (down.returncode, "6 episodes" in down.stdout) == (0, True)


def test_push_that_is_refused_is_one_error(played, hub):
    pytest.importorskip("huggingface_hub")
    hub.refuse = 403
    done = push(played, hub)
    assert (done.returncode, done.stdout) == (2, "")
    assert "vagen: me/run couldn't be pushed to" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_push_refuses_a_run_that_holds_a_key(played, hub):
    pytest.importorskip("huggingface_hub")
    said = next(RunFolder(played).episodes()).turns[0]["reply"][10:30]
    done = push(played, hub, MY_API_KEY=said)
    assert (done.returncode, hub.files) == (2, {})
    assert "holds the value of MY_API_KEY" in " ".join(done.stderr.split())


def test_tracker_that_is_unknown_or_missing_is_one_error(monkeypatch):
    with pytest.raises(ProtocolError, match="Did you mean 'wandb'"):
        library("wanbd")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ProtocolError, match=r"vagen-envs\[mlflow\]"):
        library("mlflow")


@pytest.mark.parametrize("kind", ["trackio", "wandb", "mlflow"])
def test_run_is_written_to_a_tracker_by_its_own_library(played, tmp_path, kind):
    """Without a network. Not in the environment of `make test`: trackers bring servers of their own."""
    if importlib.util.find_spec(kind) is None:
        pytest.skip(f"{kind} isn't installed")
    settings = {
        **os.environ, "TRACKIO_DIR": str(tmp_path), "WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path),
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    words = [*VAGEN, "track", str(played), "--to", kind]
    done = subprocess.run(words, env=settings, check=False, capture_output=True, text=True, timeout=250, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if kind == "mlflow":
        import mlflow

        client = mlflow.MlflowClient(settings["MLFLOW_TRACKING_URI"])
        found = {
            each.info.run_name: each
            for each in client.search_runs([client.get_experiment_by_name("vagen").experiment_id])
        }
        assert set(found) == {"my-run oracle", "my-run random"}
        oracle = found["my-run oracle"]
        assert oracle.data.metrics["FrozenLake-v0/success"] == 1.0
        assert oracle.data.metrics["FrozenLake-v0/played"] == 3
        steps = client.get_metric_history(oracle.info.run_id, "FrozenLake-v0/episode_success")
        assert [(each.step, each.value) for each in steps] == [(0, 1.0), (1, 1.0), (2, 1.0)]
    else:
        stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        for said in (
            b"my-run oracle",
            b"my-run random",
            b"FrozenLake-v0/success",
            b"FrozenLake-v0/episode_return",
            b"protocol_sha256",
        ):
            assert said in stored


def test_run_is_tracked_when_it_ends(tmp_path, monkeypatch):
    """With the tracker's calls noted down; those of the real libraries are above."""
    calls = []
    fake = types.SimpleNamespace(
        init=lambda **said: calls.append(said["name"]),
        log=lambda values, step=None: calls.append(values),
        finish=lambda: calls.append("finished"),
    )
    monkeypatch.setitem(sys.modules, "trackio", fake)
    words = [
        "bench",
        "-e",
        "frozenlake",
        "-a",
        "oracle",
        "-n",
        "2",
        "--out",
        str(tmp_path / "run"),
        "--track",
        "trackio",
    ]
    assert CliRunner().invoke(app, words).exit_code == 0
    name, first, second, scores, end = calls
    assert (name, end) == ("run oracle", "finished")
    assert first["FrozenLake-v0/episode_success"] == second["FrozenLake-v0/episode_success"] == 1.0
    assert (scores["FrozenLake-v0/success"], scores["FrozenLake-v0/played"]) == (1.0, 2.0)
    monkeypatch.setitem(sys.modules, "trackio", None)
    refused = CliRunner().invoke(app, [*words[:-4], "--out", str(tmp_path / "other"), *words[-2:]])
    assert isinstance(refused.exception, ProtocolError)
    assert not (tmp_path / "other").exists()  # said before anything is played
