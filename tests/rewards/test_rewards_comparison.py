"""What RuleJudge counts, against every way to say which thing each word means."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_envs.core import State
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.sokoban.state import SokobanState
from vagen_rewards import RuleJudge, Score, Statement
from vagen_rewards.rules.marks import Marks, register_comparison

FLOOR = (1 << 64) - 1
SAID = {
    (-1, None): "above", (1, None): "below", (0, None): "in the same row as",
    (None, -1): "to the left of", (None, 1): "to the right of", (None, 0): "in the same column as",
    (0, 0): "at the same position as", (0, -1): "at the same row and to the left of",
    (0, 1): "at the same row and to the right of", (-1, 0): "above and at the same column as",
    (1, 0): "below and at the same column as", (-1, -1): "above and on the left side of",
    (-1, 1): "above and on the right side of", (1, -1): "below and on the left side of",
    (1, 1): "below and on the right side of",
}  # fmt: skip
PLAYER = ("player", 1)


def judged(text: str, state: State, grading="f1") -> Score:
    return RuleJudge(grading).score(Statement("grounding", text, state))


def counts(score: Score) -> tuple[int, ...]:
    """Right claims, all claims, facts stated, facts a full description has: as the reason says them."""
    found = re.search(r"(\d+) of (\d+) claims are right, (\d+) of (\d+) facts are stated", score.reason)
    return tuple(map(int, found.groups())) if found else (0, 0, 0, 0)


def f1(right, said, found, wanted):
    if not right or not found:
        return 0.0
    precision, recall = right / said, found / wanted
    return 2 * precision * recall / (precision + recall)


def side(a, b):
    return (a > b) - (a < b)


def told(claims):
    """English for claims: subject, other, and the sides of the subject seen from the other."""
    names = {each: each[0] if each == PLAYER else f"{each[0]} {each[1]}" for claim in claims for each in claim[:2]}
    return " ".join(f"The {names[one]} is {SAID[sides]} the {names[other]}." for one, other, sides in claims)


def tally(claims, meant, wanted):
    """Right, wrong and stated facts, and those of a full description, when names mean these places or nothing."""
    right = wrong = 0
    said, found = {}, dict.fromkeys(wanted, 0)
    for one, other, sides in claims:
        if meant[one] is None or meant[other] is None:
            wrong += sum(each is not None for each in sides)
            continue
        for axis in (0, 1):
            if sides[axis] is not None:
                said.setdefault((one[0], meant[one], other[0], meant[other], axis), set()).add(sides[axis])
    full = dict.fromkeys(wanted, 0)
    for (kind, at, other_kind, other_at, axis), sides in said.items():
        true = side(at[axis], other_at[axis])
        if sides != {true}:
            wrong += len(sides)
            continue
        right += 1
        if (kind, other_kind) in wanted:
            found[kind, other_kind] += 1
            full[kind, other_kind] += true == 0 and at != other_at  # needn't be said; said, it counts
    return right, wrong, found, full


def facts(ones, others):
    """Sides on which things stand apart; two where they are in one place."""
    return sum((side(a, c) != 0) + (side(b, d) != 0) or 2 for a, b in ones for c, d in others)


cells = st.tuples(st.integers(0, 3), st.integers(0, 3))
BOARD_PAIRS = (("box", "player"), ("target", "player"), ("target", "box"))


@st.composite
def boards(draw):
    count = draw(st.integers(1, 3))
    places = draw(st.lists(cells, min_size=count + 1, max_size=count + 1, unique=True))
    state = SokobanState(8, 8, FLOOR, places[0], tuple(places[1:]), tuple(draw(st.lists(cells, min_size=count,
                         max_size=count, unique=True))))  # fmt: skip
    names = [(kind, number) for kind in ("box", "target") for number in range(1, count + 1)]
    claims = []
    for _ in range(draw(st.integers(1, 5))):
        one = draw(st.sampled_from(names))
        other = draw(st.sampled_from([PLAYER, *([("box", 1), ("box", count)] if one[0] == "target" else [])]))
        claims.append((one, other, draw(st.sampled_from(list(SAID)))))
    return state, claims


@given(boards())
def test_boxes_and_targets_mean_what_is_best_for_the_agent(drawn):
    """The literal search tries every assignment of names to things, and keeps those with the best balance."""
    state, claims = drawn
    things = {"box": state.boxes, "target": state.targets}
    names = {kind: sorted({each for claim in claims for each in claim[:2] if each[0] == kind}) for kind in things}
    ways = []
    for boxes, targets in itertools.product(
        itertools.permutations(state.boxes, len(names["box"])),
        itertools.permutations(state.targets, len(names["target"])),
    ):
        meant = {PLAYER: state.player, **dict(zip(names["box"] + names["target"], boxes + targets, strict=True))}
        right, wrong, found, full = tally(claims, meant, BOARD_PAIRS)
        wanted = facts(state.boxes, [state.player]) + facts(state.targets, [state.player])
        wanted += facts(state.targets, state.boxes) + sum(full.values())
        ways.append((right - wrong, sum(found.values()), (right, right + wrong, sum(found.values()), wanted)))
    best = max(ways)[:2]
    score = judged(told(claims), state)
    # a perfect way ends the search, whatever else is as good
    assert counts(score) in [each[2] for each in ways if each[:2] == best] or score.value == 1.0
    assert score.value == pytest.approx(f1(*counts(score)))


LAKE_PAIRS = (("target", "player"), ("hole", "player"))


@st.composite
def lakes(draw):
    places = draw(st.lists(cells, min_size=2, max_size=6, unique=True))
    state = FrozenLakeState(4, places[0], places[1], tuple(places[2:]))
    sides = st.sampled_from(list(SAID))
    of_holes = st.tuples(st.tuples(st.just("hole"), st.integers(1, 4)), st.just(PLAYER), sides)
    return state, [(("target", 1), PLAYER, draw(sides)), *draw(st.lists(of_holes, max_size=5))]


@given(lakes())
def test_as_many_hole_claims_come_true_as_can_be(drawn):
    """A hole's name means a hole for which all that is said of it is true, or none; the literal search tries all."""
    state, claims = drawn
    names = sorted({claim[0] for claim in claims if claim[0][0] == "hole"})

    def fits(name, at):
        axes = [(at[0], state.player[0]), (at[1], state.player[1])]
        return all(
            sides[axis] in (None, side(*axes[axis])) for one, _, sides in claims if one == name for axis in (0, 1)
        )

    ways = []
    for places in itertools.permutations([*state.holes, *[None] * len(names)], len(names)):
        meant = dict(zip(names, places, strict=True))
        if all(at is None or fits(name, at) for name, at in meant.items()):
            matched = sum(meant[claim[0]] is not None for claim in claims if claim[0] in meant)
            right, wrong, found, full = tally(
                claims, {**meant, PLAYER: state.player, ("target", 1): state.target}, LAKE_PAIRS
            )
            goal = facts([state.target], [state.player]) + full["target", "player"]
            most = min(goal, facts(state.holes, [state.player]) + full["hole", "player"])
            stated = found["target", "player"] + min(found["hole", "player"], most)
            ways.append((matched, (right, right + wrong, stated, goal + most), found["target", "player"] > 0))
    best = max(matched for matched, _, _ in ways)
    score = judged(told(claims), state)
    assert counts(score) in [each for matched, each, _ in ways if matched == best]
    assert score.value == (pytest.approx(f1(*counts(score))) if ways[0][2] else 0.0)


