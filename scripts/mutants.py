"""Change the code a little at a time and count the changes that no test notices.

    python scripts/mutants.py [MODULE …] [--sample N] [--seed S] [--least PERCENT] [--out FILE]

mutmut makes the changes (mutants) and runs, for each, the tests that reach the changed function.
MODULES names the modules and the tests that are tried; a mutant that survives them is listed with
its difference. `--sample N` tries N mutants of each module, drawn by the seed. Ends with 1 where
fewer than `--least` per cent are killed.

Mutants that only change the wording of a message are left out, since no test here asserts prose,
those of `zip(…, strict=True)`, an assertion that always holds, and those of functions that their
module calls as it is imported, which is before mutmut switches a mutant on.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutmut.configuration import reset_config
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import change_cwd

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutants-tree"
PACKAGES = {
    "vagen_envs": "vagen_envs",
    "vagen_rewards": "vagen_rewards",
    "vagen_adapters": "adapters/vagen_adapters",
    "vagen_benchmarks": "benchmarks/vagen_benchmarks",
}
"""Where each package stands. mutmut finds modules by paths, so the copies stand side by side."""
BESIDE = ("benchmarks/experiments", "docs", "README.md", "examples", "scripts")
"""What tests read beside the packages."""
SNAPSHOTS = ("tests/contracts/test_fork_and_restore.py", "tests/envs/test_snapshots.py")
ESTIMATORS = (
    "tests/adapters/test_ppo_advantages.py",
    "tests/adapters/test_ppo_group_advantages.py",
)
NO_SHRINKING = """
from hypothesis import Phase
settings.register_profile(
    "mutants", settings.get_profile("repository"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("mutants")
"""
"""Any failing example kills a mutant; to look for a small one takes longer than all tests."""
WITHOUT = ("-m", "not sim", "-k", "not megabyte")
"""Tests of simulators, and of a megabyte, which takes mutmut's wrappers longer than a test may."""
MODULES: dict[str, tuple[str, ...]] = {
    "vagen_envs/forking.py": SNAPSHOTS,
    "vagen_envs/snapshots.py": SNAPSHOTS,
    "vagen_envs/replies/": (
        "tests/contracts/test_replies.py",
        "tests/envs/test_parsing.py",
        "tests/envs/test_released.py",
    ),
    "vagen_rewards/bonus.py": ("tests/rewards/test_bonus.py",),
    "vagen_rewards/comparison.py": ("tests/rewards/test_comparison.py",),
    "vagen_rewards/contrast.py": ("tests/rewards/test_contrast_scores.py",),
    "vagen_rewards/owed.py": ("tests/rewards/test_owed.py",),
    "vagen_rewards/transitions.py": ("tests/rewards/test_transitions.py",),
    "vagen_rewards/credit.py": ("tests/rewards/test_credit.py",),
    "vagen_rewards/hacking.py": ("tests/rewards/test_rewards_hacking.py",),
    "vagen_adapters/ppo/advantages.py": ESTIMATORS,
    "vagen_adapters/ppo/group_advantages.py": ESTIMATORS,
    "vagen_adapters/ppo/losses.py": ("tests/adapters/test_ppo_losses.py",),
    "vagen_adapters/ppo/level_sampler.py": ("tests/adapters/test_ppo_level_sampler.py",),
    "vagen_adapters/service/sessions.py": ("tests/adapters/test_service_sessions.py",),
    "vagen_adapters/service/journal.py": ("tests/adapters/test_service_journal.py",),
    "vagen_benchmarks/results/cell.py": ("tests/benchmarks/test_bench_summary.py",),
    "vagen_benchmarks/results/play_errors.py": (
        "tests/benchmarks/test_bench_stop_reasons.py",
        "tests/benchmarks/test_bench_summary.py",
    ),
    "vagen_benchmarks/results/summary.py": ("tests/benchmarks/test_bench_summary.py",),
    "vagen_benchmarks/results/stats.py": ("tests/benchmarks/test_bench_intervals.py",),
    "vagen_benchmarks/clients/circuit_breaker.py": ("tests/benchmarks/test_bench_retries.py",),
    "vagen_benchmarks/clients/retries.py": ("tests/benchmarks/test_bench_retries.py",),
}
"""The tests of each module (or of all modules of a folder), which take seconds."""
CAUGHT = {"killed", "timeout", "caught by type check", "segfault", "suspicious"}


@dataclass
class Tried:
    """The mutants of a module that were tried, by outcome."""

    module: str
    statuses: Counter[str] = field(default_factory=Counter)
    survivors: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.statuses.total()

    @property
    def killed(self) -> int:
        return sum(self.statuses[status] for status in CAUGHT)


def main() -> int:
    words = _read_arguments()
    unknown = [name for name in words.modules if not _matching(name)]
    if unknown:
        print(f"no module matches {', '.join(unknown)}; there are {', '.join(MODULES)}")
        return 2
    chosen = [module for name in words.modules for module in _matching(name)] or list(MODULES)
    # Modules with the same tests are tried together: running all tests once takes the longest.
    together: dict[tuple[str, ...], list[str]] = {}
    for module in dict.fromkeys(chosen):
        together.setdefault(MODULES[module], []).extend(_files(module))
    results = []
    for tests, paths in together.items():
        for result in try_mutants(paths, tests, words.sample, words.seed):
            print(_row(result), flush=True)
            results.append(result)
    table = report(results)
    print(table)
    if words.out:
        Path(words.out).write_text(table, encoding="utf-8")
    tried = sum(result.count for result in results)
    killed = sum(result.killed for result in results)
    return int(100 * killed < words.least * tried)


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="*", help="parts of paths; all modules by default")
    parser.add_argument("--sample", type=int, help="mutants of each module; all by default")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--least", type=float, default=90.0, help="per cent to be killed")
    parser.add_argument("--out", help="a file for the table and the survivors, in Markdown")
    return parser.parse_args()


def _matching(name: str) -> list[str]:
    return [module for module in MODULES if name in module]


def _source(path: str) -> Path:
    package, _, rest = path.partition("/")
    return ROOT / PACKAGES[package] / rest


def _files(module: str) -> list[str]:
    source = _source(module)
    if source.is_file():
        return [module]
    return [f"{module}{file.name}" for file in sorted(source.glob("*.py"))]


def try_mutants(
    paths: Sequence[str], tests: Sequence[str], sample: int | None, seed: int
) -> list[Tried]:
    """Try mutants of files that have the same tests, in a copy of the repository."""
    copy_tree(paths, tests)
    chosen: dict[str, list[str]] = {}
    for path in paths:
        names = mutants_of(path)
        if sample is not None and sample < len(names):
            names = random.Random(f"{seed} {path}").sample(names, sample)  # noqa: S311
        if names:
            chosen[path] = names
    if not chosen:
        return []
    _run([name for names in chosen.values() for name in names])
    return [_outcome(path, sorted(names)) for path, names in chosen.items()]


def _run(names: Sequence[str]) -> None:
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(WORK / "mutants"), str(WORK / "mutants/tests/helpers")]
    )
    command = [sys.executable, "-c", "from mutmut.__main__ import cli; cli()", "run"]
    done = subprocess.run(
        [*command, "--max-children", "1", *names],
        cwd=WORK,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-3000:])
        raise SystemExit("mutmut could not try them, see above")


