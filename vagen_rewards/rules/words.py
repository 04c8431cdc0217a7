"""From English to tokens: things, directions, and the little words that tie them together.

A board's vocabulary says which nouns are things. Everything else is the same for every board.
"""

# ruff: noqa: E501  # a table of patterns, one a line

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

from vagen_rewards.rules.heads import branches_of, heads_of
from vagen_rewards.rules.lexicon import language, nouns, pattern_of
from vagen_rewards.rules.modality import DENIALS, DOUBTS


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


BOARDS = ("sokoban", "frozen_lake")
_SPOT = "(?:locations?|positions?|spots?|points?|cells?|squares?|tiles?|places?|areas?|zones?|pads?|markers?)"
_FINAL = rf"(?:final|end|desired|intended|designated|required|finishing|winning|drop-off|docking|dock) {_SPOT}"


def _names_of(kind: str, phrases: list[str]) -> str:
    """What the things of a kind go by, with the words that may go with them ("the robot's figure", "goal tile")."""
    names = pattern_of(phrases)
    if kind == "player":
        figure = "character|figure|avatar|token|icon|sprite|piece"
        before = "human|robot|player|little|main|game|cartoon"
        return (
            rf"(?:(?:{before}) (?=player|agent|person|man|worker|robot|{figure}))?(?:{names})(?:(?:'s)? (?:{figure}))?"
        )
    if kind == "target":
        return rf"(?:{names})(?: {_SPOT})?|{_FINAL}"
    if kind == "hole":
        return rf"(?:{names})(?: (?:cell|tile|square)s?)?(?: in the (?:ice|ground|floor|lake|grid))?"
    return names


BOARD_NOUNS: dict[str, dict[str, str]] = {
    board: {kind: _names_of(kind, phrases) for kind, phrases in nouns(board).items()} for board in BOARDS
}
"""Regular expressions of the names that the things of a board go by."""

_THINGS = frozenset([kind for each in BOARD_NOUNS.values() for kind in each])

