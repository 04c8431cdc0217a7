"""What a server allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vagen_adapters.permission import Offers
from vagen_envs.registration import ENV_IDS


@dataclass(frozen=True, kw_only=True)
class ServiceConfig:
    """What a server allows.

    Attributes:
        env_ids: environments that may be opened.
        max_sessions: at once; one more is refused as `full`. There may be as many WebSockets.
        client_sessions: sessions of one key, or of one address where there is no key; by default an
            equal share of `max_sessions` for each key, and half of it for an address.
        lease: seconds without a request after which a session expires.
        trusted_proxies: addresses or networks of proxies whose `X-Forwarded-For` says who a client
            is. Of others the header isn't read.
        offers: values of options that clients may choose by name beyond what is permitted; see
            `vagen_adapters.permission`.
    """

    env_ids: Sequence[str] = ENV_IDS
    max_sessions: int = 1024
    client_sessions: int | None = None
    lease: float = 300.0
    trusted_proxies: Sequence[str] = ()
    offers: Offers = field(default_factory=dict)