def _outcome(path: str, names: Sequence[str]) -> Tried:
    """What became of a file's mutants."""
    result = Tried(path)
    codes = json.loads((WORK / "mutants" / f"{path}.meta").read_text())["exit_code_by_key"]
    untried = [name for name in names if codes.get(name) is None]
    if untried:
        raise SystemExit(f"mutmut did not try {', '.join(untried)}")
    for name in names:
        status = status_by_exit_code[codes[name]]
        result.statuses[status] += 1
        if status not in CAUGHT:
            with change_cwd(WORK):
                reset_config()
                result.survivors[name] = f"{status}\n{get_diff_for_mutant(name, path=path)}"
    return result


def copy_tree(paths: Sequence[str], tests: Sequence[str]) -> None:
    """Copy packages and tests, side by side, with mutmut's settings."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    # Python takes a folder on its path that isn't there at the start to have no modules ever.
    (WORK / "mutants" / "tests" / "helpers").mkdir(parents=True)
    unwanted = shutil.ignore_patterns("__pycache__", "*.pyc")
    for package, place in PACKAGES.items():
        shutil.copytree(ROOT / place, WORK / package, ignore=unwanted)
    shutil.copytree(ROOT / "tests", WORK / "tests", ignore=unwanted)
    for name in BESIDE:
        source = ROOT / name
        (WORK / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, WORK / name, ignore=unwanted)
        else:
            shutil.copy(source, WORK / name)
    with (WORK / "tests" / "conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(NO_SHRINKING)
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    chosen = [name for name in tests if (ROOT / name).exists()]
    mutmut = {
        "source_paths": list(PACKAGES),
        "only_mutate": list(paths),
        "also_copy": list(BESIDE),
        "pytest_add_cli_args_test_selection": chosen,
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-p", "no:xdist", *WITHOUT],
        "use_git_change_detection": False,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in mutmut.items()]
    written = "\n".join([settings, "[tool.mutmut]", *lines, ""])
    (WORK / "pyproject.toml").write_text(written, encoding="utf-8")


def mutants_of(path: str) -> list[str]:
    """The names of a file's mutants, but for those that change nothing to test."""
    source = _source(path).read_text(encoding="utf-8")
    with change_cwd(WORK):
        reset_config()
        mutated = mutate_file_contents(path, source)
    reset_config()
    at_import = {f"x_{name}__mutmut_orig" for name in _called_at_import(source)}
    functions = {node.name: node for node in _functions(ast.parse(mutated.code))}
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    kept = []
    for name in mutated.mutant_names:
        original = functions[f"{name.rpartition('__mutmut_')[0]}__mutmut_orig"]
        if original.name not in at_import and not _is_wording(original, functions[name]):
            kept.append(f"{module}.{name}")
    return kept


