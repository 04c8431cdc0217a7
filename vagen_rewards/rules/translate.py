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
        "würfel", "roter", "grüner", "gelber", "blauer", "blaues", "weißer", "quadrat", "rechteck", "kreis", "dreieck",
        "zeichnung", "oben", "unten", "flagge",
    }
)  # fmt: skip
_GERMAN = re.compile(rf"\b(?:{'|'.join(GERMAN)})\b")
_ENGLISH = re.compile(r"\b(?:the|is|are|of|and|to|my)\b")
_WORD = re.compile(r"[^\W\d_]+")
_THERE_IS = re.compile(
    r"(?P<where>(?:(?:我|玩家|箱子|目标)的?)?正?[左右上下]+[方边侧面])"
    r"(?:也|还|都)*(?:有|是)(?:一个|个|另一个)?(?P<what>冰洞|洞|箱子|目标)"
)
"""In Chinese the place comes first: "to the right there is a hole"."""

_SIDE = r"正?(?:左上|右上|左下|右下|[左右上下])[方边侧面]"
_BOTH = re.compile(
    rf"(?P<whose>(?:我|玩家)的?)?(?P<one>{_SIDE})和(?P<two>{_SIDE})(?:各|都|均)*(?:有|是)(?:一个|个)?(?P<what>冰洞|洞)"
)
"""In "above and below there is a hole" there are two."""

_OF_A_THING = re.compile(
    r"(?:在|位于|处于)(?P<what>我|它|玩家|角色|箱子|目标(?:点|位置)?|终点|旗[子帜]|礼物|冰?洞|[红绿黄蓝紫]色?的?(?:方块|立方体)|苹果|抽屉|把手|[左右]侧?目标)"
    r"的?(?P<side>正?(?:左上|右上|左下|右下|[左右上下前后]))[方边侧面]"
)
"""In "is of the player the right side" the side comes last."""


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
        text = _BOTH.sub(_two, _ROW_COLUMN.sub(_row_and_column, text))
        text = _THERE_IS.sub(lambda match: f"一个{match['what']}在{match['where']}", text)
        if kind in ("sokoban", "frozen_lake"):
            text = _NEXT_CLAUSE.sub("；", text)
        if kind != "navigation":
            text = _OF_A_THING.sub(lambda match: f"在〔{match['side']}〕{match['what']}", text)
    left = pattern.sub(" ", text)
    if _WORD.search(left):
        return None
    return " ".join(pattern.sub(lambda match: table[match[0]], text).split()).replace(" 's", "'s")


_ROW_COLUMN = re.compile(r"第([0-9]|[一二三四五六七八])行[,，]?第([0-9]|[一二三四五六七八])列")
_NUMERALS = "零一二三四五六七八"


def _row_and_column(said: re.Match[str]) -> str:
    row, column = (each if each.isdecimal() else str(_NUMERALS.index(each)) for each in said.groups())
    return f"〔行〕{row}〔列〕{column}"


_NEXT_CLAUSE = re.compile(r"[，,](?=一个|另一个|玩家|我|箱子|目标|终点|旗|礼物|冰?洞)")
"""Before a clause with a subject of its own."""


def _two(said: re.Match[str]) -> str:
    whose, what = said["whose"] or "", said["what"]
    return f"一个{what}在{whose}{said['one']}，一个{what}在{whose}{said['two']}"
