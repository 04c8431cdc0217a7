"""Words of answers by the part they have in one, from `vocabulary.toml`."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files

_VOCABULARY = tomllib.loads(files("vagen_envs.replies").joinpath("vocabulary.toml").read_text(encoding="utf-8"))
NEUTRAL, DOUBT, DENIAL, REASON, VERDICTS, CAPTIONS = (
    frozenset(_VOCABULARY[part].split()) for part in ("neutral", "doubt", "denial", "reason", "verdict", "caption")
)
SYNONYMS: dict[str, str] = _VOCABULARY["synonyms"]
ARROWS = {arrow: name for name, arrows in _VOCABULARY["arrows"].items() for arrow in arrows}
ONE_ARROW = {name: arrows[0] for name, arrows in _VOCABULARY["arrows"].items()}


def is_doubtful(piece: str) -> bool:
    """Whether a piece of an answer speaks of a choice, a denial or a retraction."""
    return "?" in piece or not (DOUBT | DENIAL).isdisjoint(_words(piece))


def is_rejected(piece: str) -> bool:
    """Whether a piece of an answer is doubtful or gives a verdict on an action, such as "blocked"."""
    return is_doubtful(piece) or not VERDICTS.isdisjoint(_words(piece))


def _words(piece: str) -> list[str]:
    return re.findall(r"[\w']+", piece.casefold())