_UNITS = "rows?|columns?|cells?|tiles?|steps?|squares?|spaces?|units?|moves?|blocks?|positions?"
_PLURAL = re.compile(
    rf"(?:{'|'.join(sorted({re.escape(each) for board in BOARDS for names in nouns(board).values() for each in names}))})"
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

_ATTRIBUTE = (
    r"(?:with|bearing|carrying|showing|marked (?:with|by)) (?:the|an?|some) "
    r"(?!(?:box|crate|target|goal|player|agent|hole|gift|robot|character)\b)[a-z]+(?: [a-z]+)?"
    r" (?:on|in|at|through|across|inside) (?:it|top|its [a-z]+)"
)
"""What a thing looks like: "the box with the cross on it"."""

_MARKING = (
    r"(?:circle|dot|spot|square|tile|mark|marker|cell|place|area|symbol|icon|cross|(?:red|green|yellow|orange|white|blue|dark|round) one)"
    r" (?:(?:that|which) (?:marks|shows|represents|indicates|denotes|is)|marking|showing|representing|indicating) (?:the|our|a)"
    r"(?= [a-z]+\b)"
)
"""In "the circle that marks the target" the target is meant."""

_UNIT = r"(?:rows?|columns?|cells?|tiles?|steps?|squares?|spaces?|units?|blocks?|positions?|places?|spots?)"
_COUNT = r"(?:one|two|three|four|five|six|seven|\d+|an?|a single|a few|a couple of|several|some|many)"
_DISTANCE = rf"{_COUNT} (?:single |more |grid |floor |full )?{_UNIT}(?: (?:or|and/or) {_UNIT})?(?: (?:away(?! from)|over(?! (?:the|an?|it|me|my)\b)|apart|distant|further|farther))?"
"""In "two rows above" the rows are no things."""

_BOARD = r"(?:board|grid|map|room|image|picture|screen|lake|puzzle|level|scene|frame|field|view)"
_EDGE = r"(?:left|right|top|bottom|upper|lower|north|south|east|west|far|very|outer)(?:ern|most|hand|-hand)?(?:[- ](?:left|right))?"
_ABSOLUTE = (
    rf"(?:from|against|by|near|at|to|along|towards?|on|in) (?:the )?(?:{_EDGE} )+(?:walls?|borders?|boundary)(?: of the {_BOARD})?"
    rf"|(?:in|at|on|near|to|towards?) (?:the )?(?:{_EDGE} )+(?:row|column|half|part|corner|side|quarter|quadrant|edge|section|area|region|end)? ?of the {_BOARD}"
)
"""Places on the board are no relations."""

_SIDE = r"(?:(?:to|on|at|in|from|towards?) )?(?:the )?(?:(?:immediate|direct|far|immediately|directly) )?"
_END = r"(?:[ -]?hand)?(?: (?:side|part|corner|direction|end|edge))?(?P<{name}_of> (?:of|from|than|to(?= (?:the|me|it|both|a)\b)))?"

_PATTERNS: tuple[tuple[str, str], ...] = (
    ("skip", rf"{_ATTRIBUTE}|{_MARKING}|" r"(?<=is )over(?=,)|(?<=are )over(?=,)|" r"fac(?:e|es|ed|ing) (?:up|down|left|right|north|south|east|west)(?:ward|wards)?(?! of)|on the (?:floor|ground|ice)|a (?:little|bit)|(?:first|most|after|best|above) (?:of )?all(?=,)|^right(?= (?:to|at|on|north|south|east|west|left)\b)|right(?= (?:above|below|under|beneath|underneath|next|on|at|in|here|now|over|beside)\b)|left over|(?:show|turn|pop|come|light)(?:s|ed|ing)? up|as (?:the|a|our|my) (?:reference|origin|cent(?:er|re)|starting)(?: point)?|from what (?:i|we) (?:can )?(?:see|tell)|as far as (?:i|we) can (?:see|tell)|of course|in the (?:image|picture|frame|screenshot|scene|grid|map|board|view)|(?:right|over|out|up|down) there|(?:rows?|columns?|cells?|tiles?|steps?) (?:or|and/or) (?:rows?|columns?|cells?|tiles?|steps?)|(?:one|two|three|\d+) (?:or|to) (?:more|two|three|four|\d+)"),
    ("absolute", _ABSOLUTE),
    ("distance", _DISTANCE),
    ("purpose", r"(?<!going )(?<!expected )(?<!sure )to (?:reach|get to|arrive at|go to|come to|land on|end up (?:at|on)|be (?:at|on))"),
    ("almost", r"almost|nearly|close to being|about to be|virtually"),
    ("same", r"(?:(?:shares?|sharing) (?:a|the|one|its|their)|in (?:one|a single)) (?P<shared>row|column)(?: (?:as|with|of))?|(?:(?:on|at|in|to|into|shares?|sharing) )?(?:the |a )?(?:exact(?:ly)? |very )?same (?P<same_what>row|column|col|(?:horizontal|vertical)(?: line| level)?|position|place|location|spot|cell|tile|square|point)(?: (?:as|with|of))?"),
    ("aligned", r"(?:in line|aligned|level|lined up) (?P<aligned_how>horizontally|vertically)(?: (?:with|to))?|(?P<how_aligned>horizontally|vertically) (?:aligned|in line|level|lined up)(?: (?:with|to))?|level with"),
    ("frame", r"if(?= (?:the |a |this |that )?[a-z' ]{1,40} (?:taken|used|chosen|considered|treated) as)|(?:as )?(?:seen |viewed |looking )?from|taking|using|look(?:s|ing)? at|relative to|(?:with|in) (?:respect|regards?|reference|relation|comparison) (?:to|with)|compared (?:to|with)|measured from"),
    ("onto", r"on top of|(?:covered|occupied|reached|overlapped|taken|filled) by|(?:exactly |just |right )?where(?= (?:the |an? |its )?[a-z]+(?: [a-z]+)? (?:is|are|was|stands|lies|sits)\b)|(?:has |have |will have )?(?:got|gotten|come|made it) to|(?:will |has )?(?:land|lands|landed|landing) on|(?:at|in|to) the (?:position|location|place|spot|cell|tile) of|(?:has |have |will )?(?:reach(?:es|ed)?|arriv(?:e|es|ed|ing) (?:at|on)|coincides? with|overlaps?(?: with)?|occup(?:y|ies)|get(?:s)? to|fall(?:s|en)? in(?:to)?|cover(?:s|ed)?)|onto|into|at|on|in|inside"),
    ("diagonal", _SIDE + r"(?:diagonally )?(?:(?P<dv>up(?:per)?|top|above|down|low(?:er)?|bottom|below)[ -]*(?P<dh>left|right)|(?P<cv>north|south)[ -]?(?P<ch>west|east))(?:ern)?" + _END.format(name="d")),
    ("horizontal", _SIDE + r"(?P<h>left|right|west|east)(?:ward|wards|ern|most)?" + _END.format(name="h")),
    ("preposition", r"(?P<p>above|below|under|underneath|beneath|over)(?: of)?"),
    ("vertical", r"(?:(?:to|on|at|in) )?(?:the )?(?P<v>north|south|up|down|overhead|higher|lower|top|bottom|upwards?|downwards?|upper)(?:ward|wards|ern|most)?(?: (?:side|part|end|position|row|level|place|spot|corner|edge|half))?(?P<v_of> (?:of|from|than))?"),
    ("between", r"(?:in )?between"),
    ("near", r"(?:diagonal(?:ly)?(?: adjacent)? (?:to|from)|on (?:the )?(?:opposite|different) sides of|in line with|aligned with|lined up with|in front of|behind|next to|adjacent to|beside|besides|near(?: to)?|nearby to|close to|touching|touches|around|facing|away from|by)"),
    ("hedge", DOUBTS + r"|any|(?:on |at )?(?:both|all|each|every) (?:of (?:its|the) |four )?sides?|all around"),
    ("or", r"or|and/or"),
    ("not", "|".join([rf"(?:{each})(?: any)?" for each in branches_of(f"{DENIALS}|no|without")])),
    ("but", r"but|instead|rather"),
    ("move", r"(?:mov|push|pull|slid|head|shift|walk|stepp|go|travel|return|climb)(?:e|es|s|ed|ing)?|step|steps|goes|going|approach(?:es|ing)?|needs?|wants?|should|must|try|aim"),
    ("is", r"is|are|am|be|was|were|been|being|stands?|standing|lies|lying|sits?|sitting|remains?|becomes?|end(?:s|ed|ing)? up|(?:seem|look)s?(?: like)?(?: it)?|appears?|located|situated|positioned|placed|'re|'m"),
    ("has", r"has|have|having"),
    ("which", r"which|that|who"),
    ("with", r"with|if|while|whilst|whereas|although|though|as|because|so|since|when|after|before|then"),
    ("and", r"and|&|also|plus"),
    ("all", r"both|all|every|each"),
    ("ordinal", r"first|second|third|fourth|another|other|one(?= of)?"),
    ("number", r"two|three|four|five|six|seven|eight|\d+"),
    ("there", r"there"),
    ("it", r"it|its|him|his|her|them"),
    ("they", r"they"),
    ("owner", r"'s"),
    ("the", r"the|this|these|those|your"),
    ("a", r"a|an|some"),
    ("comma", r","),
    ("colon", r":"),
    ("verb", r"(?<=can )(?:spot|place)|(?<=\bi )spot|(?<=we )spot|(?<=you )spot|(?<=to )spot"),
    ("place", r"(?:floor |ground |grid |ice |frozen |empty |free )?(?:cells?|tiles?|squares?|spaces?|blocks?|positions?|places?|spots?|locations?|fields?|area|distance|bit|way|points?|region|zone|direction|rows?|columns?|steps?|units?|moves?)"),
    ("unit", r"'s (?:own |current |new )?(?:positions?|locations?|place|spot|cell|tile|square|perspective|point of view|viewpoint)|(?:that|those) of|horizontally|vertically|side|of|to|now|also|currently|will|would|far|further|farther|even|still|away|just|diagonally|slightly|itself"),
    ("straight", r"directly|exactly|immediately|straight|due|perfectly"),
    ("scenery", r"walls?|borders?|edges?|floor|ground|path|way|route|rooms?|grid|board|map|obstacles?|ice|lake|corners?|rest|paths|world|surroundings|background|corridor|puzzle|image|picture|view|scene"),
    ("word", r"[^\W\d_]+"),
)  # fmt: skip

_SIDES = {"above": (-1, None), "below": (1, None), "left": (None, -1), "right": (None, 1)}
_WAYS = {word: _SIDES[side] for side, words in language("en")["directions"].items() for word in words}


@functools.cache
def _alternatives(board: str) -> tuple[tuple[str, str], ...]:
    """What a token may be, in the order in which it is tried; what has no names for its parts, branch by branch."""
    every = (
        ("me", r"i|me|myself|you|one(?= (?:finds|sees|can (?:see|find)|notices|spots|observes|encounters)\b)"),
        ("my", "my"),
        ("copula", "is|are|was|were"),
        ("particle", "of(?! course)|will"),
        ("also", "and(?!/)"),
        ("article", r"the(?= (?:player|box|target|goal|gift|hole|agent)\b)"),
        ("beside", rf"to the (?P<b>left|right) of(?! (?:the )?{_BOARD}\b)"),
        *((kind, rf"(?:{names})(?:[ _]?#?\d+(?! ?(?:{_UNITS})\b))?") for kind, names in BOARD_NOUNS[board].items()),
        *_PATTERNS,
    )
    return tuple([(kind, each) for kind, way in every for each in ([way] if "(?P<" in way else branches_of(way))])


@functools.cache
def _begun_by(board: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Of each word with which a token may begin what it may be."""
    found: dict[str, list[tuple[str, str]]] = {}
    for kind, branch in _alternatives(board):
        if kind == "word":
            continue  # whatever else a word is, and most are nothing else
        for word in heads_of(branch).words:
            found.setdefault(word, []).append((kind, branch))
    return {word: tuple(each) for word, each in found.items()}


_Entry = tuple["Token | None", Callable[[str, int], "re.Match[str] | None"]]
"""A word's token, or else how what begins with it is matched."""


class _Entries(dict[str, _Entry]):
    """The entry of each word with which a token of a board may begin."""

    def __init__(self, board: str) -> None:
        super().__init__(_SIGNS)
        self.begun_by = _begun_by(board)

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
    **{kind: Token(kind) for kind in ("owner", "comma", *(kind for kind, _ in _PATTERNS))},
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
