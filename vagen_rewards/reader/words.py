"""Words of a text by class: the first half of the reader. The classes are in `lexicon.toml`."""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from vagen_rewards.reader.claims import Span

_NUMERALS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
NUMBERS = {name: number for number, name in enumerate(_NUMERALS)}
_WORD = re.compile(
    r"\(\s*\d+\s*,\s*\d+\s*\)|n't\b|'(?:s|ll|re|m|ve)\b|[a-z_]+?(?=n't\b)|[a-z_]+[0-9]*|-?\d+(?:\.\d+)?|\n+|[^\s\w]"
)
_LOOSE = str.maketrans('’*`#$“”"–—{}', "'       --  ")
_HYPHEN = re.compile(r"(?<=[a-z])-(?=[a-z])|  +")
_MINE = ("i", "me", "my", "we", "us", "our", "myself")
_NAMES = ("character", "player", "agent", "avatar")
_TOKEN = re.compile(r"[a-z]+|[^ a-z]")
_EDGE = r"(?:(?<!\w)|(?!\w))"
_LABEL = re.compile(r"([a-z_]+?)_?(\d+)")
_CORRECTED = ("thing", "direction", "exactly")


class Word(NamedTuple):
    """A word or a phrase, and its characters in the text."""

    kind: str  # its class in the lexicon; `number`, `unit`, `direction`, `thing`, `end`, `comma` or `unknown`
    value: Any  # the direction, thing, unit or number; else the text
    span: Span
    plural: bool = False  # whether a thing's name is
    label: str = (
        ""  # `0` in `box0`; `word` of a number that isn't in digits; `me` in the first person
    )


@functools.cache
def lexicon() -> dict[str, Any]:
    """The file's tables."""
    return tomllib.loads(
        files("vagen_rewards.reader").joinpath("lexicon.toml").read_text(encoding="utf-8")
    )


@functools.cache
def phrases(kind: str) -> dict[tuple[str, ...], tuple[str, Any, bool]]:
    """Each phrase that is known about states of this kind: its class, its value, and whether it is plural."""
    tables, found = lexicon(), dict[tuple[str, ...], tuple[str, Any, bool]]()

    def add(text: str, name: str, value: Any, plural: bool = False) -> None:
        found[tuple(_WORD.findall(text))] = (name, value, plural)

    for name, words in [
        *tables["classes"].items(),
        *tables.get(kind, {}).get("classes", {}).items(),
    ]:
        for text in words:
            add(text, name, text)
    own = [tables, tables.get(kind, {})]
    boards = "base" in own[1]
    if boards:
        own.insert(1, tables[own[1]["base"]])
    for key, words in own[1].get("regions", {}).items():
        places = [int(place) if place.lstrip("-").isdigit() else place for place in key.split()]
        before = (
            ("", "on the ", "to the ") if key.endswith("st") else ("",)
        )  # "on the left" is a direction
        for text in [start + text for start in before for text in words]:
            add(text, "region", tuple(zip(places[::2], places[1::2], strict=True)))
    for table, name in itertools.product(own, ("unit", "direction", "thing")):
        for value, words in table.get(f"{name}s", {}).items():
            for text in words:
                add(text, name, value)
                if boards and name == "thing" and value != "player" and not text.endswith("ice"):
                    add(text + ("es" if text.endswith(("x", "sh")) else "s"), "thing", value, True)
    return found


@functools.cache
def _rewrites(kind: str) -> list[tuple[frozenset[str], re.Pattern[str], str]]:
    """Paraphrases: words of which a text must hold one, the pattern, and the plainer words that replace it."""
    names = {"number": [r"\d+", *_NUMERALS]}
    for phrase, (name, value, _) in phrases(kind).items():
        for each in (name, value) if name == "thing" else (name,):
            names.setdefault(each, []).append(re.escape(" ".join(phrase)))
    tables = lexicon()
    macros = tables["macros"]
    any_of = {
        name: f"(?:{'|'.join(sorted(texts, key=len, reverse=True))})"
        for name, texts in names.items()
    }

    def expand(rule: str) -> str:
        return re.sub(
            r"\{([A-Za-z]+)\}",
            lambda name: any_of.get(name[1]) or expand(macros.get(name[1], "(?!)")),
            rule,
        )

    rules = [*tables["rewrites"], *tables[tables[kind].get("base", kind)].get("rewrites", [])]
    found = list[tuple[frozenset[str], re.Pattern[str], str]]()
    for marks, rule, plain in rules:
        begin = r"\b" if re.match(r"[(?:]*[a-z{]", rule) else ""
        found.append(
            (
                frozenset(_TOKEN.findall(marks)),
                re.compile(f"{begin}(?:{expand(rule)}){_EDGE}"),
                plain,
            )
        )
    return found


