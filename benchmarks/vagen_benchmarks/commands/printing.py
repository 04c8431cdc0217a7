"""Tables, progress bars and messages of the commands."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from vagen_benchmarks.meter import Meter
from vagen_benchmarks.redaction import redact
from vagen_benchmarks.results.labels import task_titles
from vagen_benchmarks.results.plan_table import LEGEND, plan_table
from vagen_benchmarks.results.play_errors import COUNTED_AS, STOPS
from vagen_benchmarks.results.stats import Estimate
from vagen_benchmarks.results.summary import FLAG, MIXED, Summary, served_names
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.plans import Plan
from vagen_benchmarks.sharing.files import SHOWN
from vagen_rewards.usage import Usage

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Text from outside without what steers a terminal: escape codes, bidirectional controls, lone
    surrogates.
    """
    # U+2400 and on picture the control characters: `␛` for an escape, which a terminal would obey.
    return _UNSEEN.sub(
        lambda found: chr(0x2400 + ord(found[0])) if found[0] < " " else "\ufffd", text
    )


class _Plain(Console):
    """A console on which strings are neither markup nor emoji nor escape codes, whoever wrote them,
    and hold no key.

    An error may hold [/INST], an agent be called openai:llama:7b, and a model write what moves the
    cursor.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(redact(text)), **options)


# A file has no width; 80 would break the tables.
out = _Plain(width=None if sys.stdout.isatty() else 180)
err = _Plain(stderr=True)


def make_table(names: Sequence[str], figures: Sequence[str] = (), **options: Any) -> Table:
    """An empty table with columns of text, and of figures at the right."""
    table = Table(box=None, header_style="bold", **options)
    for name in names:
        table.add_column(name, overflow="fold")
    for name in figures:
        table.add_column(name, justify="right")
    return table


def tally(meter: Meter) -> Callable[[Episode], None]:
    """What advances a run's meter with each episode, and notes how many were solved and failed."""
    counts: Counter[str] = Counter()

    def told(episode: Episode) -> None:
        counts.update(
            played=1, solved=int(episode.success), failed=int(episode.failure is not None)
        )
        failed = f", {counts['failed']} failed" if counts["failed"] else ""
        name = f"{visible(episode.agent)} on {episode.task.removeprefix('vagen/')}"
        meter.advance(note=f"{counts['solved']} of {counts['played']} solved{failed}; {name}")

    return told


def print_findings(title: str, findings: Sequence[str], style: str) -> None:
    """Print the first of a list of findings, and how many more there are."""
    if findings:
        err.print(f"{title}:", style=style, soft_wrap=True)
        for line in findings[:SHOWN]:
            err.print(f"  {line}", soft_wrap=True)
        if len(findings) > SHOWN:
            err.print(f"  and {len(findings) - SHOWN} more")


def print_usage(bills: Mapping[str, Usage]) -> None:
    """Print what each model has cost."""
    for agent, bill in bills.items():
        if not bill.requests:
            continue
        dollars = "price unknown" if bill.dollars is None else f"${bill.dollars:.4f}"
        cached = f", {bill.cached_tokens / max(1, bill.prompt_tokens):.0%} of them cached"
        counted = (
            f"; token counts of {bill.estimated} replies are estimates" if bill.estimated else ""
        )
        out.print(
            f"{agent}: {dollars}, {bill.requests:,} replies, {bill.prompt_tokens:,} prompt "
            f"tokens{cached}, {bill.completion_tokens:,} completion tokens{counted}",
            soft_wrap=True,
        )


UNREAD = 0.5
"""Share of turns with a readable answer below which a warning is printed."""


UNREAD_BY = {
    "cut": "replies end at their limit of tokens: --max-tokens, --reasoning-tokens",
    "refused": "the model or its provider refuses these prompts: another model or provider",
    "filtered": "the provider's filter takes these prompts or replies: its settings, or another",
    "empty": "replies are empty: --max-tokens, --reasoning-tokens, or how the model is served",
}
"""What to do where most episodes have such replies."""


def print_unread(summary: Summary, bills: Mapping[str, Usage]) -> None:
    """Warn of models whose answers mostly could not be read: their score then measures their format
    or their server.
    """
    for row in summary.rows():
        if row["agent"] not in bills or row["valid"] is None or row["valid"] >= UNREAD:
            continue
        fix = (
            f"vagen models try {row['agent']} says which profile fits how it writes, or how it "
            "is served"
        )
        shares = {name: share for name, share in row["errors"].items() if name in UNREAD_BY}
        most = max(shares, key=lambda name: shares[name] or 0.0)
        fix = UNREAD_BY[most] if (shares[most] or 0.0) >= UNREAD else fix
        where = f"{row['task'].removeprefix('vagen/')}, {row['agent']}"
        words = (
            f"{where}: only {row['valid']:.0%} of its turns had an answer that could be read; {fix}"
        )
        out.print(words, style="yellow", soft_wrap=True)


