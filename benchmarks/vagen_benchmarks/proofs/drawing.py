"""What a proof found, drawn: curves in the shape of VAGEN's figure 5, success by what was spent, and the critic."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import ProtocolError

PANELS = (
    ("rollout/success", "success in training"),
    ("rollout/format", "well-formed replies"),
    ("critic/explained_variance", "critic's explained variance"),
    ("policy/entropy", "entropy per trained token (nats)"),
)
SMOOTHED = 3
"""Rollouts that a point of a curve averages over."""

Result = Mapping[str, Any]


def draw(title: str, results: Sequence[Result], path: Path) -> None:
    """Draw the curves of all recipes: the mean over seeds, and a band from the lowest to the highest.

    Raises:
        ProtocolError: matplotlib is missing.
    """
    pyplot = _pyplot()
    from matplotlib import ticker

    figure, axes = pyplot.subplots(2, 2, figsize=(9.5, 6.5), sharex=True, layout="constrained")
    recipes = sorted({each["recipe"] for each in results})
    for axis, (key, name) in zip(axes.flat, PANELS, strict=True):
        for number, recipe in enumerate(recipes):
            curves = [
                smooth(each["curves"][key]) for each in results if each["recipe"] == recipe and key in each["curves"]
            ]
            if not curves:
                continue
            columns = list(zip(*curves, strict=False))
            middle = [statistics.fmean(column) for column in columns]
            rollouts = range(1, len(columns) + 1)
            axis.plot(rollouts, middle, label=f"{recipe} ({len(curves)})", linewidth=1.6, **_style(number))
            axis.fill_between(rollouts, [min(column) for column in columns], [max(column) for column in columns],
                              color=f"C{number}", alpha=0.10, linewidth=0)  # fmt: skip
        axis.set_title(name, fontsize=10)
        axis.grid(alpha=0.25)
    axes[0, 0].set_ylim(bottom=0)
    axes[0, 1].set_ylim(min(0.8, axes[0, 1].get_ylim()[0]), 1.01)
    low, high = axes[1, 0].get_ylim()
    axes[1, 0].set_ylim(max(low, -0.5), min(high, 1))
    axes[1, 1].set_yscale("log")  # vanilla PPO's is of observations too, and ten times as large
    axes[1, 1].yaxis.set_minor_locator(ticker.LogLocator(subs=(2, 5)))
    for which in (axes[1, 1].yaxis.set_major_formatter, axes[1, 1].yaxis.set_minor_formatter):
        which(ticker.FormatStrFormatter("%g"))
    for axis in axes[1]:
        axis.set_xlabel("rollout")
    _finish(figure, axes[0, 0], f"{title} (lines: mean over seeds; bands: lowest to highest)", path)


def draw_on_the_way(title: str, results: Sequence[Result], path: Path) -> None:
    """Draw success on the validation split by episodes and by CPU seconds: the mean over the seeds of each recipe."""
    figure, axes = _pyplot().subplots(1, 2, figsize=(9.5, 4.2), sharey=True, layout="constrained")
    recipes = sorted({each["recipe"] for each in results if each.get("on_the_way")})
    for axis, (column, name) in zip(axes, ((0, "episodes"), (1, "CPU seconds of play and updates")), strict=True):
        for number, recipe in enumerate(recipes):
            runs = [each["on_the_way"] for each in results if each["recipe"] == recipe]
            points = list(zip(*runs, strict=False))
            axis.plot(
                [statistics.fmean(each[column] for each in point) for point in points],
                [statistics.fmean(each[2] for each in point) for point in points],
                label=f"{recipe} ({len(runs)})", linewidth=1.6, marker="o", markersize=3, **_style(number),
            )  # fmt: skip
        axis.set_xlabel(name)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("success on val")
    _finish(figure, axes[0], title, path)


def draw_critic(title: str, results: Sequence[Result], path: Path) -> None:
    """Draw what critics knew of states' worth, and the ceiling of that, by episodes: the mean over each one's seeds."""
    figure, (known, ceiling) = _pyplot().subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
    held = [each for each in results if each.get("critic")]
    for axis, part in ((known, "of_worth"), (ceiling, "ceiling")):
        for number, recipe in enumerate(sorted({each["recipe"] for each in held})):
            runs = [each for each in held if each["recipe"] == recipe]
            points = list(zip(*([looked[part] for looked in each["critic"]] for each in runs), strict=False))
            episodes = [looked[0] for looked in runs[0]["on_the_way"]][: len(points)]
            middle = [statistics.fmean(point) for point in points]
            axis.plot(episodes, middle, label=f"{recipe} ({len(runs)})", linewidth=1.6, marker="o", markersize=3,
                      **_style(number))  # fmt: skip
        axis.set_ylim(min(0.0, axis.get_ylim()[0]), 1)
        axis.set_xlabel("episodes")
        axis.grid(alpha=0.25)
    known.axhline(0.7, color="0.4", linestyle=":", linewidth=1.2)
    known.set_title("what the critic knows of states' worth (dots: 0.7)", fontsize=10)
    ceiling.set_title("what can be known of returns", fontsize=10)
    _finish(figure, known, title, path)


def _finish(figure: Any, axis: Any, title: str, path: Path) -> None:
    """Title, the legend of `axis` for all, and save."""
    figure.suptitle(title, fontsize=11)
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False, handlelength=3)
    _save(figure, path)


def _style(number: int) -> dict[str, Any]:
    """Of the n-th recipe's line: matplotlib has ten colours."""
    return {"color": f"C{number % 10}", "linestyle": ("-", "--")[number // 10 % 2]}


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ProtocolError('curves need matplotlib. Install it with: pip install "vagen-envs[ppo]"') from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".part.png")  # a reader, or another process of the proof, never finds half of it
    figure.savefig(half, dpi=100, metadata={"Software": None})
    half.replace(path)
    _pyplot().close(figure)


def smooth(curve: Sequence[float]) -> list[float]:
    """The mean of each point and the ones before it, `SMOOTHED` in all; NaN is left out."""
    found = []
    for end in range(1, len(curve) + 1):
        points = [point for point in curve[max(0, end - SMOOTHED) : end] if not math.isnan(point)]
        found.append(statistics.fmean(points) if points else math.nan)
    return found
