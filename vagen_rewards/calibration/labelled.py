"""The labelled set: statements about states of real levels, true or false by construction.

The label says whether VAGEN's appendix D.1 would accept the statement: it states a relation that
matters, and none that is wrong. Labels come from positions, never from a judge. The templates of
`templates="held_out"` were written after `RuleJudge` was finished, measured once, and nothing was
mended by them since (docs/judges.md names the misses). Earlier held-out templates, by which it was mended, are
now among `templates="development"`. Whoever mends `RuleJudge` by the held-out templates moves them
there and writes others.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

from vagen_envs.core import State, Turn
from vagen_envs.errors import VagenError
from vagen_envs.seeding import HashStream
from vagen_rewards.scores import PARTS, Part, Statement
from vagen_rewards.worth.playing import Transition
from vagen_rewards.worth.reference import reference_of

CATEGORIES = (
    "true", "equivalent", "negated", "off_by_one", "stale", "catch_all", "empty", "other_language", "appendix_e",
)  # fmt: skip

Templates = Literal["held_out", "development"]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A statement, whether it is to be accepted, and how it was made (one of `CATEGORIES`)."""

    statement: Statement
    label: bool
    category: str


ENVS: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "sokoban": (
        ("vagen/Sokoban-v0", {}),
        ("vagen/Sokoban-v0", {"num_boxes": 2, "min_solution_length": 5, "max_solution_length": 12}),
    ),
    "frozen_lake": (("vagen/FrozenLake-v0", {}),),
    "navigation": (("vagen/Navigation-v0", {"observation": "text"}),),
    "primitive_skill": tuple(
        [(f"vagen/PrimitiveSkill{task}-v0", {"observation": "text"}) for task in ("Place", "Stack", "Drawer", "Align")]
    ),
    "svg": (("vagen/SVGReconstruction-v0", {"observation": "text"}),),
}
"""What the states are taken from, by kind."""


def labelled_set(
    per_kind: int = 300,
    seed: int = 0,
    templates: Templates = "held_out",
    kinds: Sequence[str] = tuple(ENVS),
    pictures: bool = False,
    levels: int = 40,
) -> tuple[list[Labelled], dict[str, str]]:
    """Make the set. The same arguments give the same set.

    Args:
        per_kind: statements a kind of state.
        seed: of levels and templates.
        templates: which.
        kinds: of states.
        levels: an environment, whose first turns the statements are about.
        pictures: give each statement the picture of its time, for `ClipJudge`; needs the simulators' drivers.

    Returns:
        The statements, and for each kind that can't be made here the reason.
    """
    words = templates_of(templates)
    items: list[Labelled] = []
    skipped: dict[str, str] = {}
    for kind in kinds:
        module, name = _MAKERS[kind]
        try:
            make = getattr(importlib.import_module(f"vagen_rewards.calibration.{module}"), name)
            states = list(_states(kind, levels, seed, pictures))
        except (VagenError, ImportError, gym.error.Error) as error:
            skipped[kind] = " ".join(str(error).split())
            continue
        stream = HashStream("calibration", templates, kind, seed)
        for number in range(per_kind):
            category = CATEGORIES[number % len(CATEGORIES)]
            moment, other = stream.choice(states)
            part: Part = stream.choice(PARTS)
            state, picture = moment[part]
            item = make(kind, words, category, state, other, part, stream)
            while item is None:  # this state has none of that category; take a plainly true one
                category = "true"
                item = make(kind, words, category, state, other, part, stream)
                if item is None:
                    moment, other = stream.choice(states)
                    state, picture = moment[part]
            text, label = item
            items.append(Labelled(Statement(part, text, state, picture=picture), label, category))
    return items, skipped


def templates_of(name: str) -> dict[str, Any]:
    """The templates of this name."""
    data: dict[str, Any] = json.loads((_TEMPLATES / f"{name}.json").read_text(encoding="utf-8"))
    return data


_TEMPLATES = Path(__file__).parent / "templates"
_MAKERS = {
    "sokoban": ("boards", "make"),
    "frozen_lake": ("boards", "make"),
    "navigation": ("scenes", "navigation"),
    "primitive_skill": ("scenes", "primitive_skill"),
    "svg": ("pictures", "make"),
}


Moment = dict[Part, tuple[State, bytes | None]]
"""A turn: the state and the picture before it, for grounding, and after it, for world modelling."""


def _states(kind: str, count: int, seed: int, pictures: bool) -> Iterator[tuple[Moment, State]]:
    """Turns of each environment, first ones and later ones, each with a state of another turn."""
    if pictures or kind in ("primitive_skill", "svg"):
        yield from _played(kind, -(-count // len(ENVS[kind])), seed, pictures)
        return
    for env_id, options in ENVS[kind]:
        stream = HashStream("calibration states", env_id, seed)
        reference = reference_of(env_id, options, _DRAWN)
        last: State | None = None
        for i in range(count):
            every = reference.play if i % 2 else reference.reset
            ways = _WAYS if kind == "navigation" else ("",)
            turns = _that_way(every, ways[i // 2 % len(ways)]) or every
            before, after, _ = stream.choice(turns)
            yield {"grounding": (before, None), "world_modeling": (after, None)}, last or after
            last = before


_DRAWN = 64
"""Turns of each stage that are drawn of an environment."""

_WAYS = ("ahead", "left", "right", "back")


def _that_way(turns: Sequence[Transition], way: str) -> Sequence[Transition]:
    """Those in which the target of a search is in one direction: most are ahead, and all count alike."""
    return turns if not way else [each for each in turns if each.before.target_direction == way]  # type: ignore[attr-defined]


def _played(kind: str, count: int, seed: int, pictures: bool) -> Iterator[tuple[Moment, State]]:
    """Turns of an oracle, each second one the first of an episode."""
    for env_id, options in ENVS[kind]:
        env = gym.make(env_id, **{**options, **({"observation": "image"} if pictures else {})})
        try:
            last: State | None = None
            over = True
            for i in range(count):
                if over or i % 2 == 0:
                    env.reset(seed=seed * 1000 + i)
                *_, terminated, truncated, info = env.step(env.unwrapped.oracle_reply())  # type: ignore[attr-defined]
                over = terminated or truncated
                turn: Turn = info["turn"]
                shown = [each.picture.png if each.picture else None for each in (turn.observed, turn.result)]
                moment: Moment = {"grounding": (turn.before, shown[0]), "world_modeling": (turn.after, shown[1])}
                yield moment, last or turn.after
                last = turn.before
        finally:
            env.close()