def print_table(summary: Summary) -> None:
    """Print a run's table."""
    table = Table(box=None, header_style="bold")
    table.add_column("environment", overflow="fold", max_width=48)
    table.add_column("agent", no_wrap=True)
    for name in (
        "success",
        "95 %",
        "return",
        "turns",
        "valid",
        "effective",
        "episodes",
        "levels",
        "failed",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("own metrics")
    rows = summary.rows()
    titles = task_titles(summary.protocol)
    for row in rows:
        table.add_row(
            titles.get(row["task"], row["task"]),
            row["agent"],
            _percent(row["success"]) + FLAG * row["flagged"],
            f"{100 * row['low']:.0f}–{100 * row['high']:.0f}" if row["played"] else "–",
            _number(row["return"]),
            _number(row["turns"], 1),
            *(_percent(row[name]) for name in ("valid", "effective")),
            *(str(row[name]) for name in ("played", "levels")),
            str(row["failed"]) + (f" +{row['missing']} not played" if row["missing"] else ""),
            _own_metrics(row),
        )
    out.print(table)
    if any(row["played"] for row in rows):
        out.print(VALID, style="dim")
    if any(row["flagged"] for row in rows):
        out.print(FLAGGED_CELLS, style="yellow")
    for row in rows:
        if row["unscored"]:
            where = f"{row['task'].removeprefix('vagen/')}, {row['agent']}"
            reason = visible(row["unscored_reason"])
            out.print(
                f"{where}: {row['unscored']} statements are unscored, the last: {reason}",
                style="yellow",
            )
    print_stops(rows, titles)


def _own_metrics(row: Mapping[str, Any]) -> str:
    """The environment's own metrics, the judged parts and the labels of a row."""
    own = []
    for name, value in {**row["metrics"], **row["judged"]}.items():
        own.append(f"{name} {value:.0f}" if (value or 0) > 100 else f"{name} {_number(value)}")
    own += [f"{name} {value}" for name, value in row["labels"].items()]
    return ", ".join(own)


def print_stops(rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> None:
    """Print which share of episodes had each stop reason, and how those count; nothing if there was
    none.
    """
    if not any(row["errors"][name] for row in rows for name in STOPS):
        return
    table = make_table(["share of episodes with", ""], STOPS)
    for row in rows:
        shares = (_percent(row["errors"][name]) for name in STOPS)
        table.add_row(titles.get(row["task"], row["task"]), row["agent"], *shares)
    out.print(table)
    full = [row["turns"] for row in rows if row["errors"]["overflow"]]
    if full:
        # The prompt before the one that was refused showed one earlier turn less.
        fits = max(1, int(min(full)) - 1)
        out.print(
            f"overflow: --context last:{min(fits, 8)} shows the model fewer earlier turns",
            style="yellow",
        )
    for words in dict.fromkeys(COUNTED_AS.values()):
        names = ", ".join(name for name, counts in COUNTED_AS.items() if counts == words)
        out.print(f"{names}: {words}", style="dim")


def print_served(summary: Summary) -> None:
    """Print which models answered, by their endpoints, and mark an agent that several answered
    for.
    """
    for agent, served in served_names(summary.rows()).items():
        if len(served) > 1:
            names = ", ".join(f"{name} ({count:,} replies)" for name, count in served.items())
            out.print(f"{agent}: {MIXED} {len(served)} models answered: {names}", style="yellow")
        else:
            out.print(f"{agent}: answered by {next(iter(served))}", soft_wrap=True)


VALID = (
    "valid: turns whose actions could all be read; effective: turns in which an action changed "
    "the state"
)
FLAGGED_CELLS = (
    f"{FLAG} more than 2 % of the episodes failed or weren't played; the interval counts them as "
    "lost for its lower end and as won for its upper end"
)


def print_plan(summary: Summary) -> None:
    """Print the table of a run's protocol file, if it has one, beside what was published."""
    plan = Plan.of(summary.protocol)
    if plan is None:
        return
    made = plan_table(plan, summary.rows())
    for name, words in plan.differences:
        out.print(f"differs from the paper: {name}: {words}", style="dim", soft_wrap=True)
    used = dict.fromkeys(row.mark for row in made.rows if row.mark)
    legend = "".join(f"; {mark} {LEGEND[mark]}" for mark in used)
    title = f"protocol {plan.name}{legend}; below each score its 95 % interval"
    table = Table(
        box=None, header_style="bold", title=title, title_justify="left", padding=(0, 1, 0, 0)
    )
    table.add_column("", no_wrap=True)
    for group, name in made.columns:
        heading = re.sub(r"(?<=[a-z])(?=[A-Z])", "\n", group)  # "PrimitiveSkill" in two lines
        table.add_column(
            f"{heading}\n{name}" if group else name,
            justify="right",
            no_wrap=True,
            vertical="bottom",
        )
    for row in made.rows:
        style = "dim" if row.mark else ""
        name = f"{row.name} {row.mark}".rstrip()
        table.add_row(name, *(_figure(value) for value in row.values), style=style)
    out.print(table)
    if altered := plan.altered():
        out.print(
            f"{FLAG} this isn't the package's protocol {plan.name}: {altered}", style="yellow"
        )


def _figure(figure: Estimate | None) -> str:
    if figure is None or not figure.is_bounded:
        return _number(None if figure is None else figure.value)
    return f"{figure.value:.2f}{FLAG if figure.flagged else ''}\n{figure.low:.2f}–{figure.high:.2f}"


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{100 * rate:.0f} %"


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
