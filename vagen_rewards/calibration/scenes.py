"""Statements about Navigation, PrimitiveSkill and SVG."""

# ruff: noqa: E501  # tables of templates, one a line

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from vagen_envs.core import State
from vagen_envs.errors import ConfigError
from vagen_envs.seeding import HashStream
from vagen_rewards.scores import Part

Made = tuple[str, bool] | None

_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+")
_WAYS = {
    "development": {
        "ahead": ("ahead", "straight ahead", "directly ahead of me", "in front of me", "right ahead", "forward"),
        "left": (
            "to the left",
            "on my left",
            "to my left",
            "on the left side of the image",
            "to the left of me",
            "at the left",
            "to the left side of me",
            "leftwards",
        ),
        "right": (
            "to the right",
            "on my right",
            "to my right",
            "on the right side of the view",
            "to the right of the robot",
            "at the right",
            "to the right of the agent",
            "on the right side of my view",
        ),
        "back": ("behind me", "somewhere at my back", "behind the agent"),
    },
    "held_out": {
        "ahead": ("ahead of the agent", "straight in front of me", "directly ahead"),
        "left": ("on the left", "off to the left", "on the left of the picture"),
        "right": ("on the right", "off to the right", "on the right-hand side"),
        "back": ("back behind me", "behind"),
    },
}
_SEEN = {
    "development": (
        "The {t} is {w}.",
        "I see the {t} {w}.",
        "There is a {t} {w}.",
        "The {t} can be seen {w}, on top of some furniture.",
        "In the room, the {t} is {w}.",
        "The target, a {t}, is located {w}.",
        "I notice the {t} {w}. The floor is clear.",
        "The {t} stands {w}.",
        "Looking around, the {t} is {w}.",
        "The image shows the {t} {w}.",
        "A {t} stands {w}, next to a wall.",
        "The {t} is visible {w} at some distance.",
        "The {t} which I look for is {w}.",
        "There I see the {t}; it is {w}.",
    ),
    "held_out": (
        "I can see the {t} {w}.",
        "The {t} appears {w}.",
        "In this view the {t} is {w}, on a shelf.",
        "The object of interest, the {t}, is {w}.",
        "The {t} is located {w} and partly hidden.",
    ),
}
_AFTER = {
    "development": (
        "The {t} will be {m}.",
        "After this the {t} will be {m}.",
        "I will move {m} to reach the {t}.",
        "Moving {m} brings me to the {t}.",
        "The {t} will then be further {m}.",
        "The {t} should be {m} after that.",
        "Turning and going {m}, I get to the {t}.",
        "The next view has the {t} {m}.",
        "To reach the {t} I will have to go {m}.",
        "The {t} ends up {m}.",
    ),
    "held_out": (
        "The {t} is then {m}.",
        "I should go {m} towards the {t}.",
        "Next the {t} will appear {m}.",
        "By walking {m} I approach the {t}.",
    ),
}
_MOVES = {
    "ahead": ("ahead", "forward"),
    "left": ("left", "to the left"),
    "right": ("right", "to the right"),
    "back": ("behind", "back"),
}
_NAV_EMPTY = ("", "I see a room with furniture.", "The floor is smooth.", "I will move closer to the {t}.", "The {t} is on the table.",
              "There is a round thing on the floor.")  # fmt: skip
_NAV_CATCH = ("The {t} is either to the left or to the right.", "The {t} may be ahead, left, right or behind me.",
              "The {t} is ahead of me, to my left and to my right.", "Maybe the {t} is ahead or maybe behind.")  # fmt: skip

_PLACED = {
    "development": (
        "The {t} is at {p}.",
        "{k}: {p}",
        "The {t} can be found at {p}.",
        "The position of the {t} is {p}.",
        "I see the {t} located at coordinates {p}.",
        "{t}: {p}",
        "The {t} sits on the table at {p}, ready to be used.",
        "The {t} is currently at about {p} mm.",
        "The {t} lies at {p}.",
        "The {t}'s position: {p}.",
        "For the {t}, I read the coordinates {p}.",
        "{t} = {p}",
        "The {t}, which I need, is at {p}.",
        "The center of the {t} is near {p}.",
    ),
    "held_out": (
        "The {t} is positioned at {p}.",
        "The {t} now rests at {p}.",
        "{k} -> {p}",
        "Coordinates of the {t}: {p}.",
        "The {t} will be at {p} afterwards.",
    ),
}


