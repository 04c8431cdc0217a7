"""Rows of data files: Parquet, the Arrow files of Hugging Face `datasets`, and JSON lines."""

from __future__ import annotations

import codecs
import hashlib
import itertools
import json
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from vagen_envs.errors import VagenError
from vagen_envs.extras import need
from vagen_envs.seeding import SPLITS, Split, split_of

T = TypeVar("T")

SUFFIXES = (".parquet", ".arrow", ".jsonl")
"""Endings of the files that are read in a folder. A named file may also be a `.json` list."""

SplitBy = Literal["published", "content", "all"]
"""Whether data keeps its own splits, where it says any (`published`), is split by content, or
stands whole in every split (`all`), as a benchmark without splits does."""

# As Hugging Face's data sets and Boxoban name them: data/train-00000-of-00001.parquet, test.jsonl,
# valid/000.txt.
_SPLIT = re.compile(
    r"(train|val|test)(?:ing|id|idation)?(?=[-_.\d]|\Z)|(dev)(?=[-_.]|\Z)", re.IGNORECASE
)


def split_named(*names: str) -> Split | None:
    """The split that the last of some names says, such as the parts of a path; `None` if none
    does.
    """
    for name in reversed(names):
        if found := _SPLIT.match(name):
            return SPLITS[("train", "val", "test").index((found[1] or "val").lower())]
    return None


def split_of_file(file: Path, top: Path) -> Split | None:
    """The split that the name of a file says, or that of the innermost folder, up to `top`.

    A folder that the user named counts only if it is called just `test` or the like: `test_runs`
    says nothing.
    """
    if file == top:
        return split_named(file.name)
    whole = top.name if _SPLIT.fullmatch(top.name) else ""
    return split_named(whole, *file.relative_to(top).parts)


def files_below(folder: Path, suffixes: Collection[str] = SUFFIXES) -> list[Path]:
    """The files in a folder, and in its folders, that end so, in the order of their paths."""
    return sorted(path for path in folder.rglob("*") if path.suffix in suffixes and path.is_file())


def encoding_of(start: bytes) -> str:
    """The encoding of a text file that begins so: UTF-16 with its byte-order mark, else UTF-8,
    whose mark Windows' editors write and utf-8-sig takes off.
    """
    marked = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "utf-16" if marked else "utf-8-sig"


def rows(
    file: Path, extra: str, failure: type[VagenError], columns: Collection[str] = ()
) -> Iterator[Any]:
    """The rows of a file with one of `SUFFIXES`, or of a `.json` list, one after the other.

    Args:
        file: an Arrow file is a stream, as `save_to_disk` of a Hugging Face data set makes it.
        extra: of this package, which brings pyarrow; told where that is missing.
        failure: what is raised for a file that can't be read.
        columns: those of a Parquet file that are read, where it has them; all if empty.

    Raises:
        MissingExtraError: pyarrow isn't installed.
    """
    if file.suffix == ".jsonl":
        yield from _json_lines(file, failure)
        return
    if file.suffix == ".json":
        yield from _json_list(file, failure)
        return
    need(f"reading {file}", extra, "pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if file.suffix == ".parquet":
            with pq.ParquetFile(file) as table:
                wanted = [name for name in table.schema_arrow.names if name in columns] or None
                for batch in table.iter_batches(batch_size=256, columns=wanted):
                    yield from batch.to_pylist()
        else:
            with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as reader:
                for batch in reader:
                    yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise failure(f"{file} can't be read ({error}); write it again") from error


def _json_lines(file: Path, failure: type[VagenError]) -> Iterator[Any]:
    with file.open("rb") as start:
        encoding = encoding_of(start.read(2))
    with file.open(encoding=encoding, errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise failure(
                        f"{file} line {number} is not JSON ({error}); fix that line"
                    ) from error


def _json_list(file: Path, failure: type[VagenError]) -> list[Any]:
    try:
        data = file.read_bytes()
        found = json.loads(data.decode(encoding_of(data), errors="replace"))
    except (OSError, ValueError, RecursionError) as error:
        raise failure(f"{file} is not JSON ({error}); write it again") from error
    if not isinstance(found, list):
        raise failure(f"{file} holds one {type(found).__name__}, not a list of rows")
    return found


class DataItem(NamedTuple, Generic[T]):
    """An item of a data set.

    Attributes:
        value: the item itself.
        content: identifies it; items of equal content are the same.
        group: items of equal group share a split, where splits go by content.
        split: the split that the data says, where it says one.
    """

    value: T
    content: bytes
    group: bytes
    split: Split | None


@dataclass(frozen=True)
class DataSplits(Generic[T]):
    """The distinct items of a data set by split, in the order of the data.

    Attributes:
        fingerprint: of the contents and their splits.
        splits: each item is in exactly one, or in all of them.
    """

    fingerprint: str
    splits: dict[Split, tuple[T, ...]]

    @property
    def items(self) -> tuple[T, ...]:
        """Each item once."""
        by_identity = {id(item): item for item in itertools.chain(*self.splits.values())}
        return tuple(by_identity.values())


def distinct_by_split(
    items: Iterable[DataItem[T]], split_by: SplitBy, left_out: Counter[str]
) -> DataSplits[T]:
    """Leave out items that repeat another and put the rest into splits.

    An item in several published splits stays in the last of train, val, test: no test item is
    trained on. Items without a split are in train if others have one.

    Args:
        items: of the data.
        split_by: as for `SplitBy`; by content 80, 10 and 10 % are in train, val and test.
            Data without splits goes by content, or stands whole in every split if train would get
            nothing.
        left_out: counts the items that are left out, by reason.
    """
    kept: dict[bytes, DataItem[T]] = {}
    repeated = 0
    for item in items:
        known = kept.setdefault(item.content, item)
        repeated += known is not item
        if item.split and (not known.split or SPLITS.index(item.split) > SPLITS.index(known.split)):
            kept[item.content] = item
    left_out["the same as another"] += repeated
    places = place([(item.split, item.group) for item in kept.values()], split_by)
    splits: dict[Split, list[T]] = {split: [] for split in SPLITS}
    contents = []
    for item, standing in zip(kept.values(), places, strict=True):
        for split in standing:
            splits[split].append(item.value)
            contents.append(hashlib.sha256(item.content + split.encode()).digest())
    fingerprint = hashlib.sha256(b"".join(sorted(contents))).hexdigest()[:32]
    return DataSplits(fingerprint, {split: tuple(values) for split, values in splits.items()})


def place(
    items: Sequence[tuple[Split | None, bytes]], split_by: SplitBy
) -> list[tuple[Split, ...]]:
    """The splits that each item stands in: one, or all of them.

    Data of so few items that their content leaves train empty stands in all splits: somebody's one
    board can be played. `split_by="content"` asked for disjoint splits, and keeps to them.

    Args:
        items: the split that the data says for each, and its group; items of equal group share a
            split, where splits go by content.
        split_by: as for `SplitBy`.
    """
    if split_by == "published" and any(said for said, _ in items):
        return [(said or "train",) for said, _ in items]
    by_content = [(split_of(group),) for _, group in items]
    nothing_to_play = ("train",) not in by_content
    if split_by == "all" or (split_by == "published" and nothing_to_play):
        return [SPLITS] * len(items)
    return list(by_content)


def warn_of_left_out(name: str, kind: str, left_out: Counter[str], kept: int) -> None:
    """Warn once of the items that are left out, by reason."""
    if lost := left_out.total():
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
        warnings.warn(
            f"dataset={name!r}: {lost:,} of {lost + kept:,} {kind} left out: {reasons}",
            stacklevel=3,
        )
