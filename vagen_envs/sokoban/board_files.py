"""Files of boards: which of a folder are read, their encodings, dialects and XML."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from vagen_envs.errors import ConfigError, shown
from vagen_envs.tables import encoding_of

SUFFIXES = (".txt", ".xsb", ".sok", ".sb", ".ban", ".lvl", ".slc", "")
"""Endings of the files that are read in a folder, besides numbers, as in `screen.1`. A file that is
named itself may have any.
"""
LARGEST = 50
"""Cells of a side."""
MOST_BYTES = 64 * 2**20
"""The largest file that is read."""

_LETTERS = str.maketrans("pPbBo", "@+$*.")
_ROW = re.compile(r"[-#@+$*. _pPbBo]*+")
_RUNS = re.compile(r"[-#@+$*. _pPbBo0-9|()]*+")
_RUN = re.compile(r"(\d+)(?:([^\d()|])|\(([^\d()|]*)\))")


def no_boards_message(path: str, files: Sequence[tuple[Path, bytes]]) -> str:
    """Why a path has no board."""
    if not files:
        return f"boards={shown(path)} is a folder without files of boards ({', '.join(SUFFIXES)})"
    if not any(file.stat().st_size for file, _ in files):
        return f"boards={shown(path)} is empty; write a board into it"
    return f"boards={shown(path)} has no board; one is rows of '#@+$*. ' with walls around"


def files_of(path: str) -> list[Path]:
    """The file at a path, or those of a folder that may have boards. Raises ConfigError."""
    try:
        place = Path(path).expanduser()
        if place.is_dir():
            files = [file for file in place.rglob("*") if _may_have_boards(file, place)]
            return sorted(files, key=lambda file: [_natural(part) for part in file.parts])
        if place.is_file():
            return [place]
    except (
        OSError,
        RuntimeError,
        ValueError,
    ) as error:
        # Too long a name, a folder that may not be read, ~nobody.
        raise ConfigError(f"boards={shown(path)} can't be read: {shown(str(error))}") from error
    raise ConfigError(f"boards={shown(path)} is neither a file nor a folder")


def _may_have_boards(file: Path, top: Path) -> bool:
    suffix = file.suffix.lower()
    hidden = any(part.startswith(".") for part in file.relative_to(top).parts)
    return not hidden and (suffix in SUFFIXES or suffix[1:].isdigit()) and file.is_file()


def _natural(name: str) -> list[tuple[int, str]]:
    """A key by which `screen.9` comes before `screen.10`."""
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)
    ]


def digest_of(file: Path) -> bytes:
    """A digest of a file's content. Raises ConfigError if it can't be read or is too large."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise ConfigError(
                f"{file} has more than {MOST_BYTES // 2**20} MiB; boards in a text file take less"
            )
        return hashlib.blake2b(file.read_bytes()).digest()
    except OSError as error:
        raise ConfigError(
            f"boards={shown(str(file))} can't be read: {shown(str(error))}"
        ) from error


def boards_of(file: Path) -> Iterator[tuple[int, str]]:
    """The line where each board of a file begins, and its rows, joined by line breaks.

    A run of rows without a player, a box or a target is an ornament.
    """
    text = _text_of(file)
    if text.lstrip().startswith("<"):
        text = _from_xml(file, text)
    rows: list[str] = []
    began = 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        found = _rows(line)
        if not found and rows and line.strip()[:1] == "#" == line.strip()[-1:]:
            found = [line.rstrip()]  # a row with a sign of another dialect, which `_checked` names
        for row in found or [""]:
            if row.strip():
                began = began or number
                rows.append(row)
                continue
            board = "\n".join(rows)
            if any(sign in board for sign in "@+$*."):
                yield began, board
            rows = []
            began = 0


def _text_of(file: Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a byte-order mark, with one kind of line
    breaks.
    """
    data = file.read_bytes()
    text = data.decode(encoding_of(data), errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _from_xml(file: Path, text: str) -> str:
    """The boards of a collection in XML: `<Level>`s, each with its rows as `<L>`, in any namespace.

    Raises:
        ConfigError: it isn't XML, or it defines entities, which may be made to fill the memory.
    """
    if "<!ENTITY" in text.upper():
        raise ConfigError(f"{file} defines XML entities, which no collection of boards needs")
    declaration, _, rest = text.partition("?>")
    text = rest if declaration.lstrip().startswith("<?xml") else text  # its encoding is decoded
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  (expat, and entities are refused above)
    except ElementTree.ParseError as error:
        raise ConfigError(f"{file} is not XML that can be read ({error})") from error
    return "\n\n".join(map(_rows_of_level, root.iterfind(".//{*}Level")))


def _rows_of_level(level: ElementTree.Element) -> str:
    return "\n".join(row.text or "" for row in level.iterfind("{*}L"))


def _rows(line: str) -> list[str]:
    """The rows that a line says; none if it isn't part of a board."""
    if "#" not in line:
        return []
    line = line.rstrip().expandtabs()
    if _ROW.fullmatch(line):
        return [line.translate(_LETTERS)]
    if not _RUNS.fullmatch(line):
        return []
    for _ in range(3):  # runs within runs
        line = _RUN.sub(
            lambda run: (run[2] or run[3] or "") * min(int(run[1][:4]), 2 * LARGEST), line
        )
    rows = line.rstrip("|").split("|")
    return [row.translate(_LETTERS) for row in rows] if all(map(_ROW.fullmatch, rows)) else []
