"""Where target pictures come from, and which split each belongs to."""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.util
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vagen_envs.errors import ConfigError, MissingExtraError
from vagen_envs.seeding import SPLITS, Split, split_of
from vagen_envs.tables import SUFFIXES, files_below, rows

BUILT_IN = ("builtin", "mono")

# As Hugging Face's data sets name them: data/train-00000-of-00001.parquet, test.jsonl, or folders of these names.
_PUBLISHED = re.compile(r"(train|val|test)(?:ing|id|idation)?(?=[-_.\d]|\Z)|(dev)(?=[-_.]|\Z)", re.IGNORECASE)


_SHAPE = re.compile(r"<(?:\w+:)?(?:path|rect|circle|ellipse|line|polyline|polygon|use|text)\b")
_UNSEEN = re.compile(r"<((?:\w+:)?(?:defs|clipPath|mask|symbol|marker|pattern))\b.*?</\1\s*>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Icon:
    """A target: the name of its file, its SVG, and the split it was published in, where there is one."""

    name: str
    svg: str
    split: Split | None = None


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


def shapes_of(svg: str) -> int:
    """How many shapes, lines and texts an SVG draws, those in definitions aside."""
    return len(_SHAPE.findall(_UNSEEN.sub("", svg)))


@functools.lru_cache(maxsize=16)
def icons_of(name: str, max_length: int, split: Split, fewest: int, most: int) -> tuple[Icon, ...]:
    """The icons of a split of `load_dataset` that have from `fewest` to `most` shapes."""
    return tuple(icon for icon in load_dataset(name, max_length).splits[split] if fewest <= shapes_of(icon.svg) <= most)


@functools.lru_cache(maxsize=4)
def load_dataset(name: str, max_length: int) -> Dataset:
    """The icons of a dataset that have at most `max_length` characters.

    A data set that comes in splits keeps them: what is published as test is never trained on. An icon that stands in
    several is in the last of train, val, test. A split that isn't published is taken from the published train by
    content, as all three are where nothing is published.

    Args:
        name: `"builtin"`: about 1,050 flat colour icons that come with this package. `"mono"`: Tabler's
            icons from the pip package pytablericons, black. Else a path: a folder of `.svg` files; a
            `.parquet` or `.jsonl` file with columns `Svg` and, if it has names, `Filename`; or a folder of
            such files or of Arrow files, as a Hugging Face dataset's repository or `save_to_disk` makes it.
        max_length: longer ones are left out.

    Raises:
        ConfigError: there is no such dataset, a file is damaged, or nothing in it can be used.
        MissingExtraError: a module that reads it isn't installed.
    """
    icons = [icon for icon in _read(name) if 0 < len(icon.svg) <= max_length and "<svg" in icon.svg]
    by_content: dict[bytes, Icon] = {}
    for icon in sorted(icons, key=lambda icon: (-_rank(icon.split), icon.name)):
        by_content.setdefault(content_of(icon.svg), icon)
    if not by_content:
        raise ConfigError(
            f"dataset={name!r} has no SVG of at most {max_length} characters; "
            "it needs .svg files, or .parquet, .arrow or .jsonl files with a column Svg"
        )
    published = {icon.split for icon in by_content.values() if icon.split is not None}
    splits: dict[Split, list[Icon]] = {split: [] for split in SPLITS}
    for content in sorted(by_content):
        icon = by_content[content]
        # Tabler draws one thing in several ways ("license", "license-off"): all in one split.
        key = b"tabler" + Path(icon.name).stem.split("-")[0].encode() if name == "mono" else content
        drawn = split_of(key)
        if icon.split not in (None, "train"):
            drawn = icon.split
        elif drawn in published:
            drawn = "train"
        splits[drawn].append(icon)
    contents = [
        content + (b"" if icon.split is None else b"\0" + icon.split.encode()) for content, icon in by_content.items()
    ]
    fingerprint = hashlib.sha256(b"\0".join(sorted(contents))).hexdigest()[:32]
    return Dataset(
        name if name in BUILT_IN else fingerprint, {split: tuple(of_split) for split, of_split in splits.items()}
    )


def _read(name: str) -> Iterator[Icon]:
    if name == "builtin":
        with gzip.open(Path(__file__).with_name("icons.jsonl.gz"), "rt", encoding="utf-8") as lines:
            yield from _icons(map(json.loads, lines), name)
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
    top = path if path.is_dir() else path.parent
    for file in files_below(path, (".svg", *SUFFIXES)) if path.is_dir() else [path]:
        if file.suffix == ".svg":
            svg = file.read_text(encoding="utf-8", errors="replace")
            yield Icon(file.relative_to(top).as_posix(), svg, _published(file.relative_to(top).parent))
        elif file.suffix in SUFFIXES:
            split = _published(file.relative_to(top))
            yield from _icons(rows(file, "svg", ConfigError, ("Filename", "Svg")), str(file), split)


def _rank(split: Split | None) -> int:
    return -1 if split is None else SPLITS.index(split)


def _published(path: Path) -> Split | None:
    """The split that a file's name, or a folder's, says; the innermost that says one."""
    for part in reversed(path.parts):
        if found := _PUBLISHED.match(part):
            return SPLITS[("train", "val", "test").index((found[1] or "val").lower())]
    return None


def _icons(rows: Iterable[Any], source: str, split: Split | None = None) -> Iterator[Icon]:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or "Svg" not in row:
            has = f"the columns {', '.join(row)}" if isinstance(row, Mapping) else f"a row {row!r:.40}"
            raise ConfigError(f"{source} has {has}; it needs Svg, and Filename for names")
        if isinstance(row["Svg"], str):
            yield Icon(str(row.get("Filename") or number), row["Svg"], split)
