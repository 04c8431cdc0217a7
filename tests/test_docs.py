"""What the README and the documentation show runs as it stands."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTED_ELSEWHERE = ("judges.md", "service.md", "verifiers.md")  # with what they print, and with a server
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Blocks marked `py` instead of `python` need what can't be had everywhere, such as AI2-THOR, and are only shown.
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

NEEDS = {"adapters/openenv.md": "openenv", "adapters/verifiers.md": "verifiers", "adapters/pettingzoo.md": "pettingzoo",
         "adapters/skyrl.md": "skyrl_gym", "adapters/trl.md": "trl", "adapters/verl.md": "verl",
         "adapters/inspect.md": "inspect_ai"}  # fmt: skip


def blocks_of(page: Path) -> list[str]:
    if page.parent == ROOT / "docs" and page.name in TESTED_ELSEWHERE:
        return []
    return [block for block in BLOCK.findall(page.read_text(encoding="utf-8")) if "--8<--" not in block]


@pytest.mark.parametrize("page", [each for each in PAGES if blocks_of(each)], ids=lambda page: page.stem)
def test_python_of_a_page_runs(page, monkeypatch, tmp_path):
    """The blocks of a page in order, as a reader would paste them into one session."""
    name = page.relative_to(ROOT / "docs").as_posix() if page.is_relative_to(ROOT / "docs") else page.name
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples" / "lights_out"), *sys.path])
    seen: dict[str, object] = {}
    if name == "your_environment.md":
        seen["gym"] = __import__("gymnasium")
        __import__("lights_out")
    for block in blocks_of(page):
        exec(compile(block, name, "exec"), seen)  # noqa: S102


def test_the_readme_names_every_id():
    import vagen_envs

    assert [env_id for env_id in vagen_envs.ENV_IDS if env_id not in PAGES[0].read_text(encoding="utf-8")] == []


def test_links_to_files_lead_somewhere():
    missing = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            generated = "environments/" in target or page.parent.name == "environments"
            if not generated and not (page.parent / target).exists():
                missing.append(f"{page.name}: {target}")
    assert missing == []


def test_the_version_is_the_changelogs_first():
    import vagen_envs

    version = vagen_envs.__version__
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == version
