"""Sokoban: boxes and targets seen from the player, targets seen from boxes (VAGEN, appendix D.1)."""

from __future__ import annotations

from typing import cast

from vagen_envs.core import State
from vagen_envs.sokoban.state import SokobanState
from vagen_rewards.rules.boards import compare_sentences
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.places import compare_exactly
from vagen_rewards.scores import Part

_MEANING = {"_": (), "#": (), "P": ("player",), "S": ("player", "target"), "X": ("box",), "*": ("box", "target"),
            "O": ("target",)}  # fmt: skip
_WANTED = (("box", "player"), ("target", "player"), ("target", "box"))


def compare(state: State, text: str, part: Part) -> Marks:
    """F1 over relations for sentences, over places for the symbolic and structured forms."""
    truth = cast(SokobanState, state)
    things = {"player": (truth.player,), "box": truth.boxes, "target": truth.targets}
    exact = compare_exactly(text, things, (truth.height, truth.width), _MEANING)
    if exact is not None:
        return exact
    return compare_sentences("sokoban", text, things, _WANTED)
