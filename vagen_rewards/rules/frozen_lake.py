"""FrozenLake: the goal seen from the player first, then the holes (VAGEN, appendix D.1)."""

from __future__ import annotations

from vagen_envs.core import State
from vagen_rewards.rules.board_facts import exact_facts, facts_of, placed_at, size_of, things_of
from vagen_rewards.rules.boards import compare_sentences
from vagen_rewards.rules.marks import Marks
from vagen_rewards.rules.places import add_neighbours, add_places, doubt_places, mark_exactly, read_exactly
from vagen_rewards.rules.reading import read
from vagen_rewards.rules.readings import Reading
from vagen_rewards.scores import Part

_MEANING: dict[str, tuple[str, ...]] = {
    "_": (),
    ".": (),
    "P": ("player",),
    "O": ("hole",),
    "H": ("hole",),
    "G": ("target",),
    "X": ("player", "hole"),
    "*": ("player", "target"),
}
_WANTED = (("target", "player"), ("hole", "player"))


def claims_of(text: str, part: Part) -> Reading:
    """Relations between things, or places of a grid or dictionary."""
    said = read_exactly(text, _MEANING)
    return facts_of(read("frozen_lake", text)) if said is None else exact_facts(said, (0, len(text)))


def compare(state: State, text: str, part: Part) -> Marks:
    """F1 over relations for sentences, over places for the symbolic and structured forms.

    Sentences must say truly where the goal is, seen from the player; without that the score is 0. Holes
    are optional: the claims made about them are checked, and they count for F1's recall by their number
    up to that of the goal's facts, so that a lake full of holes needn't be told hole by hole.
    """
    said = read_exactly(text, _MEANING)
    if said is not None:
        return mark_exactly(said, things_of(state), size_of(state))
    marks = compare_sentences("frozen_lake", text, things_of(state), _WANTED)
    (found, wanted), (holes_found, holes_wanted) = marks.parts
    most = min(holes_wanted, wanted)
    facts = (found + min(holes_found, most), wanted + most)
    read_so = read("frozen_lake", text)
    goal = found > 0 or any(placed_at(each).holds(state) for each in read_so.placed if each.kind == "target")
    marks = Marks(marks.right, marks.wrong, *facts, goal, marks.unread, marks.matters, marks.notes)
    marks = add_places(marks, read_so.placed, things_of(state), size_of(state))
    marks = add_neighbours(marks, read_so.neighbours, state)
    return doubt_places(marks, read_so, things_of(state), size_of(state))
