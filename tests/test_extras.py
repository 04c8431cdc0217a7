"""What isn't installed is named with the extra that brings it, not by a traceback."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from vagen_benchmarks.extras import extras_of

ROOT = Path(__file__).parent.parent
HIDE = "import sys; sys.modules[{module!r}] = None; "


def without(module, code):
    """What Python says to `code` where the module isn't installed."""
    command = [sys.executable, "-c", HIDE.format(module=module) + code]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=120, cwd=ROOT
    )


def test_the_command_without_its_extra_is_one_line():
    done = without("typer", "from vagen_benchmarks.__main__ import main; main()")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "vagen: the command vagen needs the Python module 'typer', which is not installed. "
        'Install it with: pip install "vagen-envs[bench]"'
    ]


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("torch", ["train", "--recipe", "vagen-base", "--env", "sokoban", "--out", "x"], "ppo"),
        ("trl", ["warmstart", "--env", "sokoban", "--model", "x", "--out", "x"], "ppo"),
        ("uvicorn", ["serve"], "serve"),
        ("torch", ["bench", "-a", "transformers:x", "-e", "frozenlake"], "transformers"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(module, arguments, extra, tmp_path):
    code = (
        f"sys.argv = ['vagen', *{arguments!r}]; from vagen_benchmarks.__main__ import main; main()"
    )
    done = without(module, code)
    said = " ".join(done.stderr.split())
    assert (done.returncode, "Traceback" in said) == (2, False)
    assert f"'{module}', which is not installed" in said
    assert f'pip install "vagen-envs[{extra}]"' in said


def test_an_id_of_its_own_is_not_called_by_another():
    said = without(
        "mani_skill", "import gymnasium, vagen_envs; gymnasium.make('vagen/PrimitiveSkillPlace-v0')"
    ).stderr
    assert 'pip install "vagen-envs[primitive-skill]"' in said
    assert "'place'" in said
    assert "PrimitiveSkill-v0" not in said.splitlines()[-1]


def test_every_extra_is_found_by_what_it_brings():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for extra, wanted in extras.items():
        for line in wanted:
            name = re.match(r"[A-Za-z0-9._-]+", line)[0]
            if name != "vagen-envs":
                assert extra in extras_of(name.replace("-", "_")), (extra, name)


@pytest.mark.parametrize(
    "file", sorted((ROOT / "tests/adapters/pins").glob("*.txt")), ids=lambda file: file.stem
)
def test_the_versions_that_adapters_are_tested_with_hold_what_the_package_needs(file):
    pinned = {}
    for line in file.read_text().split():
        name, _, version = line.partition("==")
        pinned[canonicalize_name(name)] = version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for wanted in map(Requirement, project["dependencies"]):
        name = canonicalize_name(wanted.name)
        assert name in pinned, f"{file.name} lacks {wanted}"
        assert wanted.specifier.contains(pinned[name]), f"{file.name}: {name} {pinned[name]}"


def test_the_command_says_its_version():
    import vagen_envs

    done = without(
        "nothing",
        "sys.argv = ['vagen', '--version']; from vagen_benchmarks.__main__ import main; main()",
    )
    assert (done.returncode, done.stdout) == (0, f"vagen-envs {vagen_envs.__version__}\n")


@pytest.mark.parametrize(("version", "said"), [((3, 12), False), ((3, 13), True), ((3, 14), True)])
def test_where_an_extra_leaves_its_library_out_the_remedy_names_a_python(
    monkeypatch, version, said
):
    from vagen_envs.errors import MissingExtraError

    monkeypatch.setattr("sys.version_info", version)
    remedy = "with Python 3.11 or 3.12"
    assert (remedy in str(MissingExtraError("it", "primitive-skill", "mani_skill"))) is said
    assert remedy not in str(MissingExtraError("it", "svg", "cairosvg"))
