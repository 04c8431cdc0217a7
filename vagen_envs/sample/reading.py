"""Samples from files: Parquet, Arrow files of Hugging Face `datasets`, JSON and JSON lines."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from vagen_envs import tables
from vagen_envs.errors import ConfigError, SampleError
from vagen_envs.sample.columns import check_columns, sample_row
from vagen_envs.sample.schema import Sample, sample_from_row
from vagen_envs.seeding import Split
from vagen_envs.tables import DataItem, DataSplits, SplitBy


def read_samples(path: str | Path, columns: Mapping[str, str] | None = None) -> Iterator[Sample]:
    """The samples of a file or folder, one after the other, in the order of file names and rows.

    Args:
        path: a `.parquet`, `.arrow`, `.jsonl` or `.json` file, or a folder of the first three, as
            the repository of a Hugging Face data set or its `save_to_disk` makes it. Relative paths
            of pictures begin in the file's folder.
        columns: the rows' columns as parts of a sample, for rows in another schema
            (`vagen_envs.sample.columns`).

    Raises:
        SampleError: a row isn't a sample, or a file is damaged.
        MissingExtraError: pyarrow isn't installed.
    """
    return (sample for sample, _ in _samples_with_splits(path, columns or {}))


def _samples_with_splits(
    path: str | Path, columns: Mapping[str, str]
) -> Iterator[tuple[Sample, Split | None]]:
    check_columns(columns)
    top = Path(path).expanduser()
    if not top.exists():
        raise SampleError(f"{top} is neither a file nor a folder; correct the path")
    files = [top] if top.is_file() else tables.files_below(top)
    if not files or (top.is_file() and top.suffix not in (*tables.SUFFIXES, ".json")):
        raise SampleError(
            f"{top} has no samples; it needs {', '.join(tables.SUFFIXES)} files, or give the path "
            "of a .json list itself"
        )
    if not any(file.stat().st_size for file in files):
        raise SampleError(f"{top} is empty; write a sample into it")
    pictures = [column for column, part in columns.items() if part == "images"]
    count = 0
    has_pictures = not pictures
    for file in files:
        split = tables.split_of_file(file, top)
        for number, row in enumerate(tables.rows(file, "verify", SampleError)):
            where = f"{file} row {number}"
            fields = sample_row(row, columns, file.stem, where) if columns else row
            count += 1
            has_pictures = has_pictures or pictures[0] in row
            yield sample_from_row(fields, where, file.parent), split
    if not count:
        raise SampleError(f"{top} is empty: no file has a row; write a sample into it")
    if not has_pictures:
        raise SampleError(f"{top}: no row has the column {pictures[0]!r}; correct columns")


@dataclass(frozen=True)
class SampleSet(DataSplits[Sample]):
    """Samples by split.

    Attributes:
        size: height and width that every sample's pictures fit into, side by side.
    """

    size: tuple[int, int]


@functools.lru_cache(maxsize=2)
def load_sample_set(
    path: str,
    split_by: SplitBy,
    sources: tuple[str, ...],
    max_side: int,
    max_question: int,
    columns: tuple[tuple[str, str], ...] = (),
) -> SampleSet:
    """All samples of a file or folder, held in memory with their encoded pictures.

    Args:
        path: as for `read_samples`.
        split_by: `published` keeps the splits that files and folders are named after, and goes by
            content where there are none; `content` puts 80, 10 and 10 % of all pictures into train,
            val and test; `all` puts every sample into every split.
        sources: the data sources that are kept; all if empty.
        max_side: the longest side in pixels of a sample's pictures, side by side; larger samples
            are left out.
        max_question: the most characters of a question.
        columns: as for `read_samples`, as pairs.

    Raises:
        ConfigError: nothing is left.
        SampleError: as for `read_samples`.
    """
    limits = f"larger than max_side={max_side} pixels or {max_question} characters"
    left_out = Counter[str]()
    seen = set[str]()

    def usable() -> Iterator[DataItem[Sample]]:
        for sample, split in _samples_with_splits(path, dict(columns)):
            seen.add(sample.data_source)
            if sources and sample.data_source not in sources:
                continue
            if max(sheet_size(sample)) > max_side or len(sample.question) > max_question:
                left_out[limits] += 1
                continue
            yield DataItem(
                sample, hashlib.sha256(sample.content).digest(), sample.picture_key, split
            )

    found = tables.distinct_by_split(usable(), split_by, left_out)
    kept = found.items
    if not kept:
        raise ConfigError(
            f"dataset={path!r} has no sample left: {left_out[limits]} are {limits}, "
            f"sources={sources!r} of {', '.join(sorted(seen)) or 'none'}; choose others"
        )
    tables.warn_of_left_out(path, "samples", left_out, len(kept))
    heights, widths = zip(*map(sheet_size, kept), strict=True)
    return SampleSet(found.fingerprint, found.splits, (max(heights), max(widths)))


GAP = 8
"""Pixels between two pictures of one sample."""


def sheet_size(sample: Sample) -> tuple[int, int]:
    """Height and width of the sample's pictures side by side; at least 1 × 1."""
    sizes = [image.size for image in sample.images]
    width = sum(size[0] for size in sizes) + GAP * max(0, len(sizes) - 1)
    return max([1, *(size[1] for size in sizes)]), max(1, width)
