"""Finds where the clauses of a sentence end, and what its commas and conjunctions join.

The grammar looks one word ahead, which is too short to tell "above the player and the box" from
"above the player and the box is …". Here a joint is followed to the word after the thing that it
leads to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vagen_rewards.reader.words import Mention, Word

_BEFORE_THINGS = ("ALL", "NO", "NUM", "THING", "JOINT", "THERE", "OF", "ORDER", "PICTURE")
"""Words that may stand before the verb of a clause."""

_PLACES = ("IN", "ON", "WAY", "EXACT", "NEAR")
_QUANTITIES = ("ALL", "NO", "NUM")
_LABELLED = ("IS", "COLON", "SHARE")
"""What follows the number of a thing, as in "box 1 is"; in "goal 1 up" the number is a distance."""


class Names(NamedTuple):
    """Names of things that have none of their own, such as "a hole" and "another one"."""

    unnamed: int = 0  # things that got a name
    several: str = ""  # the kind that "another" refers to

    def given(self, words: list[Word]) -> tuple[list[Word], Names]:
        """The words, with articles and numbers joined to their things, and the names after them."""
        names = self
        found: list[Word] = []
        for word in words:
            if word.kind == "THING":
                names = names._with(found, word)
            elif word.kind in ("WAY", "EXACT") and _is_owner(found):
                found[-2:] = [Word("POSS", found[-2].value.kind, found[-2].span), word]
            else:
                found.append(word)
            if len(found) > 2 and _is_label(found[-3], found[-2], word):
                found[-3:] = [_labelled(*found[-3:-1]), found[-1]]
        if len(found) > 1 and _is_label(found[-2], found[-1], None):
            found[-2:] = [_labelled(*found[-2:])]
        for i, word in enumerate(found):
            if word.kind == "ANOTHER" and names.several:
                names, mention = names._new(names.several)
                found[i] = Word("THING", mention, word.span)
        return [word for word in found if word.kind != "A"], names

    def _with(self, found: list[Word], word: Word) -> Names:
        """Add a thing to the words before it; an article or a number makes it one of its kind."""
        mention: Mention = word.value
        last = found[-1] if found else None
        names = self._replace(several=mention.kind) if mention.plural else self
        single = last is not None and (last.kind in ("A", "ANOTHER") or last.value == 1.0)
        if last is None or not single or mention.plural or mention.label:
            found.append(word)
            return names
        names, new = self._new(mention.kind)
        named = word._replace(value=new, span=(last.span[0], word.span[1]))
        if last.kind == "NUM":
            found.append(named)
        else:
            found[-1] = named
        return names

    def _new(self, kind: str) -> tuple[Names, Mention]:
        return Names(self.unnamed + 1, kind), Mention(kind, f"a{self.unnamed + 1}")


def _is_owner(found: list[Word]) -> bool:
    """Whether the words end like "the player's"."""
    return len(found) > 1 and found[-2].kind == "THING" and found[-1].value == "'s"


def _labelled(thing: Word, number: Word) -> Word:
    return thing._replace(value=thing.value._replace(label=f"{number.value:g}"))


def _is_label(thing: Word, number: Word, after: Word | None) -> bool:
    """Whether a number names the thing before it, as in "box1" and "box 1 is"."""
    if number.kind != "NUM" or thing.kind != "THING" or thing.value.plural:
        return False
    glued = thing.span[1] == number.span[0]
    return glued or (after is not None and after.kind in _LABELLED)


Kind = tuple[str, int]
"""The class of a word, and the word's place in the sentence."""


def clauses(kinds: Sequence[str]) -> list[list[Kind]]:
    """The clauses of a sentence, with joints of things as `JOINT` and others as `AND`."""
    found: list[list[Kind]] = [[]]
    place = 0
    while place < len(kinds):
        kind = kinds[place]
        if kind == "PLAN":
            found.append(list(zip(kinds[place:], range(place, len(kinds)), strict=True)))
            break
        if kind == "CLAUSE":
            found.append([])
        elif kind != "AND":
            found[-1].append((kind, place))
        elif not place or kinds[place - 1] != "AND":
            joint = _joined([each for each, _ in found[-1]], _after(kinds, place))
            if joint == "CLAUSE":
                found.append([])
            elif joint:
                found[-1].append((joint, place))
        place += 1
    return [clause for clause in found if clause]


def _after(kinds: Sequence[str], place: int) -> Sequence[str]:
    """What follows the joints that begin at a place."""
    while place < len(kinds) and kinds[place] == "AND":
        place += 1
    return kinds[place:]


def _joined(before: Sequence[str], after: Sequence[str]) -> str:
    """What a joint joins: `JOINT`, `AND` or `CLAUSE`; nothing if it is idle."""
    if _is_idle(before, after):
        return ""
    if after[0] in ("THERE", "PICTURE", "ORDER") or _is_told(before):
        return "CLAUSE"
    if after[0] in _QUANTITIES:
        after = after[1:]
    if not after or after[0] != "THING":
        return "AND"
    if "ORDER" in before:
        return "JOINT"
    if all(kind in _BEFORE_THINGS for kind in before):
        return "AND" if before[0] == "OF" and len(before) == 2 else "JOINT"
    ends = len(after) < 2 or after[1] == "AND"
    return "JOINT" if before[-1] == "THING" and ends else "CLAUSE"


def _is_idle(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether a joint has nothing to join on one side."""
    if not before or not after:
        return True
    return before[-1] in ("COLON", "IS", "ORDER") or after[0] == "IS"


def _is_told(before: Sequence[str]) -> bool:
    """Whether the words are a whole clause, as in "to my left is a hole, and …"."""
    told = "IS" in before or "THERE" in before
    return told and before[0] in _PLACES and before[-1] == "THING"
