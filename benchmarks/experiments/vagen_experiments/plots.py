"""Plots of an experiment: training curves (VAGEN's figure 5), success by budget, and what critics
explain.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot, ticker

PANELS = (
    ("rollout/success", "success in training"),
    ("rollout/format", "well-formed replies"),
    ("critic/explained_variance", "critic's explained variance"),
    ("policy/entropy", "entropy per trained token (nats)"),
)
WINDOW = 3
"""Rollouts that a point of a curve averages over."""

BANDS = "lines: mean over seeds; bands: lowest to highest"

Result = Mapping[str, Any]


def plot_curves(title: str, results: Sequence[Result], path: Path) -> None:
    """Curves over rollouts: the mean over seeds, and a band from the lowest to the highest."""
    figure, axes = pyplot.subplots(2, 2, figsize=(9.5, 6.5), sharex=True, layout="constrained")
    for axis, (key, name) in zip(axes.flat, PANELS, strict=True):
        _draw_curves(axis, results, key)
        axis.set_title(name, fontsize=10)
    axes[0, 0].set_ylim(bottom=0)
    axes[0, 1].set_ylim(min(0.8, axes[0, 1].get_ylim()[0]), 1.01)
    low, high = axes[1, 0].get_ylim()
    axes[1, 0].set_ylim(max(low, -0.5), min(high, 1))
    axes[1, 1].set_yscale("log")
    axes[1, 1].yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    lowest, highest = axes[1, 1].get_ylim()
    within_a_decade = highest < 10 * lowest  # then there may be no major tick
    axes[1, 1].yaxis.set_minor_formatter(
        ticker.FormatStrFormatter("%g") if within_a_decade else ticker.NullFormatter()
    )
    if not axes[1, 0].lines:
        axes[1, 0].set_visible(False)  # no critic
    for axis in axes[1]:
        axis.set_xlabel("rollout")
    _save(figure, axes[0, 0], f"{title} ({BANDS})", path)


def plot_turns(title: str, results: Sequence[Result], path: Path) -> None:
    """How many turns an episode lasts, beside success, over rollouts."""
    figure, axes = pyplot.subplots(1, 2, figsize=(9.5, 3.8), sharex=True, layout="constrained")
    panels = (("rollout/turns", "turns of an episode"), ("rollout/success", "success in training"))
    for axis, (key, name) in zip(axes, panels, strict=True):
        _draw_curves(axis, results, key, window=10)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("rollout")
        axis.set_ylim(bottom=0)
    _save(figure, axes[0], f"{title} ({BANDS})", path)


def _draw_curves(axis: Any, results: Sequence[Result], key: str, window: int = WINDOW) -> None:
    for number, (recipe, runs) in enumerate(_by_recipe(results)):
        curves = [smooth(run["curves"][key], window) for run in runs if key in run["curves"]]
        if not curves:
            continue
        columns = list(zip(*curves, strict=False))
        rollouts = range(1, len(columns) + 1)
        means = [statistics.fmean(column) for column in columns]
        label = f"{recipe} ({len(curves)})"
        axis.plot(rollouts, means, label=label, linewidth=1.6, **_style(number))
        lowest = [min(column) for column in columns]
        highest = [max(column) for column in columns]
        colour = f"C{number % 10}"
        axis.fill_between(rollouts, lowest, highest, color=colour, alpha=0.10, linewidth=0)
    axis.grid(alpha=0.25)


def plot_evaluations(title: str, results: Sequence[Result], path: Path) -> None:
    """Success on the validation split by episodes and by CPU seconds, the mean over seeds."""
    figure, axes = pyplot.subplots(1, 2, figsize=(9.5, 4.2), sharey=True, layout="constrained")
    for axis, (column, name) in zip(
        axes, ((0, "episodes"), (1, "CPU seconds of rollouts and updates")), strict=True
    ):
        for number, (recipe, runs) in enumerate(_by_recipe(results)):
            points = list(
                zip(*(run["evaluations"] for run in runs if run.get("evaluations")), strict=False)
            )
            spent = [statistics.fmean(entry[column] for entry in point) for point in points]
            success = [statistics.fmean(entry[2] for entry in point) for point in points]
            axis.plot(
                spent,
                success,
                label=f"{recipe} ({len(runs)})",
                marker="o",
                markersize=3,
                **_style(number),
            )
        axis.set_xlabel(name)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("success (validation)")
    _save(figure, axes[0], title, path)


def plot_critic(title: str, results: Sequence[Result], path: Path) -> None:
    """What critics explain of state values, and what values can explain of returns, by episodes."""
    figure, axes = pyplot.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
    panels = (
        ("of_worth", "variance of state values explained"),
        ("ceiling", "variance of returns due to states"),
    )
    for axis, (key, name) in zip(axes, panels, strict=True):
        for number, (recipe, runs) in enumerate(
            _by_recipe([run for run in results if run.get("critic")])
        ):
            points = list(
                zip(*([entry[key] for entry in run["critic"]] for run in runs), strict=False)
            )
            episodes = [entry[0] for entry in runs[0]["evaluations"]][: len(points)]
            means = [statistics.fmean(point) for point in points]
            axis.plot(
                episodes,
                means,
                label=f"{recipe} ({len(runs)})",
                marker="o",
                markersize=3,
                **_style(number),
            )
        axis.set_ylim(min(0.0, axis.get_ylim()[0]), 1)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("episodes")
        axis.grid(alpha=0.25)
    _save(figure, axes[0], title, path)


def plot_memory(title: str, results: Mapping[str, Any], path: Path) -> None:
    """Success under every policy of memory: of the initial checkpoint, and of models by their
    training's policy.
    """
    contexts = list(results["checkpoint"]["under"])
    figure, axis = pyplot.subplots(figsize=(9.5, 4.2), layout="constrained")
    bars = [("initial checkpoint", [results["checkpoint"]]), *_by_recipe(results["runs"])]
    width = 0.8 / len(bars)
    for number, (name, runs) in enumerate(bars):
        places = [place + (number - (len(bars) - 1) / 2) * width for place in range(len(contexts))]
        success = [[run["under"][context]["success"] for run in runs] for context in contexts]
        label = f"trained with {runs[0]['context']} ({len(runs)})" if number else name
        axis.bar(
            places,
            list(map(statistics.fmean, success)),
            0.9 * width,
            label=label,
            color=f"C{number}",
            alpha=0.6,
        )
        for place, of_seeds in zip(places, success, strict=True):
            axis.plot([place] * len(of_seeds), of_seeds, "k.", markersize=4)
    axis.set_xticks(range(len(contexts)), [f"played under {context}" for context in contexts])
    axis.set_ylabel("success (test)")
    axis.grid(axis="y", alpha=0.25)
    _save(figure, axis, f"{title} (bars: mean over seeds; dots: trainings)", path)


def smooth(curve: Sequence[float], window: int = WINDOW) -> list[float]:
    """The running mean over `window` points; NaN is left out."""
    found = []
    for end in range(1, len(curve) + 1):
        points = [point for point in curve[max(0, end - window) : end] if not math.isnan(point)]
        found.append(statistics.fmean(points) if points else math.nan)
    return found


def _by_recipe(results: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    names = sorted({run["recipe"] for run in results})
    return [(name, [run for run in results if run["recipe"] == name]) for name in names]


def _style(number: int) -> dict[str, Any]:
    """Matplotlib has ten colours; further recipes are dashed."""
    return {"color": f"C{number % 10}", "linestyle": ("-", "--")[number // 10 % 2]}


def _save(figure: Any, axis: Any, title: str, path: Path) -> None:
    figure.suptitle(title, fontsize=11)
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=4,
        fontsize=8,
        frameon=False,
        handlelength=3,
    )
    figure.savefig(path, dpi=100, metadata={"Software": None})
    pyplot.close(figure)
