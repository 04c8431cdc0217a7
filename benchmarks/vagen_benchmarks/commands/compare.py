"""`vagen compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from vagen_benchmarks.commands.printing import err, out
from vagen_benchmarks.results.compare import compare as compare_sides
from vagen_benchmarks.results.compare import read_side, sampling_differences
from vagen_benchmarks.results.summary import FLAG, FLAGGED
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.files import SHOWN, edits


def compare(
    one: Annotated[str, typer.Argument(metavar="RUN[@AGENT]", help="A run folder, and which of its agents.")],
    other: Annotated[str, typer.Argument(metavar="RUN[@AGENT]", help="The other.")],
) -> None:
    """Compare two agents pair by pair on the levels that both played, under one protocol.

    Runs whose files were edited, or don't fit each other, are compared all the same, and it is said; whether episodes
    are what they claim to be, `vagen verify` tells.

    p: the paired permutation test on levels. Pairs that one of the two lost to a failure widen the interval of success.
    """
    first, second = read_side(one), read_side(other)
    for path in dict.fromkeys(Path(each.partition("@")[0]) for each in (one, other)):
        _tell_edits(path)
    lines = compare_sides(first, second)
    table = Table(box=None, header_style="bold", title=f"1: {first.name}\n2: {second.name}", title_justify="left")
    table.add_column("environment")
    names = (
        "pairs",
        "levels",
        "both",
        "only 1",
        "only 2",
        "neither",
        "lost",
        "success 2 − 1",
        "95 %",
        "p",
        "return 2 − 1",
        "95 %",
    )
    for name in names:
        table.add_column(name, justify="right")
    for line in lines:
        counts = (line.count, line.levels, line.both, line.one, line.other, line.neither)
        flag = FLAG if line.lost > FLAGGED * (line.lost + line.count) else ""
        table.add_row(
            line.task, *map(str, counts), f"{line.lost}{flag}",
            f"{100 * line.solved.value:+.0f} %", f"{100 * line.solved.low:+.0f} to {100 * line.solved.high:+.0f}",
            f"{line.p_value:.3g}", f"{line.gain.value:+.2f}", f"{line.gain.low:+.2f} to {line.gain.high:+.2f}",
        )  # fmt: skip
    out.print(table)
    if any(line.lost for line in lines):
        out.print("lost: one of the two failed there or never played it; these count against either in the interval of "
                  "success, and for nothing in p and in the return", style="yellow")  # fmt: skip
    if sampled := sampling_differences(first, second):
        out.print(f"their models were sampled differently (1 / 2): {'; '.join(sampled)}", style="yellow")


def _tell_edits(path: Path) -> None:
    found = edits(RunFolder(path))
    if not found:
        return
    err.print(f"{path} isn't as a run leaves it; see vagen verify {path}:", style="red", soft_wrap=True)
    for line in found[:SHOWN]:
        err.print(f"  {line}", soft_wrap=True)
    if len(found) > SHOWN:
        err.print(f"  and {len(found) - SHOWN} more")
