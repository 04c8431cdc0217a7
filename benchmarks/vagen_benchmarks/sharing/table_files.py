"""A table across runs as Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vagen_benchmarks.results.play_errors import STOPS
from vagen_benchmarks.results.summary import FLAG, MIXED
from vagen_benchmarks.results.table import Column, ResultsTable, TableRow

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
    """Success of models by column, and below it what else is known and how replies ended."""
    return "\n\n".join(map(_markdown, _tables(table))) + f"\n\n{NOTES}\n"


def as_latex(table: ResultsTable) -> str:
    """The same tables for a paper; they need the packages booktabs and graphicx."""
    return "\n\n".join(["% \\usepackage{booktabs,graphicx}", *map(_latex, _tables(table))]) + "\n"


def _tables(table: ResultsTable) -> list[Cells]:
    return [success_cells(table), figure_cells(table), ending_cells(table)]


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
    names = _player_names(table)
    columns = _column_names(table.columns)
    found = {(_player(row), row.column): row for row in table.rows}
    cells = [["model", *columns.values()]]
    for player, name in names.items():
        rows = [found.get((player, column)) for column in columns]
        cells.append([name, *map(_success, rows)])
    return cells


def figure_cells(table: ResultsTable) -> Cells:
    """A row for each model and column, with what is known beside success; what is known of no row
    is left out.
    """
    names = {name for row in table.rows for name in row.figures}
    passed = [name for name in names if name.startswith("pass@")]
    head = [*sorted(passed), "valid", "grounding", "prediction", "tokens in / out", "dollars"]
    head += ["s a reply (median, p95)", "served", "failed"]
    rows = []
    for row in table.rows:
        shown = row.figures
        tokens = NONE
        if shown["completion_tokens"]:
            tokens = f"{shown['prompt_tokens']:,} / {shown['completion_tokens']:,}"
        seconds = NONE
        if shown["seconds_median"] is not None:
            seconds = f"{_number(shown['seconds_median'])}, {_number(shown['seconds_p95'])}"
        served = shown["served"] or NONE
        rows.append(
            [
                *(_percent(shown.get(name)) for name in sorted(passed)),
                _percent(shown["valid"]),
                _number(shown["grounding"]),
                _number(shown["world_modeling"]),
                tokens,
                _number(shown["dollars"], 4),
                seconds,
                f"{MIXED} {served}" if " | " in served else served,
                str(shown["failed"]),
            ]
        )
    by_column = zip(*rows, strict=True)
    known = [number for number, cells in enumerate(by_column) if set(cells) != {NONE}]
    kept = [_picked(row, known) for row in rows]
    return _of_rows(table, _picked(head, known), kept)


def _picked(row: Sequence[str], places: Sequence[int]) -> list[str]:
    return [row[i] for i in places]


def ending_cells(table: ResultsTable) -> Cells:
    """A row for each model and column, with the shares of each ending that isn't a plain one."""
    names = [name.replace(" ", "_") for name in STOPS]
    shares = (map(row.figures.get, names) for row in table.rows)
    return _of_rows(table, [*STOPS], [list(map(_percent, each)) for each in shares])


def _of_rows(table: ResultsTable, head: list[str], rows: Cells) -> Cells:
    """A table of these cells, whose rows begin with the model and its column."""
    players = _player_names(table)
    columns = _column_names(table.columns)
    cells = [["model", "environment", *head]]
    for row, shown in zip(table.rows, rows, strict=True):
        cells.append([players[_player(row)], columns[row.column], *shown])
    return cells


def _column_names(columns: Sequence[Column]) -> dict[Column, str]:
    """Names that tell columns apart: a strategy that all have in common isn't told."""
    shared = len({column.strategy for column in columns}) == 1
    return {column: str(replace(column, strategy="") if shared else column) for column in columns}


def _player(row: TableRow) -> tuple[str, str, str]:
    return row.model, row.context, row.run


def _player_names(table: ResultsTable) -> dict[tuple[str, str, str], str]:
    """Short names that tell players apart: the model, its context if it isn't all, its run if it
    has several.
    """
    players = list(dict.fromkeys(_player(row) for row in table.rows))
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


_NAME_COLUMNS = ("model", "environment", "served")
_LONG_NAME = 24  # characters
_BREAKS = re.compile(r"[/:]|\\_")
_BREAKABLE = r"\g<0>\\allowbreak{}"
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
    """A table that is no wider than the line: long names are broken, and what is still too wide is
    drawn smaller.
    """
    head, *rows = (list(map(latex_text, row)) for row in cells)
    kinds = ["l" if name in _NAME_COLUMNS else "r" for name in head]
    for at in range(len(head)):
        if head[at] in _NAME_COLUMNS and max(len(row[at]) for row in cells) > _LONG_NAME:
            kinds[at] = "p{3.5cm}"
            for row in rows:
                row[at] = f"\\raggedright {_BREAKS.sub(_BREAKABLE, row[at])}"
    # What begins with a bracket or a star would be read as an option of the line break before it.
    guarded = (["{}" + row[0] if row[0][:1] in ("[", "*") else row[0], *row[1:]] for row in rows)
    lines = [f"{' & '.join(row)} \\\\" for row in (map(_stacked, head), *guarded)]
    return "\n".join(
        [
            "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
            "\\begin{tabular}{" + "".join(kinds) + "}",
            "\\toprule",
            lines[0],
            "\\midrule",
            *lines[1:],
            "\\bottomrule",
            "\\end{tabular}}",
        ]
    )


def _stacked(name: str) -> str:
    """A column's name with a line for each of its parts."""
    lines = name.replace(", ", ",\\\\")
    return f"\\shortstack[r]{{{lines}}}" if ", " in name else name
