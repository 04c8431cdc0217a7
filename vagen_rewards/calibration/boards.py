"""Statements about Sokoban and FrozenLake."""

# ruff: noqa: E501  # tables of templates, one a line

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vagen_envs.core import State
from vagen_envs.seeding import HashStream
from vagen_rewards.scores import Part

Cell = tuple[int, int]
Made = tuple[str, bool] | None

_DEVELOPMENT = {
    "sentences": (
        "{s} is {p} {o}.",
        "{s} lies {p} {o}.",
        "From {o}, {s} is {b}.",
        "{o} has {s} {p} it.",
        "{s} can be found {p} {o}.",
        "In the image, {s} appears {p} {o}.",
        "I notice that {s} is currently positioned {p} {o}.",
        "Looking at the board, {s} sits {p} {o}, so I should plan around that.",
        "{P} {o}, there is {s}.",
        "{P} {o} we find {s}.",
        "Relative to {o}, {s} is {b}.",
        "With respect to {o}, {s} is located {b}.",
        "It seems that {s} is {p} {o}.",
        "{o} is on the board, and {s} is {p} it.",
        "Currently, {s} stands {p} {o}",
        "we can see {s} {p} {o}",
        "{s} is situated one or more cells {p} {o}.",
        "The picture shows {s} {p} {o}.",
        "{s}: {p} {o}",
        "- {s} is {p} {o}",
        "Observation: {s} is {p} {o}; the rest is floor.",
        "{s} is several tiles {p} {o}.",
        "Because {s} is {p} {o}, I will move there next.",
        "{s} is still {p} {o}.",
        "The grid has walls around it. {s} is {p} {o}.",
        "{s} rests {p} {o}.",
        "What I see: {s} is {p} {o}.",
        "On this map {s} is {p} {o}.",
        "{s} is now {p} {o} and nothing stands between them.",
        "At the moment, {s} remains {p} {o}.",
        "{s} is, as far as I can tell, {p} {o}.",
        "Somewhat far {p} {o} is {s}.",
        "{P} {o} stands {s}.",
        "Compared to {o}, {s} is {b}.",
        "Seen from {o}, {s} is {b}.",
        "{s} occupies a floor cell {p} {o}.",
        "Notice {s}, which is {p} {o}.",
        "There I can make out {s} {p} {o}.",
        "{s} happens to be {p} {o}!",
        "1. {s} is {p} {o}",
        "**State**: {s} is {p} {o}.",
        "{s} is two steps {p} {o}.",
        "The relevant fact is that {s} is {p} {o}.",
        "{s} has ended up {p} {o}.",
        "{o} is easy to spot; {s} is {p} {o}.",
        "Therefore, {s} is {p} {o} (see the image).",
        "{o} can see {s} {p} it.",
        "{s} is right there {p} {o}.",
        "{s} is over there, {p} {o}.",
        "{s} is found {p} {o}.",
        "We have {s} {p} {o}.",
        "I observe {s} {p} {o}.",
        "In this state, {s} is {p} {o} on the grid.",
        "{s} is placed {p} {o}, surrounded by walls.",
        "As for {s}, it is {p} {o}.",
        "Starting from {o}, {s} is {b}.",
        "When viewed from {o}, {s} is {b}.",
        "There is {s} {p} {o}.",
        "{P} {o} is where {s} is.",
        "{s} must be {p} {o}.",
        "{s} is three rows or columns {p} {o}.",
        "{s} is clearly {p} {o}, while the walls are around us.",
        "According to the picture, {s} is {p} {o}.",
        "{o} is not moving, and {s} is {p} {o}.",
        "{s} (marked in colour) is {p} {o}.",
        "* {s} is {p} {o};",
        "First, {s} is {p} {o}.",
        "Both things considered, {s} is {p} {o}.",
        "{s} is {p} {o} - that is what matters.",
        "{s} is visible {p} {o}.",
        "From the image, {s} is {p} {o}.",
        "I can see that {s} is {p} {o}.",
        "{s} is just {p} {o}.",
        "{s} is one cell {p} {o}.",
        "{s} is immediately {p} {o}.",
        "The current state shows that {s} is {p} {o}.",
        "In the current frame, {P} {o} is {s}.",
        "{s} is in the area {p} {o}.",
        "{s} will have to be reached; it is {p} {o}.",
        "The location of {s} is {p} {o}.",
        "{s}, as shown, is {p} {o}.",
        "{s} is situated {p} {o}, which is good.",
        "It can be seen that {s} lies {p} {o}.",
        "{o} is here. {s} is {p} {o}.",
        "With {s} {p} {o}, I know what to do.",
        "So {s} is {p} {o}.",
        "{s} is two tiles {p} {o} and reachable.",
        "Looking from {o}, {s} is {b}.",
        "{s} => {p} {o}",
        "At this point {s} is {p} {o}, if I see it correctly.",
        "{s} is now located {p} {o}.",
        "{s} is to be found {p} {o}.",
        "Here, {s} is {p} {o}.",
        "{s} is displayed {p} {o}.",
        "The screenshot has {s} {p} {o}.",
        "{s} is at a spot {p} {o}.",
        "I believe {s} is {p} {o}.",
        "From what I see, {s} is {p} {o}.",
        "{s} is a few cells {p} {o}.",
        "{P} {o} is {s}, and the rest is empty.",
        "{s} lies some distance {p} {o}.",
        "{s} is {p} {o}, so the way is free.",
        "Viewed from {o}, {s} is {b}.",
        "{o} is on the floor and {s} is {p} {o}.",
        "In relation to {o}, {s} is {b}.",
        "State: {s} is {p} {o}",
        "Note that {s} is located {p} {o}.",
        "{s} is, of course, {p} {o}.",
        "{s} appears to be {p} {o}.",
        "What matters: {s} is {p} {o}.",
        "{s} is drawn {p} {o} in the picture.",
    ),
    "words": {
        "player": (
            "the player",
            "me",
            "the character",
            "the agent",
            "the worker",
            "the robot",
            "the player character",
            "the little man",
            "myself",
            "the person",
            "the avatar",
            "the human",
        ),
        "box": (
            "the box",
            "the yellow box",
            "the crate",
            "the wooden crate",
            "the brown box",
            "the only box",
            "the movable box",
            "this crate",
            "the box in question",
            "the pushable box",
            "that box",
            "the heavy box",
        ),
        "target": (
            "the target",
            "the goal",
            "the target spot",
            "the destination",
            "the goal position",
            "the target location",
            "the target cell",
            "the target square",
            "the goal tile",
            "the goal location",
            "the red target",
            "the target point",
            "the goal square",
        ),
        "hole": (
            "a hole",
            "a dangerous hole",
            "one hole",
            "an ice hole",
            "a single hole",
            "another hole",
            "some hole",
            "a nasty pit",
            "a hole in the ice",
            "a visible hole",
            "one of the holes",
            "a deep hole",
        ),
    },
    "prediction": (
        "{x}",
        "After this action, {x}",
        "In the next state {x}",
        "Then {x}",
        "If I do this, {x}",
        "Next, {x}",
        "Once that is done, {x}",
        "As a result, {x}",
        "Having moved, I expect this: {x}",
        "Afterwards {x}",
        "After moving, {x}",
        "I expect that {x}",
        "My prediction: {x}",
        "After the actions, {x}",
        "Following this move, {x}",
        "The next state: {x}",
        "As predicted, {x}",
        "In the next step, {x}",
        "When I have moved, {x}",
        "Result: {x}",
        "The outcome is that {x}",
    ),
}
_HELD_OUT = {
    "sentences": (
        "In the picture {s} is {p} {o}.",
        "{s} is presently {p} {o}.",
        "I think {s} is {p} {o}.",
        "Clearly, {s} lies {p} {o}.",
        "{s} remains {p} {o}, as before.",
        "There should be {s} {p} {o}.",
        "Just {p} {o} is {s}.",
        "{s} is three cells {p} {o}.",
        "To be precise, {s} is {p} {o}.",
        "{s} shows up {p} {o}.",
        "My view: {s} is {p} {o}.",
        "Seen by {o}, {s} is {b}.",
        "Now that I look, {s} is {p} {o}.",
        "{s} is well {p} {o}.",
        "{s} waits {p} {o}.",
        "It is {s} that is {p} {o}.",
    ),
    "words": {
        "player": ("the player", "the agent", "the avatar"),
        "box": ("the box", "the crate", "the small box"),
        "target": ("the target", "the goal", "the target location"),
        "hole": ("a hole", "a hole", "one hole"),
    },
    "prediction": ("{x}", "Then, {x}", "After that, {x}", "I predict that {x}"),
}
_SETS: dict[str, Any] = {"development": _DEVELOPMENT, "held_out": _HELD_OUT}

