"""Episodes as lines of a run folder, whose error texts hold no key."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import orjson

from vagen_benchmarks.runs.episode import Episode

SECRET = ("_API_KEY", "_TOKEN", "_SECRET", "_ACCESS_KEY")
"""How the names of environment variables end whose values are cut out of errors."""
SHORTEST_SECRET = 8
"""Characters below which a value is no secret but a word, such as `box` for a local server."""

Line = tuple[str, bool, str]
"""An episode's key, whether it has a score, and its JSON in one line."""


class Encoder:
    """Writes lines. Knows the keys that the environment holds when it is made."""

    def __init__(self) -> None:
        self._secrets = {
            value: name for name, value in os.environ.items() if name.endswith(SECRET) and len(value) >= SHORTEST_SECRET
        }

    def line(self, episode: Episode) -> Line:
        """An episode's."""
        return episode.key, episode.failure is None, in_a_line(self._without_keys(episode.to_json()))

    def _without_keys(self, data: dict[str, Any]) -> dict[str, Any]:
        """An episode whose error texts, its own and a judge's, hold no key. Its turns may be changed."""
        data["ended"] = {**data["ended"], "message": self.clean(data["ended"]["message"])}
        for turn in data["turns"] if self._secrets else ():
            reasons = {name: text for name, text in turn["metrics"].items() if name.endswith("_reason")}
            told = {name: self.clean(text) for name, text in reasons.items() if isinstance(text, str)}
            turn["metrics"] = {**turn["metrics"], **told}
        return data

    def clean(self, text: str) -> str:
        """Without any key of the environment's: an endpoint may echo it in an error. Replies are kept as they came."""
        for value, name in self._secrets.items():
            text = text.replace(value, f"[{name}]").replace(json.dumps(value)[1:-1], f"[{name}]")
        return text


def in_a_line(data: Mapping[str, Any]) -> str:
    """An episode's JSON in ASCII, NaN and infinity by name.

    orjson takes a sixth of the standard library's time, which was a tenth of a turn's. What it can't write, or writes
    otherwise, is written by the library: large integers, characters beyond ASCII, null in the place of NaN.
    """
    try:
        text = orjson.dumps(data, option=_AS_JSON)
    except TypeError:
        text = b""
    if text and text.isascii() and b"\x7f" not in text and text.count(b"null") == _nothings(data):
        return text.decode()
    return json.dumps(data, ensure_ascii=True, separators=(",", ":"))


_AS_JSON = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def _nothings(data: Mapping[str, Any]) -> int:
    """How often an episode says `None` where it may."""
    found = 0
    for turn in data["turns"]:
        found += [*turn["parsed"].values(), turn["observed"]["picture"], turn["result"]["picture"]].count(None)
    for call in data["calls"]:
        found += 1 if call is None else [*call.values()].count(None)
    return found
