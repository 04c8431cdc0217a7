"""What docs/verifiers.md shows runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("math_verify")
pytest.importorskip("pycocotools")
pytest.importorskip("uvicorn")

PAGE = Path(__file__).parent.parent.parent / "docs" / "verifiers.md"


def test_python_of_the_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    code = "\n".join(f"exec({block!r}, {{}})" for block in blocks)  # each on its own, in one process
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == str([1.0] * 8)
    assert "reflection/correct': 1.0" in said[1]
    assert "RewardTerm(name='accuracy'" in said[-1]


def test_the_command_writes_samples(tmp_path):
    out = tmp_path / "some.parquet"
    command = [
        sys.executable,
        "-m",
        "vagen_envs.sample.generated",
        str(out),
        "--count",
        "5",
        "--source",
        "vagen/counting",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"5 samples in {out}\n"

    from vagen_envs.sample.reading import read_samples

    assert [sample.data_source for sample in read_samples(out)] == ["vagen/counting"] * 5
