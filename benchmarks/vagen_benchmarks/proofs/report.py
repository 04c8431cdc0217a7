"""What a proof found: a table in the shape of VAGEN's table 2, and curves in the shape of its figure 5."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.results.stats import difference, sign_flip, t95, wilson

PANELS = (
    ("rollout/success", "success in training"),
    ("rollout/format", "well-formed replies"),
    ("critic/explained_variance", "critic's explained variance"),
    ("policy/entropy", "entropy per trained token (nats)"),
)
WORDS = ("grounding", "world_modeling", "grounding_exact", "world_modeling_exact")
"""What is known of words: as the reward's rules judge them, and compared exactly with the state."""
SMOOTHED = 3
"""Rollouts that a point of a curve averages over."""

Result = Mapping[str, Any]


def summarise(start: Result, results: Sequence[Result], baseline: str = "") -> dict[str, Any]:
    """Means over the seeds of each recipe, with what is needed to judge them.

    With a baseline each has its gain over it on the same levels and seeds, with an interval and a p-value by level
    (`stats.difference`, `stats.sign_flip`); where there were evaluations on the way, their last within the CPU seconds
    that all recipes have spent.
    """
    budget = min((each["cpu_seconds"] for each in results if each.get("on_the_way")), default=0.0)
    rows = []
    for recipe in dict.fromkeys(each["recipe"] for each in results):
        own = [each for each in results if each["recipe"] == recipe]
        row: dict[str, Any] = {"recipe": recipe, "seeds": [each["seed"] for each in own]}
        for how in ("sampled", "greedy"):
            rates = [each[how]["success"] for each in own]
            row[how] = {
                "success": statistics.fmean(rates),
                "interval": interval(rates),
                "pooled": wilson(
                    sum(each[how]["successes"] for each in own), sum(each[how]["episodes"] for each in own)
                ),
                "of_seeds": rates,
                "format": statistics.fmean(each[how]["format"] for each in own),
            }  # fmt: skip
            for part in WORDS:
                scores = [each[how][part] for each in own if part in each[how]]
                if scores:
                    row[how][part] = statistics.fmean(scores)
        blind = [each["other_pictures"] for each in own if "other_pictures" in each]
        if blind:
            row["sampled"]["other_pictures"] = statistics.fmean(each["success"] for each in blind)
        row["seconds"] = statistics.fmean(each["seconds"] for each in own)
        if budget:
            row["cpu_seconds"] = statistics.fmean(each["cpu_seconds"] for each in own)
            row["within_budget"] = statistics.fmean(_last_within(each["on_the_way"], budget) for each in own)
        if baseline and recipe != baseline:
            others = {each["seed"]: each for each in results if each["recipe"] == baseline}
            pairs = [(others[each["seed"]], each) for each in own if each["seed"] in others]
            row["gain"] = _gain(pairs) if pairs else None
            words = [part for part in WORDS if pairs and f"{part}_by_level" in own[0]["sampled"]]
            row["gains_of_words"] = {part: _gain_of_words(pairs, f"{part}_by_level") for part in words}
        rows.append(row)
    before = {how: {**start[how], "pooled": wilson(start[how]["successes"], start[how]["episodes"])}
              for how in ("sampled", "greedy")}  # fmt: skip
    if "other_pictures" in start:
        before["sampled"]["other_pictures"] = start["other_pictures"]["success"]
    rows.sort(key=lambda row: -row["sampled"]["success"])
    return {"before": before, "rows": rows, "baseline": baseline, "cpu_budget": budget}


def _last_within(on_the_way: Sequence[Sequence[float]], budget: float) -> float:
    return next((success for _, spent, success in reversed(on_the_way) if spent <= budget), math.nan)


