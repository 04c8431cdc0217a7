"""Roundabout wordings in plain ones, before a sentence about a board is read."""

# ruff: noqa: E501  # long patterns

from __future__ import annotations

import functools
import re

from vagen_rewards.rules.modality import mentions
from vagen_rewards.rules.patterns import BOARD_NOUNS

_REACHED = re.compile(
    r"\b(?:can|could|may|will|would) be (?:reached|found|got to) by (?:moving|going|heading|walking|stepping|travelling|traveling) "
)
"""In "the goal can be reached by moving two up" it is two up."""

_NOT_A_HOLE = re.compile(
    r"\b(?P<free>ice|frozen|safe|free|clear|empty|walkable|open)(?: (?:tile|ice|cell|square|floor))?"
    r"(?:,| and| -)+ ?(?:it is )?not an? (?:[a-z]+ )??(?:hole|pit|wall|box|obstacle|trap)\b"
)
_ROW_OF = re.compile(
    r"\b(?:in|on|along) (?:(?P<me>my)|(?:the )?(?P<who>[a-z]+)'s)(?: own| current| same)? (?P<line>row|column)\b"
)
_LETTERS = {"p": "player", "a": "player", "b": "box", "h": "hole", "t": "target", "g": "goal"}
_LETTERED = re.compile(r"(?<![a-z0-9])([pabhtg]) ?[=:@] ?(?=[(\[] ?\d)")


_NO_STEP = re.compile(r",? ?(?:and )?(?:\b0 (?:up|down|left|right)|\b(?:up|down|left|right) 0)\b")


def simpler(board: str, words: str) -> str:
    """A lower-case sentence with what is meant for what is said in a roundabout way."""
    if " by " in words and "reached" in words:
        words = _REACHED.sub("is ", words)
    if "0" in words:
        words = _NO_STEP.sub("", words)
    if "not a" in words:
        words = _NOT_A_HOLE.sub(r"\g<free>", words)
    if mentions(words, ("'s ", "my ")) and mentions(words, (" row", " column")):
        words = _ROW_OF.sub(_same_line, words)
    if mentions(words, ("=", ":", "@")) and mentions(words, ("(", "[")):
        words = _LETTERED.sub(lambda match: _name(board, match), words)
    return words


def _same_line(said: re.Match[str]) -> str:
    who = "me" if said["me"] else f"the {said['who']}"
    return f"in the same {said['line']} as {who}"


@functools.lru_cache(maxsize=64)
def _meant(board: str, letter: str) -> str:
    name = _LETTERS[letter]
    return name if any(re.fullmatch(names, name) for names in BOARD_NOUNS[board].values()) else ""


def _name(board: str, said: re.Match[str]) -> str:
    name = _meant(board, said[1])
    return f"{name} at " if name else said[0]
