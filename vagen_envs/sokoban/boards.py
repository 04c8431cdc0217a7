"""Imported boards: files in the XSB format, as Boxoban, XSokoban and public collections have them.

`#` wall, `@` player, `+` player on a target, `$` box, `*` box on a target, `.` target; a space, `-`
or `_` is floor, and `p P b B o` are `@ + $ * .`. Run-length encoding (`4#|#@$.#|4#`) is read. A
board is a run of rows that contain a wall; any other line ends it, such as a title, a comment or a
separator. Whatever lies outside the wall is decoration. Collections in XML (`.slc`) are read too.

Collections that anybody can have, each by the folder or file where its download lies:

    boards="boxoban-levels/unfiltered"             Boxoban; keeps its train, valid and test
    boards="boxoban-levels/hard", split_by="all"   its hard boards, all in every split
    boards="xsokoban/screens", split_by="all"      XSokoban's screen.1 to screen.90
    boards="microban.txt", split_by="all"          Microban, as one text or `.slc` file

Boxoban is at github.com/google-deepmind/boxoban-levels (Apache-2.0). XSokoban and Microban state
no licence that allows to ship them here.
"""

from __future__ import annotations

import functools
import hashlib
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vagen_envs.errors import ConfigError, LevelError, shown
from vagen_envs.seeding import SPLITS, Split
from vagen_envs.sokoban.board_files import (
    LARGEST,
    boards_of,
    digest_of,
    files_of,
    no_boards_message,
)
from vagen_envs.sokoban.levels import Level, canonical_board, pushed_to, spread
from vagen_envs.sokoban.solver import Solutions
from vagen_envs.tables import SplitBy, place, split_of_file

MOST_CHECKED = 20_000
"""Boards up to which all are checked when they are loaded, some 0.2 ms each; of more, a board is
when it is played.
"""
_QUICK = 2_000
"""Placements of boxes that are searched for a solution of a board with one box."""


class _Unplayable(Exception):  # noqa: N818 - a reason, not a failure
    pass


_Found = tuple[str, Split | None, str]
"""Where a board stands, the split that its file or folder names, and its rows."""


@dataclass(frozen=True, slots=True)
class Boards:
    """The boards of a file or folder, each one turned into a level when it is played.

    Attributes:
        name: a fingerprint of the contents, wherever the files lie.
        height, width: of the largest, in cells; the others stand in the middle of as many.
        splits: the rows of the boards of each split, in the order of the files.
        published: whether names of files and folders say the splits.
    """

    name: str
    height: int
    width: int
    splits: dict[Split, Sequence[str]]
    published: bool

    def level(self, split: Split, index: int) -> Level:
        """The board of this number, or the next one that can be played. Raises LevelError if none
        can.
        """
        boards = self.splits[split]
        for offset in range(len(boards)):
            try:
                return _level(
                    _checked(boards[(index + offset) % len(boards)]), self.height, self.width
                )
            except _Unplayable:
                continue
        raise LevelError(f"no board of the split {split!r} can be played")


def load_boards(path: str, split_by: SplitBy = "published") -> Boards:
    """The boards of a file, or of all files below a folder, as they are now.

    Boards that can't be played, and repeated positions, are left out and counted in one warning.

    Args:
        path: of a file or folder.
        split_by: `published` takes the splits from folders or files called `train`, `valid` or
            `test`, and goes by content where there are none; `content` puts 80, 10 and 10 % of all
            boards into train, val and test, twins by turning or mirroring into the same; `all` puts
            every board into every split, as `published` does with a few boards whose content would
            leave train empty.

    Raises:
        ConfigError: nothing is there, or none of the boards can be played; the message has the
            first reasons.
    """
    files = files_of(path)
    return _parsed(path, split_by, tuple([(file, digest_of(file)) for file in files]))


@functools.lru_cache(maxsize=4)
def _parsed(path: str, split_by: SplitBy, files: tuple[tuple[Path, bytes], ...]) -> Boards:
    """Kept as long as the files have these digests; times of files would miss two writings within a
    clock's tick.
    """
    top = Path(path).expanduser()
    found: list[_Found] = []
    fingerprint = hashlib.blake2b()
    for file, _ in files:
        split = split_of_file(file, top)
        for line, rows in boards_of(file):
            found.append((f"{file}, line {line}", split, rows))
            fingerprint.update(f"{split}\n{rows}\n\n".encode())
    if not found:
        raise ConfigError(no_boards_message(path, files))
    published = split_by == "published" and any(split is not None for _, split, _ in found)
    # A position that several splits have stays in the last of train, val, test.
    found.sort(key=lambda each: -SPLITS.index(each[1] or "train"))
    sort = _unchecked if len(found) > MOST_CHECKED else _playable
    splits, sides = sort(path, found, split_by)
    height = min(LARGEST, max(rows for rows, _ in sides))
    width = min(LARGEST, max(columns for _, columns in sides))
    everywhere = all(rows == splits["train"] for rows in splits.values())
    name = fingerprint.hexdigest()[:32]
    if not published:
        name += "-all" if everywhere else "-content"
    by_split: dict[Split, Sequence[str]] = {}
    for split, boards in splits.items():
        by_split[split] = tuple(boards)
    return Boards(name, height, width, by_split, published)


_Sorted = tuple[dict[Split, list[str]], list[tuple[int, int]]]
"""The boards of each split, and height and width of each board."""