def _gain(pairs: Sequence[tuple[Result, Result]]) -> dict[str, float]:
    """Of sampled replies, from the first to the second of each pair, which share their seed and levels."""
    one, other = (
        [sum(map(int, solved)) for solved in zip(*(pair[i]["sampled"]["solved"] for pair in pairs), strict=True)]
        for i in (0, 1)
    )
    found = difference([(each, len(pairs)) for each in one], [(each, len(pairs)) for each in other])
    p = sign_flip([after - before for before, after in zip(one, other, strict=True)])
    return {"value": found.value, "low": found.low, "high": found.high, "p": p}


def _gain_of_words(pairs: Sequence[tuple[Result, Result]], scores: str) -> dict[str, float]:
    """As `_gain`, of the levels' mean scores, with Student's interval over levels."""
    one, other = (
        [statistics.fmean(each) for each in zip(*(pair[i]["sampled"][scores] for pair in pairs), strict=True)]
        for i in (0, 1)
    )
    gains = [after - before for before, after in zip(one, other, strict=True)]
    value, half = statistics.fmean(gains), _half(gains)
    return {"value": value, "low": value - half, "high": value + half}


def interval(rates: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean over seeds, within [0, 1]; one seed has none."""
    if len(rates) < 2:
        return None
    middle, half = statistics.fmean(rates), _half(rates)
    return max(0.0, middle - half), min(1.0, middle + half)


def _half(values: Sequence[float]) -> float:
    """Of Student's 95 % interval of their mean."""
    return t95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def table(summary: Mapping[str, Any]) -> str:
    """The summary in Markdown."""
    parts = [part for part in (*WORDS, "other_pictures") if part in summary["before"]["sampled"]]
    named = [part.replace("_", " ") for part in parts]
    baseline, budget = summary.get("baseline", ""), summary.get("cpu_budget", 0.0)
    more = [f"gain on `{baseline}`"] if baseline else []
    gained = [part for part in WORDS if any(part in row.get("gains_of_words", {}) for row in summary["rows"])]
    more += [f"gain in {part.replace('_', ' ')}" for part in gained]
    more += ["CPU s", f"on val within {budget:.0f} CPU s"] if budget else []
    head = ["", "success", "95 % over levels", "over seeds", "most likely reply", "format", *named, "seeds", *more]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    before = summary["before"]
    lines.append(_row("*start*", before["sampled"], before["greedy"], parts, "–", ["–"] * len(more)))
    for row in summary["rows"]:
        cells = [_said(row.get("gain"))] if baseline else []
        cells += [_said(row.get("gains_of_words", {}).get(part)) for part in gained]
        within = row["within_budget"] if budget else math.nan  # none where nothing was measured so soon
        cells += [f"{row['cpu_seconds']:.0f}", "–" if math.isnan(within) else f"{within:.3f}"] if budget else []
        seeds = str(len(row["seeds"]))
        lines.append(_row(f"`{row['recipe']}`", row["sampled"], row["greedy"], parts, seeds, cells))
    return "\n".join(lines)


def _said(gain: Mapping[str, float] | None) -> str:
    if gain is None:
        return "–"
    p = f", p = {gain['p']:.2g}" if "p" in gain else ""
    return f"{gain['value']:+.3f} ({gain['low']:+.2f} to {gain['high']:+.2f}){p}"


def _row(name: str, sampled: Result, greedy: Result, parts: Sequence[str], seeds: str, more: Sequence[str]) -> str:
    low, high = sampled["pooled"]
    of_seeds = sampled.get("interval")
    cells = [name, f"{sampled['success']:.3f}", f"{low:.2f}–{high:.2f}",
             f"{of_seeds[0]:.2f}–{of_seeds[1]:.2f}" if of_seeds else "–", f"{greedy['success']:.3f}",
             f"{sampled['format']:.2f}", *(f"{sampled[part]:.2f}" for part in parts), seeds, *more]  # fmt: skip
    return f"| {' | '.join(cells)} |"


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
    figure.suptitle(f"{title} (lines: mean over seeds; bands: lowest to highest)", fontsize=11)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False, handlelength=3)
    _save(figure, path)


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
    figure.suptitle(title, fontsize=11)
    handles, labels = axes[0].get_legend_handles_labels()
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
