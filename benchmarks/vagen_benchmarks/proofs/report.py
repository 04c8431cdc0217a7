"""What a proof found: a table in the shape of VAGEN's table 2."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vagen_benchmarks.results.stats import difference, rate, relabel, sign_flip, t95

WORDS = ("grounding", "world_modeling", "grounding_exact", "world_modeling_exact")
"""What is known of words: as the reward's rules judge them, and compared exactly with the state."""
BOTH = " (most likely)"
Result = Mapping[str, Any]


def summarise(start: Result, results: Sequence[Result], baseline: str = "") -> dict[str, Any]:
    """Means over the seeds of each recipe, with what is needed to judge them.

    With a baseline each has its gain over it on the same levels and seeds, with an interval and a p-value by level
    (`stats.difference`, `stats.sign_flip`), which say of these very trainings whether they differ, and a p-value by
    training, which says it of the recipes (`stats.relabel`; None with one seed); where there were evaluations on the
    way, their last within the CPU seconds that all recipes have spent. Where evaluations held the critic to forks
    (`forks.held_to_forks`), what it knew of the states' worth then, and the ceiling, as means over the seeds.
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
                "over_levels": over_levels([each[how] for each in own]),
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
            within = [_last_within(each["on_the_way"], budget) for each in own]
            known = [each for each in within if each is not None]
            row["within_budget"] = statistics.fmean(known) if len(known) == len(own) else None
        if baseline and recipe != baseline:
            others = {each["seed"]: each for each in results if each["recipe"] == baseline}
            pairs = [(others[each["seed"]], each) for each in own if each["seed"] in others]
            row["gain"] = _gain(pairs) if pairs else None
            words = [part for part in WORDS if pairs and f"{part}_by_level" in own[0]["sampled"]]
            row["gains_of_words"] = {part: _gain_of_words(pairs, f"{part}_by_level") for part in words}
        held = [each["critic"] for each in own if "critic" in each]
        if held:
            row["critic"] = {
                part: [statistics.fmean(each[part] for each in one) for one in zip(*held, strict=False)]
                for part in ("of_worth", "ceiling")
            }
        rows.append(row)
    before = {how: {**start[how], "over_levels": over_levels([start[how]])} for how in ("sampled", "greedy")}
    if "other_pictures" in start:
        before["sampled"]["other_pictures"] = start["other_pictures"]["success"]
    rows.sort(key=lambda row: -row["sampled"]["success"])
    return {"before": before, "rows": rows, "baseline": baseline, "cpu_budget": budget}


def _last_within(on_the_way: Sequence[Sequence[float]], budget: float) -> float | None:
    """None where nothing was measured so soon."""
    return next((success for _, spent, success in reversed(on_the_way) if spent <= budget), None)


def _gain(pairs: Sequence[tuple[Result, Result]]) -> dict[str, float | None]:
    """Of sampled replies, from the first to the second of each pair, which share their seed and levels."""
    one, other = (_solved_of_levels([pair[i]["sampled"] for pair in pairs]) for i in (0, 1))
    found = difference([(each, len(pairs)) for each in one], [(each, len(pairs)) for each in other])
    p = sign_flip([after - before for before, after in zip(one, other, strict=True)])
    p_over_seeds = _p_over_seeds(pairs, lambda sampled: sampled["successes"])
    return {"value": found.value, "low": found.low, "high": found.high, "p": p, "p_over_seeds": p_over_seeds}


def _gain_of_words(pairs: Sequence[tuple[Result, Result]], scores: str) -> dict[str, float | None]:
    """As `_gain`, of the levels' mean scores, with Student's interval over levels; trainings are told to 0.0001."""
    one, other = (
        [statistics.fmean(each) for each in zip(*(pair[i]["sampled"][scores] for pair in pairs), strict=True)]
        for i in (0, 1)
    )
    gains = [after - before for before, after in zip(one, other, strict=True)]
    value, half = statistics.fmean(gains), _half(gains)
    p_over_seeds = _p_over_seeds(pairs, lambda sampled: round(1e4 * statistics.fmean(sampled[scores])))
    return {"value": value, "low": value - half, "high": value + half, "p_over_seeds": p_over_seeds}


def _p_over_seeds(pairs: Sequence[tuple[Result, Result]], count: Callable[[Result], int]) -> float | None:
    """Of what `count` makes of each training's sampled replies; None with one training of each."""
    of_seeds = [[count(pair[i]["sampled"]) for pair in pairs] for i in (0, 1)]
    return relabel(*of_seeds) if len(pairs) > 1 else None


