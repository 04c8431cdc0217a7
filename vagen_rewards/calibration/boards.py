"""Statements about Sokoban and FrozenLake."""

from __future__ import annotations

import re
from typing import Any

from vagen_envs.seeding import HashStream
from vagen_rewards.scores import Part

Cell = tuple[int, int]
Things = dict[str, tuple[Cell, ...]]
Fact = tuple[str, int | None, int | None, str]
"""Subject, vertical and horizontal side (`None` where unsaid), reference."""

_STRAIGHT = re.compile(r"\b(?:directly|immediately|exactly|straight|due)\b")

Made = tuple[str, bool] | None

_SIDES = {
    (-1, None): "above", (1, None): "below", (None, -1): "left", (None, 1): "right", (-1, -1): "above left",
    (-1, 1): "above right", (1, -1): "below left", (1, 1): "below right",
}  # fmt: skip


def make(
    kind: str, templates: dict[str, Any], category: str, state: Any, other: Any, part: Part, stream: HashStream
) -> Made:
    """A statement of a category with its label; `None` where this state has none."""
    words, things = templates["boards"], _things(kind, state)
    if category in ("true", "stale"):
        # what is said is taken from `source`; whether it holds is checked against `state`
        source = things if category == "true" else _things(kind, other)
        if {key: len(value) for key, value in source.items()} != {key: len(value) for key, value in things.items()}:
            return None
        several = kind == "sokoban" and len(source["box"]) > 1  # then two sentences might mean two boxes
        said = [_fact(kind, source, stream, first=i == 0) for i in range(1 if several else 2)]
        loosely = [_holds(things, (subject, v or None, h or None, over)) for subject, v, h, over in said]
        if loosely != [_holds(things, fact) for fact in said]:
            return None  # "directly above" doesn't hold where "above" does
        return _write(said, words, part, stream), all(loosely)
    if category == "equivalent":
        subject, v, h, reference = _fact(kind, things, stream, first=True)
        turned = (reference, None if v is None else -v, None if h is None else -h, subject)
        return _write([turned], words, part, stream), _holds(things, turned)
    if category in ("negated", "off_by_one"):
        fact = _fact(kind, things, stream, first=True)
        if category == "negated":
            if fact[1:3] == (0, 0):
                return None  # nothing is written that could be denied
            return _negated(fact, words, stream), False
        wrong = _flipped(fact)
        subject, v, h, over = wrong
        if _holds(things, (subject, v or None, h or None, over)):
            return None
        return _write([_fact(kind, things, stream, first=True), wrong], words, part, stream), False
    if category == "catch_all":
        return stream.choice(words["catch_all"]).format(t="goal" if kind == "frozen_lake" else "box"), False
    if category == "empty":
        return stream.choice(words["empty"]), False
    if category == "other_language":
        rows = _sign(things["player"][0][0] - things["target"][0][0])
        if rows == 0 or len(things["target"]) > 1:
            return None
        language = stream.choice(words["languages"])
        return language["text"].format(side=language["above" if rows < 0 else "below"]), True
    text, holds = stream.choice(words["cases"][kind])
    if holds == "never":
        return text, False
    me, goal = things["player"][0], things["target"][0]
    if holds == "at the target":
        return text, me == goal
    if len(things["box"]) > 1:
        return None
    return text, me[0] > things["box"][0][0] > goal[0]  # "player below box below target"


def _things(kind: str, state: Any) -> Things:
    if kind == "sokoban":
        return {"player": (state.player,), "box": state.boxes, "target": state.targets}
    return {"player": (state.player,), "target": (state.target,), "hole": state.holes}


def _sign(x: int) -> int:
    return (x > 0) - (x < 0)


def _fact(kind: str, things: Things, stream: HashStream, first: bool) -> Fact:
    """A true relation; the first of a lake is the goal's, which must be said."""
    pairs = (
        [("target", "player")]
        if kind == "frozen_lake"
        else [("box", "player"), ("target", "player"), ("target", "box")]
    )
    if kind == "frozen_lake" and not first and things["hole"]:
        pairs = [("hole", "player")]
    for _ in range(50):
        subject, other = stream.choice(pairs)
        a = things[subject][stream.below(len(things[subject]))]
        b = things[other][stream.below(len(things[other]))]
        v, h = _sign(a[0] - b[0]), _sign(a[1] - b[1])
        if v and h and stream.below(3) == 0:  # one direction of a diagonal is true as well
            return (subject, v, None, other) if stream.below(2) else (subject, None, h, other)
        if v or h:
            return subject, v, h, other
    return "target", 0, 0, "player"


def _holds(things: Things, fact: Fact) -> bool:
    """Whether some such thing stands so: with several, the words don't say which."""
    subject, v, h, other = fact
    return any(
        (v is None or _sign(a[0] - b[0]) == v) and (h is None or _sign(a[1] - b[1]) == h)
        for a in things[subject]
        for b in things[other]
    )


def _flipped(fact: Fact) -> Fact:
    subject, v, h, other = fact
    if v is not None:
        return subject, -v or 1, h, other
    return subject, v, -(h or 0) or 1, other


def _write(facts: list[Fact], words: dict[str, Any], part: Part, stream: HashStream) -> str:
    """The facts in words. Of several things of a kind any may be meant."""
    sentences = []
    for fact in dict.fromkeys(facts):
        sentence = _sentence(stream.choice(words["sentences"]), fact, words, stream)
        if part == "world_modeling":
            sentence = stream.choice(words["predictions"]).format(x=sentence)
            sentence = sentence.replace(" is ", " will be ", 1) if stream.below(2) else sentence
        sentences.append(sentence[0].upper() + sentence[1:])
    return " ".join(each if each[-1] == "." else f"{each}\n" for each in sentences).strip()


def _sentence(template: str, fact: Fact, words: dict[str, Any], stream: HashStream) -> str:
    subject, v, h, other = fact
    s, o = stream.choice(words["things"][subject]), stream.choice(words["things"][other])
    if v == 0 and h == 0:
        return f"{s} is at the same position as {o}."
    side = _SIDES[v or None, h or None]
    phrases, bares = words["sides"][side], words["bare"][side]
    if None in (v, h):  # what is above and to one side isn't "directly above"
        phrases = [each for each in phrases if not _STRAIGHT.search(each)] or phrases
        bares = [each for each in bares if not _STRAIGHT.search(each)] or bares
    phrase, bare = stream.choice(phrases), stream.choice(bares)
    return template.format(s=s, o=o, p=phrase, P=phrase[0].upper() + phrase[1:], b=bare)


def _negated(fact: Fact, words: dict[str, Any], stream: HashStream) -> str:
    text = _sentence(stream.choice(words["negated"]), fact, words, stream)
    return text[0].upper() + text[1:]
