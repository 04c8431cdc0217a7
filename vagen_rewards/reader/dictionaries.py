"""Dictionaries, lists and grids in a text: one tolerant parser for all environments.

Read are JSON, Python and the prompts' own notation, in fences, after headings and among prose; keys
in any usual name; nested; with other keys, which are passed over; and grids of symbols, with or
without numbers of rows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import LarkError

from vagen_rewards.reader.claims import Span

_NUMBER = r"[-−]?\d+(?:\.\d+)?"
_AXES = re.compile(
    rf"\bx\s*[:=]\s*({_NUMBER})[,\s]+y\s*[:=]\s*({_NUMBER})[,\s]+z\s*[:=]\s*({_NUMBER})",
    re.IGNORECASE,
)
_KEY = re.compile(r"[\"']?([A-Za-z][\w ]*?)[\"']?\s*[:=]\s*$")
_BRACKET = re.compile(r"[(){}\[\]]")
_ROW = re.compile(r"(?i)^[\s`>]*(?:row\s*\d+\s*[:=]|\d+\s*[:|])?\s*")
_DROPPED = re.compile(r"[\s|`,\"'\[\]]")
_SUFFIXES = re.compile(r"\b(?:positions?|pos|coords?|coordinates?|locations?|cells?|centers?)$")
_NAMES = ("object", "name", "type", "label", "entity", "thing", "item", "id")
_PLACES = ("position", "pos", "location", "cell", "coordinates", "coords", "at", "center", "xyz")
_FEWEST = 3
"""Rows and columns that a grid has at least.

Two words beside each other on two lines are no grid.
"""

MOST_DEPTH = 20
"""Nested brackets that are followed."""


class Entry(NamedTuple):
    """A key of a dictionary with its value, and its characters in the text."""

    key: str
    value: Any
    span: Span


class Data(NamedTuple):
    """A value that was found in a text.

    Lists, lists of `Entry` for dictionaries, numbers and texts.
    """

    value: Any
    span: Span


class Dict(list[Entry]):
    """The entries of a dictionary in their order; a key may come twice."""

    def get(self, *keys: str) -> Any:
        """The value of the first of the keys that is there, spelt as `words_in` spells it."""
        found = {words_in(entry.key): entry.value for entry in self}
        return next((found[key] for key in keys if key in found), None)


@v_args(meta=True)
class _Values(Transformer):  # type: ignore[type-arg]
    def dict(self, _meta: Any, children: list[Any]) -> Dict:
        return Dict([each for each in children if isinstance(each, Entry)])

    def pair(self, meta: Any, children: list[Any]) -> Entry:
        return Entry(_unquoted(children[0]), children[-1], (meta.start_pos, meta.end_pos))

    def atom(self, _meta: Any, children: Any) -> Any:
        text = str(children[0]).replace("−", "-")
        return float(text) if re.fullmatch(_NUMBER, text) else _unquoted(text)

    def list(self, _meta: Any, children: Any) -> Any:
        return [each for each in children if not isinstance(each, Token)]


def _unquoted(text: str) -> str:
    return text[1:-1] if text[0] in "\"'" and len(text) > 1 else str(text)


@functools.cache
def _parser() -> Lark:
    grammar = files("vagen_rewards.reader").joinpath("data.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True)


def are_places(entries: Dict) -> bool:
    """Whether each value is a list or a dictionary."""
    return all(isinstance(entry.value, list) for entry in entries)


def data_in(text: str, is_listed: Callable[[Dict], bool] = are_places) -> tuple[list[Data], str]:
    """The values in a text, and the text with line ends in their place.

    `is_listed` tells whether keys and values without braces that fill the text are a dictionary.
    """
    plain = _AXES.sub(lambda at: f"({at[1]},{at[2]},{at[3]})".ljust(len(at[0])), text)
    found: list[Data] = []
    if "{" not in plain and (":" in plain or "=" in plain):
        value = _loaded(f"{{{plain.replace('- ', '  ')}}}", -1)
        if value and is_listed(value):
            found = [Data(value, (0, len(text)))]
    brackets = [] if found else _brackets(plain)
    for start, end in brackets:
        key = _KEY.search(plain, plain.rfind("\n", 0, start) + 1, start)
        begin = key.start() if key else start
        shown = f"{{{plain[begin:end]}}}" if key else plain[begin:end]
        value = _loaded(shown, begin - bool(key))
        if value is not None:
            found.append(Data(value, (begin, end)))
    for _, (begin, end) in found:
        plain = plain[:begin] + "\n" * (end - begin) + plain[end:]
    return found, plain


def _brackets(text: str) -> Iterator[Span]:
    """Braces and square brackets that are closed, the outermost ones."""
    depth = 0
    start = 0
    for bracket in _BRACKET.finditer(text):
        if bracket[0] in "{[" or (bracket[0] == "(" and depth):
            start = start if depth else bracket.start()
            depth += 1
        elif bracket[0] in "}])" and depth:
            depth -= 1
            if not depth:
                yield start, bracket.end()


def _loaded(text: str, offset: int) -> Any:
    deepest = max((text.count(letter) for letter in "{[("), default=0)
    if deepest > MOST_DEPTH * 50:
        return None
    try:
        value = _Values().transform(_parser().parse(text))
    except (LarkError, RecursionError):
        return None
    return _moved(value, offset) if isinstance(value, list) else None


def _moved(value: Any, offset: int) -> Any:
    """The value with its spans counted from the begin of the text."""
    if isinstance(value, Dict):
        return Dict(
            [
                Entry(key, _moved(inner, offset), (start + offset, end + offset))
                for key, inner, (start, end) in value
            ]
        )
    return [_moved(inner, offset) for inner in value] if isinstance(value, list) else value


def words_in(key: str) -> str:
    """A key as words in lower case: `targetPosition_1` is `target position`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z]+", " ", key).lower()
    return " ".join(spaced.split())


