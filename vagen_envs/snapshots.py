"""The bytes of a snapshot: a header line, a checksum and JSON."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

from vagen_envs.errors import SnapshotError

VERSION = 3
"""Version of the form of a snapshot."""
MAGIC = "vagen-snapshot"


def generator_at(seed: Any, state: Any) -> np.random.Generator:
    """Gymnasium's generator in this state. Raises ValueError, TypeError or OverflowError if it
    can't be.
    """
    generator = np.random.PCG64(0)
    generator.state = state
    # -1 is the seed of a generator that the user set; NumPy rounds numbers that aren't whole
    if type(seed) is not int or seed < -1 or generator.state != state:
        raise ValueError("a seed or generator that can't be")
    return np.random.Generator(generator)


def packed(head: bytes, body: list[Any]) -> bytes:
    """The bytes of a snapshot. Raises SnapshotError for what JSON can't hold."""
    try:
        rest = json.dumps(body, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError) as error:
        raise SnapshotError(f"this moment can't be written down as JSON ({error})") from error
    return b"%b%08x\n%b" % (head, zlib.crc32(rest), rest)


def unpacked(head: bytes, snapshot: bytes) -> list[Any]:
    """The body. Raises SnapshotError if the heading is another one, or the bytes are damaged."""
    if not isinstance(snapshot, bytes):
        raise SnapshotError(
            f"a snapshot is bytes, not {type(snapshot).__name__}; pass what snapshot() gave"
        )
    if not snapshot.startswith(head):
        raise SnapshotError(_why_not(head, snapshot))
    start = len(head) + 9
    rest = snapshot[start:]
    if snapshot[len(head) : start] != b"%08x\n" % zlib.crc32(rest):
        raise SnapshotError(
            "the snapshot is damaged or cut off: its checksum is wrong; take a new one"
        )
    try:
        body = json.loads(rest)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(
            f"the snapshot can't be read ({type(error).__name__}: {str(error)[:200]})"
        ) from error
    if type(body) is not list:
        raise SnapshotError(f"the snapshot can't be read (its body is a {type(body).__name__})")
    return body


def _why_not(head: bytes, snapshot: bytes) -> str:
    wanted = head.decode().split()
    found = snapshot[: len(head) + 200].partition(b"\n")[0].decode("ascii", "replace").split()
    if len(found) != 5 or found[:2] != wanted[:2]:
        return (
            f"these bytes are not a snapshot of form {VERSION}; pass what this version's "
            "snapshot() gave"
        )
    if found[2] != wanted[2]:
        return (
            f"this is a snapshot of {found[2]:.100}, not of {wanted[2]}; restore it in such an "
            "environment"
        )
    return (
        f"this is a snapshot of {wanted[2]} with other options (fingerprint {found[3]:.16}, here "
        f"{wanted[3]}); make the environment with the options that it had there"
    )
