"""API keys from environment variables, removed from text that is written to disk."""

from __future__ import annotations

import json
import os
from typing import Any

SECRET_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET", "_ACCESS_KEY")
"""Endings of the names of environment variables that hold keys."""
SHORTEST_SECRET = 8
"""Characters; a shorter value is a word such as `box`, which a local server may take as its key."""


def secrets() -> dict[str, str]:
    """The keys in the environment: value to the name of its variable."""
    return {
        value: name
        for name, value in os.environ.items()
        if name.endswith(SECRET_ENDINGS) and len(value) >= SHORTEST_SECRET
    }


def redact(text: str, keys: dict[str, str]) -> str:
    """Replace each key by the name of its variable. Endpoints may echo a key in an error."""
    for value, name in keys.items():
        text = text.replace(value, f"[{name}]").replace(json.dumps(value)[1:-1], f"[{name}]")
    return text


def redact_errors(episode: dict[str, Any], keys: dict[str, str]) -> dict[str, Any]:
    """Redact an episode's error message and its judges' reasons. Replies stay as the model wrote
    them.
    """
    episode["ended"] = {**episode["ended"], "message": redact(episode["ended"]["message"], keys)}
    for turn in episode["turns"] if keys else ():
        turn["metrics"] = {
            name: redact(value, keys)
            if name.endswith("_reason") and isinstance(value, str)
            else value
            for name, value in turn["metrics"].items()
        }
    return episode
