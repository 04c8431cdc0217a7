"""Finding a Ray cluster, without Ray's library: it takes two seconds to load, and two minutes to miss a cluster."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from pathlib import Path

from vagen_adapters.errors import ServiceError

REACH = 2.0
"""Seconds in which a control process must take a connection."""
CURRENT = "ray/ray_current_cluster"
"""File under the folder for temporary files in which `ray start` leaves the address of its cluster."""

MEND = "start one (`ray start --head`) or give its --address"


def takes_connections(address: str) -> bool:
    """Whether a process listens at `host:port`."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError, ValueError), socket.create_connection((host.strip("[]"), int(port)), REACH):
        return True
    return False


def find_cluster(address: str = "auto") -> str:
    """The address for `ray.init`, of a cluster that takes connections.

    Args:
        address: `host:port` of the control process, `ray://…` of a client server, or `auto` for the cluster that this
            machine is in.

    Raises:
        ServiceError: nothing answers there.
    """
    known = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    if not known:
        current = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir())) / CURRENT
        known = current.read_text().strip() if current.exists() else ""
    if not known:
        raise ServiceError("no_cluster", f"this machine is in no Ray cluster; {MEND}")
    if not takes_connections(known.removeprefix("ray://")):
        raise ServiceError("no_cluster", f"no Ray cluster answers at {known}; {MEND}")
    return known