def numbers_of(value: Any) -> tuple[float, ...] | None:
    """A cell or a point: a list of numbers, a text of it, or a dictionary of its coordinates."""
    if isinstance(value, Dict):
        for keys in (("x", "y", "z"), ("row", "col"), ("row", "column")):
            found = [value.get(key) for key in keys]
            if all(isinstance(each, float) for each in found):
                return tuple(found)
        return None
    if isinstance(value, str):
        numbers = re.findall(_NUMBER, value)
        plain = re.sub(_NUMBER, "", value)
        return tuple(map(float, numbers)) if not re.search(r"[A-Za-z]", plain) and numbers else None
    if isinstance(value, list) and value and all(isinstance(each, float) for each in value):
        return tuple(value)
    return None


class Placed(NamedTuple):
    """A thing that data put somewhere.

    Its name, and the numbers of the place; none if they can't be read.
    """

    name: str
    at: tuple[float, ...] | None
    span: Span


def places_in(data: Data, name_of: Callable[[str], str | None]) -> Iterator[Placed]:
    """The places of things. `name_of` gives the thing that a key names, if any."""

    def named(key: str) -> str | None:
        words = words_in(key)
        return name_of(_SUFFIXES.sub("", words).strip()) or name_of(words)

    yield from _placed_in(data.value, data.span, named)


def _placed_in(value: Any, span: Span, named: Callable[[str], str | None]) -> Iterator[Placed]:
    """The places in a value: it may name its thing itself, or have keys that do."""
    if isinstance(value, Dict):
        label = value.get(*_NAMES)
        name = named(label) if isinstance(label, str) else None
        if name:
            yield Placed(name, numbers_of(value.get(*_PLACES)) or numbers_of(value), span)
            return
        for entry in value:
            yield from _placed_by_key(entry, named)
    elif isinstance(value, list):
        for inner in value:
            yield from _placed_in(inner, span, named)


def _placed_by_key(entry: Entry, named: Callable[[str], str | None]) -> Iterator[Placed]:
    """The places of what a key names: one, or several in a list."""
    name = named(entry.key)
    if name is None:
        yield from _placed_in(entry.value, entry.span, named)
        return
    value = entry.value
    if isinstance(value, Dict) and numbers_of(value) is None:
        value = value.get(*_PLACES)
    single = numbers_of(value)
    if single is not None:
        yield Placed(name, single, entry.span)
        return
    for each in value if isinstance(value, list) else [value]:
        at = numbers_of(each)
        if at is None and isinstance(each, Dict):
            at = numbers_of(each.get(*_PLACES))
        yield Placed(name, at, entry.span)


def texts_in(value: Any) -> Iterator[str]:
    """The texts in a value, keys aside."""
    if isinstance(value, Dict):
        for entry in value:
            yield from texts_in(entry.value)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)
    elif isinstance(value, str):
        yield value


class Grid(NamedTuple):
    """A grid of symbols, and its characters."""

    rows: tuple[str, ...]
    span: Span


def grids_in(text: str, symbols: Mapping[str, Any]) -> Iterator[Grid]:
    """The grids of a text: lines of equally many symbols."""
    rows: list[str] = []
    start, end = 0, 0
    for line in [*text.splitlines(keepends=True), ""]:
        row = _DROPPED.sub("", _ROW.sub("", line))
        fits = len(row) >= _FEWEST and set(row) <= set(symbols)
        if not fits or (rows and len(row) != len(rows[0])):
            if len(rows) >= _FEWEST:
                yield Grid(tuple(rows), (start, end))
            rows = []
        if fits:
            start = start if rows else end
            rows.append(row)
        end += len(line)


def grid_of(value: Any, symbols: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The rows of a list of lists of symbols, or of a list of texts."""
    if not isinstance(value, list) or isinstance(value, Dict) or len(value) < _FEWEST:
        return None
    rows = []
    for row in value:
        parts = row if isinstance(row, list) else [row]
        if not all(isinstance(part, str) for part in parts):
            return None
        rows.append("".join(parts).replace(" ", ""))
    same = len(set(map(len, rows))) == 1 and len(rows[0]) >= _FEWEST
    return tuple(rows) if same and set("".join(rows)) <= set(symbols) else None
