"""From English to tokens: things, directions, and the little words that tie them together."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

from vagen_rewards.rules.heads import heads_of
from vagen_rewards.rules.lexicon import language, nouns
from vagen_rewards.rules.patterns import BOARD_NOUNS, BOARDS, PATTERNS, begun_by


class Token(NamedTuple):
    """One word or phrase.

    `kind`: `thing`, `direction`, `frame` and so on; `word` for a word that means nothing here.
    `value`: a thing's (kind, label, plural), or a direction's (vertical, horizontal).
    `relational`: of a direction: it wants a thing after it, as "left of" does and "left" doesn't.
    `absolute`: of a direction: without a thing after it, it is a place on the board ("at the top left").
    `strict`: of a direction: it is said to be just that, "directly above".
    """

    kind: str
    value: tuple[object, ...] = ()
    relational: bool = False
    absolute: bool = False
    strict: bool = False


_THINGS = frozenset([kind for each in BOARD_NOUNS.values() for kind in each])

_NAMES = sorted({re.escape(each) for board in BOARDS for names in nouns(board).values() for each in names})
_PLURAL = re.compile(
    rf"(?:{'|'.join(_NAMES)})"
    r"(?:e?s)\b|\b(?:location|position|spot|cell|square|tile|place|area)s\b"
)
_LABEL = re.compile(r"[ _#]*(\d+)$")
_ORDINALS = {
    "first": "#1",
    "second": "#2",
    "third": "#3",
    "fourth": "#4",
    "another": "a",
    "other": "other",
    "one": "a",
    "a": "a",
    "an": "a",
}

_SIDES = {"above": (-1, None), "below": (1, None), "left": (None, -1), "right": (None, 1)}
_WAYS = {word: _SIDES[side] for side, words in language("en")["directions"].items() for word in words}


_Entry = tuple["Token | None", Callable[[str, int], "re.Match[str] | None"]]
"""A word's token, or else how what begins with it is matched."""


class _Entries(dict[str, _Entry]):
    """The entry of each word with which a token of a board may begin."""

    def __init__(self, board: str) -> None:
        super().__init__(_SIGNS)
        self.begun_by = begun_by(board)

    def __missing__(self, word: str) -> _Entry:
        if word not in self.begun_by:
            if word.isalpha():
                return _WORD
            entry = self[word[:-1]]
            return entry if entry[0] is None else _NOTHING
        kind, branch = self.begun_by[word][0]
        if heads_of(branch).single:
            match = re.fullmatch(rf"(?P<{kind}>{branch})", word)
            self[word] = (_token(match), _never) if match else _WORD
        else:
            self[word] = (None, _first_of(self.begun_by[word]).match)
        return self[word]


