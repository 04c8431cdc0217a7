"""Shares of the variance of success that views and estimators explain, in `scaffold-…`.

.venv/bin/python benchmarks/experiments/measure_scaffold.py
.venv/bin/python benchmarks/experiments/measure_scaffold.py runs/experiments/*/results.json --plot
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot

from vagen_benchmarks.results.stats import t95
from vagen_experiments.experiment import RESULTS
from vagen_experiments.variance import PARTS, Values, shares
from vagen_experiments.views import VIEWS

ESTIMATORS = {"turn": "turn GAE", "bilevel": "Bi-Level GAE", "grpo": "GRPO", "rloo": "RLOO by turn"}
NAMES = dict(zip(PARTS, ("shown", "estimator", "interaction", "seed, residual"), strict=True))
GRIDS = {"scaffold-frozenlake": "FrozenLake", "scaffold-sokoban": "Sokoban"}


class Measured(NamedTuple):
    """A balanced part of an experiment.

    Attributes:
        estimators: their names.
        success: (views, estimators, seeds) after training.
        start: (views,) before.
    """

    estimators: tuple[str, ...]
    success: Values
    start: Values


def measured(results: Mapping[str, Any]) -> Measured:
    """The seeds that every view has of the first estimator, and all estimators that every view has
    in these seeds.
    """
    found = {(run["recipe"], run["seed"]): run["sampled"]["success"] for run in results["runs"]}

    def is_whole(estimator: str, seed: int) -> bool:
        return all((f"{view}-{estimator}", seed) in found for view in VIEWS)

    first = next(iter(ESTIMATORS))
    seeds = [seed for seed in sorted({seed for _, seed in found}) if is_whole(first, seed)]
    whole = [each for each in ESTIMATORS if all(is_whole(each, seed) for seed in seeds)]
    cells = itertools.product(VIEWS, whole, seeds)
    success = np.array([found[f"{view}-{estimator}", seed] for view, estimator, seed in cells])
    before = results["checkpoint"]["sampled_as"]
    start = np.array([before[f"{view}-{first}"]["success"] for view in VIEWS])
    names = tuple(ESTIMATORS[estimator] for estimator in whole)
    return Measured(names, success.reshape(len(VIEWS), len(whole), len(seeds)), start)


def table_of_cells(found: Measured) -> str:
    """Markdown: mean success and gain over the start of every cell."""
    success, start = found.success, found.start
    lines = [
        f"| shown | start | {' | '.join(found.estimators)} | mean |",
        "|---" * (3 + len(found.estimators)) + "|",
    ]
    for view, row, before in zip(VIEWS, success, start, strict=True):
        means = [*row.mean(1), row.mean()]
        cells = [f"{mean:.3f} ({mean - before:+.3f})" for mean in means]
        lines.append(f"| {view} | {before:.3f} | {' | '.join(cells)} |")
    means = [f"{mean:.3f}" for mean in (*success.mean((0, 2)), success.mean())]
    lines.append(f"| mean | {start.mean():.3f} | {' | '.join(means)} |")
    return "\n".join(lines)


def table_of_shares(title: str, found: Measured) -> str:
    """Markdown rows: the shares of success, of the gain, and where all have captions."""
    lines = []
    outcomes = {
        "success": found.success,
        "gain": found.success - found.start[:, None, None],
        f"success, without {VIEWS[0]}": found.success[1:],
    }
    for name, outcome in outcomes.items():
        cells = [
            f"{share.omega:.2f} ({share.low:.2f} to {share.high:.2f}); {share.eta:.2f}"
            for share in shares(outcome).values()
        ]
        lines.append(f"| {title}, {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def widest_differences(found: Measured) -> str:
    """Markdown: between the best and the worst of each factor, with 95 % intervals.

    Student's, with the residual variance of all cells.
    """
    success = found.success
    views, estimators, seeds = success.shape
    free = views * estimators * (seeds - 1)
    noise = np.square(success - success.mean(2, keepdims=True)).sum() / free
    lines = []
    for names, means, count in (
        (VIEWS, success.mean((1, 2)), estimators * seeds),
        (found.estimators, success.mean((0, 2)), views * seeds),
    ):
        best, worst = means.argmax(), means.argmin()
        apart, half = means[best] - means[worst], t95(free) * np.sqrt(2 * noise / count)
        ends = f"{apart - half:+.3f} to {apart + half:+.3f}"
        lines.append(f"- {names[best]} − {names[worst]}: {apart:+.3f} ({ends})")
    return "\n".join(lines)


def plot(grids: Mapping[str, Measured], path: Path) -> None:
    """Success of every training by cell, and the shares beside it; a row for each grid."""
    figure, axes = pyplot.subplots(
        len(grids),
        2,
        figsize=(9.5, 3.6 * len(grids)),
        layout="constrained",
        squeeze=False,
        width_ratios=(2, 1),
    )
    for (title, found), (cells, explained) in zip(grids.items(), axes, strict=True):
        for number, view in enumerate(VIEWS):
            colour = f"C{number}"
            places = np.arange(len(found.estimators)) + 0.2 * (number - 1)
            success = found.success[number]
            cells.axhline(found.start[number], color=colour, linestyle=":", linewidth=1)
            cells.plot(places, success, ".", color=colour, alpha=0.5)
            cells.plot(places, success.mean(1), "_", color=colour, ms=16, label=view)
        cells.set_xticks(range(len(found.estimators)), found.estimators)
        cells.set_title(f"{title}: success (dotted: start)", fontsize=10)
        cells.set_ylim(0, 1.2 * found.success.max())
        cells.legend(fontsize=8, loc="upper center", ncols=len(VIEWS))
        for part, share in enumerate(shares(found.success).values()):
            spread = [[share.omega - share.low], [share.high - share.omega]]
            explained.bar(part, share.omega, yerr=spread, capsize=4, color="C7")
        explained.set_xticks(range(len(NAMES)), NAMES.values(), fontsize=7)
        explained.set_ylim(0, 1)
        explained.set_title("share of variance, 95 %", fontsize=10)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", nargs="*", type=Path, help="results.json of the experiments")
    parser.add_argument("--plot", type=Path, help="write the figure here")
    chosen = parser.parse_args(arguments)
    paths = chosen.results or sorted(RESULTS.glob("scaffold-*.json"))
    grids = {}
    for path in paths:
        results = json.loads(path.read_text(encoding="utf-8"))
        grids[GRIDS[results["experiment"]]] = measured(results)
    for title, found in grids.items():
        print(f"{title}, {found.success.shape[2]} seeds\n\n{table_of_cells(found)}\n")
        print(f"{widest_differences(found)}\n")
    print(f"| | {' | '.join(NAMES.values())} |\n" + "|---" * 5 + "|")
    for title, found in grids.items():
        print(table_of_shares(title, found))
    if chosen.plot:
        plot(grids, chosen.plot)


if __name__ == "__main__":
    main()
