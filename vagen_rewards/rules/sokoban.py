"""Sokoban: boxes and targets seen from the player, targets seen from boxes (VAGEN, appendix D.1)."""

from __future__ import annotations

from typing import cast

from vagen_envs.core import State
from vagen_envs.sokoban.state import SokobanState
from vagen_rewards.rules.boards import compare_sentences
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.places import compare_places, grid_of, read_dictionary, read_grid
from vagen_rewards.scores import Part

_MEANING = {"P": ("player",), "S": ("player", "target"), "X": ("box",), "*": ("box", "target"), "O": ("target",)}
_WANTED = (("box", "player"), ("target", "player"), ("target", "box"))


def compare(state: State, text: str, part: Part) -> Marks:
    """F1 over relations for sentences, over places for the symbolic and structured forms."""
    truth = cast(SokobanState, state)
    things = {"player": (truth.player,), "box": truth.boxes, "target": truth.targets}
    dictionary = read_dictionary(text)
    if dictionary is not None:
        said, size = dictionary
        marks = compare_places(things, said)
        if size is not None and size != (truth.height, truth.width):
            marks.fault(f"grid of {size}")
        return marks
    rows = grid_of(text, "#_OXPS*")
    if rows is not None:
        marks = compare_places(things, read_grid(rows, _MEANING))
        if (len(rows), len(rows[0])) != (truth.height, truth.width):
            marks.fault(f"grid of {(len(rows), len(rows[0]))}")
        return marks
    return compare_sentences("sokoban", text, things, _WANTED)