_V = {-1: ("above", "above", "north of", "higher than"), 1: ("below", "below", "south of", "underneath", "lower than")}
_H = {-1: ("to the left of", "left of", "on the left side of", "west of"),
      1: ("to the right of", "right of", "on the right side of", "east of")}  # fmt: skip
_D = {(-1, -1): ("northwest of", "to the upper left of", "above and to the left of", "diagonally up-left of"),
      (-1, 1): ("northeast of", "to the upper right of", "above and to the right of", "on the top right side of"),
      (1, -1): ("southwest of", "to the lower left of", "below and to the left of", "down and to the left of"),
      (1, 1): ("southeast of", "to the lower right of", "below and to the right of", "below and on the right side of")}  # fmt: skip
_B = {(-1, None): ("above", "up"), (1, None): ("below", "down"), (None, -1): ("to the left", "on the left"),
      (None, 1): ("to the right", "on the right"), (-1, -1): ("up and to the left",), (-1, 1): ("above and to the right",),
      (1, -1): ("below and to the left",), (1, 1): ("down and to the right",)}  # fmt: skip

_EMPTY = {
    "held_out": (
        "", "\n\n", "The player is in the bottom row.", "The goal is on the far right of the map.", "Nothing has changed.",
        "The box stands against the upper wall.", "The player is one step away from the goal.", "I can solve this.",
        "The target is in the second row from the top.", "The character is in the lower left quarter.", "Looks good!",
        "The player and the box are close together.", "Left, left, up.", "The agent is surrounded by floor.",
    ),
    "development": (
        " ", "...", "The player is at the top of the grid.", "The box is in the corner and the goal is in the middle.",
        "I am standing in the upper half of the board.", "Everything is as expected.", "The image shows a puzzle game.",
        "The player is near the box.", "The target is visible.", "I have to be careful here.", "N/A",
        "The player stands on the left side of the map and the goal on the right side of the map.",
        "There are walls on all four sides.", "The character is facing the goal.",
    ),
}  # fmt: skip
_CATCH = {
    "held_out": (
        "The {t} is above, or below, or left, or right of the player.",
        "Either the {t} is above the player or it is below the player.",
        "It is possible that the {t} is to the left of the player, or possibly to the right.",
        "The {t} is to the left or right and above or below the player.",
        "The {t} is to the left of the player. The {t} is to the right of the player. The {t} is above the player. The {t}"
        " is below the player.",
        "I can't say whether the {t} is above the player.",
        "The {t} is somewhere to the right of the player or somewhere to the left of the player.",
    ),
    "development": (
        "The {t} is either to the left or to the right of the player.",
        "The {t} may be above the player, or it may be below the player.",
        "The {t} could be anywhere: above, below, left or right of the player.",
        "The {t} is above the player, and the {t} is below the player, and the {t} is left of the player, and the {t}"
        " is right of the player.",
        "Depending on the view, the {t} is above or below or beside the player.",
        "Perhaps the {t} is to the left of the player, perhaps to the right of the player.",
        "The {t} might be above the player.",
    ),
}
_LANGUAGES = (
    "Der Spieler steht {de} dem Ziel.", "El jugador está {es} la meta.", "玩家在目标的{zh}。", "Le joueur est {fr} la cible.",
)  # fmt: skip
_FOREIGN = {
    "de": {-1: "oberhalb von", 1: "unterhalb von"}, "es": {-1: "encima de", 1: "debajo de"},
    "zh": {-1: "上方", 1: "下方"}, "fr": {-1: "au-dessus de", 1: "en dessous de"},
}  # fmt: skip
_APPENDIX: dict[str, tuple[tuple[str, Any], ...]] = {
    "sokoban": (
        ("The player goes left and afterwards shoves the box left towards the target.", None),
        ("The player moves down and then right, which brings the box to the target.", None),
        ("The player is under the box, and the box is under the target.", ("player", 1, "box", "box", 1, "target")),
        ("The player stands at the wall's bottom.", None),
    ),
    "frozen_lake": (
        ("The player will arrive at the gift's position.", "at"),
        ("The player is at the upper left, the gift at the lower right, holes are in the right corners.", None),
        ("The player is in the middle of the lake, the gift on the left side, a hole on the right side.", None),
        ("The player goes left or right around the hole and on towards the icy blocks.", None),
    ),
}