@functools.cache
def _longest(kind: str) -> dict[str, int]:
    """The words of the longest phrase that begins with a word."""
    found: dict[str, int] = {}
    for phrase in phrases(kind):
        found[phrase[0]] = max(len(phrase), found.get(phrase[0], 0))
    return found


def words_of(kind: str, text: str) -> list[Word]:
    """The words of a text, longest phrases first; hyphens in words and markdown count as spaces."""
    plain = text.lower().translate(_LOOSE)
    if len(plain) != len(text):
        return []
    plain = _HYPHEN.sub(lambda gap: " " * len(gap[0]), plain)
    where: Sequence[int] = range(len(plain))
    present = set(_TOKEN.findall(plain))
    for marks, pattern, new in _rewrites(kind):
        if present.isdisjoint(marks):
            continue
        for match in [*pattern.finditer(plain)][::-1]:
            start, end = match.span()
            words = match.expand(new) or " "
            where = [*where[:start], *[where[start]] * (len(words) - 1), *where[end - 1 :]]
            plain = plain[:start] + words + plain[end:]
            present |= set(_TOKEN.findall(words))
    raw = [
        (match[0], (where[match.start()], where[match.end() - 1] + 1))
        for match in _WORD.finditer(plain)
    ]
    known, longest, found, i = phrases(kind), _longest(kind), list[Word](), 0
    texts = tuple([word for word, _ in raw])
    while i < len(raw):
        for count in range(min(longest.get(texts[i], 0), len(raw) - i), 0, -1):
            entry = known.get(texts[i : i + count])
            if entry is not None:
                span = (raw[i][1][0], raw[i + count - 1][1][1])
                mine = texts[i] in _MINE and entry[0] in ("thing", "mine")
                label = ("my" if texts[i + count - 1] in _NAMES else "me") if mine else ""
                found.append(Word(entry[0], entry[1], span, entry[2], label))
                i += count
                break
        else:
            found.append(_single(kind, *raw[i]))
            i += 1
    return found


def _single(kind: str, word: str, span: Span) -> Word:
    known = phrases(kind)
    if word[0] == "(" and len(word) > 1:
        row, column = map(int, word.strip("( )").split(","))
        return Word("region", (("cell", (row, column)),), span)
    if word in NUMBERS:
        return Word("number", NUMBERS[word], span, label="word")
    if word[-1].isdigit():
        named = _LABEL.fullmatch(word)
        entry = known.get((named[1],)) if named else None
        if named and entry and entry[0] == "thing":
            return Word("thing", entry[1], span, False, named[2])
        return Word("unknown" if named else "number", word if named else float(word), span)
    if word[0] == "\n" or word in ".;!":
        return Word("end", word, span)
    if word in ",:-=|>":
        return Word("comma", word, span)
    if word.endswith("ly") and word not in ("horizontally", "vertically"):
        return Word("filler", word, span)
    meant = corrected(kind, word)
    if meant:
        entry = known[meant,]
        return Word(entry[0], entry[1], span, entry[2])
    return Word("unknown", word, span)


@functools.lru_cache(maxsize=65536)
def corrected(kind: str, word: str) -> str:
    """The one word of things and places that an unknown word is a slip of; empty if there is none."""
    known = [
        phrase[0]
        for phrase, entry in phrases(kind).items()
        if len(phrase) == 1 and entry[0] in _CORRECTED
    ]
    meant = {other for other in known if is_slip(word, other)}
    return meant.pop() if len(meant) == 1 else ""


_UNSURE = {word for kind in ("hedge", "no") for word in lexicon()["classes"][kind]} - {
    "?",
    "nothing",
    "been",
}
_IS_UNSURE = re.compile(rf"\b(?:{'|'.join(sorted(_UNSURE))})\b|n't\b|\?", re.IGNORECASE)


def is_unsure(text: str) -> bool:
    """Whether a sentence denies, supposes or doubts."""
    return _IS_UNSURE.search(text) is not None


def is_slip(word: str, meant: str) -> bool:
    """Whether a letter is missing, added, or two are swapped. Another letter often makes another word."""
    if word[:1] != meant[:1] or min(len(word), len(meant)) < 4 or abs(len(word) - len(meant)) > 1:
        return False
    short, long = sorted((word, meant), key=len)
    swapped = [meant[:i] + meant[i + 1] + meant[i] + meant[i + 2 :] for i in range(len(meant) - 1)]
    return word in swapped or any(short == long[:i] + long[i + 1 :] for i in range(len(long)))
