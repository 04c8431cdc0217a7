"""Tables of turns with their pictures for the trackers of transformers' Trainer, each through its own library."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vagen_adapters.ppo.episodes import Episode

NAME = "eval/samples"
PICTURES = "eval/pictures"
STEP = "train/global_step"
"""Under which Trainer's callbacks log steps to Weights & Biases and trackio."""


class Row(NamedTuple):
    """A turn: the level's seed, the turn's number, the picture (H, W, 3), the reply, its reward, the episode's end."""

    level: int
    turn: int
    picture: NDArray[np.uint8] | None
    reply: str
    reward: float
    outcome: str


def show_samples(callbacks: Iterable[Any], episodes: Sequence[Episode], step: int) -> None:
    """Log every turn of `episodes` to TensorBoard, trackio and Weights & Biases, where they are among the callbacks."""
    rows = list(_rows(episodes))
    for callback in callbacks:
        write = _WRITERS.get(type(callback).__name__)
        if write is not None and rows:
            write(callback, rows, step)


def _rows(episodes: Sequence[Episode]) -> Iterator[Row]:
    for episode in episodes:
        outcome = "failed" if episode.failure is not None else _outcome(episode)
        for number, turn in enumerate(episode.turns):
            picture = turn.shown.pictures[-1] if turn.shown.pictures else None
            yield Row(episode.level.seed, number, picture, turn.turn.reply, turn.reward, outcome)


def _outcome(episode: Episode) -> str:
    return "solved" if episode.success else "lost" if episode.terminated else "cut"


def _to_tensorboard(callback: Any, rows: Sequence[Row], step: int) -> None:
    """TensorBoard has no tables: a strip of pictures for each episode, and its turns as text under the same name."""
    writer = callback.tb_writer
    if writer is None:  # outside of a training
        return
    for level, turns in itertools.groupby(rows, key=lambda row: row.level):
        told = list(turns)
        if (strip := _strip(row.picture for row in told if row.picture is not None)) is not None:
            writer.add_image(f"{NAME}/level {level}", strip, step, dataformats="HWC")
        lines = [f"| {row.turn} | {_cell(row.reply)} | {row.reward:.3g} | {row.outcome} |" for row in told]
        table = "\n".join(["| turn | reply | reward | outcome |", "|---|---|---|---|", *lines])
        writer.add_text(f"{NAME}/level {level}", table, step)
    writer.flush()


def _strip(pictures: Iterable[NDArray[np.uint8]]) -> NDArray[np.uint8] | None:
    """Side by side on white, with a gap of four pixels between."""
    given = list(pictures)
    if not given:
        return None
    height = max(each.shape[0] for each in given)
    width = sum(each.shape[1] + 4 for each in given) - 4
    strip = np.full((height, width, 3), 255, np.uint8)
    left = 0
    for each in given:
        strip[: each.shape[0], left : left + each.shape[1]] = each
        left += each.shape[1] + 4
    return strip


def _cell(reply: str) -> str:
    """A model's words in a cell of Markdown, as it wrote them: no markup, no second column."""
    for written, told in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "&#124;"), ("`", "&#96;")):
        reply = reply.replace(written, told)
    return " ".join(reply.split())


def _table(library: Any, rows: Sequence[Row]) -> Any:
    """As Weights & Biases and trackio, which takes over its names, have them."""
    data = [[*row[:2], None if row.picture is None else library.Image(row.picture), *row[3:]] for row in rows]
    return library.Table(columns=list(Row._fields), data=data)


def _to_wandb(callback: Any, rows: Sequence[Row], step: int) -> None:
    library = callback._wandb
    if library is None or library.run is None:
        return
    strips = {level: _strip(row.picture for row in turns if row.picture is not None)
              for level, turns in itertools.groupby(rows, key=lambda row: row.level)}  # fmt: skip
    pictures = [library.Image(strip, caption=f"level {level}") for level, strip in strips.items() if strip is not None]
    # Offline, a table's pictures stay in a folder of staged files until `wandb sync`; these are in the run's own.
    library.log({NAME: _table(library, rows), **({PICTURES: pictures} if pictures else {}), STEP: step})


def _to_trackio(callback: Any, rows: Sequence[Row], step: int) -> None:
    if not callback._initialized:
        return
    library = callback._trackio
    library.log({NAME: _table(library, rows), STEP: step})


_WRITERS = {"TensorBoardCallback": _to_tensorboard, "WandbCallback": _to_wandb, "TrackioCallback": _to_trackio}
"""By the name of Trainer's callback; they need transformers' import of the library, which is theirs to make."""