def makers(kind: str, name: str) -> Callable[[str, State, State, Part, HashStream], Made]:
    """The function that makes a statement of a category, with its label; `None` where it can't."""

    def make(category: str, state: Any, other: Any, part: Part, stream: HashStream) -> Made:
        things = _things(kind, state)
        if category in ("true", "stale"):
            # what is said is taken from `source`; whether it holds is checked against `state`
            source = things if category == "true" else _things(kind, other)
            if {key: len(value) for key, value in source.items()} != {key: len(value) for key, value in things.items()}:
                return None
            several = kind == "sokoban" and len(source["box"]) > 1  # then two sentences might mean two boxes
            said = [_fact(kind, source, stream, first=i == 0) for i in range(1 if several else 2)]
            return _write(said, name, part, stream), all(_holds(things, fact) for fact in said)
        if category == "equivalent":
            subject, i, v, h, target, j = _fact(kind, things, stream, first=True)
            turned = (target, j, None if v is None else -v, None if h is None else -h, subject, i)
            return _write([turned], name, part, stream), _holds(things, turned)
        if category in ("negated", "off_by_one"):
            fact = _fact(kind, things, stream, first=True)
            if category == "negated":
                return _negated(fact, stream), False
            wrong = _flipped(fact)
            if _holds(things, wrong):
                return None
            return _write([_fact(kind, things, stream, first=True), wrong], name, part, stream), False
        if category == "catch_all":
            return stream.choice(_CATCH[name]).format(t="goal" if kind == "frozen_lake" else "box"), False
        if category == "empty":
            return stream.choice(_EMPTY[name]), False
        if category == "other_language":
            rows = _sign(things["player"][0][0] - things["target"][0][0])
            if rows == 0 or len(things["target"]) > 1:
                return None
            foreign = {language: words[rows] for language, words in _FOREIGN.items()}
            return stream.choice(_LANGUAGES).format(**foreign), True
        said_so, truth = stream.choice(_APPENDIX[kind])  # `None`: never true
        if truth is None:
            return said_so, False
        me, goal = things["player"][0], things["target"][0]
        if truth == "at":
            return said_so, me == goal
        if len(things["box"]) > 1:
            return None
        box = things["box"][0]
        return said_so, me[0] > box[0] > goal[0]

    return make