@functools.cache
def _first_of(ways: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    """The first of these that fits: trying all that there are took three quarters of the time."""
    kinds: dict[str, list[str]] = {}
    for kind, branch in (*ways, ("word", r"[^\W\d_]+")):
        kinds.setdefault(kind, []).append(branch)
    return re.compile("|".join([rf"(?P<{kind}>{'|'.join(each)})(?![^\W_])" for kind, each in kinds.items()]))


_entries = functools.cache(_Entries)
_PIECE = re.compile(r"\b(?:[^\W\d_]+\d?|\d)|'s\b|[,:]")
_PLAIN_PIECE = re.compile(r"\b(?:[a-z]+\d?|\d)|'s\b|[,:]")
"""The same of ASCII, a sixth quicker."""

_never = re.compile(r"(?!)").match
_WORD, _NOTHING = (Token("word"), _never), (None, _never)
_SIGNS = {"'s": (Token("owner"), _never), ",": (Token("comma"), _never), ":": (Token("is", ("colon",)), _never)}


def tokens(board: str, sentence: str) -> list[Token]:
    """The tokens of a lower-case sentence with single blanks. Linear in its length."""
    found: list[Token] = []
    entries, end = _entries(board), 0
    for piece in (_PLAIN_PIECE if sentence.isascii() else _PIECE).finditer(sentence):
        start = piece.start()
        if start < end:
            continue  # within a phrase
        token, matched = entries[piece[0]]
        if token is None:
            match = matched(sentence, start)
            if match is None:
                continue
            token = _PHRASES.get((match.lastgroup or "", match[0])) or _token(match)
            end = match.end()
        found.append(token)
    return found


_PHRASES: dict[tuple[str, str], Token] = {}
_MOST_PHRASES = 8192
"""Of a phrase the token is read once; numbers make more phrases than anybody wants to keep."""


def _token(match: re.Match[str]) -> Token:
    kind = match.lastgroup or ""  # the outermost group: it closes last
    token = _phrase(kind, match)
    if len(_PHRASES) < _MOST_PHRASES:
        _PHRASES[kind, match[0]] = token
    return token


def _phrase(kind: str, match: re.Match[str]) -> Token:
    if kind in _THINGS:
        return _thing(kind, match[0])
    read = _READ.get(kind)
    return read(match) if read is not None else _PLAIN[kind]


def _thing(name: str, text: str) -> Token:
    label = _LABEL.search(text)
    return Token("thing", (name, f"#{label[1]}" if label else "", bool(_PLURAL.search(text))))


def _same(match: re.Match[str]) -> Token:
    what = match["same_what"] or match["shared"]
    bound = match[0].endswith((" as", " with", " of"))
    if what == "row" or what.startswith("horizontal"):
        return Token("direction", (0, None), bound)
    return Token("direction", (None, 0) if what.startswith(("col", "vertical")) else (0, 0), bound)


_STRAIGHT = re.compile(r"\b(?:direct|immediate)")
_ON_THE_BOARD = re.compile(r"^(?:in|at) |\b(?:side|part|corner|edge|end|half|row|column|position)\b")


def _absolute(match: re.Match[str]) -> bool:
    """Whether it is said as a place on the board is: "in the upper left", "on the left side"."""
    return _ON_THE_BOARD.search(match[0]) is not None


def _diagonal(match: re.Match[str]) -> Token:
    vertical, horizontal = match["dv"] or match["cv"], match["dh"] or match["ch"]
    sides = (_WAYS[vertical][0], _WAYS[horizontal][1])
    return Token("direction", sides, match["d_of"] is not None, _absolute(match))


def _horizontal(match: re.Match[str]) -> Token:
    end = match["h_of"] or ""
    kind = "loose" if end.strip() == "to" else "direction"
    return Token(kind, _WAYS[match["h"]], bool(end), _absolute(match), _STRAIGHT.search(match[0]) is not None)


def _number(match: re.Match[str]) -> Token:
    words = ("two", "three", "four", "five", "six", "seven", "eight")
    return Token("number", (words.index(match[0]) + 2 if match[0] in words else int(match[0][:4]),))


_READ: dict[str, Callable[[re.Match[str]], Token]] = {
    "me": lambda match: Token("thing", ("player", "", False, match[0])),
    "same": _same,
    "aligned": lambda match: Token(
        "direction", (None, 0) if "vertically" in (match["aligned_how"], match["how_aligned"]) else (0, None), True
    ),
    "onto": lambda match: Token("onto", (0, 0), len(match[0]) > 2),
    "diagonal": _diagonal,
    "horizontal": _horizontal,
    "beside": lambda match: Token("direction", _WAYS[match["b"]], True),
    "preposition": lambda match: Token("direction", _WAYS[match["p"]], True),
    "vertical": lambda match: Token("direction", _WAYS[match["v"]], match["v_of"] is not None, _absolute(match)),
    "ordinal": lambda match: Token("ordinal", (_ORDINALS[match[0]],)),
    "number": _number,
    "with": lambda match: Token("with", (match[0],)),
    "not": lambda match: Token("not", (match[0].removesuffix(" any"),)),
}
_PLAIN = {
    **{kind: Token(kind) for kind in ("owner", "comma", *(kind for kind, _ in PATTERNS))},
    "colon": Token("is", ("colon",)),
    "copula": Token("is"),
    "particle": Token("skip"),
    "also": Token("and"),
    "article": Token("the"),
    "skip": Token("skip"),
    "unit": Token("skip"),
    "verb": Token("word"),
    "scenery": Token("word", ("scenery",)),
    "my": Token("owner_of", ("player", "", False)),
    "absolute": Token("skip"),
    "distance": Token("skip"),
    "near": Token("direction", (None, None), True),
}


END = Token("end")
LIGHT = frozenset({"word", "the", "a", "ordinal", "all", "number"})
"""Kinds of tokens that are looked past."""

_LOOKED_AT = 6
"""Tokens ahead, or behind, among which something is looked for."""


class Cursor:
    """A place in a row of tokens, from which to look around."""

    __slots__ = ("index", "solid", "solid_at", "words")

    def __init__(self, words: list[Token]) -> None:
        self.words = words
        self.index = 0
        self.solid, self.solid_at = END, 0  # the last token before that isn't `LIGHT`, and where it stands

    def _next(self, distance: int = 1) -> Token:
        at = self.index + distance
        return self.words[at] if at < len(self.words) else END

    def _next_but(self, *kinds: str) -> Token:
        for token in self.words[self.index + 1 : self.index + 1 + _LOOKED_AT]:
            if token.kind != "word" and token.kind not in kinds:
                return token
        return END

    def _previous(self) -> Token:
        return self.solid if self.index - self.solid_at <= _LOOKED_AT else END

    def _previous_but(self, *kinds: str) -> Token:
        for at in range(self.index - 1, max(-1, self.index - 1 - _LOOKED_AT), -1):
            token = self.words[at]
            if token.kind != "word" and token.kind not in kinds:
                return token
        return END
