"""What a text claims, whatever the state."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from vagen_envs.core import State
from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.navigation.state import NavigationState
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.sokoban.state import SokobanState
from vagen_envs.svg.state import Element, SvgState
from vagen_rewards import RuleJudge, Statement
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.rules import Claim, Reading, read, register_reader

FLOOR = (1 << 64) - 1
STATES = [
    SokobanState(8, 8, FLOOR, (3, 3), ((2, 3),), ((1, 1),)),
    SokobanState(8, 8, FLOOR, (3, 3), ((1, 3), (3, 5)), ((5, 3), (3, 1))),
    FrozenLakeState(4, (1, 1), (2, 3), ((1, 3), (3, 0))),
    NavigationState("DeskLamp", 1.71, "right", (("ArmChair", "ahead", 1.08),)),
    PrimitiveSkillState("place", {"red_cube": (100, 50, 20), "green_cube": (-40, 95, 20)}, "", None),
    PrimitiveSkillState("drawer", {"apple": (-127, 192, 36), "drawer": (-300, -20, 200)}, "apple", 150),
    SvgState((Element("circle", "filled", "#ff0000", 50, 40, 20, 20),)),
]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("form", ["natural_language", "symbolic", "structured"])
def test_all_that_the_oracle_says_is_read_and_holds(state, form):
    if form == "symbolic" and state.kind not in ("sokoban", "frozen_lake"):
        return
    text = getattr(state, form)()
    reading = read(state.kind, text, "grounding")
    assert reading.claims
    assert not reading.unread
    for claim in reading.claims:
        assert claim.holds(state) is True, claim
        assert 0 <= claim.span[0] < claim.span[1] <= len(text)
        assert hash(claim.key) == hash(claim.key)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("sokoban", "The box is above the player.", "I see that the player is below the crate."),
        ("frozen_lake", "The goal is to the upper right of the player.", "the player is southwest of the gift"),
        ("navigation", "The desk lamp is on my right.", "On the right there is a desk lamp."),
        ("primitive_skill", "The red cube is at (100, 50, 20).", "{red_cube: (100, 50, 20)}"),
        ("primitive_skill", "The drawer is shut.", "the drawer is closed"),
        ("svg", "A red circle in the middle.", "In the middle is a red disc."),
    ],
)
def test_two_wordings_of_one_fact_are_the_same_fact(kind, one, other):
    facts = [{claim.key for claim in read(kind, text, "grounding").claims} for text in (one, other)]
    assert facts[0]
    assert facts[0] == facts[1]


def test_what_is_newly_spoken_of_is_somewhere():
    lake = STATES[2]
    claims = read(
        "frozen_lake", "A hole is right of the player. Another hole is left of the player.", "grounding"
    ).claims
    assert [claim.holds(lake) for claim in claims] == [True, True]
    both = read("frozen_lake", "All holes are right of the player.", "grounding").claims
    assert [claim.holds(lake) for claim in both] == [False]


def test_what_is_out_of_view_can_neither_hold_nor_not():
    claim = read("navigation", "The sofa is on my left.", "grounding").claims[0]
    assert claim.holds(STATES[3]) is None


def test_an_environment_of_your_own_needs_a_reader():
    @dataclass(frozen=True)
    class Rain:
        def holds(self, state):
            return state.wet

    @dataclass(frozen=True, slots=True)
    class Weather(State):
        kind = "weather_read_by_this_test"
        wet: bool

    with pytest.raises(JudgeConfigError, match="register_reader"):
        read(Weather.kind, "rain", "grounding")

    def weather(text, part):
        at = text.find("rain")
        return Reading((Claim((at, at + 4), Rain()),)) if at >= 0 else Reading((), ((0, len(text)),))

    register_reader(Weather.kind, weather)
    assert read(Weather.kind, "it rains", "grounding").claims[0].holds(Weather(True)) is True
    for wet in (True, False):
        assert RuleJudge().score(Statement("grounding", "it rains", Weather(wet))).value == float(wet)
