"""Other languages, phrase by phrase in the readers' English: what has one unknown word is left alone."""

from __future__ import annotations

import functools
import re
from collections.abc import Set as AbstractSet

from vagen_rewards.rules.lexicon import language

_HAN = re.compile(r"[\u4e00-\u9fff]")
_NO_CHINESE = re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")
GERMAN = frozenset(
    {
        "der", "die", "das", "ist", "und", "vom", "von", "des", "dem", "den", "liegt", "ein", "eine", "einen", "einem",
        "einer", "eines", "kein", "zeigt", "sich", "ich", "mir", "sehe", "ziel", "links", "rechts", "spieler", "kiste",
        "kisten", "loch", "geschenk", "schublade",
    }
)  # fmt: skip
_GERMAN = re.compile(rf"\b(?:{'|'.join(GERMAN)})\b")
_ENGLISH = re.compile(r"\b(?:the|is|are|of|and|to|my)\b")
_WORD = re.compile(r"[^\W\d_]+")
_THERE_IS = re.compile(
    r"(?P<where>(?:(?:我|玩家|箱子|目标)的)?正?[左右上下]+[方边侧面])"
    r"(?:也|还|都)*有(?:一个|个|另一个)?(?P<what>洞|冰洞|箱子|目标)"
)
"""In Chinese the place comes first: "to the right there is a hole"."""


def language_of(text: str, words: AbstractSet[str]) -> str:
    """`en`, `de`, `zh`, or nothing for a script that isn't read. What isn't plainly another is taken for English.

    Args:
        text: in lower case.
        words: that are in it.
    """
    if not text.isascii():
        if _NO_CHINESE.search(text):
            return ""
        if _HAN.search(text):
            return "zh"
    if GERMAN.isdisjoint(words):
        return "en"
    german = len(_GERMAN.findall(text))
    return "de" if german >= 2 and german > len(_ENGLISH.findall(text)) else "en"


@functools.cache
def _table(name: str, kind: str) -> tuple[dict[str, str], re.Pattern[str]]:
    data = language(name)
    table = {**data["phrases"], **data.get(kind, {})}
    longest = sorted(table, key=len, reverse=True)
    spaced = "|".join(map(re.escape, longest))
    return table, re.compile(rf"\b(?:{spaced})\b" if name != "zh" else spaced)


def in_english(name: str, kind: str, text: str) -> str | None:
    """A sentence in the readers' words; `None` if one of its words isn't known.

    Args:
        name: of the language.
        kind: of the states that are spoken of.
        text: the sentence.
    """
    table, pattern = _table(name, kind)
    text = text.lower()
    if name == "zh":
        text = _THERE_IS.sub(lambda match: f"一个{match['what']}在{match['where']}", text)
    left = pattern.sub(" ", text)
    if _WORD.search(left):
        return None
    return " ".join(pattern.sub(lambda match: table[match[0]], text).split()).replace(" 's", "'s")