def makers(kind: str, name: str) -> Callable[[str, State, State, Part, HashStream], Made]:
    """The function that makes a statement of a category, with its label; `None` where it can't."""
    if kind == "navigation":
        return lambda *asked: _navigation(name, *asked)
    if kind == "primitive_skill":
        return lambda *asked: _primitive_skill(name, *asked)
    raise ConfigError(f"there are no templates for states of kind {kind!r} yet")


def _navigation(name: str, category: str, state: Any, other: Any, part: Part, stream: HashStream) -> Made:
    target = " ".join(word.lower() for word in _NAME.findall(state.target_type))
    truth = state.target_direction

    def say(way: str) -> str:
        if part == "grounding":
            words = stream.choice(_WAYS[name][way])
            return stream.choice(_SEEN[name]).format(t=target, w=words)
        return stream.choice(_AFTER[name]).format(t=target, m=stream.choice(_MOVES[way]))

    if category in ("true", "equivalent"):
        return say(truth), True
    if category == "off_by_one":
        return say(stream.choice([way for way in _MOVES if way != truth])), False
    if category == "stale":
        return say(other.target_direction), other.target_direction == truth
    if category == "negated":
        words = {"ahead": "straight ahead", "left": "to the left", "right": "to the right", "back": "behind me"}[truth]
        return f"The {target} is not {words}.", False
    if category == "catch_all":
        return stream.choice(_NAV_CATCH).format(t=target), False
    if category == "empty":
        return stream.choice(_NAV_EMPTY).format(t=target), False
    if category == "other_language":
        return {
            "ahead": "Das Ziel liegt vor mir.",
            "left": "El objeto está a la izquierda.",
            "right": "L'objet est à droite.",
            "back": "目标在我身后。",
        }[truth], True
    if truth == "ahead":
        return f"There is a {target} in the room. I need to move forward in order to reach it.", True
    return f"I will move forward-{truth} to reach the {target}.", truth in ("left", "right")


def _primitive_skill(name: str, category: str, state: Any, other: Any, _: Part, stream: HashStream) -> Made:
    names = list(state.positions)
    chosen = stream.sample(names, min(2, len(names)))

    def say(thing: str, at: Any) -> str:
        return stream.choice(_PLACED[name]).format(t=thing.replace("_", " "), k=thing, p=tuple(at))

    def near(at: Any, low: int, high: int) -> tuple[int, ...]:
        moved = list(at)
        axis = stream.below(3)
        moved[axis] += (low + stream.below(high - low + 1)) * stream.choice((-1, 1))
        return tuple(moved)

    truth = state.positions
    if category in ("true", "equivalent"):
        return " ".join(say(thing, near(truth[thing], 0, 10)) for thing in chosen), True
    if category == "off_by_one":
        return say(chosen[0], truth[chosen[0]]) + " " + say(chosen[-1], near(truth[chosen[-1]], 25, 90)), False
    if category == "stale":
        if set(other.positions) != set(truth):
            return None
        thing = chosen[0]
        fits = all(abs(a - b) <= 10 for a, b in zip(other.positions[thing], truth[thing], strict=True))
        return say(thing, other.positions[thing]), fits
    first = chosen[0].replace("_", " ")
    if category == "negated":
        return f"The {first} is not at {tuple(truth[chosen[0]])}.", False
    if category == "catch_all":
        return f"The {first} is at {tuple(truth[chosen[0]])} or at {near(truth[chosen[0]], 40, 90)}.", False
    if category == "empty":
        return stream.choice(
            ("", "There are things on the table.", f"I will pick the {first}.", "The gripper moves.")
        ), False
    if category == "other_language":
        return None
    return f"The {first} is at {near(truth[chosen[0]], 30, 60)} now, so I can grasp it.", False
