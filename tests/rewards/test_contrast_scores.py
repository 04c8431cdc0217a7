"""The arithmetic of the contrast, by hand on boards with a player and a target."""

from __future__ import annotations

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_rewards import groups
from vagen_rewards.contrast import Contrast, TurnContrast, contrast_for
from vagen_rewards.groups import AskedGroup, CountedGroup
from vagen_rewards.reader import read
from vagen_rewards.transitions import Step


@pytest.fixture(autouse=True)
def _without_margin(monkeypatch):
    """Means are those of the groups."""
    monkeypatch.setattr(groups, "MARGIN", 0.0)


SIDES = {"ul": (0, 0), "ur": (0, 2), "dl": (2, 0), "dr": (2, 2), "u": (0, 1), "d": (2, 1)}


def board(side, player=(1, 1)):
    """A target above or below and left or right of the player: two facts are owed."""
    return FrozenLakeState(4, player, SIDES[side], ())


def still(side):
    return Step(board(side), board(side))


def asked(*sides, part="grounding"):
    return AskedGroup(part, [still(side) for side in sides])


ALL = asked("ul", "ur", "dl", "dr")
"""Every answer is right in half of these: its mean is 0, and a full description is worth 2."""


def facts(text, part="grounding"):
    reading = read("frozen_lake", text, part)
    assert not reading.unread, text
    return [claim.key for claim in reading.claims]


def score(text, *compared, side="dr", part="grounding", step=None):
    return TurnContrast(part, step or still(side), compared or (ALL,)).score(facts(text, part))


BELOW, ABOVE = "The target is below the player.", "The target is above the player."
RIGHT, LEFT = (f"The target is to the {way} of the player." for way in ("right", "left"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f"{BELOW} {RIGHT}", 1.0),
        (BELOW, 0.5),
        ("There is a player.", 0.0),
        (f"{BELOW} {LEFT}", 0.0),
        (ABOVE, -0.5),
        (f"{ABOVE} {LEFT}", -1.0),
    ],
)
def test_each_answer_is_worth_the_share_of_its_question(text, value):
    assert score(text) == pytest.approx(value)


def test_an_answer_is_paid_minus_its_mean():
    """Below in three of four: right it earns 1 - 1/2; wrong, above costs 1 - 1/2 there."""
    mostly = asked("dl", "dr", "dl", "ur")
    # Of eight owed facts below has the mean 1/2 three times, above -1/2 once, and left and right 0
    # twice each: on average an answer is worth 1 - (3/2 - 1/2) / 8 = 7/8.
    worth = 2 * 7 / 8
    assert score(BELOW, mostly) == pytest.approx(0.5 / worth)
    assert score(RIGHT, mostly) == pytest.approx(1 / worth)
    assert score(ABOVE, mostly) == pytest.approx((-1 + 0.5) / worth)


def test_what_is_wrong_everywhere_costs_half():
    """Its mean would be -1, and it would cost nothing."""
    below = asked("dl", "dr", "dl", "dr")
    worth = 2 * (1 - 4 / 8)  # below has the mean 1, left and right 0
    assert score(ABOVE, below) == pytest.approx(-0.5 / worth)


def test_where_hardly_anything_is_left_to_see_an_answer_is_worth_a_quarter():
    alike = asked("dr", "dr", "dr", "dr")
    assert score(f"{BELOW} {RIGHT}", alike) == 0.0
    assert score(ABOVE, alike) == pytest.approx(-0.5 / (2 * 0.25))
    assert score(f"{ABOVE} {LEFT}", alike) == -1.0  # not -2


def test_what_is_not_owed_costs_where_it_is_false_and_earns_nothing_where_it_is_true():
    assert score("There are 5 holes.") == pytest.approx(-0.5)
    assert score("There are 5 holes. There are 6 holes.") == -1.0
    assert score("There are no holes.") == 0.0
    assert score(f"{BELOW} {RIGHT} There are 5 holes.") == pytest.approx(0.5)


def test_where_nothing_is_owed_a_false_fact_costs_as_if_one_were():
    still_there = still("dr")  # nothing has changed: a prediction owes nothing
    group = AskedGroup("world_modeling", [Step(board("ul"), board("dr"))] * 8)
    # The other states owe that the target is below and right, with the mean 1.
    assert score(BELOW, group, part="world_modeling", step=still_there) == 0.0
    wrong = score("There are 5 holes.", group, part="world_modeling", step=still_there)
    assert wrong == -1.0  # 1 / (1/4)


def test_no_score_is_above_one():
    """Of a rare kind, the owed facts are worth more than those of a usual state."""
    assert score(f"{BELOW} {RIGHT}", asked("ul", "ul", "ul", "ul")) == 1.0


def test_where_little_changes_elsewhere_each_fact_still_moves_the_score():
    """The same actions may do nothing in other levels: what this state owes is worth more there."""
    step = Step(board("ul"), board("dr"))
    group = AskedGroup("world_modeling", [still("ul")] * 8)
    texts = (f"{BELOW} {RIGHT}", BELOW, f"{BELOW} {LEFT}", ABOVE, f"{ABOVE} {LEFT}")
    found = [score(text, group, part="world_modeling", step=step) for text in texts]
    assert found[0] == 1.0
    assert found == sorted(set(found), reverse=True)


