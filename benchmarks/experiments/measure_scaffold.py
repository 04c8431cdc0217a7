"""Shares of the variance of success that views and estimators explain, in `scaffold-…`.

.venv/bin/python benchmarks/experiments/measure_scaffold.py
.venv/bin/python benchmarks/experiments/measure_scaffold.py runs/experiments/*/results.json --plot
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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


def success_of(results: Mapping[str, Any]) -> tuple[Values, Values]:
    """(views, estimators, seeds) Success after training, of the seeds that every cell has; and
    (views,) the start's.
    """
    found = {(run["recipe"], run["seed"]): run["sampled"]["success"] for run in results["runs"]}
    cells = [[f"{view}-{estimator}" for estimator in ESTIMATORS] for view in VIEWS]
    names = [name for row in cells for name in row]
    seeds = [
        seed
        for seed in sorted({seed for _, seed in found})
        if all((name, seed) in found for name in names)
    ]
    success = [[[found[name, seed] for seed in seeds] for name in row] for row in cells]
    start = [results["checkpoint"]["sampled_as"][row[0]]["success"] for row in cells]
    return np.array(success), np.array(start)


def table_of_cells(success: Values, start: Values) -> str:
    """Markdown: mean success and gain over the start of every cell."""
    lines = [f"| | start | {' | '.join(ESTIMATORS.values())} | mean |", "|---" * 7 + "|"]
    for view, row, before in zip(VIEWS, success, start, strict=True):
        means = [*row.mean(1), row.mean()]
        cells = [f"{mean:.3f} ({mean - before:+.3f})" for mean in means]
        lines.append(f"| {view} | {before:.3f} | {' | '.join(cells)} |")
    means = [f"{mean:.3f}" for mean in (*success.mean((0, 2)), success.mean())]
    lines.append(f"| mean | {start.mean():.3f} | {' | '.join(means)} |")
    return "\n".join(lines)


def table_of_shares(title: str, success: Values, start: Values) -> str:
    """Markdown rows: the shares of success, and of the gain over the start."""
    lines = []
    outcomes = {"success": success, "gain": success - start[:, None, None]}
    for name, outcome in outcomes.items():
        cells = [
            f"{share.omega:.2f} ({share.low:.2f} to {share.high:.2f}); {share.eta:.2f}"
            for share in shares(outcome).values()
        ]
        lines.append(f"| {title}, {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def paired_differences(success: Values) -> str:
    """Markdown: the widest differences of each factor, by seed, with Student's 95 % interval."""
    lines = []
    for names, means in (
        (VIEWS, success.mean(1)),
        (tuple(ESTIMATORS.values()), success.mean(0)),
    ):
        order = means.mean(1).argsort()
        best, worst = order[-1], order[0]
        apart = means[best] - means[worst]
        half = t95(len(apart) - 1) * apart.std(ddof=1) / np.sqrt(len(apart))
        ends = f"{apart.mean() - half:+.3f} to {apart.mean() + half:+.3f}"
        lines.append(f"- {names[best]} − {names[worst]}: {apart.mean():+.3f} ({ends})")
    return "\n".join(lines)


def plot(measured: Mapping[str, tuple[Values, Values]], path: Path) -> None:
    """Success of every training by cell, and the shares beside it; a row for each grid."""
    figure, axes = pyplot.subplots(
        len(measured),
        2,
        figsize=(9.5, 3.6 * len(measured)),
        layout="constrained",
        squeeze=False,
        width_ratios=(2, 1),
    )
    for (title, (success, start)), (cells, explained) in zip(measured.items(), axes, strict=True):
        for number, view in enumerate(VIEWS):
            colour, places = f"C{number}", np.arange(len(ESTIMATORS)) + 0.2 * (number - 1)
            cells.axhline(start[number], color=colour, linestyle=":", linewidth=1)
            cells.plot(places, success[number], ".", color=colour, alpha=0.5)
            cells.plot(places, success[number].mean(1), "_", color=colour, ms=16, label=view)
        cells.set_xticks(range(len(ESTIMATORS)), ESTIMATORS.values())
        cells.set_title(f"{title}: success (dotted: start)", fontsize=10)
        cells.set_ylim(bottom=0)
        cells.legend(fontsize=8)
        for part, share in enumerate(shares(success).values()):
            spread = [[share.omega - share.low], [share.high - share.omega]]
            explained.bar(part, share.omega, yerr=spread, capsize=4, color="C7")
        explained.set_xticks(range(len(NAMES)), NAMES.values(), fontsize=8)
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
    measured = {}
    for path in paths:
        results = json.loads(path.read_text(encoding="utf-8"))
        measured[GRIDS[results["experiment"]]] = success_of(results)
    for title, (success, start) in measured.items():
        print(f"{title}, {success.shape[2]} seeds\n\n{table_of_cells(success, start)}\n")
        print(f"{paired_differences(success)}\n")
    print(f"| | {' | '.join(NAMES.values())} |\n" + "|---" * 5 + "|")
    for title, of_grid in measured.items():
        print(table_of_shares(title, *of_grid))
    if chosen.plot:
        plot(measured, chosen.plot)


if __name__ == "__main__":
    main()
