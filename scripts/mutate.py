"""Mutation testing of the arithmetic that scores rest on: `python scripts/mutate.py parsing run --max-children 2`.

mutmut expects a package where its module name says, and ours lie in several folders; so they are laid side by side
in build/mutation first. What follows the topic goes to mutmut: `run`, `results`, `show NAME`, `browse`. Survivors of
code that runs when a test is imported deserve another run by name: `run NAME…` imports the tests anew for each.

This module is also the plugin with which pytest runs there: the tests that are quick come first, and a failing
example is not made smaller, since it is the end of the mutant anyway.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("vagen_envs", "vagen_rewards", "adapters/vagen_adapters", "benchmarks/vagen_benchmarks")
TOPICS = {
    "parsing": (
        ["vagen_envs/parsing.py", "vagen_envs/tags.py", "vagen_envs/actions.py"],
        ["tests/envs/test_parsing.py"],
    ),
    "advantages": (
        [f"vagen_adapters/ppo/{name}.py" for name in ("advantages", "group_advantages", "packing", "trajectories")],
        [*(f"tests/adapters/test_ppo_{name}.py" for name in ("advantages", "group_advantages", "trajectories"))],
    ),
    "judging": (
        [f"vagen_rewards/{name}.py" for name in ("scores", "rules/judge", "rules/marks", "rules/counting",
                                                 "rules/boards", "rules/places")],
        [*(f"tests/rewards/test_rewards_{name}.py" for name in ("comparison", "rules", "scores"))],
    ),
}  # fmt: skip

# The only plugins, for that alone saves half a mutant's time; the last two collect garbage, which takes as long again.
PLUGINS = [
    word
    for name in ("mutate", "pytest_timeout", "_hypothesis_pytestplugin", "no:unraisableexception", "no:threadexception")
    for word in ("-p", name)
]


def lay_out(topic: str, quickly: bool) -> Path:
    """The packages, the tests and a configuration of mutmut for this topic, in a folder of their own.

    `quickly`: the tests are imported once for all mutants. What they make meanwhile is then made by no mutant.
    """
    sources, tests = TOPICS[topic]
    stage = ROOT / "build" / "mutation" / topic
    for folder in (*PACKAGES, "tests"):
        shutil.rmtree(stage / Path(folder).name, ignore_errors=True)  # what was deleted since would be tested
        shutil.copytree(ROOT / folder, stage / Path(folder).name)
    settings = {
        "source_paths": [Path(package).name for package in PACKAGES],
        "only_mutate": sources,
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": [*PLUGINS, "-k", "not linear"],  # the test that only times
        "process_isolation": "forkserver",  # a fork would inherit what lru_cache knows from before the mutation
        "forkserver_warmup": "collect" if quickly else "none",
        "timeout_constant": 30.0,  # seconds by the clock: on a busy machine a test that only waits is no endless loop
        "timeout_multiplier": 2.0,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (stage / "pyproject.toml").write_text("\n".join([project, "[tool.mutmut]", *lines, ""]), encoding="utf-8")
    return stage


def pytest_configure() -> None:
    from hypothesis import Phase, settings

    quick = settings(settings.get_profile("repository"), phases=(Phase.explicit, Phase.generate))
    settings.register_profile("mutation", quick)
    settings.load_profile("mutation")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    items.sort(key=lambda item: getattr(item.obj, "is_hypothesis_test", False))


def main() -> None:
    """Lay out, then become mutmut."""
    if len(sys.argv) < 3 or sys.argv[1] not in TOPICS:
        sys.exit(f"usage: python scripts/mutate.py {'|'.join(TOPICS)} run|results|show NAME|browse")
    named = [word for word in sys.argv[3:] if "__mutmut_" in word]
    os.chdir(lay_out(sys.argv[1], quickly=not named))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    os.execve(sys.executable, [sys.executable, "-m", "mutmut", *sys.argv[2:]], environment)  # noqa: S606


if __name__ == "__main__":
    main()