LAKE = FrozenLakeState(4, (1, 1), (2, 3), ((1, 3), (3, 0)))  # goal below right; holes right, below left
GOAL = "The goal is below and on the right side of the player."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{GOAL} There is no hole above the player.", (2, 2, 2, 4)),
        (f"{GOAL} There is no hole to the right of the player.", (2, 3, 2, 4)),
        (f"{GOAL} There is no hole below the player.", (2, 2, 2, 4)),  # it is below and aside
        (f"{GOAL} Hole 1 is not above the player.", (2, 2, 2, 4)),
        (f"{GOAL} Hole 1 is to the right of the player. Hole 1 is not above the player.", (3, 3, 3, 4)),
        (f"{GOAL} Hole 1 is above the player. Hole 2 is to the right of the player.", (3, 4, 3, 4)),
        # what is said of all takes none of them from hole 1
        (f"{GOAL} All holes are to the right of the player. Hole 1 is to the right of the player.", (3, 4, 3, 4)),
    ],
)
def test_absences_and_denials(text, expected):
    assert counts(judged(text, LAKE)) == expected


SOUTH = "The goal is below the player."
EAST = "at the same row and to the right of the player"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{SOUTH} Hole 1 is {EAST}.", (3, 3, 3, 4)),
        (f"{SOUTH} Hole 1 is above and on the left side of the player.", (1, 3, 1, 4)),
        (f"{SOUTH} Hole 1 is {EAST}. Hole 2 is {EAST}.", (3, 5, 3, 4)),
        # one hole is to the right: it is the one of which more is said
        (f"{SOUTH} Hole 1 is to the right of the player. Hole 2 is to the right of the player. Hole 2 is in the same row "
         "as the player.", (3, 4, 3, 4)),
        (f"{SOUTH} Hole 1 is not {EAST}. Hole 2 is not {EAST}.", (1, 3, 1, 4)),
    ],
)  # fmt: skip
def test_holes_for_which_all_holds_that_is_said(text, expected):
    assert counts(judged(text, LAKE)) == expected


