"""FrozenLake: the goal seen from the player first, then the holes (VAGEN, appendix D.1)."""

from __future__ import annotations

from typing import cast

from vagen_envs.core import State
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_rewards.rules.boards import compare_sentences
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.places import compare_exactly
from vagen_rewards.scores import Part

_MEANING = {"_": (), "P": ("player",), "O": ("hole",), "G": ("target",), "X": ("player", "hole"),
            "*": ("player", "target")}  # fmt: skip
_WANTED = (("target", "player"), ("hole", "player"))


def compare(state: State, text: str, part: Part) -> Marks:
    """F1 over relations for sentences, over places for the symbolic and structured forms.

    Sentences must say truly where the goal is, seen from the player; without that the score is 0. Holes
    are optional: the claims made about them are checked, and they count for F1's recall by their number
    up to that of the goal's facts, so that a lake full of holes needn't be told hole by hole.
    """
    truth = cast(FrozenLakeState, state)
    things = {"player": (truth.player,), "target": (truth.target,), "hole": truth.holes}
    exact = compare_exactly(text, things, (truth.size, truth.size), _MEANING)
    if exact is not None:
        return exact
    marks = compare_sentences("frozen_lake", text, things, _WANTED)
    (found, wanted), (holes_found, holes_wanted) = marks.parts
    most = min(holes_wanted, wanted)
    found_in_all, wanted_in_all = found + min(holes_found, most), wanted + most
    return Marks(marks.right, marks.wrong, found_in_all, wanted_in_all, found > 0, marks.unread, marks.notes)
