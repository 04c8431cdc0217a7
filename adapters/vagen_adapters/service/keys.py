"""Who may use a server, and what each of them holds of it.

A key is a tenant: it sees no session of another one, and what it holds is bounded, so that one that asks for
everything leaves the others theirs.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Holder:
    """Who shows a key; all who come, where there is none.

    Attributes:
        sessions: that it has open.
        held: bytes of its sessions' latest answers and pictures.
        reading: bytes of requests that have begun to come.
    """

    sessions: int = 0
    held: int = 0
    reading: int = 0


class Keys:
    """The keys of a server.

    Args:
        text: one, or several with commas between them; empty for none.
    """

    def __init__(self, text: str) -> None:
        self._holders = {f"Bearer {each.strip()}".encode(): Holder() for each in text.split(",") if each.strip()}
        self._everyone = None if self._holders else Holder()

    def __bool__(self) -> bool:
        return bool(self._holders)

    def __len__(self) -> int:
        return len(self._holders)

    def holder(self, authorization: str) -> Holder | None:
        """Whose key this header shows; None if it is none of them."""
        shown = authorization.encode("utf-8", "surrogateescape")
        found = self._everyone
        for key, holder in self._holders.items():  # all of them: the time says nothing
            if hmac.compare_digest(shown, key):
                found = holder
        return found