def test_few_comparison_states_leave_a_margin():
    """A chance deviation of their means isn't paid: half of four states may be half of the truth."""
    few, many = (asked("ul", "ur", "dl", "dr", *["ul", "ur", "dl", "dr"] * n) for n in (0, 99))
    exact = [group.mean((facts(BELOW)[0],)) for group in (few, many)]
    groups.MARGIN = 1.0
    few, many = (asked("ul", "ur", "dl", "dr", *["ul", "ur", "dl", "dr"] * n) for n in (0, 99))
    margins = [group.mean((facts(BELOW)[0],)) for group in (few, many)]
    assert exact == [0.0, 0.0]
    assert margins == pytest.approx([0.5, 0.05])
    assert score(f"{BELOW} {RIGHT}", few) == 1.0
    assert score(f"{BELOW} {LEFT}", few) < score(f"{BELOW} {LEFT}", many) < 0
    kept = AskedGroup("world_modeling", [still("dr")] * 8)
    assert kept.mean((facts(BELOW)[0],)) == 1.0, "no state says what it is worth"


def test_of_several_groups_the_one_in_which_an_answer_is_right_more_often_counts():
    """And what an answer is worth is that of the last."""
    usual, other = asked("dl", "dr", "dl", "ur"), ALL
    assert score(BELOW, usual, other) == pytest.approx(0.5 / 2 / (1 - (0.5 * 2) / 8))
    assert score(BELOW, other, usual) == pytest.approx(0.5 / (2 * (1 - (3 * 0.5 + 0) / 8)))


def test_a_prediction_is_of_the_state_after_and_earns_by_what_has_changed():
    step = Step(board("ur"), board("dr"))  # the target went below: only that is owed
    group = AskedGroup("world_modeling", [step, Step(board("dr"), board("ur"))] * 4)
    assert score(BELOW, group, part="world_modeling", step=step) == 1.0
    assert score(RIGHT, group, part="world_modeling", step=step) == 0.0
    assert score(ABOVE, group, part="world_modeling", step=step) == -1.0
    assert score(LEFT, group, part="world_modeling", step=step) < 0
    assert score(ABOVE, group, step=step) > 0  # as an observation of the state before


# -- of an environment -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lake():
    found = Contrast("vagen/FrozenLake-v0", {"size": 4})
    found.comparisons.env.comparison_levels = 40
    return found


@pytest.fixture(scope="module")
def turns():
    with gym.make("vagen/FrozenLake-v0", observation="text") as env:
        for seed in range(40):
            env.reset(seed=seed)
            reply = env.unwrapped.grammar.render(["Up"])
            *_, over, _, info = env.step(reply)
            one = info["turn"]
            if not over and one.before != one.after:
                return one, env.step(reply)[4]["turn"]
    raise AssertionError("every level ended at once")


@pytest.mark.parametrize("part", ["grounding", "world_modeling"])
def test_a_turn_is_scored_against_the_levels_with_its_key(lake, turns, part):
    first, second = turns
    for turn, earlier in ((first, ()), (second, (first,))):
        key = lake.comparisons.key(turn, earlier, part == "world_modeling")
        step = Step(turn.before, turn.after)
        plain = CountedGroup(part, lake.comparisons.described(key))
        (group,) = lake.groups(part, turn, earlier)
        assert (group.size, group.owed) == (plain.size, plain.owed)
        text = (turn.before if part == "grounding" else turn.after).natural_language()
        expected = TurnContrast(part, step, [plain]).score(facts(text, part))
        assert lake.score(part, facts(text, part), turn, earlier) == expected
        assert expected > 0 or part == "world_modeling"
    assert lake.groups_at(part, Step(first.before, first.after))[0].size == 40


def test_a_group_is_made_once(lake, turns):
    turn = turns[0]
    one, other = (lake.groups("grounding", turn, ()) for _ in range(2))
    assert one[0] is other[0]
    assert lake.groups("world_modeling", turn, ())[0] is not one[0]


def test_what_a_turn_is_worth_is_found_once(monkeypatch):
    """A second text asks the comparison states for its own answers alone."""
    contrast = TurnContrast("grounding", still("dr"), [asked("ul", "ur", "dl", "dr")])
    contrast.score(facts(BELOW))
    means = []
    monkeypatch.setattr(TurnContrast, "mean", lambda _self, said: means.append(said) or 0.0)
    contrast.score(facts(ABOVE))
    assert len(means) == 1


def test_states_may_make_comparisons_from_the_others_before_and_after(monkeypatch, turns):
    """With the options of their environment."""
    seen = []

    def alike(state, others, options):
        seen.append((state, list(others), options["size"]))
        return [state, state]

    monkeypatch.setattr(FrozenLakeState, "alike", alike, raising=False)
    made = Contrast("vagen/FrozenLake-v0", {"size": 5})
    made.comparisons.env.comparison_levels = 3
    own = Step(turns[0].before, turns[0].after)
    plain, further = made.groups_at("world_modeling", own, made.comparisons.key(turns[0], (), True))
    assert isinstance(plain, AskedGroup)
    assert (plain.size, plain.part, further.part) == (3, "world_modeling", "world_modeling")
    assert list(further.steps) == [own, own]
    _, again = made.groups_at("world_modeling", own, made.comparisons.key(turns[0], (), True))
    assert again is further, "its means are known"
    del seen[2:]
    assert seen == [
        (own.before, [step.before for step in plain.steps], 5),
        (own.after, [step.after for step in plain.steps], 5),
    ]


def test_one_contrast_serves_a_configuration():
    one = contrast_for("vagen/FrozenLake-v0", '{"size": 6}')
    assert one is contrast_for("vagen/FrozenLake-v0", '{"size": 6}')
    assert one.config["size"] == 6
