"""A table across runs as Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from vagen_benchmarks.results.summary import FLAG, MIXED, STOPS
from vagen_benchmarks.results.table import ResultsTable, TableRow

NONE = "–"
Cells = list[list[str]]


def as_json(table: ResultsTable) -> str:
    """All rows, and the lines of `refused`."""
    data = {"rows": [row.to_json() for row in table.rows], "refused": table.refused}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows for `pandas.read_csv`: an empty field is a number that there isn't."""
    listed = list(rows)
    names = dict.fromkeys(name for row in listed for name in row)
    file = io.StringIO()
    writer = csv.DictWriter(file, [*names], lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return file.getvalue()


def as_markdown(table: ResultsTable) -> str:
    """Success of models by column, and below it all other figures."""
    return "\n\n".join(
        _markdown(cells) for cells in (success_cells(table), figure_cells(table))
    ) + (f"\n\n{NOTES}\n")


def as_latex(table: ResultsTable) -> str:
    """The same tables for a paper; they need the package booktabs."""
    return "\n".join(
        [
            "% \\usepackage{booktabs}",
            _latex(success_cells(table)),
            "",
            _latex(figure_cells(table)),
            "",
        ]
    )


FORMS: dict[str, Callable[[ResultsTable], str]] = {
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": lambda table: as_csv(row.to_json() for row in table.rows),
    "json": as_json,
}
ENDINGS = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".json": "json"}
NOTES = (
    "Success in percent with its 95 % interval, and the rank: one more than the models that a "
    f"paired permutation test on the same levels finds better (p < 0.05). {FLAG}: more than 2 % "
    f"of the episodes failed. {MIXED}: more than one model answered."
)


def success_cells(table: ResultsTable) -> Cells:
    """A row for each model, run and context, and a column for each environment, difficulty and
    strategy.
    """
    players = list(dict.fromkeys(_player(row) for row in table.rows))
    names = _names(players)
    found = {(_player(row), row.column): row for row in table.rows}
    cells = [["model", *map(str, table.columns)]]
    for player in players:
        rows = [found.get((player, column)) for column in table.columns]
        cells.append([names[player], *map(_success, rows)])
    return cells


def figure_cells(table: ResultsTable) -> Cells:
    """A row for each model and column, with all figures but success."""
    players = _names(list(dict.fromkeys(_player(row) for row in table.rows)))
    passed = sorted(
        {name for row in table.rows for name in row.figures if name.startswith("pass@")}
    )
    head = ["model", "environment", *passed, "valid", *STOPS, "grounding", "prediction"]
    head += ["tokens in / out", "dollars", "s a reply (median, p95)", "served", "failed"]
    cells = [head]
    for row in table.rows:
        shown = row.figures
        cells.append(
            [
                players[_player(row)],
                str(row.column),
                *(_percent(shown.get(name)) for name in passed),
                _percent(shown["valid"]),
                *(_percent(shown[name.replace(" ", "_")]) for name in STOPS),
                *(_number(shown[name]) for name in ("grounding", "world_modeling")),
                f"{shown['prompt_tokens']:,} / {shown['completion_tokens']:,}"
                if shown["completion_tokens"]
                else NONE,
                _number(shown["dollars"], 4),
                f"{_number(shown['seconds_median'])}, {_number(shown['seconds_p95'])}",
                (f"{MIXED} " if " | " in shown["served"] else "") + (shown["served"] or NONE),
                str(shown["failed"]),
            ]
        )
    return cells


def _player(row: TableRow) -> tuple[str, str, str]:
    return row.model, row.context, row.run


def _names(players: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
    """Short names that tell players apart: the model, its context if it isn't all, its run if it
    has several.
    """
    plain = {player: player[0] for player in players}
    for player in players:
        if player[1] not in ("", "all"):
            plain[player] += f" ({player[1]})"
    shared = [name for name in plain.values() if [*plain.values()].count(name) > 1]
    return {
        player: f"{name} [{player[2]}]" if name in shared else name
        for player, name in plain.items()
    }


def _success(row: TableRow | None) -> str:
    if row is None or row.figures["success"] is None:
        return NONE
    shown = row.figures
    flag = FLAG if shown["flagged"] else ""
    bounds = f"[{100 * shown['low']:.0f}, {100 * shown['high']:.0f}]"
    rank = f" #{row.rank}" if row.rank else ""
    return f"{100 * shown['success']:.1f}{flag} {bounds}{rank}"


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.0f} %"


def _number(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def _markdown(cells: Cells) -> str:
    head, *rows = cells
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(map(_markdown_row, (head, rule, *rows)))


def _markdown_row(row: Sequence[str]) -> str:
    guarded = [text.replace("|", "\\|") for text in row]
    return f"| {' | '.join(guarded)} |"


_LATEX = {
    "\\": r"\textbackslash{}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "≠": r"$\neq$",
    "‡": r"$\ddagger$",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
}


def latex_text(text: str) -> str:
    """Text with the characters that LaTeX reads as commands written as text; others than ASCII are
    dropped.
    """
    shown = (
        _LATEX.get(each, each if each.isascii() and each.isprintable() else "?") for each in text
    )
    return "".join(shown)


def _latex(cells: Cells) -> str:
    head, *rows = (list(map(latex_text, row)) for row in cells)
    texts = 2 if head[1:2] == ["environment"] else 1
    columns = "l" * texts + "r" * (len(head) - texts)
    # What begins with a bracket or a star would be read as an option of the line break before it.
    guarded = (["{}" + row[0] if row[0][:1] in ("[", "*") else row[0], *row[1:]] for row in rows)
    body = [f"{' & '.join(row)} \\\\" for row in guarded]
    begin = [
        "\\begin{tabular}{" + columns + "}",
        "\\toprule",
        f"{' & '.join(head)} \\\\",
        "\\midrule",
    ]
    return "\n".join([*begin, *body, "\\bottomrule", "\\end{tabular}"])
