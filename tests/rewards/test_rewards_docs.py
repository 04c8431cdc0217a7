"""What docs/judges.md shows runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "judges.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_python_runs(code):
    exec(compile(code, str(PAGE), "exec"), {})  # noqa: S102


def test_the_options_of_the_model_judge_exist():
    pytest.importorskip("openai")
    from vagen_rewards.llm import LLMJudge

    code = re.search(r"```py\n(.*?)```", TEXT, re.DOTALL)[1]
    for shown, here in (
        ('"gpt-4.1-nano", "structured", ', '"m", "structured", api_key="none", '),
        ('cache="replies.sqlite", ', ""),
    ):
        assert shown in code
        code = code.replace(shown, here)
    names = {}
    exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102
    assert isinstance(names["judge"], LLMJudge)
    names["judge"].close()
