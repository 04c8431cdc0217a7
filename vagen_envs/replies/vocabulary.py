"""Words of answers by the part they have in one, from `vocabulary.toml`."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files

_VOCABULARY = tomllib.loads(files("vagen_envs.replies").joinpath("vocabulary.toml").read_text(encoding="utf-8"))
_WORDS = {part: frozenset(words.split()) for part, words in _VOCABULARY["words"].items()}
NEUTRAL, DOUBT, DENIAL, REASON = _WORDS["neutral"], _WORDS["doubt"], _WORDS["denial"], _WORDS["reason"]
VERDICTS, CAPTIONS, CHOICE, CONCLUSION = _WORDS["verdict"], _WORDS["caption"], _WORDS["choice"], _WORDS["conclusion"]
CONDITION, BE, MOVING, THINGS = _WORDS["condition"], _WORDS["be"], _WORDS["moving"], _WORDS["things"]
LABELS, ORDER = _WORDS["labels"], _WORDS["order"]
NUMBERS = {word: number for number, word in enumerate(_VOCABULARY["words"]["numbers"].split(), 1)}
SEVERAL = "|".join([*NUMBERS][1:])
"""The words for numbers from two on, as a part of an expression."""
ASIDES: list[str] = _VOCABULARY["asides"]
CROSSES, TICKS = "❌✗✘🚫⛔❎☒", "✅✔☑"
ANSWER_TAGS, THINKING_TAGS = frozenset(_VOCABULARY["tags"]["answer"]), tuple(_VOCABULARY["tags"]["thinking"])
AFTER_REJECTED: list[str] = _VOCABULARY["rejection"]["after"]
BEFORE_REJECTED: list[str] = _VOCABULARY["rejection"]["before"]
TEMPLATE_TOKENS: list[str] = _VOCABULARY["templates"]["tokens"]
THOUGHT_MARKS: list[tuple[str, str]] = _VOCABULARY["templates"]["thoughts"]
SYNONYMS: dict[str, str] = _VOCABULARY["synonyms"]
ARROWS = {arrow: name for name, arrows in _VOCABULARY["arrows"].items() for arrow in arrows}
ONE_ARROW = {name: arrows[0] for name, arrows in _VOCABULARY["arrows"].items()}


def is_doubtful(piece: str) -> bool:
    """Whether a piece of an answer speaks of a choice, a denial or a retraction."""
    return "?" in piece or not (DOUBT | DENIAL).isdisjoint(words_of(piece))


def is_rejected(piece: str) -> bool:
    """Whether a piece of an answer is doubtful or gives a verdict on an action, such as "blocked"."""
    return is_doubtful(piece) or not (VERDICTS | {"after", "before"}).isdisjoint(words_of(piece))


def words_of(piece: str) -> list[str]:
    """The words of a text in lower case."""
    return re.findall(r"[\w']+", piece.casefold().replace("’", "'"))
