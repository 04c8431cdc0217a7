"""Boards of others, from files in the XSB format, as Boxoban and XSokoban have them.

`#` wall, `@` player, `+` player on a target, `$` box, `*` box on a target, `.` target; a space, `-` or `_` is floor.
A board is a run of rows. Whatever isn't a row (a blank line, `; 12`, a title) ends it; a file has any number.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vagen_envs.errors import ConfigError, LevelError, shown
from vagen_envs.seeding import SPLITS, Split, content_hash, split_of
from vagen_envs.sokoban.levels import Level, Solutions, canonical_board, pushed_to

SUFFIXES = (".txt", ".xsb", ".sok")
"""Of the files of a folder that are read. A file that is named itself may be called anything."""
LARGEST = 50
"""Cells of a side."""
MOST_BOARDS = 100_000
MOST_BYTES = 64 * 2**20
"""Of one file."""
_QUICK = 2_000
"""Placements of boxes that a reset may search, some milliseconds."""

_PLAYER, _BOXES, _TARGETS = "@+", "$*", ".+*"
_CELLS = "#@+$*. -_"


@dataclass(frozen=True, slots=True)
class Boards:
    """The boards of a file or folder.

    Attributes:
        name: a fingerprint of what they are, wherever they lie.
        height, width: of the largest, in cells; the others stand in the middle of as many.
        splits: each board is in one; its turned and mirrored twins are in the same.
    """

    name: str
    height: int
    width: int
    splits: dict[Split, tuple[Level, ...]]


def load_boards(path: str) -> Boards:
    """The boards of a file, or of all `.txt`, `.xsb` and `.sok` files below a folder, as they are now.

    The same position counts once. Splits follow from the content of a board, not from names or folders.

    Raises:
        ConfigError: nothing is there, or a board can't be played; the message says the file and line.
    """
    files = _files(path)
    return _parsed(path, tuple([(file, _digest(file)) for file in files]))


@functools.lru_cache(maxsize=4)
def _parsed(path: str, files: tuple[tuple[Path, bytes], ...]) -> Boards:
    """Kept as long as the files have these digests: to read them takes a hundredth of what to make boards of them does.

    Times of files would do less: two writings may fall into one tick of their clock.
    """
    found: list[tuple[str, list[str]]] = []
    for file, _ in files:
        found += _rows_of(file)
        if len(found) > MOST_BOARDS:
            raise ConfigError(f"boards={path!r} has more than {MOST_BOARDS:,} boards; name a part of it")
    if not found:
        raise ConfigError(f"boards={path!r} has no board; one is rows of {_CELLS!r} with walls around")
    height = max(len(rows) for _, rows in found)
    width = max(len(row) for _, rows in found for row in rows)
    levels: dict[tuple[bytes, int, int, int], Level] = {}
    for where, rows in found:
        level = _level(where, rows, height, width)
        levels.setdefault((level.board, level.floor, level.boxes, level.player), level)
    splits: dict[Split, list[Level]] = {split: [] for split in SPLITS}
    for _, level in sorted(levels.items()):
        splits[split_of(level.board)].append(level)
    name = content_hash(repr(sorted(levels)).encode())
    return Boards(name, height, width, {split: tuple(of_split) for split, of_split in splits.items()})


def _files(path: str) -> list[Path]:
    try:
        place = Path(path).expanduser()
        if place.is_dir():
            return sorted(file for file in place.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
        if place.is_file():
            return [place]
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, a folder that may not be read, ~nobody
        raise ConfigError(f"boards={shown(path)} can't be read: {shown(str(error))}") from error
    raise ConfigError(f"boards={shown(path)} is neither a file nor a folder")


def _digest(file: Path) -> bytes:
    """What stands in a file, for as long as it does."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{file} has more than {MOST_BYTES // 2**20} MiB; boards in a text file take less")
        return hashlib.blake2b(file.read_bytes()).digest()
    except OSError as error:
        raise ConfigError(f"boards={shown(str(file))} can't be read: {shown(str(error))}") from error


def _rows_of(file: Path) -> Iterator[tuple[str, list[str]]]:
    """The rows of each board of a file, and where it begins."""
    rows: list[str] = []
    began = 0
    lines = file.read_text(encoding="utf-8-sig", errors="replace").split("\n")
    for number, line in enumerate([*lines, ""], 1):
        row = line.rstrip()
        if _is_row(row, f"{file}, line {number}"):
            began = began or number
            rows.append(row)
        elif rows:
            yield f"{file}, line {began}", rows
            rows, began = [], 0


