"""Rows as a Parquet file, with the metadata by which `datasets` decodes pictures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.results.cell import OWN_METRICS

CALL = (
    "ending",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "dollars",
    "served",
    "fingerprint",
)
"""What a turn's row says of its call."""
BATCH = 200
"""Rows written at a time, so that memory doesn't grow with the run."""
HUGGING_FACE = Path(__file__).parent / "chat_features.json"
"""What `datasets` reads from a Parquet file's metadata to know that `images` are pictures."""


def write_parquet(rows: Iterator[dict[str, Any]], path: Path, *, chat: bool) -> int:
    """Write rows of turns, or of chat samples, and return how many there are.

    Raises:
        ProtocolError: pyarrow isn't installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ProtocolError(
            f"{path} needs the Python module {error.name!r}. Install it with: pip install "
            '"vagen-envs[export]", or write .jsonl'
        ) from error
    schema = _chat_schema(pa) if chat else _turns_schema(pa)
    # Made only now: without pyarrow no folder is left behind.
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(itertools.islice(rows, BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema))
            count += len(batch)
    return count


def _turns_schema(pa: Any) -> Any:
    kinds = {
        pa.string(): (
            "agent",
            "task",
            "split",
            "reply",
            "rewards",
            "metrics",
            "ended",
            "before",
            "after",
            "ending",
            "served",
            "fingerprint",
        ),
        pa.int64(): ("seed", "repeat", "turn", *(name for name in CALL if name.endswith("tokens"))),
        pa.float64(): ("reward", "dollars"),
        pa.bool_(): (
            "well_formed",
            *sorted(OWN_METRICS),
            "terminated",
            "truncated",
            "tokens_counted_by_us",
        ),
        pa.list_(pa.string()): ("executed", "problems"),
    }
    return pa.schema([(name, kind) for kind, names in kinds.items() for name in names])


def _chat_schema(pa: Any) -> Any:
    part = pa.struct([("type", pa.string()), ("text", pa.string())])
    message = pa.struct([("role", pa.string()), ("content", pa.list_(part))])
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    fields = [
        ("messages", pa.list_(message)),
        ("images", pa.list_(image)),
        ("agent", pa.string()),
        ("task", pa.string()),
        ("split", pa.string()),
        ("seed", pa.int64()),
        ("success", pa.bool_()),
        ("return", pa.float64()),
    ]
    columns_as_features = HUGGING_FACE.read_text(encoding="utf-8")
    return pa.schema(fields, metadata={"huggingface": columns_as_features})
