"""The table of an experiment, in the form of VAGEN's table 2."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from vagen_benchmarks.results.stats import difference, rate, sign_flip, t95

SCORES = ("grounding_exact", "world_modeling_exact", "iou", "iou@50", "iou@95", "iou@99")
"""F1 of the statements and IoU of boxes, in the table where the results have them."""
WORDS = ("grounding", "world_modeling")
Result = Mapping[str, Any]
Pairs = Sequence[tuple[Result, Result]]


def table(results: Mapping[str, Any], baseline: str = "") -> str:
    """Markdown: a row for the initial checkpoint and one for every recipe, the most successful
    first.

    Success is a mean over seeds, with 95 % intervals over levels (a level is one cluster) and over
    seeds (Student). `gain` is the difference to the initial checkpoint on the same levels, and with
    a baseline that to its trainings on the same levels and seeds: its interval and p-value (sign
    flips) are over levels and say whether these trainings differ; `p over seeds` permutes trainings
    and says it of the recipes.
    """
    runs, checkpoint = results["runs"], results["checkpoint"]
    columns = _columns(results, baseline)
    recipes = {
        recipe: [run for run in runs if run["recipe"] == recipe]
        for recipe in {run["recipe"] for run in runs}
    }
    ranked = sorted(
        recipes.items(), key=lambda entry: (-_mean(entry[1], "sampled", "success"), entry[0])
    )
    random = checkpoint.get("random")
    rows = [("*initial checkpoint*", [checkpoint]), *((f"`{name}`", own) for name, own in ranked)]
    lines = ["| " + " | ".join(["", *columns]) + " |", "|" + "---|" * (len(columns) + 1)]
    lines += [
        "| " + " | ".join([name, *(column(own) for column in columns.values())]) + " |"
        for name, own in rows
    ]
    if random:
        lines.append(f"| *random play* | {random['success']:.3f} |" + " |" * (len(columns) - 1))
    if "grounding_by_level" in checkpoint["sampled"]:
        lines += ["", *_words_table(rows)]
    if "under" in checkpoint and runs:
        lines += ["", *_memory_table(checkpoint, ranked)]
    return "\n".join(lines)


def _words_table(rows: Sequence[tuple[str, Sequence[Result]]]) -> list[str]:
    """The rule judge's F1 of observations and predictions, its difference to the first row's, and
    success, with 95 % intervals over levels, of sampled replies to the level's pictures and to
    those of other levels.
    """
    lines = [
        "| | pictures | F1 of observations | over the start | of predictions | over the start "
        "| success | turns |",
        "|---" * 8 + "|",
    ]
    start = rows[0][1][0]
    for name, runs in rows:
        for how, pictures in (("sampled", "own"), ("shuffled_images", "of other levels")):
            plays = [run[how] for run in runs if how in run]
            if not plays:
                continue
            cells = []
            for part in WORDS:
                levels = [play[f"{part}_by_level"] for play in plays]
                cells.append(_with_bounds(levels))
                before = start[how][f"{part}_by_level"]
                cells.append("–" if runs[0] is start else _difference(before, _by_level(levels)))
            cells.append(_with_bounds([[int(each) for each in play["solved"]] for play in plays]))
            turns = statistics.fmean(play["turns"] for play in plays)
            lines.append(f"| {name} | {pictures} | {' | '.join(cells)} | {turns:.2f} |")
    return lines


def _with_bounds(plays: Sequence[Sequence[float]]) -> str:
    """The mean of values in [0, 1], one of each level in each play."""
    found = rate([(sum(level), len(level)) for level in zip(*plays, strict=True)])
    return f"{found.value:.3f} ({found.low:.2f}–{found.high:.2f})"


def _memory_table(checkpoint: Result, recipes: Sequence[tuple[str, Sequence[Result]]]) -> list[str]:
    """Success of every model under every policy of memory.

    In bold under the policy that it was trained with; elsewhere with the paired difference to that,
    on the same levels and seeds, and its 95 % interval over levels.
    """
    contexts = list(checkpoint["under"])
    lines = [
        f"| trained with | {' | '.join(f'under `{each}`' for each in contexts)} |",
        "|---" * (1 + len(contexts)) + "|",
    ]
    start = [f"{checkpoint['under'][each]['success']:.3f}" for each in contexts]
    lines.append(f"| *initial checkpoint* | {' | '.join(start)} |")
    for name, runs in recipes:
        own, cells = runs[0]["context"], []
        solved = {each: _solved_by_level([run["under"][each] for run in runs]) for each in contexts}
        for each in contexts:
            success = statistics.fmean(run["under"][each]["success"] for run in runs)
            found = difference(
                *([(count, len(runs)) for count in solved[which]] for which in (own, each))
            )
            changed = f"{success:.3f} ({found.value:+.3f}: {found.low:+.2f} to {found.high:+.2f})"
            cells.append(f"**{success:.3f}**" if each == own else changed)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def _columns(
    results: Mapping[str, Any], baseline: str
) -> dict[str, Callable[[Sequence[Result]], str]]:
    """Heads of columns, with the function that gives a cell from the results of a row."""
    runs, checkpoint = results["runs"], results["checkpoint"]
    columns: dict[str, Callable[[Sequence[Result]], str]] = {
        "success": lambda own: f"{_mean(own, 'sampled', 'success'):.3f}",
        "95 % over levels": lambda own: _range(over_levels([run["sampled"] for run in own])),
        "over seeds": lambda own: _range(interval([run["sampled"]["success"] for run in own])),
        "gain over the start": lambda own: _gain(_with_start(checkpoint, own)),
    }
    if "greedy" in checkpoint:
        columns["most likely reply"] = lambda own: f"{_mean(own, 'greedy', 'success'):.3f}"
    columns["format"] = lambda own: f"{_mean(own, 'sampled', 'format'):.2f}"
    scores = [part for part in SCORES if part in checkpoint["sampled"]]
    for part in scores:
        columns[_plain(part)] = partial(_truth, part)
    if "shuffled_images" in checkpoint:
        columns["shuffled images"] = lambda own: _played(own, "shuffled_images", "success", ".3f")
    if baseline:
        pairs = _pairing([run for run in runs if run["recipe"] == baseline])
        columns[f"gain over `{baseline}`"] = lambda own: _gain(pairs(own))
        columns["p over seeds"] = lambda own: _p_over_seeds(
            pairs(own), lambda sampled: sampled["successes"]
        )
        for part in scores:
            if not all(f"{part}_by_level" in run["sampled"] for run in runs):
                continue
            columns[f"gain in {_plain(part)}"] = partial(_gain_in_truth, pairs, part)
            columns[f"p over seeds ({_plain(part)})"] = partial(_p_of_truth, pairs, part)
    if any("critic" in run for run in runs):
        columns["state values explained"] = lambda own: (
            ", ".join(f"{value:.2f}" for value in _critic(own)) or "–"
        )
        columns["at least"] = lambda own: f"{min(_critic(own)):.2f}" if _critic(own) else "–"
    columns["CPU s"] = lambda own: f"{statistics.fmean(run['cpu_seconds'] for run in own):.0f}"
    columns["seeds"] = lambda own: str(len(own)) if "seed" in own[0] else "–"
    return columns


def _mean(runs: Sequence[Result], how: str, figure: str) -> float:
    return statistics.fmean(run[how][figure] for run in runs)


def _critic(runs: Sequence[Result]) -> list[float]:
    """Share of the variance of state values that the critic explains at each evaluation, mean over
    seeds.
    """
    found = [run["critic"] for run in runs if "critic" in run]
    return [
        statistics.fmean(entry["of_worth"] for entry in at_once)
        for at_once in zip(*found, strict=False)
    ]


def _pairing(baseline: Sequence[Result]) -> Callable[[Sequence[Result]], Pairs]:
    by_seed = {run["seed"]: run for run in baseline}
    recipe = baseline[0]["recipe"] if baseline else ""

    def pairs(own: Sequence[Result]) -> Pairs:
        return [
            (by_seed[run["seed"]], run)
            for run in own
            if run.get("seed") in by_seed and run["recipe"] != recipe
        ]

    return pairs


def _with_start(checkpoint: Result, own: Sequence[Result]) -> Pairs:
    """The initial checkpoint, played with the options of the recipe, beside each training."""
    played = checkpoint.get("sampled_as", {})
    return [
        ({"sampled": played.get(run["recipe"], checkpoint["sampled"])}, run)
        for run in own
        if "seed" in run
    ]


def _gain(pairs: Pairs) -> str:
    if not pairs:
        return "–"
    before, after = (_solved_by_level([pair[i]["sampled"] for pair in pairs]) for i in (0, 1))
    found = difference(
        [(solved, len(pairs)) for solved in before], [(solved, len(pairs)) for solved in after]
    )
    p = sign_flip([new - old for old, new in zip(before, after, strict=True)])
    return f"{found.value:+.3f} ({found.low:+.2f} to {found.high:+.2f}), p = {p:.2g}"


def _plain(part: str) -> str:
    return part.removesuffix("_exact").replace("_", " ")


def _truth(part: str, own: Sequence[Result]) -> str:
    return f"{_mean(own, 'sampled', part):.2f} ({_played(own, 'greedy', part, '.2f')})"


def _played(runs: Sequence[Result], how: str, figure: str, form: str) -> str:
    """The mean of a figure; a dash where nothing was played so."""
    if not all(how in run for run in runs):
        return "–"
    return format(_mean(runs, how, figure), form)


def _gain_in_truth(
    pairing: Callable[[Sequence[Result]], Pairs], part: str, own: Sequence[Result]
) -> str:
    pairs = pairing(own)
    if not pairs:
        return "–"
    before, after = (
        _by_level([pair[i]["sampled"][f"{part}_by_level"] for pair in pairs]) for i in (0, 1)
    )
    return _difference(before, after)


def _by_level(plays: Sequence[Sequence[float]]) -> list[float]:
    """The mean of each level over plays."""
    return [statistics.fmean(level) for level in zip(*plays, strict=True)]


def _difference(before: Sequence[float], after: Sequence[float]) -> str:
    """The mean difference on the same levels, with Student's 95 % interval over them."""
    gains = [new - old for old, new in zip(before, after, strict=True)]
    value, half = statistics.fmean(gains), _half_width(gains)
    return f"{value:+.3f} ({value - half:+.2f} to {value + half:+.2f})"


