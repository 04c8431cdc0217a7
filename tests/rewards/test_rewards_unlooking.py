"""Replies that don't look, in configurations where they once earned."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.navigation.state import NavigationState
from vagen_envs.svg.state import Element
from vagen_rewards import ReasoningReward, RuleJudge, Statement
from vagen_rewards.rules import read
from vagen_rewards.worth import Reference, Transition, Worth, reference_of
from vagen_rewards.worth.reference import representation_of
from vagen_rewards.worth.told import done_in

ROOM = NavigationState("Vase", 2.5, "ahead", (("TVStand", "left", 1.0), ("DiningTable", "right", 1.5)))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """References of these tests aren't those of whoever runs them."""
    monkeypatch.setenv("VAGEN_CACHE", str(tmp_path_factory.getbasetemp() / "references"))


def navigation(count, state=ROOM):
    """A reference of states in which the target is ahead and what else is seen differs."""
    sides = ("left", "ahead", "right")
    states = [
        replace(state, visible_objects=(("TVStand", sides[i % 3], 1.0), ("DiningTable", sides[i // 3 % 3], 1.5)))
        for i in range(count)
    ]
    turns = tuple(Transition(each, each, 4) for each in states)
    return Reference("vagen/Navigation-v0", {}, turns, turns)


def test_a_dictionary_says_where_visible_things_are():
    moved = replace(ROOM, visible_objects=(("TVStand", "right", 1.0), ("DiningTable", "right", 1.5)))
    judge = RuleJudge()
    value = {state: judge.score(Statement("grounding", ROOM.structured(), state)).value for state in (ROOM, moved)}
    assert value[ROOM] == 1.0
    assert 0 < value[moved] < 1.0
    spelt = ROOM.structured().replace("TVStand", "tv stand").replace("DiningTable", "dining_table")
    assert judge.score(Statement("grounding", spelt, moved)).value == value[moved]
    strange = ROOM.structured().replace("TVStand", "Zeppelin")
    reading = read("navigation", strange, "grounding")
    assert [strange[start:end].split("'")[3] for start, end in reading.unread] == ["Zeppelin"]


def test_a_constant_of_a_dictionary_s_first_turn_earns_nothing():
    """It earned 0.5: the truth's own dictionary was worth no more than that the target is ahead, which it always is."""
    reference = navigation(90)
    worth = Worth(reference, "structured")
    said = [claim.key for claim in read("navigation", "The target object is ahead of me.", "grounding").claims]
    assert abs(worth.observation(said, ROOM, "reset", 4).value) < 0.02
    truth = worth.truth("grounding", "reset", reference.reset[0])
    assert truth.value == 1.0
    assert truth.whole > 1


@dataclass(frozen=True)
class Always:
    """Holds everywhere."""

    def holds(self, state):
        return True


def test_where_there_is_nothing_to_tell_nothing_is_paid():
    alone = replace(ROOM, visible_objects=())
    turns = tuple(Transition(alone, alone, 4) for _ in range(40))
    worth = Worth(Reference("vagen/Navigation-v0", {}, turns, turns))
    assert abs(worth.truth("grounding", "reset", turns[0]).value) < 0.1
    assert abs(worth.observation([Always()], alone, "reset", 4).value) < 0.1


@pytest.mark.parametrize(
    ("env_id", "options", "betas", "warned"),
    [
        ("vagen/PrimitiveSkillDrawer-v0", {}, (0.5, 0.5), ["observations", "predictions"]),
        ("vagen/PrimitiveSkillPlace-v0", {}, (0.5, 0.5), []),
        ("vagen/FrozenLake-v0", {}, (0.5, 0.5), []),
        ("vagen/PrimitiveSkillDrawer-v0", {"positions_in_text": True}, (1.0, 0.0), ["observations"]),
    ],
)
def test_who_begins_where_the_truth_is_paid_nothing_is_told_so(env_id, options, betas, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reward = ReasoningReward(None, *betas).of(options)
        reward.prepare(env_id)
        reward.prepare(env_id)
    said = [str(each.message) for each in caught if "are paid 0 here" in str(each.message)]
    assert [each.split()[1] for each in said] == warned


def table_of(worth, turns, sentences):
    """What the best sentence for each turn and feedback earns on every second level, where the others picked it."""
    claims = {said: [each.key for each in read("frozen_lake", said, "grounding").claims] for said in sentences}
    earned = {
        said: [worth.observation(keys, turn.before, "play", done_in(turn)).value for _, turn in turns]
        for said, keys in claims.items()
    }
    cases = [(turn.index, turn.observed.text.partition("\n")[0]) for _, turn in turns]
    picked = {
        case: max(
            sentences,
            key=lambda said: math.fsum(
                value
                for value, each, (level, _) in zip(earned[said], cases, turns, strict=True)
                if each == case and level % 2 == 0
            ),
        )
        for case in {each for each, (level, _) in zip(cases, turns, strict=True) if level % 2 == 0}
    }
    others = [number for number, (level, _) in enumerate(turns) if level % 2 and cases[number] in picked]
    return math.fsum(earned[picked[cases[number]]][number] for number in others) / len(others)


@pytest.mark.parametrize("actions", [["Right", "Right", "Down"], ["Right", "Down"], ["Down", "Right"]])
def test_who_goes_askew_and_reads_the_feedback_only_sees_nothing(actions):
    """Of such play a reference had ten turns beside a hundred of "Left"; the best table of sentences earned 0.11 to 0.18."""
    env = gym.make("vagen/FrozenLake-v0", observation="text", strategy="no_think").unwrapped
    turns = []
    for level in range(400):
        env.reset(seed=90_000 + level, options={"split": "train"})
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(env.grammar.render(actions))
            turns += [(level, info["turn"])] if info["turn"].index else []
            over = terminated or truncated
    sides = ["above", "below", "to the left of", "to the right of"]
    sides += [f"{row} and to the {side} of" for row in sides[:2] for side in ("left", "right")]
    sentences = [f"The {noun} is {side} the player." for noun in ("target", "hole") for side in sides]
    sentences += [f"A hole is next to the player on the {side}." for side in ("left", "right")]
    worth = Worth(reference_of("vagen/FrozenLake-v0"))
    assert len(turns) > 200
    assert table_of(worth, turns, sentences) < 0.10


def test_what_is_worth_1_is_in_the_environments_own_form():
    """By options alone, as in a benchmark, PrimitiveSkill's dictionary was weighed by sentences."""
    assert representation_of("vagen/PrimitiveSkillPlace-v0", {}) == "structured"
    assert (
        representation_of("vagen/PrimitiveSkillPlace-v0", {"representation": "natural_language"}) == "natural_language"
    )
    assert representation_of("vagen/FrozenLake-v0", {"size": 8}) == "natural_language"


def test_to_describe_ones_own_drawing_is_no_observation():
    """The same drawing, described in every later turn, earned 0.55: who wrote it needn't look."""
    worth = Worth(reference_of("vagen/SVGReconstruction-v0"))
    said = "The drawing has a filled blue circle at (50, 40), 60 wide and 60 high."
    keys = [claim.key for claim in read("svg", said, "grounding").claims]
    drawn = (Element("circle", "filled", "#3366cc", 50, 40, 60, 60),)
    for turn in worth.reference.play[:8]:
        own = replace(turn.before, drawing=drawn)
        assert worth.observation(keys, own, "play").value == 0
        assert worth.observation(keys, replace(own, drawing=()), "play").value < -0.1
        truth = worth.truth("grounding", "play", Transition(own, own))
        assert truth.value > 0.3
        assert truth.whole > 1