def test_the_reason_names_the_first_wrong_claims():
    wrong = ["hole above player", "hole left of player: there are not so many"]
    score = judged(f"{GOAL} Hole 1 is above the player. Hole 1 is to the right of the player. Hole 2 is to the left of "
                   "the player. Hole 3 is to the left of the player.", LAKE)  # fmt: skip
    assert all("; wrong: " in score.reason and each in score.reason for each in wrong[1:])
    many = " ".join(f"Hole {i} is above and on the left side of the player." for i in range(1, 9))
    assert judged(f"{GOAL} {many}", LAKE).reason.count("there are not so many") == 4
    hedged = judged(f"{GOAL} A hole is above or below the player.", LAKE)
    assert "; wrong: hole above player is hedged" in hedged.reason


@pytest.mark.parametrize(
    ("grading", "text", "expected"),
    [
        ("direct", GOAL, 1.0),
        ("direct", f"{GOAL} There is a hole above the player.", 0.0),
        ("direct", "There is a hole to the right of the player.", 0.0),
        ("direct", f"{GOAL} A dragon is above the player.", None),
        ("claims", "There is a hole to the right of the player.", 1.0),
        ("claims", f"{GOAL} There is a hole above the player.", 0.0),
        ("claims", "A pretty lake.", None),
    ],
)
def test_gradings(grading, text, expected):
    assert judged(text, LAKE, grading).value == expected


def test_each_judge_has_a_name_of_its_own():
    assert [RuleJudge(each).name for each in ("f1", "direct", "claims")] == [
        "rule:f1:1",
        "rule:direct:1",
        "rule:claims:1",
    ]
    with pytest.raises(ValueError, match="grading 'f2' is not known; use 'f1', 'direct' or 'claims'"):
        RuleJudge("f2")


BOARD = SokobanState(8, 8, FLOOR, (3, 3), ((2, 3),), ((1, 1),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{player_position: (3, 3), box_positions: [(2, 3)], target_positions: [(1, 1)]}", (3, 3, 3, 3)),
        ("{player_position: (3, 3), grid_size: (8, 8)}", (1, 1, 1, 3)),
        ("{player_position: (3, 3), grid_size: (8, 7)}", (1, 2, 1, 3)),
        ("{box_positions: [(2, 3), (2, 3)]}", (1, 2, 1, 3)),
        ("{player_position: (3, 3), hole_positions: [(0, 0), (0, 1)]}", (1, 3, 1, 3)),
        ("{'player_position': [3, 3], 'box_positions': [[9, 9]]}", (1, 2, 1, 3)),
    ],
)
def test_dictionaries_are_counted_place_by_place(text, expected):
    assert counts(judged(text, BOARD)) == expected


def test_a_grid_of_another_size_is_one_wrong_claim():
    rows = LAKE.symbolic().splitlines()
    whole, lacking = "\n".join(rows), "\n".join(rows[:3])
    assert counts(judged(whole, LAKE)) == (4, 4, 4, 4)
    assert counts(judged(f"```\n{whole}\n```\n", LAKE)) == (4, 4, 4, 4)
    assert counts(judged(lacking, LAKE)) == (3, 4, 3, 4)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "nothing is said"),
        (" \n", "nothing is said"),
        ("There is a hole to the right of the player.", "what matters most is not said rightly (1 of 1 claims are right, "
         "1 of 4 facts are stated)"),
    ],
)  # fmt: skip
def test_no_score_without_a_reason(text, reason):
    assert judged(text, LAKE) == Score(0.0, reason)


