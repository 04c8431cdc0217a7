"""What the README shows runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=[block.strip().splitlines()[-1][:40] for block in BLOCKS])
def test_python_of_the_readme_runs(code):
    exec(compile(code, str(README), "exec"), {})  # noqa: S102


def test_the_readme_names_every_id():
    import vagen_envs

    assert [env_id for env_id in vagen_envs.ENV_IDS if env_id not in README.read_text(encoding="utf-8")] == []