def _called_at_import(source: str) -> set[str]:
    """The names of what a module's own statements call."""
    statements = [
        each
        for each in ast.parse(source).body
        if not isinstance(each, ast.FunctionDef | ast.ClassDef)
    ]
    nodes = itertools.chain.from_iterable(map(ast.walk, statements))
    calls = (node.func for node in nodes if isinstance(node, ast.Call))
    return {called.id for called in calls if isinstance(called, ast.Name)}


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _is_wording(original: ast.AST, mutant: ast.AST) -> bool:
    """Whether two functions differ only in strings with a blank, or in `strict` of `zip`."""
    if _without_strict(original) == _without_strict(mutant):
        return True
    pairs = zip(ast.walk(original), ast.walk(mutant), strict=False)
    different = False
    for one, other in pairs:
        if type(one) is not type(other):
            return False
        if not isinstance(one, ast.Constant) or not isinstance(other, ast.Constant):
            continue
        if one.value == other.value and type(one.value) is type(other.value):
            continue
        if not isinstance(one.value, str) or " " not in one.value:
            return False
        different = True
    return different


def _without_strict(function: ast.AST) -> str:
    """The source of a function below its name."""
    return ast.unparse(_Laxly().visit(function)).partition("(")[2]


class _Laxly(ast.NodeTransformer):
    """Leaves out `strict=…`, which asserts what holds: no test can tell."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.keywords = [each for each in node.keywords if each.arg != "strict"]
        return self.generic_visit(node)


def report(results: Sequence[Tried]) -> str:
    """The table and the survivors, in Markdown."""
    lines = [
        "| module | mutants | killed | survived | killed, % |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(result) for result in results]
    whole = Tried("all")
    for result in results:
        whole.statuses += result.statuses
    lines += [_row(whole), "", "## Survivors", ""]
    for result in results:
        for name, difference in result.survivors.items():
            lines += [f"### {name}", "", "```diff", difference.strip(), "```", ""]
    return "\n".join(lines)


def _row(result: Tried) -> str:
    share = f"{100 * result.killed / result.count:.0f}" if result.count else "–"
    survived = result.count - result.killed
    cells = (result.module, result.count, result.killed, survived, share)
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())
