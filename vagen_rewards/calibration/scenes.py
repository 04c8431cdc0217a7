"""Statements about Navigation and PrimitiveSkill."""

from __future__ import annotations

from typing import Any

from vagen_envs.navigation.state import words as plain
from vagen_envs.seeding import HashStream
from vagen_rewards.calibration.boards import Made
from vagen_rewards.scores import Part


def navigation(
    kind: str, templates: dict[str, Any], category: str, state: Any, other: Any, part: Part, stream: HashStream
) -> Made:
    """A statement of a category with its label."""
    words, truth, target = templates["navigation"], state.target_direction, plain(state.target_type)

    def say(way: str, name: str = target) -> str:
        if part == "grounding":
            return _fill(stream.choice(words["seen"]), t=name, w=stream.choice(words["ways"][way]))
        return _fill(stream.choice(words["after"]), t=name, m=stream.choice(words["moves"][way]))

    if category == "true":
        return say(truth), True
    if category == "equivalent":
        return say(truth, stream.choice(words["names"].get(state.target_type, [target]))), True
    if category == "off_by_one":
        return say(stream.choice([way for way in words["moves"] if way != truth])), False
    if category == "stale":
        return say(other.target_direction), other.target_direction == truth
    if category == "negated":
        return _fill(stream.choice(words["negated"]), t=target, w=stream.choice(words["ways"][truth])), False
    if category in ("catch_all", "empty"):
        return _fill(stream.choice(words[category]), t=target), False
    if category == "other_language":
        return stream.choice(words["languages"][truth]), True
    text, holds = stream.choice(words["cases"])
    if holds != "sideways":
        return _fill(text, t=target), holds == truth
    return (_fill(text, t=target, way=truth), True) if truth in ("left", "right") else None


def primitive_skill(
    kind: str, templates: dict[str, Any], category: str, state: Any, other: Any, part: Part, stream: HashStream
) -> Made:
    """A statement of a category with its label; `None` where this state has none."""
    words, truth = templates["primitive_skill"], state.positions
    names = list(truth)
    chosen = stream.sample(names, min(2, len(names)))
    first, last = chosen[0], chosen[-1]

    def point(at: Any) -> str:
        x, y, z = at
        text: str = stream.choice(words["points"] if category == "equivalent" else words["points"][:1])
        return text.format(x=x, y=y, z=z)

    def say(thing: str, at: Any) -> str:
        return _fill(stream.choice(words["placed"]), t=thing.replace("_", " "), k=thing, p=point(at))

    def near(at: Any, low: int, high: int) -> tuple[int, ...]:
        moved = list(at)
        axis = stream.below(3)
        moved[axis] += (low + stream.below(high - low + 1)) * stream.choice((-1, 1))
        return tuple(moved)

    if category in ("true", "equivalent"):
        return " ".join(say(thing, near(truth[thing], 0, 10)) for thing in chosen), True
    if category == "off_by_one":
        return f"{say(first, truth[first])} {say(last, near(truth[last], 25, 90))}", False
    if category == "stale":
        if set(other.positions) != set(truth):
            return None
        fits = all(abs(a - b) <= 10 for a, b in zip(other.positions[first], truth[first], strict=True))
        return say(first, other.positions[first]), fits
    here, away = point(truth[first]), point(near(truth[first], 30, 90))
    spoken = first.replace("_", " ")
    if category == "appendix_e":
        text, _ = stream.choice(words["cases"])
        return _fill(text, t=spoken, p=here, q=away), False
    name = {"other_language": "languages"}.get(category, category)
    return _fill(stream.choice(words[name]), t=spoken, p=here, q=away), category == "other_language"


def _fill(template: str, **words: str) -> str:
    """The template with its words, its first letter a capital unless it is a name with an underscore."""
    text = template.format(**words)
    return text if "_" in text.split(" ", 1)[0] else text[:1].upper() + text[1:]
