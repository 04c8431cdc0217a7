"""Tenants: the keys of a server, or the addresses of its clients where there is no key."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from weakref import WeakValueDictionary


@dataclass(slots=True, eq=False, weakref_slot=True)
class Tenant:
    """One client of a server, with its open sessions and WebSockets. Tenants can't reach each
    other's sessions.
    """

    sessions: int = 0
    connections: int = 0


class Tenants:
    """All tenants of a server.

    Args:
        keys: one key, or several separated by commas; empty for a server without keys.
        max_sessions: of the server.
        share: sessions (and WebSockets) of one tenant. By default an equal part for each key;
            without keys half of all, so that a single address can't occupy the server.
    """

    def __init__(self, keys: str, max_sessions: int, share: int | None = None) -> None:
        self._by_key = {
            f"Bearer {key.strip()}".encode(): Tenant() for key in keys.split(",") if key.strip()
        }
        self._by_address: WeakValueDictionary[str, Tenant] = WeakValueDictionary()
        self.has_keys = bool(self._by_key)
        self.share = share or max(1, max_sessions // (len(self._by_key) or 2))

    def find(self, authorization: str, host: str) -> Tenant | None:
        """The tenant of a request by its Authorization header and the client's address; None for a
        wrong key.
        """
        if not self._by_key:
            return self._by_address.setdefault(network(host), Tenant())
        given = authorization.encode("utf-8", "surrogateescape")
        found = None
        # Compare with all: the time taken must not depend on which one fits.
        for (
            key,
            tenant,
        ) in self._by_key.items():
            if hmac.compare_digest(given, key):
                found = tenant
        return found


def network(host: str) -> str:
    """The network that counts as one client: one machine has all of 127.0.0.0/8, and usually a
    whole IPv6 /64.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_loopback:
        return "loopback"
    return str(ipaddress.ip_network((host, 64), strict=False)) if address.version == 6 else host
