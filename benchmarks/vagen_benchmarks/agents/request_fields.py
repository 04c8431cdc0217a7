"""Further fields of a chat request, which the user asks for with `--extra`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.redaction import filled, withheld_names

OWN = frozenset(
    {
        "messages",
        "model",
        "stream",
        "n",
        "system",
        "contents",
        "max_tokens",
        "max_completion_tokens",
    }
)
"""Fields of a request that the protocol and the budget rely on."""


def check_fields(extra: Mapping[str, Any]) -> None:
    """Raise ProtocolError for a field that the run sets itself."""
    for name in OWN & extra.keys():
        fix = "use --max-tokens" if "tokens" in name else "leave it out"
        raise ProtocolError(f"--extra {name} can't be set, because the run sets it; {fix}")


def sent_fields(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Further fields of a request, as they are sent. Raises ProtocolError for a secret that isn't
    there.
    """
    for name in withheld_names(extra):
        raise ProtocolError(
            f"{name} is a secret, which no run folder holds; give it again: --extra {name}=…"
        )
    try:
        return filled(extra)
    except (KeyError, ValueError) as error:
        raise ProtocolError(
            f"--extra names an environment variable that isn't set ({error}); set it, or write $$ "
            "for a dollar sign"
        ) from error