Fact = tuple[str, int, int | None, int | None, str, int]


def _things(kind: str, state: Any) -> dict[str, tuple[Cell, ...]]:
    if kind == "sokoban":
        return {"player": (state.player,), "box": state.boxes, "target": state.targets}
    return {"player": (state.player,), "target": (state.target,), "hole": state.holes}


def _sign(x: int) -> int:
    return (x > 0) - (x < 0)


def _fact(kind: str, things: dict[str, tuple[Cell, ...]], stream: HashStream, first: bool) -> Fact:
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
        i, j = stream.below(len(things[subject])), stream.below(len(things[other]))
        a, b = things[subject][i], things[other][j]
        v, h = _sign(a[0] - b[0]), _sign(a[1] - b[1])
        if v and h and stream.below(3) == 0:  # one direction of a diagonal is true as well
            v, h = (v, None) if stream.below(2) else (None, h)  # type: ignore[assignment]
        if v or h:
            return subject, i, v or None, h or None, other, j
    return "target", 0, 0, 0, "player", 0


def _holds(things: dict[str, tuple[Cell, ...]], fact: Fact) -> bool:
    """Whether some such thing stands so: with several, the words don't say which."""
    subject, _, v, h, other, _ = fact

    def so(a: Cell, b: Cell) -> bool:
        return (v is None or _sign(a[0] - b[0]) == v) and (h is None or _sign(a[1] - b[1]) == h)

    return any(so(a, b) for a in things[subject] for b in things[other])


def _flipped(fact: Fact) -> Fact:
    subject, i, v, h, other, j = fact
    if v is not None:
        return subject, i, -v or 1, h, other, j
    return subject, i, v, -(h or 0) or 1, other, j


def _phrase(v: int | None, h: int | None, stream: HashStream) -> str:
    if v == 0 and h == 0:
        return "at the same position as"
    if v and h:
        return stream.choice(_D[v, h])
    return stream.choice(_V[v] if v else _H[h or 1])


def _bare(v: int | None, h: int | None, stream: HashStream) -> str:
    return stream.choice(_B[v or None, h or None]) if v or h else "at the same position"


def _write(facts: list[Fact], name: str, part: Part, stream: HashStream) -> str:
    """The facts in words. Statements about several things of a kind say "one box", so any may be meant."""
    chosen = _SETS[name]
    sentences = []
    for subject, _, v, h, other, _ in dict.fromkeys(facts):
        template = stream.choice(chosen["sentences"])
        if v == 0 and h == 0:
            template = "{s} is {p} {o}."
        s, o = stream.choice(chosen["words"][subject]), stream.choice(chosen["words"][other])
        phrase = _phrase(v, h, stream)
        if s in ("me", "myself"):
            s, template = "the player", "{s} is {p} {o}."
        sentence = template.format(s=s, o=o, p=phrase, P=phrase[0].upper() + phrase[1:], b=_bare(v, h, stream))
        if part == "world_modeling":
            sentence = stream.choice(chosen["prediction"]).format(x=sentence)
            sentence = sentence.replace(" is ", " will be ", 1) if stream.below(2) else sentence
        sentences.append(sentence[0].upper() + sentence[1:])
    return " ".join(each if each[-1] == "." else f"{each}\n" for each in sentences).strip()


def _negated(fact: Fact, stream: HashStream) -> str:
    subject, _, v, h, other, _ = fact
    s, o, phrase = f"the {subject}", f"the {other}", _phrase(v, h, stream)
    text: str = stream.choice((f"{s} is not {phrase} {o}.", f"{s} isn't {phrase} {o}.", f"{s} is nowhere near being {phrase} {o}, not {phrase} {o}."))  # fmt: skip
    return text[0].upper() + text[1:]
