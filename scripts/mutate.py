"""Mutation testing of the arithmetic that scores rest on: `python scripts/mutate.py parsing run --max-children 2`.

mutmut expects a package where its module name says, and ours lie in several folders; so they are laid side by side
in build/mutation first. What follows the topic goes to mutmut: `run`, `results`, `show NAME`, `browse`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("vagen_envs", "vagen_rewards", "adapters/vagen_adapters", "benchmarks/vagen_benchmarks")
TOPICS = {
    "parsing": (
        ["vagen_envs/parsing.py", "vagen_envs/tags.py", "vagen_envs/actions.py"],
        ["tests/envs/test_parsing.py"],
    ),
    "advantages": (
        [f"vagen_adapters/ppo/{name}.py" for name in ("advantages", "packing", "trajectories")],
        ["tests/adapters/test_ppo_advantages.py", "tests/adapters/test_ppo_trajectories.py"],
    ),
    "judging": (
        [f"vagen_rewards/{name}.py" for name in ("scores", "rules/judge", "rules/marks", "rules/counting",
                                                 "rules/boards", "rules/places")],
        [*(f"tests/rewards/test_rewards_{name}.py" for name in ("comparison", "rules", "scores"))],
    ),
}  # fmt: skip


def lay_out(topic: str) -> Path:
    """The packages, the tests and a configuration of mutmut for this topic, in a folder of their own."""
    sources, tests = TOPICS[topic]
    stage = ROOT / "build" / "mutation" / topic
    for folder in (*PACKAGES, "tests"):
        shutil.copytree(ROOT / folder, stage / Path(folder).name, dirs_exist_ok=True)
    settings = {
        "source_paths": [Path(package).name for package in PACKAGES],
        "only_mutate": sources,
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": ["-k", "not linear"],  # times nothing a mutant could change, but takes seconds
        "process_isolation": "forkserver",  # a fork would inherit what lru_cache knows from before the mutation
        "timeout_multiplier": 5.0,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (stage / "pyproject.toml").write_text("\n".join([project, "[tool.mutmut]", *lines, ""]), encoding="utf-8")
    return stage


def main() -> None:
    """Lay out, then become mutmut."""
    if len(sys.argv) < 3 or sys.argv[1] not in TOPICS:
        sys.exit(f"usage: python scripts/mutate.py {'|'.join(TOPICS)} run|results|show NAME|browse")
    os.chdir(lay_out(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, "-m", "mutmut", *sys.argv[2:]])  # noqa: S606


if __name__ == "__main__":
    main()
