"""What a user meets first: help texts, and the files of `vagen new env`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from vagen_benchmarks.cli import app
from vagen_benchmarks.errors import ProtocolError

COMMANDS = sorted(get_command(app).commands)


def shown(*words):
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize(
    "words", [*COMMANDS, "judge calibrate", "judge rescore", "models try", "new env"]
)
def test_help_of_every_command_has_an_example(words):
    assert f"vagen {words}" in shown(*words.split()).partition("Example:")[2]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("json", "a module of that name can be imported here already"),
        ("gymnasium", "a module of that name can be imported here already"),
        ("class", "a word of Python's grammar"),
        ("my hunt", "a to z"),
        ("my.hunt", "a to z"),
        ("state", "its class State would hide one"),
        ("env", "its class Env would hide one"),  # EnvConfig
    ],
)
def test_names_that_cannot_work_are_refused_with_the_reason(name, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["new", "env", name, "--package"])
    assert isinstance(done.exception, ProtocolError)
    assert reason in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_libraries_of_extras_are_no_names_even_where_they_are_not_installed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["new", "env", "openenv"])
    assert "which the extra openenv brings" in str(done.exception)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    done = CliRunner().invoke(app, ["new", "env", "hunt", "--out", str(tmp_path / "file" / "in")])
    assert isinstance(done.exception, ProtocolError)
    assert "Not a directory" in str(done.exception)


def test_a_new_package_conforms_and_is_judged(tmp_path):
    command = ["-P", "-m", "vagen_benchmarks", "new", "env", "hunt", "--package"]
    run(*command, cwd=tmp_path)
    package = tmp_path / "hunt"
    assert "Hunt conforms" in run("test_hunt.py", cwd=package)
    assert "the judge reads" in run("test_claims.py", cwd=package)
    code = """
import gymnasium as gym
import hunt
from vagen_rewards import RuleJudge, Statement
env = gym.make("hunt:example/Hunt-v0", split="test")
levels = {env.reset(seed=seed)[1]["level"]["content"] for seed in range(1000)}
state = env.unwrapped.true_state
said = Statement("grounding", f"The target is at {state.target}.", state)
print(len(levels) >= env.unwrapped.test_episodes, RuleJudge("direct").score(said).value)
"""
    assert run("-c", code, cwd=package) == "True 1.0\n"


def run(*words, cwd):
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_new_environment_conforms_and_can_be_benchmarked(tmp_path):
    vagen = [
        "-P",
        "-m",
        "vagen_benchmarks",
    ]  # without the current folder on the path, like a console script
    run(*vagen, "new", "env", "treasure_hunt", cwd=tmp_path)
    folder = tmp_path / "treasure_hunt"
    assert "TreasureHunt conforms" in run("test_treasure_hunt.py", cwd=folder)
    env = "treasure_hunt:example/TreasureHunt-v0"
    assert "100 %" in run(
        *vagen, "bench", "-e", env, "-a", "oracle", "-n", "3", "--out", "runs/a", cwd=folder
    )
    moved = folder.rename(tmp_path / "moved")  # to another place or machine
    assert "are as stored" in run(*vagen, "verify", "runs/a", "--trust", cwd=moved)
    folder = moved
    again = CliRunner().invoke(app, ["new", "env", "treasure_hunt", "--out", str(folder)])
    assert "isn't empty" in str(again.exception)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("../up", "up"),
        ("TreasureHunt", "treasure_hunt"),
        ("a-b", "a_b"),
        ("json", "json_game"),
        ("true", "true_game"),  # its class would be True
        ("", "treasure_hunt"),
    ],
)
def test_a_name_that_is_no_module_is_refused(name, instead, tmp_path):
    done = CliRunner().invoke(app, ["new", "env", name, "--out", str(tmp_path / "new")])
    assert "is not valid" in str(done.exception)
    assert str(done.exception).endswith(f"such as {instead}")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("line", "instead", "says"),
    [
        ("def _solved(self)", "def _solved(self", "SyntaxError"),
        ("return Picture(", "return (", "it must return a Picture"),
        (
            "return MyEnvState(self.config.size, self.player, self.target)",
            "return None",
            "must return a State",
        ),
        ("return Names(*STEPS)", "return list(STEPS)", "_actions() returned a list"),
        ("return content_hash(self._board())", "return self.nothing", "no attribute 'nothing'"),
    ],
)
def test_a_fault_in_ones_own_environment_is_one_line_that_says_where(line, instead, says, tmp_path):
    CliRunner().invoke(app, ["new", "env", "my_env", "--out", str(tmp_path)])
    file = tmp_path / "my_env.py"
    text = file.read_text()
    assert line in text
    file.write_text(text.replace(line, instead))
    command = [
        sys.executable,
        "-P",
        "-m",
        "vagen_benchmarks",
        "bench",
        "-e",
        "my_env:example/MyEnv-v0",
        "-a",
        "oracle",
    ]
    done = subprocess.run(
        [*command, "-n", "1"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr
    assert "my_env.py, line" in done.stderr or "_actions()" in done.stderr
