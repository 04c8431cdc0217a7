"""Rows of data files: Parquet, the Arrow files of Hugging Face `datasets`, and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from vagen_envs.errors import MissingExtraError, VagenError

SUFFIXES = (".parquet", ".arrow", ".jsonl")


def files_below(folder: Path, suffixes: Collection[str] = SUFFIXES) -> list[Path]:
    """The files in a folder, and in its folders, that end so, in the order of their paths."""
    return sorted(path for path in folder.rglob("*") if path.suffix in suffixes and path.is_file())


def rows(file: Path, extra: str, failure: type[VagenError], columns: Collection[str] = ()) -> Iterator[Any]:
    """The rows of a file with one of `SUFFIXES`, one after the other.

    Args:
        file: an Arrow file is a stream, as `save_to_disk` of a Hugging Face data set makes it.
        extra: of this package, which brings pyarrow; told where that is missing.
        failure: what is raised for a file that can't be read.
        columns: those of a Parquet file that are read, where it has them; all if empty.

    Raises:
        MissingExtraError: pyarrow isn't installed.
    """
    if file.suffix == ".jsonl":
        with file.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    try:
                        yield json.loads(line)
                    except (ValueError, RecursionError) as error:
                        raise failure(f"{file} line {number} is not JSON ({error}); mend that line") from error
        return
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError(f"reading {file}", extra, "pyarrow") from error
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
