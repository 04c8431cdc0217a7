"""Where target pictures come from, and which split each belongs to."""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vagen_envs.errors import ConfigError, MissingExtraError
from vagen_envs.seeding import SPLITS, Split, split_of

BUILT_IN = ("builtin", "mono")


@dataclass(frozen=True, slots=True)
class Icon:
    """A target: the name of its file, and its SVG."""

    name: str
    svg: str


@dataclass(frozen=True)
class Dataset:
    """Targets by split, in an order that depends on their contents alone.

    Attributes:
        name: `builtin`, `mono`, or a fingerprint of the contents.
        splits: each icon is in exactly one; no two have the same content.
    """

    name: str
    splits: dict[Split, tuple[Icon, ...]]


def content_of(svg: str) -> bytes:
    """What makes an icon the one it is: its text, white space aside. Splits go by it."""
    return b"svg" + " ".join(svg.split()).encode("utf-8", "surrogatepass")


@functools.lru_cache(maxsize=4)
def load_dataset(name: str, max_length: int) -> Dataset:
    """The icons of a dataset that have at most `max_length` characters.

    Args:
        name: `"builtin"`: about 1,050 flat colour icons that come with this package. `"mono"`: Tabler's
            icons from the pip package pytablericons, black. Else a path: a folder of `.svg` files; a
            `.parquet` or `.jsonl` file with columns `Svg` and, if it has names, `Filename`; or a folder of
            such files or of Arrow files, as a Hugging Face dataset's repository or `save_to_disk` makes it.
        max_length: longer ones are left out.

    Raises:
        ConfigError: there is no such dataset, or nothing in it can be used.
        MissingExtraError: a module that reads it isn't installed.
    """
    icons = [icon for icon in _read(name) if 0 < len(icon.svg) <= max_length and "<svg" in icon.svg]
    by_content = {content_of(icon.svg): icon for icon in sorted(icons, key=lambda icon: icon.name, reverse=True)}
    if not by_content:
        raise ConfigError(
            f"dataset={name!r} has no SVG of at most {max_length} characters; "
            "it needs .svg files, or .parquet, .arrow or .jsonl files with a column Svg"
        )
    splits: dict[Split, list[Icon]] = {split: [] for split in SPLITS}
    for content in sorted(by_content):
        icon = by_content[content]
        # Tabler draws one thing in several ways ("license", "license-off"): all in one split.
        key = b"tabler" + Path(icon.name).stem.split("-")[0].encode() if name == "mono" else content
        splits[split_of(key)].append(icon)
    fingerprint = hashlib.sha256(b"\0".join(sorted(by_content))).hexdigest()[:32]
    return Dataset(
        name if name in BUILT_IN else fingerprint, {split: tuple(of_split) for split, of_split in splits.items()}
    )


def _read(name: str) -> Iterator[Icon]:
    if name == "builtin":
        with gzip.open(Path(__file__).with_name("icons.jsonl.gz"), "rt", encoding="utf-8") as lines:
            yield from _rows(map(json.loads, lines), name)
        return
    if name == "mono":
        spec = importlib.util.find_spec("pytablericons")
        if spec is None or not spec.submodule_search_locations:
            raise MissingExtraError('dataset="mono"', "svg-mono", "pytablericons")
        yield from _read_path(Path(spec.submodule_search_locations[0]) / "icons")
        return
    path = Path(name).expanduser()
    if not path.exists():
        raise ConfigError(f"dataset={name!r} is neither {' nor '.join(map(repr, BUILT_IN))} nor a file or folder")
    yield from _read_path(path)


def _read_path(path: Path) -> Iterator[Icon]:
    if path.is_dir():
        for folder, folders, files in os.walk(path):
            folders.sort()
            for file in sorted(files):
                yield from _read_file(Path(folder) / file, path)
    else:
        yield from _read_file(path, path.parent)


def _read_file(file: Path, top: Path) -> Iterator[Icon]:
    if file.suffix == ".svg":
        yield Icon(file.relative_to(top).as_posix(), file.read_text(encoding="utf-8", errors="replace"))
    elif file.suffix == ".jsonl":
        with file.open(encoding="utf-8") as lines:
            yield from _rows((json.loads(line) for line in lines if line.strip()), str(file))
    elif file.suffix in (".parquet", ".arrow"):
        yield from _rows(_table_rows(file), str(file))


def _table_rows(file: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError(f"reading {file}", "svg", "pyarrow") from error
    if file.suffix == ".parquet":
        table = pq.ParquetFile(file)
        wanted = [column for column in ("Filename", "Svg") if column in table.schema_arrow.names]
        for batch in table.iter_batches(columns=wanted):
            yield from batch.to_pylist()
    else:
        with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                yield from batch.to_pylist()


def _rows(rows: Iterable[dict[str, Any]], source: str) -> Iterator[Icon]:
    for number, row in enumerate(rows):
        if "Svg" not in row:
            raise ConfigError(f"{source} has the columns {', '.join(row)}; it needs Svg, and Filename for names")
        if isinstance(row["Svg"], str):
            yield Icon(str(row.get("Filename") or number), row["Svg"])
