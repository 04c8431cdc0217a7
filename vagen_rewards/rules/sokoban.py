"""Sokoban: boxes and targets seen from the player, targets seen from boxes (VAGEN, appendix D.1)."""

from __future__ import annotations

from vagen_envs.core import State
from vagen_rewards.rules.board_facts import exact_facts, facts_of, size_of, things_of
from vagen_rewards.rules.boards import compare_sentences
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.places import add_neighbours, add_places, doubt_places, mark_exactly, read_exactly
from vagen_rewards.rules.reading import read
from vagen_rewards.rules.readings import Reading
from vagen_rewards.scores import Part

_MEANING = {"_": (), "#": (), "P": ("player",), "S": ("player", "target"), "X": ("box",), "*": ("box", "target"),
            "O": ("target",)}  # fmt: skip
_WANTED = (("box", "player"), ("target", "player"), ("target", "box"))


def claims_of(text: str, part: Part) -> Reading:
    """Relations between things, or places of a grid or dictionary."""
    said = read_exactly(text, _MEANING)
    return facts_of(read("sokoban", text)) if said is None else exact_facts(said, (0, len(text)))


def compare(state: State, text: str, part: Part) -> Marks:
    """F1 over relations for sentences, over places for the symbolic and structured forms."""
    said = read_exactly(text, _MEANING)
    if said is not None:
        return mark_exactly(said, things_of(state), size_of(state))
    marks = compare_sentences("sokoban", text, things_of(state), _WANTED)
    said_so = read("sokoban", text)
    marks = add_places(marks, said_so.placed, things_of(state), size_of(state))
    return doubt_places(add_neighbours(marks, said_so.neighbours, state), said_so, things_of(state), size_of(state))