def _is_row(line: str, where: str) -> bool:
    """Whether a line is part of a board. Raises ConfigError for one that is meant to be and can't."""
    begins_as_one = line.lstrip(" -_")[:1] == "#"
    strange = next((each for each in line if each not in _CELLS), None)
    if begins_as_one and strange is not None:
        raise ConfigError(f"{where}: {strange!r} is nothing that a board has; write {_CELLS!r}")
    if not begins_as_one and strange is None and any(each in line for each in "@+$*"):
        raise ConfigError(f"{where}: a row of a board begins with a wall (#)")
    if len(line) > LARGEST and begins_as_one:
        raise ConfigError(f"{where}: a board has at most {LARGEST} cells in a row, this one has {len(line)}")
    return begins_as_one


def _level(where: str, rows: list[str], height: int, width: int) -> Level:
    """A board in the middle of `height` x `width` cells. Raises ConfigError if it can't be played."""
    wide = max(map(len, rows))
    top, left = (height - len(rows)) // 2, (width - wide) // 2
    cells = {(top + i) * width + left + j: cell for i, row in enumerate(rows) for j, cell in enumerate(row)}
    if len(rows) > LARGEST:
        raise ConfigError(f"{where}: a board has at most {LARGEST} rows, this one has {len(rows)}")
    players = [at for at, cell in cells.items() if cell in _PLAYER]
    if len(players) != 1:
        raise ConfigError(f"{where}: a board has one player (@ or +), this one has {len(players)}")
    floor = _reached(where, rows, top, left, width, players[0])
    boxes = sum(1 << at for at, cell in cells.items() if cell in _BOXES and floor >> at & 1)
    targets = sum(1 << at for at, cell in cells.items() if cell in _TARGETS and floor >> at & 1)
    if any(cell == "$" and not floor >> at & 1 for at, cell in cells.items()):
        raise ConfigError(f"{where}: a box stands where the player can't come; it could never reach a target")
    if boxes.bit_count() != targets.bit_count() or not boxes:
        count, wanted = boxes.bit_count(), targets.bit_count()
        raise ConfigError(f"{where}: a board has as many boxes as targets, this one {count} and {wanted}")
    if boxes == targets:
        raise ConfigError(f"{where}: the board is solved already")
    dead = boxes & ~pushed_to(floor, targets, width)
    if dead:
        row, column = divmod((dead & -dead).bit_length() - 1, width)
        raise ConfigError(
            f"{where}: the box in row {row - top + 1}, column {column - left + 1} of the board can never be pushed to "
            "a target, as from a corner; move it"
        )
    level = Level(height, width, floor, targets, boxes, players[0], canonical_board(width, floor, targets))
    # With one box it is told in a millisecond, so that no reset has to tell it.
    if boxes.bit_count() == 1 and _fewest_moves(level) == 0:
        raise ConfigError(f"{where}: the board has no solution; leave it out")
    return level


def check_solvable(path: str, level: Level, most: int) -> None:
    """Raise LevelError if no `most` moves solve a board, where that is quick to see."""
    needed = _fewest_moves(level)
    row, column = divmod(level.player, level.width)
    board = f"the board of boards={path!r} whose player is in row {row + 1}, column {column + 1} of the picture"
    if needed == 0:
        raise LevelError(f"{board} has no solution; leave it out of the file")
    if needed is not None and needed > most:
        raise LevelError(
            f"{board} takes {needed} moves, an episode here {most}: set max_steps and max_turns so that it may take "
            f"{needed}, or leave it out of the file"
        )


@functools.lru_cache(maxsize=10_000)
def _fewest_moves(level: Level) -> int | None:
    """Moves of a shortest solution, 0 if there is none, `None` where it takes long to tell."""
    try:
        return Solutions(level.width, level.floor, level.targets).distance(level.boxes, level.player, _QUICK) or 0
    except LevelError:
        return None


def _reached(where: str, rows: list[str], top: int, left: int, width: int, player: int) -> int:
    """The cells that the player could walk to if there were no boxes; whatever else there is can't matter."""
    seen, ahead = 0, [player]
    while ahead:
        at = ahead.pop()
        row, column = at // width - top, at % width - left
        if not (0 <= row < len(rows) and 0 <= column < len(rows[row])):
            raise ConfigError(f"{where}: the board has a gap in the wall around it")
        if seen >> at & 1 or rows[row][column] == "#":
            continue
        if column in (0, len(rows[row]) - 1) or row in (0, len(rows) - 1):
            raise ConfigError(f"{where}: the board has a gap in the wall around it")
        seen |= 1 << at
        ahead += [at - width, at + width, at - 1, at + 1]
    return seen
