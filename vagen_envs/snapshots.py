"""The bytes of a snapshot: a line that says of what it is, and JSON.

No pickle: bytes from outside are read as data and refused with one clear error.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from vagen_envs.errors import SnapshotError

VERSION = 2
"""Version of the form of a snapshot."""

_MAGIC = "vagen-snapshot"

UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError)
"""What reading data of another shape than expected raises."""


def heading(env_id: str, fingerprint: str) -> bytes:
    """The words before the checksum: equal for environments that may take over each other's snapshots."""
    return f"{_MAGIC} {VERSION} {env_id} {fingerprint} ".encode()


def pack(head: bytes, body: list[Any]) -> bytes:
    """A snapshot. Raises SnapshotError for what is no JSON."""
    try:
        rest = json.dumps(body, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError) as error:
        raise SnapshotError(f"this moment can't be written down as JSON ({error})") from error
    return b"%b%08x\n%b" % (head, zlib.crc32(rest), rest)


def unpack(head: bytes, snapshot: bytes) -> list[Any]:
    """The body. Raises SnapshotError if it is of something else, or damaged."""
    if not isinstance(snapshot, bytes):
        raise SnapshotError(f"a snapshot is bytes, not {type(snapshot).__name__}; pass what snapshot() gave")
    if not snapshot.startswith(head):
        raise SnapshotError(_why_not(head, snapshot))
    start = len(head) + 9
    rest = snapshot[start:]
    if snapshot[len(head) : start] != b"%08x\n" % zlib.crc32(rest):
        raise SnapshotError("the snapshot is damaged or cut off: its checksum is wrong; take a new one")
    try:
        body = json.loads(rest)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"the snapshot can't be read ({type(error).__name__}: {str(error)[:200]})") from error
    if type(body) is not list:
        raise SnapshotError(f"the snapshot can't be read (its body is a {type(body).__name__})")
    return body


def _why_not(head: bytes, snapshot: bytes) -> str:
    wanted = head.decode().split()
    found = snapshot[: len(head) + 200].partition(b"\n")[0].decode("ascii", "replace").split()
    if len(found) != 5 or found[0] != _MAGIC:
        return "these bytes are not a snapshot of an environment; pass what snapshot() gave"
    if found[1] != wanted[1]:
        return (
            f"this snapshot has form {found[1]:.20}, this version reads {wanted[1]}; "
            "restore it with the version of vagen-envs that took it"
        )
    if found[2] != wanted[2]:
        return f"this is a snapshot of {found[2]:.100}, not of {wanted[2]}; restore it in such an environment"
    return (
        f"this is a snapshot of {wanted[2]} with other options (fingerprint {found[3]:.16}, here {wanted[3]}); "
        "make the environment with the options that it had there"
    )
