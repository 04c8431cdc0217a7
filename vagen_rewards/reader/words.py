"""Words of a text by class: the first half of the reader. The classes are in `vocabulary.toml`."""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple

from vagen_rewards.reader import colours
from vagen_rewards.reader.claims import Part, Span

Phrase = tuple[str, ...]

BOARDS = ("sokoban", "frozen_lake")
_END = re.compile(r"[.;!?](?=\s|$)|\n+")
_BULLET = re.compile(r"\s*(?:[-•]\s|\d+[.)]\s)?\s*")
_NUMBER = r"-?\d+(?:\.\d+)?"
_CELL = rf"[(\[]\s*{_NUMBER}(?:mm)?(?:\s*,\s*{_NUMBER}(?:mm)?){{1,2}}\s*[)\]]"
_WORD = re.compile(
    rf"[a-z]+(?:'t\b|-hand\b)?|{_NUMBER}|{_CELL}|#[0-9a-f]{{6}}\b|'(?:s|m|ll)\b|->|[^\s\w]|\w"
)
_LOOSE = str.maketrans("’‑−_*`", "'--   ")
_SIGNS = frozenset("-~#\"'")
"""Signs that are passed over by themselves."""

_ENDS_PLURAL = {"x": "es", "h": "es"}
_RIGHT = ("right",)
_BEFORE_RIGHT = ("above", "over", "below", "beneath", "underneath", "behind", "ahead", "in front")
"""Words before which "right" means exactly, as in "right above"."""


class Mention(NamedTuple):
    """A thing that a text names.

    Attributes:
        kind: as in the state's cells or positions; in Navigation the name in the text's words.
        label: tells several of a kind apart: `0` of "box0", `a1` of "a hole".
        plural: whether several are meant.
    """

    kind: str
    label: str = ""
    plural: bool = False


class Word(NamedTuple):
    """A word or a phrase, and its characters in the text."""

    # A terminal of the grammar, or `A`, `ANOTHER`, `CLAUSE`, `DENIAL`, `PLAN`, `UNKNOWN`.
    kind: str
    value: Any
    span: Span


