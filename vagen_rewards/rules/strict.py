"""Sentences that can hardly be misread: a thing, a verb, a side and another thing, and lists of those.

A reader that goes word by word also reads what means something else than it makes of it. What comes out true there is
confirmed by the state; what comes out false isn't refused. So each word is given a class, and a sentence is refused
only where its classes make up one of a few forms, without a remainder.

Classes that the tables don't explain: `n` is a thing, `k` a colour, `?` what isn't known.
"""

from __future__ import annotations

import functools
import itertools
import re

from vagen_rewards.rules import colours
from vagen_rewards.rules.front import prepare
from vagen_rewards.rules.lexicon import language, nouns
from vagen_rewards.rules.patterns import BOARDS
from vagen_rewards.scores import Part, Span

_CLASSES = {
    "t": "the a an another",
    "B": "both all",
    "m": "my",
    "p": "i me we player agent robot",
    "v": "is are am be can do lies lie sit sits stand stands rests remains located positioned placed situated found",
    "y": "will",
    "h": "there see",
    "N": "not",
    "i": "it that",
    "F": "false wrong",
    "Z": "no",
    "a": "directly exactly immediately straight just now currently also still then already slightly too about yet",
    "o": "of to on at in from as than with inside",
    "x": "side hand row column position part half corner",
    "s": "same",
    "&": "and",
    "|": "or",
    "c": ", ;",
    ":": ": =",
    "#": "one two three four five six",
    "(": "( [",
    ")": ") ]",
}
_OF_BOARDS = {"q": "cell tile square", "f": "wall ice safe free empty", "?": "under underneath beneath over overhead"}
"""Who stands on a target has it under oneself, and it isn't below."""

_OWN = {
    "sokoban": _OF_BOARDS,
    "frozen_lake": _OF_BOARDS,
    "navigation": {"d": "ahead front behind forward left right", "n": "target object", "u": "m meters metres away"},
    "primitive_skill": {
        "b": "cube block target disc disk marker",
        "d": "left right top underneath beneath",
        "e": "empty open closed shut",
        "g": "holds holding",
        "u": "mm",
        "X": "x y z",
    },
    "svg": {
        "d": "top bottom upper lower middle center centre",
        "l": "left right",
        "w": "has shows contains show have includes",
        "f": "filled outlined large small solid light dark",
        "T": "target drawing image picture",
        "W": "wide high tall",
        "C": "color colour",
    },
}
_MOST = 120  # words of a sentence that is taken for a simple one
_PIECE = re.compile(r"#[0-9a-f]{6}|[a-z]+|\d+(?:\.\d+)?|[^\s\-_*\"'`{}%.]")


def _listed(clause: str) -> str:
    """One or several of these, joined by a comma or "and"."""
    return rf"(?:{clause})(?:(?:c&?|&)(?:{clause}))*a*"


def _board() -> str:
    name, one = r"t*#?[npb]#?", r"(?:t*#?[np]#?|Bb)"
    side = r"a*o?t?(?:sx|d+x?)"
    place = rf"a*(?:{side}o?{one}|omd+x?|o(?:txo)?{one})"
    where = rf"(?:{side}[&|])*{place}(?:[&|](?:{place}|{side}))*"
    clause = (
        rf"B?{name}(?:&{name})?v+N?a*{where}|(?:hv+|pv*N?h)Z?{name}{where}|(?:{where}|{side})c?(?:hv+|v+h?){name}(?:&{name})?"
        rf"|{name}:{where}|{name}&{name}v+a*ot?sx|t*q(?:{where}|{side})v+t*[nf]+|hv+Z[nb]"
    )
    return f"(?:ivFi)?{_listed(clause)}"


def _navigation() -> str:
    name, far = r"t*m?n+", r"(?:c?a*#u+(?:op)?)?"
    where = r"a*(?:o?t?d+x?(?:o?t*p)?|o?md+x?)"
    clause = (
        rf"{name}v+N?{far}c?{where}(?:c?[&|]?{where})*{far}|(?:hv+|pv*N?h)Z?{name}{where}{far}"
        rf"|{where}c?(?:hv+|v+h?|pv*h){name}{far}|{name}:{where}"
    )
    return _listed(clause)


def _primitive_skill() -> str:
    name, point = r"(?:t*[kd]b|t*k?n+)", r"(?:\(#c#(?:c#)?\)|X:#c?&?X:#(?:c?&?X:#)?)"
    clause = (
        rf"{name}(?:v+a*o?|:o?|o)?{point}|{name}(?:&{name})?v+N?a*(?:o?t?d+x?|o)o?{name}"
        rf"|{name}v+N?(?:#u)?a*e|{name}v*g{name}"
    )
    return _listed(clause)


def _svg() -> str:
    point, place = r"\(#c#\)", r"ot?d+l?x?"
    element = rf"t*#?f*k+f*n+(?:c?o?{point})?(?:c?#W&#W)?(?:c?{place})?"
    return (
        rf"(?:t*m?T+v*w|hv+|pv*h)?{element}(?:(?:c&?|&){element})*|t*f*n+(?:{place})?v+a*k+|hv+ZTa*"
        rf"|n:n+cC:k+cd:{point}"
    )


@functools.cache
def _form(kind: str) -> re.Pattern[str]:
    forms = {"navigation": _navigation, "primitive_skill": _primitive_skill, "svg": _svg}
    return re.compile(forms.get(kind, _board)())


@functools.cache
def _class_of(kind: str) -> dict[str, str]:
    """The class of each known word and sign where states of this kind are spoken of."""
    found = {word: name for name, words in _CLASSES.items() for word in words.split()}
    things = {name: each for name, each in nouns(kind).items() if name != "player"}
    names = [*(re.sub("(?<=[a-z])(?=[A-Z])", " ", name) for name in things), *itertools.chain(*things.values())]
    found |= {word: "n" for word in " ".join(names).lower().split() if word not in found}
    if kind in BOARDS:
        found |= dict.fromkeys(nouns(kind)["player"], "p")
        found |= {word: "d" for each in language("en")["directions"].values() for word in each}
    elif kind != "navigation":
        found |= dict.fromkeys(colours.names(), "k")
    found |= {word: name for name, words in _OWN[kind].items() for word in words.split()}
    several = "b" if kind in BOARDS else "?" if kind == "svg" else "n"
    return {f"{word}{end}": several for word, name in found.items() if name == "n" for end in ("s", "es")} | found


def classes_of(kind: str, said: str) -> str:
    """The classes of a lower-case sentence, one letter a word; `?` of what isn't known."""
    known = _class_of(kind)
    return "".join([
        known.get(piece) or ("#" if piece[0].isdecimal() else "k" if piece[0] == "#" else "?")
        for piece in _PIECE.findall(said)
    ])  # fmt: skip


@functools.lru_cache(maxsize=8192)
def unsure_of(kind: str, text: str, part: Part) -> tuple[Span, ...]:
    """The sentences that may have been misread.

    In a text about pictures what comes after such a sentence is unsure too, unless it says which picture it is about.
    So is what "will" be in an observation, and what "is" in a prediction that says elsewhere what will be.
    """
    form, found = _form(kind), list[Span]()
    every = [(classes_of(kind, said), span, " will " in said) for said, span in prepare(kind, text).every]
    foretold = part == "world_modeling" and any(will for *_, will in every)
    for classes, span, will in every:
        sure = will == foretold and "?" not in classes and len(classes) <= _MOST
        sure = sure and form.fullmatch(classes.replace("y", "v")) is not None
        if not sure or (found and kind == "svg" and "T" not in classes):
            found.append(span)
    return tuple(found)