def interval(rates: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean over seeds, within [0, 1]; one seed has none."""
    if len(rates) < 2:
        return None
    middle, half = statistics.fmean(rates), _half(rates)
    return max(0.0, middle - half), min(1.0, middle + half)


def over_levels(plays: Sequence[Result]) -> tuple[float, float]:
    """The 95 % interval of success over levels, each of which all of `plays` have played: one cluster each."""
    found = rate([(each, len(plays)) for each in _solved_of_levels(plays)])
    return found.low, found.high


def _solved_of_levels(plays: Sequence[Result]) -> list[int]:
    """How many of `plays` solved each of the levels that all of them have played."""
    return [sum(map(int, level)) for level in zip(*(each["solved"] for each in plays), strict=True)]


def _half(values: Sequence[float]) -> float:
    """Of Student's 95 % interval of their mean."""
    return t95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def table(summary: Mapping[str, Any]) -> str:
    """The summary in Markdown."""
    parts = [part for part in (*WORDS, "other_pictures") if part in summary["before"]["sampled"]]
    named = [f"{part.replace('_', ' ')}{BOTH if part in WORDS else ''}" for part in parts]
    baseline, budget = summary.get("baseline", ""), summary.get("cpu_budget", 0.0)
    more = [f"gain on `{baseline}`", "p over seeds"] if baseline else []
    gained = [part for part in WORDS if any(part in row.get("gains_of_words", {}) for row in summary["rows"])]
    more += [head for part in gained for head in (f"gain in {part.replace('_', ' ')}", "p over seeds")]
    more += ["CPU s", f"on val within {budget:.0f} CPU s"] if budget else []
    has_critic = any("critic" in row for row in summary["rows"])
    more += ["critic, of the states' worth", "at least", "ceiling"] if has_critic else []
    head = ["", "success", "95 % over levels", "over seeds", "most likely reply", f"format{BOTH}", *named, "seeds"]
    head += more
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    before = summary["before"]
    lines.append(_row("*start*", before["sampled"], before["greedy"], parts, "–", ["–"] * len(more)))
    for row in summary["rows"]:
        cells = [_said(row.get("gain")), _of_seeds(row.get("gain"))] if baseline else []
        of_words = [row.get("gains_of_words", {}).get(part) for part in gained]
        cells += [cell for gain in of_words for cell in (_said(gain), _of_seeds(gain))]
        if budget:
            within = row["within_budget"]
            cells += [f"{row['cpu_seconds']:.0f}", "–" if within is None else f"{within:.3f}"]
        cells += _of_critic(row.get("critic")) if has_critic else []
        seeds = str(len(row["seeds"]))
        lines.append(_row(f"`{row['recipe']}`", row["sampled"], row["greedy"], parts, seeds, cells))
    return "\n".join(lines)


def _of_critic(known: Mapping[str, Sequence[float]] | None) -> list[str]:
    """What it knew at each evaluation, the least of that, and the ceiling at first and last."""
    if known is None:
        return 3 * ["–"]
    of_worth, ceiling = known["of_worth"], known["ceiling"]
    said = ", ".join(f"{each:.2f}" for each in of_worth)
    return [said, f"{min(of_worth):.2f}", f"{ceiling[0]:.2f} to {ceiling[-1]:.2f}"]


def _of_seeds(gain: Mapping[str, Any] | None) -> str:
    p = gain["p_over_seeds"] if gain else None
    return "–" if p is None else f"{p:.2g}"


def _said(gain: Mapping[str, Any] | None) -> str:
    if gain is None:
        return "–"
    p = f", p = {gain['p']:.2g}" if "p" in gain else ""
    return f"{gain['value']:+.3f} ({gain['low']:+.2f} to {gain['high']:+.2f}){p}"


def _row(name: str, sampled: Result, greedy: Result, parts: Sequence[str], seeds: str, more: Sequence[str]) -> str:
    low, high = sampled["over_levels"]
    of_seeds = sampled.get("interval")
    cells = [name, f"{sampled['success']:.3f}", f"{low:.2f}–{high:.2f}",
             f"{of_seeds[0]:.2f}–{of_seeds[1]:.2f}" if of_seeds else "–", f"{greedy['success']:.3f}",
             *(f"{sampled[part]:.2f} ({greedy[part]:.2f})" if part in greedy else f"{sampled[part]:.2f}"
               for part in ("format", *parts)), seeds, *more]  # fmt: skip
    return f"| {' | '.join(cells)} |"
