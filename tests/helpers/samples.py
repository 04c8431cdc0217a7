"""Samples as files, for the tests of what reads them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq


def as_arrow(sample):
    """A row for Arrow, which has no free dictionaries."""
    row = sample.to_row()
    row["reward_model"]["verifier_parm"] = json.dumps(row["reward_model"]["verifier_parm"])
    return {**row, "extra_info": json.dumps(row["extra_info"])}


def write_samples(samples, path):
    pq.write_table(pa.Table.from_pylist(list(map(as_arrow, samples))), path)
