"""A rollout's episodes for trackers: a table of turns with pictures, rewards and advantages."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vagen_adapters.ppo.episodes import PPOEpisode
from vagen_envs import Turn

NAME = "completions"
"""The table's name in a tracker."""
COLUMNS = ("update", "episode", "seed", "turn", "picture", "observation", "thoughts", "reply",
           "problems", "reward", "advantage")  # fmt: skip

MARKDOWN = re.compile(r"[\\`*_\[\]|]")
"""What means something within a line of Markdown; a backslash before it takes that away."""


@dataclass(frozen=True, eq=False)
class Completion:
    """A turn as a row; `cells` are those of `COLUMNS` but for the picture, (H, W, 3) or None."""

    cells: Mapping[str, str | int | float | None]
    picture: NDArray[np.uint8] | None

    @property
    def label(self) -> str:
        """The name of the row's picture in trackers without tables."""
        return f"{NAME}/{self.cells['episode']}/{self.cells['turn']}"


def completions_of(
    step: int, name: str, episode: PPOEpisode, turns: Sequence[Turn]
) -> list[Completion]:
    """An episode's turns, which have all their reward terms and advantages; see `watching`."""
    found = []
    for number, (turn, played) in enumerate(zip(turns, episode.turns, strict=True)):
        advantage = turn.metrics.get("advantage")  # none of what wasn't learned from
        cells: dict[str, str | int | float | None] = {
            "update": step,
            "episode": name,
            "seed": episode.level.seed,
            "turn": number,
            "observation": turn.observed.text,
            "thoughts": played.thoughts,
            "reply": turn.reply,
            "problems": ", ".join(problem.code for problem in turn.parsed.problems),
            "reward": math.fsum(term.value for term in turn.rewards),
            "advantage": advantage,
        }
        picture = turn.observed.picture
        found.append(Completion(cells, None if picture is None else picture.pixels))
    return found


def log_completions(callbacks: Sequence[Any], rows: Sequence[Completion]) -> None:
    """Send rows to each tracker among a Trainer's callbacks, by its own means."""
    senders = {
        "TensorBoardCallback": _to_tensorboard,
        "WandbCallback": _to_wandb,
        "TrackioCallback": _to_trackio,
    }
    for callback in callbacks:
        send = senders.get(type(callback).__name__)
        if send is not None and rows:
            send(callback, rows)


def _to_tensorboard(callback: Any, rows: Sequence[Completion]) -> None:
    """TensorBoard has no tables: a text in Markdown, and each picture under its row's name."""
    writer = callback.tb_writer
    step = rows[0].cells["update"]
    words = [column for column in COLUMNS if column != "picture"]
    lines = ["| " + " | ".join(words) + " |", "|" + "---|" * len(words)]
    for row in rows:
        cells = [_in_a_cell(row.cells[column]) for column in words]
        lines.append("| " + " | ".join(cells) + " |")
        if row.picture is not None:
            writer.add_image(row.label, row.picture, step, dataformats="HWC")
    writer.add_text(NAME, "\n".join(lines), step)


def _to_wandb(_: Any, rows: Sequence[Completion]) -> None:
    import wandb

    if wandb.run is None:
        return
    table = wandb.Table(columns=list(COLUMNS))
    for row in rows:
        picture = None if row.picture is None else wandb.Image(row.picture)
        table.add_data(*({**row.cells, "picture": picture}[column] for column in COLUMNS))
    wandb.log({NAME: table}, commit=False)


def _to_trackio(_: Any, rows: Sequence[Completion]) -> None:
    import trackio

    data = []
    for row in rows:
        picture = None if row.picture is None else trackio.Image(row.picture)
        cells = {**row.cells, "picture": picture}
        data.append([cells[column] for column in COLUMNS])
    table = trackio.Table(columns=list(COLUMNS), data=data)
    trackio.log({NAME: table}, step=rows[0].cells["update"])


def _in_a_cell(entry: Any) -> str:
    """Text that can't leave a cell of a Markdown table, nor be taken for Markdown or HTML."""
    text = "" if entry is None else str(entry)
    if isinstance(entry, float):
        text = f"{entry:.3g}"
    text = MARKDOWN.sub(r"\\\g<0>", text.replace("&", "&amp;").replace("<", "&lt;"))
    return "<br>".join(text.splitlines())
