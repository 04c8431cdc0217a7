"""What is said of the cells next to the player, held against the board's picture in letters."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_envs.core import State
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.sokoban.state import SokobanState
from vagen_rewards import RuleJudge
from vagen_rewards.rules import read
from vagen_rewards.scores import Statement

SIDES = {"above": (-1, 0), "below": (1, 0), "to the left": (0, -1), "to the right": (0, 1)}


def verdict(state: State, text: str) -> float | None:
    """Of the direct judge."""
    return RuleJudge("direct").score(Statement("grounding", text, state)).value


def lake(holes: set[tuple[int, int]]) -> FrozenLakeState:
    """4x4, the player in the middle, the goal at the upper right."""
    return FrozenLakeState(4, (2, 1), (0, 3), tuple(sorted(holes - {(2, 1), (0, 3)})))


def room() -> SokobanState:
    """The player at (3, 4), a wall to the right, the box two cells to the left, the target right below."""
    return SokobanState(6, 6, 511304832, (3, 4), ((3, 2),), ((4, 4),))


cells = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)))


@given(cells, st.sampled_from(sorted(SIDES)), st.sampled_from(["hole", "safe"]))
def test_the_next_cell_is_looked_at_in_the_picture(holes: set[tuple[int, int]], side: str, what: str) -> None:
    state = lake(holes)
    row, column = (at + way for at, way in zip(state.player, SIDES[side], strict=True))
    letters = state.symbolic().split("\n")
    symbol = letters[row][column] if 0 <= row < 4 and 0 <= column < 4 else "edge"
    so = symbol == "O" if what == "hole" else symbol in "_G"
    said = "a hole" if what == "hole" else "safe"
    assert verdict(state, f"The goal is above and to the right of me. The tile {side} is {said}.") == float(so)


@given(cells, st.sampled_from(sorted(SIDES)))
def test_a_side_alone_is_the_next_cell_and_left_open_where_one_stands_further_on(
    holes: set[tuple[int, int]], side: str
) -> None:
    state = lake(holes)
    down, right = SIDES[side]
    line = [(state.player[0] + far * down, state.player[1] + far * right) for far in range(1, 4)]
    here = [at in state.holes for at in line]
    expected = 1.0 if here[0] else None if any(here) else 0.0
    got = verdict(state, f"The goal is above and to the right of me. {side.capitalize()} is a hole.")
    assert got == expected


def test_a_hole_above_the_player_may_stand_at_any_distance() -> None:
    far = lake({(0, 1)})
    for text in ("A hole is above me.", "There is a hole directly above me.", "Above me: hole."):
        assert verdict(far, f"The goal is above and to the right of me. {text}") == 1.0, text


@pytest.mark.parametrize(
    "text",
    ["Das Feld über mir ist ein Loch. Das Ziel ist rechts oben.", "The square above me is a hole; goal: up-right."],
)
def test_other_words_for_the_next_cell(text: str) -> None:
    assert verdict(lake({(1, 1)}), text) == 1.0
    assert verdict(lake({(0, 1)}), text) != 1.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The box is adjacent to the player on the left side.", None),
        ("The cell to my right is a wall. The box is to my left.", 1.0),
        ("The cell to my left is a wall. The box is to my left.", 0.0),
        ("The cell to my left is free. The box is to my left.", 1.0),
        ("The tile below me is the target. The box is to my left.", 1.0),
        ("The tile to the left of me is a box. The target is below me.", 0.0),
    ],
)
def test_walls_and_boxes_beside_the_player(text: str, value: float) -> None:
    assert verdict(room(), text) == value


def test_the_next_cell_is_a_claim_with_a_span() -> None:
    text = "The goal is above me. The tile to my left is a hole."
    (claim,) = [each for each in read("frozen_lake", text, "grounding").claims if "Neighbour" in repr(each.key)]
    assert text[slice(*claim.span)].strip() == "The tile to my left is a hole"
    assert [claim.holds(lake(holes)) for holes in ({(2, 0)}, {(2, 2)})] == [True, False]


@pytest.mark.parametrize("words", ["probably ", "not "])
def test_doubts_and_denials_claim_nothing_of_it(words: str) -> None:
    claims = read("frozen_lake", f"The tile above me is {words}a hole.", "grounding").claims
    assert not [each for each in claims if "Neighbour" in repr(each.key)]


def test_every_side_and_kind_has_a_verdict() -> None:
    for side, what in itertools.product(SIDES, ("a box", "a wall", "free", "a target")):
        assert verdict(room(), f"The box is to my left. The cell {side} is {what}.") in (0.0, 1.0)
