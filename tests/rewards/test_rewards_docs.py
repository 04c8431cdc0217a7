"""What docs/judges.md shows runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "judges.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_python_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    pytest.importorskip("openai")
    exec(compile(code, str(PAGE), "exec"), {})  # noqa: S102
