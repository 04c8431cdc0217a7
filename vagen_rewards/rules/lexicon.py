"""The words of each language, from its file in `languages/`."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "languages"


@functools.cache
def language(name: str) -> dict[str, Any]:
    """All that a language's file says."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def nouns(kind: str) -> dict[str, list[str]]:
    """What the things of a kind of state go by in English."""
    found: dict[str, list[str]] = language("en")["nouns"][kind]
    return found


def pattern_of(phrases: list[str]) -> str:
    """A regular expression of one of these phrases, in the singular or the plural, the longest first."""
    return "|".join(f"{re.escape(phrase)}(?:e?s)?" for phrase in sorted(phrases, key=len, reverse=True))


def by_first_letter(patterns: Iterable[str]) -> str:
    """A regular expression of one of these that begin with a letter, in their order; it soon gives up."""
    groups: dict[str, list[str]] = {}
    for pattern in patterns:
        groups.setdefault(pattern[0], []).append(pattern[1:])
    return "|".join([f"{first}(?:{'|'.join(others)})" for first, others in groups.items()])


@functools.cache
def _colours() -> frozenset[str]:
    """CSS's names of colours."""
    from PIL import ImageColor

    return frozenset(ImageColor.colormap)


@functools.cache
def known_words(kind: str) -> frozenset[str]:
    """Every English word that is known where states of this kind are spoken of."""
    data = language("en")
    phrases = [phrase for each in data["nouns"][kind].values() for phrase in each]
    phrases += [part for name in data["nouns"][kind] for part in (name, *re.findall(r"[A-Z]?[a-z]+", name))]
    phrases += [phrase for name, each in data["directions"].items() for phrase in (name, *each)]
    said = " ".join([*phrases, *data["words"].values()]).lower()
    words = {*re.findall(r"[a-z]+", said), *data["colours"], *_colours()}
    return frozenset({*words, *(f"{word}s" for word in words), *(f"{word}es" for word in words)})


@functools.cache
def misspelt(kind: str) -> dict[str, str]:
    """Words with one letter left out, doubled or two changed over, and what is meant."""
    data, known, meant = language("en"), known_words(kind), dict[str, str]()
    names = {word for each in data["nouns"][kind].values() for phrase in each for word in phrase.lower().split()}
    names |= {part.lower() for name in data["nouns"][kind] for part in re.findall(r"[A-Z][a-z]+|^[a-z]+", name)}
    names |= {phrase for name, each in data["directions"].items() for phrase in (name, *each)}
    names |= {"ahead", "behind", "forward", "front", "corner", "middle", "center"}
    if kind in ("svg", "primitive_skill"):
        names |= {"orange", "yellow", "green", "purple", "white", "black", "brown", "closed"}
    for word in sorted(names):
        if len(word) == 3 and word.isalpha() and (slip := word[0] + word[2] + word[1]) not in known | names:
            meant.setdefault(slip, word)
        if len(word) < 4 or not word.isalpha():
            continue
        slips = [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)]
        slips += [word[:i] + word[i] + word[i:] for i in range(len(word))]
        if len(word) > 4:
            slips += [word[:i] + word[i + 1 :] for i in range(1, len(word))]
        for slip in slips:
            if slip not in known and slip not in names:
                meant.setdefault(slip, word)
    return meant


def spelt(kind: str, text: str, words: Iterable[str]) -> str:
    """A lower-case text of these words with its misspelt nouns and directions mended."""
    meant = misspelt(kind)
    if meant.keys().isdisjoint(words):
        return text
    known = known_words(kind)
    strange = sorted({word.strip(".,:()'\"") for word in set(text.split()) - known} & meant.keys())
    for word in strange:
        text = re.sub(rf"\b{word}\b", meant[word], text)
    return text