def _p_of_truth(
    pairing: Callable[[Sequence[Result]], Pairs], part: str, own: Sequence[Result]
) -> str:
    """Trainings are compared by their mean F1 in ten-thousandths."""
    return _p_over_seeds(
        pairing(own), lambda sampled: round(1e4 * statistics.fmean(sampled[f"{part}_by_level"]))
    )


def _p_over_seeds(pairs: Pairs, count: Callable[[Result], int]) -> str:
    """One training of each says nothing about the recipes."""
    if len(pairs) < 2:
        return "–"
    return f"{relabel(*([count(pair[i]['sampled']) for pair in pairs] for i in (0, 1))):.2g}"


def interval(rates: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95 % interval of a mean over seeds, within [0, 1]; None for one seed."""
    if len(rates) < 2:
        return None
    middle, half = statistics.fmean(rates), _half_width(rates)
    return max(0.0, middle - half), min(1.0, middle + half)


def over_levels(plays: Sequence[Result]) -> tuple[float, float]:
    """The 95 % interval of success over levels, one cluster each, which all of `plays` have
    played.
    """
    found = rate([(solved, len(plays)) for solved in _solved_by_level(plays)])
    return found.low, found.high


def _solved_by_level(plays: Sequence[Result]) -> list[int]:
    return [sum(map(int, level)) for level in zip(*(play["solved"] for play in plays), strict=True)]


def _half_width(values: Sequence[float]) -> float:
    return t95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def _range(bounds: tuple[float, float] | None) -> str:
    return "–" if bounds is None else f"{bounds[0]:.2f}–{bounds[1]:.2f}"


def relabel(one: Sequence[int], other: Sequence[int]) -> float:
    """Two-sided p-value of the permutation test of two groups: would other labels part their means
    as far?

    Exact: each way to give as many of the counts, which are 0 or more, to the one group is as
    likely.
    """
    values, size = [*one, *other], len(one)
    total = sum(values)
    ways = np.zeros((size + 1, total + 1))  # of so many of the values with that sum
    ways[0, 0] = 1
    for value in values:
        ways[1:, value:] += ways[:-1, : total + 1 - value].copy()
    apart = np.abs(len(values) * np.arange(total + 1) - size * total)
    return float(ways[size, apart >= apart[sum(one)]].sum() / ways[size].sum())
