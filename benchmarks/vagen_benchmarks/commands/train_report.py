"""`vagen train-report`: the courses of trainings in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from vagen_benchmarks.commands.options import writing_out
from vagen_benchmarks.commands.printing import make_table, out
from vagen_benchmarks.errors import ProtocolError, RunFolderError
from vagen_benchmarks.results.training_words import FEWEST, Course, course_of
from vagen_envs.extras import need

COLUMNS = 3
SUFFIXES = (".png", ".svg", ".pdf")


def train_report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER…", help="`--out` folders of `vagen train`.")
    ],
    path: Annotated[Path, typer.Option("--out", help="The figure, `.png`, `.svg` or `.pdf`.")] = (
        Path("training.png")
    ),
    sentences: Annotated[int, typer.Option(min=0, help="Frequent sentences to list.")] = 10,
) -> None:
    """Draw trainings over their rollouts: success, the judge's scores, and how varied replies stay.

    Success is that of all episodes (VAGEN, figures 5 and 8), from the newest checkpoint's log. The
    words are those of the kept episodes; each point has equally many replies. Falling entropy with
    a rising score is what reward hacking looks like (appendix E.2 and E.3).

    Example: `vagen train-report runs/full runs/base --out figure8.png`
    """
    need("vagen train-report", "ppo", "matplotlib")
    if path.suffix not in SUFFIXES:
        raise ProtocolError(f"--out {path}: a figure's name ends in {', '.join(SUFFIXES)}")
    courses = [course_of(folder, sentences) for folder in folders]
    if len({course.name for course in courses}) < len(courses):  # such as seed0/full, seed1/full
        courses = [
            replace(course, name=str(folder))
            for course, folder in zip(courses, folders, strict=True)
        ]
    if not any(curve for course in courses for curve in course.curves.values()):
        raise RunFolderError(
            f"there is nothing to draw of {', '.join(map(str, folders))}: no checkpoint, whose log "
            f"has the success, and fewer than {FEWEST} replies; train for longer"
        )
    with writing_out(path):
        _draw(courses, path)
    for course in courses:
        _print_sentences(course)
    out.print(f"figure: {path.resolve()}", soft_wrap=True)


def _draw(courses: Sequence[Course], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    drawn: dict[str, None] = {}  # in order
    for course in courses:
        drawn |= {name: None for name, curve in course.curves.items() if curve}
    names = list(drawn)
    columns = min(COLUMNS, len(names))
    rows = -(-len(names) // columns)
    figure, axes = pyplot.subplots(
        rows,
        columns,
        figsize=(3.7 * columns, 3.1 * rows),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, name in zip(axes.flat, names, strict=False):
        for course in courses:
            points = course.curves.get(name, [])
            at, figures = zip(*points, strict=True) if points else ((), ())
            axis.plot(at, figures, marker=".", label=course.name)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("rollout", fontsize=9)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.25)
        highest = axis.get_ylim()[1] if "bit" in name else 1.0
        axis.set_ylim(0, 1.02 * highest)
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    axes[0, 0].legend(fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _print_sentences(course: Course) -> None:
    """Print the most frequent sentences of the last quarter, and their shares in the first."""
    table = make_table([f"{course.name}: frequent sentences"], ["last quarter", "first quarter"])
    for sentence, late, early in course.frequent:
        table.add_row(sentence, f"{late:.0%}", f"{early:.0%}")
    if table.row_count:
        out.print(table)