def _unchecked(_path: str, found: Sequence[_Found], split_by: SplitBy) -> _Sorted:
    """All boards by split. So many take minutes to check: each is checked when it is played."""
    places = place([(split, rows.encode()) for _, split, rows in found], split_by)
    boards = [rows for *_, rows in found]
    sides = []
    for rows in boards:
        lines = rows.split("\n")
        sides.append((len(lines), max(map(len, lines))))
    return _by_split(boards, places), sides


def _by_split(boards: Sequence[str], places: Sequence[tuple[Split, ...]]) -> dict[Split, list[str]]:
    splits: dict[Split, list[str]] = {split: [] for split in SPLITS}
    for rows, standing in zip(boards, places, strict=True):
        for split in standing:
            splits[split].append(rows)
    return splits


def _playable(path: str, found: Sequence[_Found], split_by: SplitBy) -> _Sorted:
    """The boards that can be played by split, each position once. Warns of the others."""
    kept: list[str] = []
    groups: list[tuple[Split | None, bytes]] = []
    skipped: Counter[str] = Counter()
    first: dict[str, str] = {}
    seen: set[_Board] = set()
    sides = []
    for where, split, rows in found:
        try:
            board = _checked(rows)
            if board in seen:
                raise _Unplayable("the same as another")
        except _Unplayable as reason:
            skipped[str(reason)] += 1
            first.setdefault(str(reason), where)
            continue
        seen.add(board)
        sides.append((len(board), len(board[0])))
        kept.append(rows)
        groups.append((split, _level(board, *sides[-1]).board))
    reasons = "; ".join(
        f"{count:,} {reason} (first: {first[reason]})" for reason, count in skipped.most_common(5)
    )
    if not sides:
        raise ConfigError(f"boards={shown(path)} has no board that can be played: {reasons}")
    if skipped:
        message = (
            f"boards={path!r}: {skipped.total():,} of {len(found):,} boards are left out: {reasons}"
        )
        warnings.warn(message, stacklevel=3)
    return _by_split(kept, place(groups, split_by)), sides


_Board = tuple[str, ...]
"""Rows of one length: the floor that the player can reach, and all else as wall."""


def _level(board: _Board, height: int, width: int) -> Level:
    """The level in the middle of so many cells."""
    left = "#" * ((width - len(board[0])) // 2)
    rows = [(left + row).ljust(width, "#") for row in board]
    above = "#" * width * ((height - len(board)) // 2)
    grid = above + "".join(rows)
    floor = _where(grid, "@+$*. -_")
    targets = _where(grid, ".+*")
    boxes = _where(grid, "$*")
    player = _where(grid, "@+").bit_length() - 1
    board_key = canonical_board(width, floor, targets)
    return Level(height, width, floor, targets, boxes, player, board_key)


def _checked(rows: str) -> _Board:
    """A board that can be played, cut to its floor and the wall around. Raises _Unplayable with a
    reason.
    """
    lines = rows.split("\n")
    width = max(map(len, lines)) + 2
    if width > 4 * LARGEST or len(lines) > 4 * LARGEST:
        raise _Unplayable(f"larger than {LARGEST} cells a side")
    grid = "".join(line.ljust(width - 1).rjust(width) for line in ["", *lines, ""])
    if strange := set(grid) - set("#@+$*. -_"):
        raise _Unplayable(f"with the sign {min(strange)!r}")
    whole = (1 << len(grid)) - 1
    free = whole & ~_where(grid, "#")
    outside = spread(1, free, width)
    inside = free & ~outside
    players = _where(grid, "@+")
    if players.bit_count() != 1:
        players &= inside  # others are decoration
    if players.bit_count() != 1:
        raise _Unplayable(f"with {players.bit_count()} players")
    if not players & inside:
        raise _Unplayable("with a gap in the wall")
    floor = spread(players, inside, width)
    boxes = _where(grid, "$*") & floor
    targets = _where(grid, ".+*") & floor
    if _where(grid, "$") & inside & ~floor:
        raise _Unplayable("with a box that the player can't reach")
    if boxes.bit_count() != targets.bit_count() or not boxes:
        raise _Unplayable("with more boxes or targets than the other")
    if boxes == targets:
        raise _Unplayable("solved already")
    if boxes & ~pushed_to(floor, targets, width):
        raise _Unplayable("with a box that can't be pushed to a target, as in a corner")
    board = _cut(grid, floor, width)
    if max(len(board), len(board[0])) > LARGEST:
        raise _Unplayable(f"larger than {LARGEST} cells a side")
    solutions = Solutions(width, floor, targets)
    if (
        boxes.bit_count() == 1
        and solutions.distance(boxes, players.bit_length() - 1, _QUICK) is None
    ):
        raise _Unplayable("without a solution")
    return board


def _where(grid: str, signs: str) -> int:
    return sum(1 << at for at, sign in enumerate(grid) if sign in signs)


def _cut(grid: str, floor: int, width: int) -> _Board:
    """The board within the box around its floor and walls; Boxoban's pictures are 10 x 10 for
    that.
    """
    places = [divmod(at, width) for at, sign in enumerate(grid) if sign == "#" or floor >> at & 1]
    columns = [column for _, column in places]
    left = min(columns)
    right = max(columns) + 1
    walled = "".join(sign if floor >> at & 1 else "#" for at, sign in enumerate(grid))
    return tuple(
        walled[row * width + left : row * width + right]
        for row in range(places[0][0], places[-1][0] + 1)
    )
