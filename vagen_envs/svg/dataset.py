"""Where target pictures come from, and which split each belongs to."""

from __future__ import annotations

import functools
import gzip
import importlib.metadata
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vagen_envs import tables
from vagen_envs.errors import ConfigError, SvgError, shown
from vagen_envs.extras import need
from vagen_envs.seeding import Split
from vagen_envs.tables import DataItem, DataSplits, SplitBy

BUILT_IN = ("builtin", "mono")
_COLUMNS = ("Filename", "filename", "Svg", "svg", "SVG", "Split", "split")

_SHAPE = re.compile(r"<(?:\w+:)?(?:path|rect|circle|ellipse|line|polyline|polygon|use|text)\b")
_UNSEEN = re.compile(
    r"<((?:\w+:)?(?:defs|clipPath|mask|symbol|marker|pattern))\b.*?</\1\s*>", re.DOTALL
)


class Icon(NamedTuple):
    """A target: the name of its file, its SVG, and the split it was published in, where there is
    one.
    """

    name: str
    svg: str
    split: Split | None = None


def content_of(svg: str) -> bytes:
    """The text of an icon, white space aside, which identifies it."""
    return b"svg" + " ".join(svg.split()).encode("utf-8", "surrogatepass")


def shapes_of(svg: str) -> int:
    """How many shapes, lines and texts an SVG draws, those in definitions aside."""
    return len(_SHAPE.findall(_UNSEEN.sub("", svg)))


@functools.lru_cache(maxsize=16)
def icons_of(
    name: str, max_length: int, split_by: SplitBy, split: Split, fewest: int, most: int
) -> tuple[Icon, ...]:
    """The icons of a split of `load_dataset` that have from `fewest` to `most` shapes."""
    icons = load_dataset(name, max_length, split_by).splits[split]
    return tuple(icon for icon in icons if fewest <= shapes_of(icon.svg) <= most)


@functools.lru_cache(maxsize=4)
def load_dataset(name: str, max_length: int, split_by: SplitBy = "published") -> DataSplits[Icon]:
    """The icons of a dataset, by split. One warning counts those that are left out.

    Args:
        name: `"builtin"`: about 1,050 flat colour icons that come with this package. `"mono"`:
            Tabler's icons from the pip package pytablericons, black. Else a path: a folder of
                `.svg` files; a
            `.parquet` or `.jsonl` file with a column `Svg` and, if there are, `Filename` and
            `split`; or a folder of such files or of Arrow files, as a Hugging Face dataset's
            repository or `save_to_disk` makes it.
        max_length: the most characters of an icon.
        split_by: `published` takes the splits from the column `split`, or the names of files and
            folders, and goes by content where nothing says one; `content` puts 80, 10 and 10 % of
            all icons into train, val and test; `all` puts every icon into every split.

    Raises:
        ConfigError: there is no such dataset, a file is damaged, or nothing in it can be used.
        MissingExtraError: a module that reads it isn't installed.
    """
    left_out: Counter[str] = Counter()

    def usable() -> Iterator[DataItem[Icon]]:
        for icon in _read(name):
            if len(icon.svg) > max_length:
                left_out[f"longer than max_target_length={max_length}"] += 1
            elif "<svg" not in icon.svg:
                left_out["without <svg"] += 1
            elif name != "builtin" and (reason := _not_drawn(icon.svg)):
                left_out[reason] += 1
            else:
                content = content_of(icon.svg)
                # Tabler draws one thing in several ways ("license", "license-off"): all in one
                # split.
                group = content
                if name == "mono":
                    group = b"tabler" + Path(icon.name).stem.split("-")[0].encode()
                yield DataItem(icon, content, group, icon.split)

    dataset = tables.distinct_by_split(usable(), split_by, left_out)
    kept = len(dataset.items)
    if not kept:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
        raise ConfigError(
            f"dataset={name!r} has no SVG of at most {max_length} characters "
            f"({reasons or 'it is empty'}); it needs .svg files, or .parquet, .arrow or .jsonl "
            "files with a column Svg"
        )
    if name in BUILT_IN:
        return DataSplits(name, dataset.splits)
    tables.warn_of_left_out(name, "icons", left_out, kept)
    return dataset


def _not_drawn(svg: str) -> str:
    """Why an icon can't be a target, as far as that is seen without drawing it; 0.05 ms each."""
    from vagen_envs.svg.check import clean  # of an extra

    try:
        clean(svg)
    except SvgError:
        return "that can't be drawn"
    return "" if shapes_of(svg) or "<image" in svg else "without a shape"


def _read(name: str) -> Iterator[Icon]:
    if name == "builtin":
        with gzip.open(Path(__file__).with_name("icons.jsonl.gz"), "rt", encoding="utf-8") as lines:
            yield from _icons(map(json.loads, lines), name)
        return
    path = Path(name).expanduser()
    if name == "mono":
        need('dataset="mono"', "svg-mono", "pytablericons")
        path = Path(
            str(importlib.metadata.distribution("pytablericons").locate_file("pytablericons/icons"))
        )
    if not path.exists():
        raise ConfigError(
            f"dataset={name!r} is neither {' nor '.join(map(repr, BUILT_IN))} nor a file or folder"
        )
    for file in tables.files_below(path, (".svg", *tables.SUFFIXES)) if path.is_dir() else [path]:
        if file.suffix == ".svg":
            # Its folder may be a split; its own name says nothing.
            split = None if file == path else tables.split_of_file(file.parent / "_", path)
            place = file.name if file == path else file.relative_to(path).as_posix()
            data = file.read_bytes()
            yield Icon(place, data.decode(tables.encoding_of(data), errors="replace"), split)
        elif file.suffix in tables.SUFFIXES:
            rows = tables.rows(file, "svg", ConfigError, _COLUMNS)
            yield from _icons(rows, str(file), tables.split_of_file(file, path))


def _icons(rows: Iterable[Any], source: str, split: Split | None = None) -> Iterator[Icon]:
    for number, row in enumerate(rows):
        cells = (
            {name.lower(): value for name, value in row.items()} if isinstance(row, Mapping) else {}
        )
        if "svg" not in cells:
            raise ConfigError(
                f"{source} has the row {shown(row)}; it needs Svg, and Filename for names"
            )
        named = tables.split_named(str(cells.get("split")))
        yield Icon(str(cells.get("filename") or number), str(cells["svg"]), named or split)