def test_no_unscored_without_a_reason():
    reason = "nothing that could be checked was read; not read: A pretty lake"
    assert judged("A pretty lake.", LAKE) == Score.unscored(reason, ((0, 13),))


@pytest.mark.parametrize("grading", ["f1", "direct", "claims"])
def test_every_grading_gives_its_reason(grading):
    assert judged(GOAL, LAKE, grading).reason == "2 of 2 claims are right, 2 of 4 facts are stated"


def test_states_of_your_own_are_compared_by_your_own_function():
    asked = []

    def compare(state, text, part):
        asked.append((state, text, part))
        return Marks(right=1, found=1, wanted=3)

    class Weather(State):
        kind = "weather_of_this_test"

    register_comparison("weather_of_this_test", compare)
    score = RuleJudge().score(Statement("world_modeling", "It rains.", Weather()))
    assert score == Score(0.5, "1 of 1 claims are right, 1 of 3 facts are stated")
    assert asked == [(Weather(), "It rains.", "world_modeling")]


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("The target is above and on the right side of the player.", ["target above and right of player"]),
        ("The box is below the player. The box is above the player.", ["box below player"]),
        (
            "The box is below the player. The target is to the right of the player. The target is below the player. "
            "The target is below the box. The target is to the right of the box.",
            ["box below player", "target right of player", "target below player", "target below box"],
        ),
    ],
)
def test_up_to_four_wrong_claims_about_a_board_are_named(text, noted):
    assert judged(text, BOARD).reason.partition("; wrong: ")[2].split("; ") == noted


def test_more_names_than_can_all_be_tried_are_matched_one_by_one():
    boxes, player = ((1, 3), (5, 3), (3, 1), (3, 5)), (3, 3)
    state = SokobanState(8, 8, FLOOR, player, boxes, ((6, 6),) * 4)
    sides = [(-1, None), (1, None), (None, -1), (None, 1), *[(-1, -1)] * 4]
    claims = [(("box", number), PLAYER, each) for number, each in enumerate(sides, start=1)]
    wanted = facts(boxes, [player]) + facts(state.targets, [player]) + facts(state.targets, boxes)
    assert counts(judged(told(claims), state)) == (4, 12, 4, wanted)


TWO = SokobanState(8, 8, FLOOR, (3, 3), ((1, 3), (3, 5)), ((5, 3), (3, 1)))  # boxes above, right; targets below, left


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The box might be above the player. The target is below the player.", (1, 1, 1, 10)),
        ("The box is above or on the left side of the player.", (0, 2, 0, 10)),
        # there is no third target, which is two wrong claims; of the four others one is wrong
        ("Target 1 is below both boxes. Target 2 is below both boxes. Target 3 is below both boxes.", (3, 6, 3, 10)),
        ("The target is not to the left of both boxes.", (0, 0, 0, 0)),
        # of itself nothing is said
        ("Both boxes are above box 1.", (1, 1, 0, 10)),
        ("Box 1 is above both boxes.", (1, 1, 0, 10)),
    ],
)
def test_what_is_said_of_several_and_of_none(text, expected):
    assert counts(judged(text, TWO)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Box 1 is above the player. The box is to the right of the target.", (2, 2, 2, 5)),
        ("Box 1 is above the player. Box 2 is above the player.", (1, 2, 1, 5)),
    ],
)
def test_what_the_only_box_may_be_called(text, expected):
    assert counts(judged(text, BOARD)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{GOAL} There is no hole to the left of the player.", (2, 2, 2, 3)),
        (f"{GOAL} There is no hole to the right of the player.", (2, 3, 2, 3)),
        (f"{GOAL} A hole is {EAST}. The hole is {EAST}.", (4, 4, 4, 4)),
    ],
)
def test_a_lake_with_one_hole(text, expected):
    assert counts(judged(text, FrozenLakeState(4, (1, 1), (2, 3), ((1, 3),)))) == expected
