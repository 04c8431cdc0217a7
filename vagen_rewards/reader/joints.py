"""Finds where the clauses of a sentence end, and what its commas and conjunctions join.

The grammar looks one word ahead, which is too short to tell "above the player and the box" from
"above the player and the box is …". Here a joint is followed to the word after the thing that it
leads to.
"""

from __future__ import annotations

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
    several: str = ""  # the kind of which "another" is one

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


def clauses(words: list[Word]) -> list[list[Word]]:
    """The clauses of a sentence, with joints of things as `JOINT` and others as `AND`."""
    found: list[list[Word]] = [[]]
    i = 0
    while i < len(words):
        word = words[i]
        if word.kind == "PLAN":
            found.append(words[i:])
            break
        if word.kind == "CLAUSE":
            found.append([])
        if word.kind != "AND":
            found[-1] += [word] * (word.kind != "CLAUSE")
            i += 1
            continue
        while i < len(words) and words[i].kind == "AND":
            i += 1
        kind = _joined(found[-1], words[i:])
        if kind == "CLAUSE":
            found.append([])
        elif kind:
            found[-1].append(word._replace(kind=kind))
    return [clause for clause in found if clause]


def _joined(before: list[Word], after: list[Word]) -> str:
    """What a joint joins: `JOINT`, `AND` or `CLAUSE`; nothing if it is idle."""
    if _is_idle(before, after):
        return ""
    if after[0].kind in ("THERE", "PICTURE", "ORDER") or _is_told(before):
        return "CLAUSE"
    kinds = [word.kind for word in after]
    if kinds[0] in _QUANTITIES:
        kinds = kinds[1:]
    if kinds[:1] != ["THING"]:
        return "AND"
    if any(word.kind == "ORDER" for word in before):
        return "JOINT"
    if all(word.kind in _BEFORE_THINGS for word in before):
        return "AND" if before[0].kind == "OF" and len(before) == 2 else "JOINT"
    ends = kinds[1:2] in ([], ["AND"])
    return "JOINT" if before[-1].kind == "THING" and ends else "CLAUSE"


def _is_idle(before: list[Word], after: list[Word]) -> bool:
    """Whether a joint has nothing to join on one side."""
    if not before or not after:
        return True
    return before[-1].kind in ("COLON", "IS", "ORDER") or after[0].kind == "IS"


def _is_told(before: list[Word]) -> bool:
    """Whether the words are a whole clause, as in "to my left is a hole, and …"."""
    told = any(word.kind in ("IS", "THERE") for word in before)
    return told and before[0].kind in _PLACES and before[-1].kind == "THING"