@functools.cache
def vocabulary() -> dict[str, Any]:
    """The file's tables."""
    path = files("vagen_rewards.reader").joinpath("vocabulary.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def plural(name: str) -> str:
    """The plural of a thing's name."""
    return name + _ENDS_PLURAL.get(name[-1], "s")


_Entry = tuple[str, str, Any]
"""A phrase, its class and its value."""


def _entries(kind: str) -> Iterator[_Entry]:
    """Each phrase that is known about states of this kind; of equal ones the last counts."""
    tables = vocabulary()
    bases = ("boards", kind) if kind in BOARDS else (kind,)
    for name in ("skip", "denial", "plan"):
        for text in tables[name]["words"]:
            yield text, name.upper(), text
    yield from _numbers()
    yield from _classes(tables["classes"])
    for base in bases:
        yield from _classes(tables[base].get("words", {}))
    for base in bases:
        yield from _ways(tables[base].get("ways", {}))
        yield from _things(tables[base].get("things", {}), several=kind in BOARDS)
    for text in itertools.chain.from_iterable(tables[kind].get("called", {}).values()):
        yield text, "THING", Mention(text)
    if kind == "primitive_skill":
        yield from _coloured(tables[kind]["kinds"])
    if kind == "svg":
        yield from _pictured(tables[kind])


def _numbers() -> Iterator[_Entry]:
    """Words of numbers, of places in an order and of units."""
    tables = vocabulary()
    for name, values, table in (
        ("NUM", float, tables["numbers"]),
        ("ORD", int, tables["ordinals"]),
        ("UNIT", str, tables["units"]),
        ("LENGTH", float, tables["lengths"]),
    ):
        for value, texts in table.items():
            for text in texts:
                yield text, name, values(value)


def _classes(table: dict[str, list[str]]) -> Iterator[_Entry]:
    """Words by class; a class may be followed by what its words mean."""
    for name, texts in table.items():
        terminal, _, value = name.partition(" ")
        for text in texts:
            yield text, terminal, value or text


def _ways(table: dict[str, list[str]]) -> Iterator[_Entry]:
    """Words for directions; one word may name two."""
    for value, texts in table.items():
        for text in texts:
            yield text, "WAY", tuple(value.split())


def _things(table: dict[str, list[str]], *, several: bool) -> Iterator[_Entry]:
    """Names of things; there is one player."""
    for value, texts in table.items():
        yield from _names(value, texts, several=several and value != "player")


def _coloured(kinds: dict[str, list[str]]) -> Iterator[tuple[str, str, Mention]]:
    """Names of cubes and of targets, such as "red block" and "left disc".

    A colour alone is a cube's.
    """
    for colour in colours.PLAIN:
        yield colour, "THING", Mention(f"{colour}_cube")
    for kind, texts in kinds.items():
        for which in (*colours.PLAIN, "left", "right"):
            for text in texts:
                yield f"{which} {text}", "THING", Mention(f"{which}_{kind}")


def _pictured(tables: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Names of colours, tones, shapes and the two pictures."""
    for colour in colours.names():
        yield colour, "COLOUR", colour
        yield colour.replace("gray", "grey"), "COLOUR", colour
    for text in tables["dressing"]["how"]:
        yield text, "HOW", text
    for terminal, name in (("TONE", "tones"), ("SHAPE", "shapes"), ("PICTURE", "pictures")):
        for value, texts in tables[name].items():
            for text in texts:
                yield text, terminal, value
                if terminal == "SHAPE":
                    yield f"{text}s", terminal, value


def _names(kind: str, texts: list[str], *, several: bool) -> Iterator[tuple[str, str, Mention]]:
    for text in texts:
        yield text, "THING", Mention(kind)
        if several:
            yield plural(text), "THING", Mention(kind, plural=True)


@functools.cache
def phrases(kind: str) -> dict[Phrase, tuple[str, Any]]:
    """Class and value of each phrase that is known about states of this kind."""
    found: dict[Phrase, tuple[str, Any]] = {
        ("my",): ("POSS", "player"),
        ("its",): ("POSS", "it"),
        ("it",): ("THING", Mention("it")),
    }
    for text, name, value in _entries(kind):
        found[tuple(_WORD.findall(text))] = (name, value)
    return found


_Phrased = tuple[Phrase, int, str, Any]
"""A phrase, the number of its words, its class and its value."""


@functools.cache
def _by_first_word(kind: str) -> dict[str, list[_Phrased]]:
    """The phrases that begin with a word, the longest first."""
    found: dict[str, list[_Phrased]] = {}
    for phrase, (name, value) in phrases(kind).items():
        found.setdefault(phrase[0], []).append((phrase, len(phrase), name, value))
    for entries in found.values():
        entries.sort(key=lambda entry: -entry[1])
    return found


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences of a text in lower case, and where they begin; a question ends with `?`."""
    plain = text.lower()
    if len(plain) != len(text):  # of a letter whose small form is longer
        plain = "".join([letter.lower()[0] for letter in text])
    plain = plain.translate(_LOOSE)
    start = 0
    for end in [*_END.finditer(plain), None]:
        stop = end.start() if end else len(plain)
        begin = _BULLET.match(plain, start, stop).end()  # type: ignore[union-attr]
        sentence = plain[begin:stop]
        if any(map(str.isalnum, sentence)):
            yield begin, f"{sentence}?" if end is not None and end[0] == "?" else sentence
        start = end.end() if end else stop


def words_of(kind: str, sentence: str, part: Part) -> list[Word]:
    """The words of a sentence, longest phrases first, without what is passed over."""
    known = _by_first_word(kind)
    passed_over = _passed_over()
    raw = [match for match in _WORD.finditer(sentence) if match[0] not in passed_over]
    texts = tuple([match[0] for match in raw])
    found: list[Word] = []
    place = 0
    while place < len(texts):
        first = place
        text = texts[place]
        count, name, value = _longest(known[text], texts, place) if text in known else _single(text)
        place += count
        if name != "SKIP":
            word = Word(name, value, (raw[first].start(), raw[place - 1].end()))
            adapts = name == "WILL" or value == _RIGHT
            found.append(_adapted(word, texts[place : place + 2], part) if adapts else word)
    return found


@functools.cache
def _passed_over() -> frozenset[str]:
    return _SIGNS.union(vocabulary()["filler"]["words"])


def _longest(entries: list[_Phrased], texts: Phrase, place: int) -> tuple[int, str, Any]:
    """The longest of phrases that stands there: the number of its words, class and value."""
    for phrase, count, name, value in entries:
        if count == 1 or texts[place : place + count] == phrase:
            return count, name, value
    return _single(texts[place])


def _adapted(word: Word, after: Phrase, part: Part) -> Word:
    if word.kind == "WILL":  # an observation doesn't tell the future
        return word._replace(kind="IS" if part == "world_modeling" else "UNKNOWN")
    if word.value == _RIGHT and " ".join(after).startswith(_BEFORE_RIGHT):
        return word._replace(kind="EXACT", value="right")
    return word


def _single(text: str) -> tuple[int, str, Any]:
    """A word that stands in no list, as `_longest` gives it."""
    if text[0] in "([" and len(text) > 1:
        return 1, "CELL", tuple([float(number) for number in re.findall(_NUMBER, text)])
    if text[0] == "#" and len(text) == 7:
        return 1, "COLOUR", text
    if text[-1].isdecimal():
        return 1, "NUM", float(text)
    return 1, "UNKNOWN", text
