"""What a claim is worth: by hand where it can be worked out, and by what the environments' own words are paid."""

from __future__ import annotations

import contextlib
import functools
import gzip
import importlib
import json
import linecache
import math
import sys
from dataclasses import dataclass, replace
from typing import NamedTuple

import gymnasium as gym
import pytest

import vagen_envs  # noqa: F401
from vagen_envs.navigation.state import NavigationState
from vagen_envs.seeding import HashStream
from vagen_envs.sokoban.state import SokobanState
from vagen_envs.svg.state import Element, SvgState
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.rules import read
from vagen_rewards.worth import Reference, Transition, Worth, reference_of
from vagen_rewards.worth.reference import (
    BLIND,
    SHIPPED,
    SHIPPED_IDS,
    SIZE,
    configuration_of,
    draw,
    name_of,
    reference_for,
)
from vagen_rewards.worth.shares import FEWEST, Shares
from vagen_rewards.worth.told import _UNSEEN, done_in, knows_done, register_told, unnamed
from vagen_rewards.worth.weighing import on_scale, unique

LEVELS = 48

OWN = {"step_reward": -0.2}
"""A configuration that comes with no reference."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """References of these tests aren't those of whoever runs them."""
    monkeypatch.setenv("VAGEN_CACHE", str(tmp_path_factory.getbasetemp() / "references"))


@dataclass(frozen=True)
class Among:
    """Holds of the states, here plain numbers, that are named."""

    numbers: frozenset[int]
    unknown: frozenset[int] = frozenset()

    def holds(self, state):
        return None if state in self.unknown else state in self.numbers


def among(*numbers, unknown=()):
    return Among(frozenset(numbers), frozenset(unknown))


def shares_of(count, step=0):
    return Shares([Transition(number, (number + step) % count) for number in range(count)])


def test_a_true_claim_brings_the_log_of_its_share_and_a_false_one_costs_at_least_as_much():
    rare, common = among(*range(10)), among(*range(90))
    shares = shares_of(100)
    for claim, count in ((rare, 10), (common, 90)):
        share = (count + 0.5) / 101  # nothing is taken to be impossible: half a state more
        brings = -math.log(share)
        gained = shares.bets([(claim, None, True)])
        assert gained.gained == pytest.approx(brings, rel=0.05)
        assert (gained.lost, gained.right) == (0.0, 1)
        lost = shares.bets([(claim, None, False)])
        assert lost.lost == pytest.approx(max(brings, brings * share / (1 - share)), rel=0.05)
        assert (lost.gained, lost.wrong) == (0.0, 1)


def test_to_guess_what_cant_be_told_gains_nothing():
    bets = shares_of(100).bets([(among(*range(50)), None, None)])
    assert bets.unknown == 1
    assert bets.gained == 0
    assert bets.lost > 0


def test_what_is_always_so_is_worth_next_to_nothing():
    assert shares_of(1000).bets([(among(*range(1000)), None, True)]).gained < 0.001


@pytest.mark.parametrize("count", [1, 10, 50, 90, 99])
def test_nobody_gains_by_a_claim_that_doesnt_look(count):
    claim, shares = among(*range(count)), shares_of(100)
    bets = [shares.bets([(claim, None, claim.holds(number))]) for number in range(100)]
    assert math.fsum(each.gained - each.lost for each in bets) <= 0.01 * 100


def test_what_follows_from_what_was_said_is_worth_nothing_more():
    narrow, wide = among(*range(10)), among(*range(20))
    shares = shares_of(100)
    alone = shares.bets([(narrow, None, True)]).gained
    both = shares.bets([(narrow, None, True), (wide, None, True)]).gained
    assert both - alone < 0.1
    other = among(*range(5, 100, 10))  # independent of the first
    assert shares.bets([(narrow, None, True), (other, None, True)]).gained > alone + 1


def test_conditions_that_few_states_meet_say_nothing():
    one = among(*range(FEWEST - 2))
    shares = shares_of(1000)
    follows = among(*range(500))
    both = shares.bets([(one, None, True), (follows, None, True)]).gained
    assert both == pytest.approx(sum(shares.bets([(each, None, True)]).gained for each in (one, follows)))


def test_a_prediction_is_worth_what_it_says_beyond_the_observation():
    shares = shares_of(100, step=1)
    claim = among(*range(50))
    new = shares.bets([(claim, False, True)]).gained  # it wasn't so: of those, one in fifty becomes so
    assert new > 3
    assert shares.bets([(claim, True, True)], known=[claim]).gained == 0


def test_what_was_so_and_stays_so_is_no_news_even_where_it_rarely_stays():
    shares = Shares([Transition(number, number if number % 3 else 1000) for number in range(99)])
    claim = among(*range(99))
    stays, ends = shares.bets([(claim, True, True)]), shares.bets([(claim, True, False)])
    assert (stays.gained, stays.right) == (0, 1)
    assert ends.lost > 0.3


@pytest.mark.parametrize("full", [0.5, 2.0, 6.0])
def test_the_scale(full):
    assert on_scale(math.expm1(full), full) == pytest.approx(1)
    assert on_scale(0.0, full) == 0
    assert on_scale(1000.0, full) == 1
    assert on_scale(-1000.0, full) == -1
    values = [on_scale(net / 10, full) for net in range(-100, 100)]
    assert values == sorted(values)
    assert on_scale(-1.0, full) + on_scale(1.0, full) <= 0  # an even bet doesn't pay
    assert on_scale(1.0, 0.0) == 0


def test_claims_count_once_and_not_without_end():
    assert unique(["a", "b", "a"]) == ["a", "b"]
    assert len(unique(range(1000))) == 64


# -- on real environments ---------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["vagen/Sokoban-v0", "vagen/FrozenLake-v0"])
def worth(request):
    with gym.make(request.param, observation="text", strategy="no_think") as env:
        made = configuration_of(env)
    return Worth(draw(made[0], json.loads(made[1]), LEVELS))


def claims_of(state, text=None, part="grounding"):
    return [claim.key for claim in read(state.kind, text or state.describe("natural_language"), part).claims]


@pytest.mark.parametrize("stage", ["reset", "play"])
def test_the_truths_own_words_are_paid_and_those_of_another_state_arent(worth, stage):
    here = getattr(worth.reference, stage)
    own = [worth.observation(claims_of(each.before), each.before, stage) for each in here]
    assert all(each.wrong == 0 for each in own)
    assert math.fsum(each.value for each in own) / len(own) > 0.95
    others = [
        worth.observation(claims_of(there.before), each.before, stage).value
        for each, there in zip(here, here[1:] + here[:1], strict=True)
    ]
    assert math.fsum(others) / len(others) < 0.1


def test_nothing_is_gained_by_saying_the_same_thing_twice(worth):
    state = worth.reference.reset[0].before
    claims = claims_of(state)
    once, twice = (worth.observation(claims * times, state, "reset") for times in (1, 2))
    assert once == twice


def test_a_prediction_that_repeats_the_observation_is_worth_nothing(worth):
    for before, after, _ in worth.reference.play[:12]:
        seen = claims_of(before)
        said = [claim for claim in seen if claim.holds(after)]
        assert worth.prediction(said, seen, before, after, "play").gained == 0


def test_a_box_on_its_target_is_there_whether_or_not_the_two_places_are_one_object():
    place = (2, 3)
    one = SokobanState(8, 8, (1 << 64) - 1, (3, 3), (place,), (place,))
    two = SokobanState.from_json(json.loads(json.dumps(one.to_json())))
    assert one == two
    for state in (one, two):
        claims = claims_of(state)
        assert claims
        assert [claim.holds(state) for claim in claims] == [True] * len(claims)


# -- references --------------------------------------------------------------------------------------


def test_a_reference_is_the_same_each_time_and_comes_back_from_its_file(tmp_path, monkeypatch):
    monkeypatch.setenv("VAGEN_CACHE", str(tmp_path))
    with gym.make("vagen/FrozenLake-v0", observation="text", strategy="no_think", **OWN) as env:
        env_id, options = configuration_of(env)
    drawn = draw(env_id, json.loads(options), 9)
    assert drawn == draw(env_id, json.loads(options), 9)
    assert reference_of("vagen/FrozenLake-v0", OWN, size=9).to_json() == drawn.to_json()
    path = tmp_path / name_of(env_id, options)
    kept = Reference.from_json(json.loads(gzip.decompress(path.read_bytes())))
    assert (kept.reset, kept.play) == (drawn.reset, drawn.play)


def test_a_cut_file_is_drawn_anew_and_a_folder_that_isnt_one_costs_the_file_only(tmp_path, monkeypatch):
    monkeypatch.setenv("VAGEN_CACHE", str(tmp_path))
    whole = reference_of("vagen/FrozenLake-v0", OWN, size=10)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:50])
    from vagen_rewards.worth import reference

    reference._reference.cache_clear()
    assert reference_of("vagen/FrozenLake-v0", OWN, size=10).to_json() == whole.to_json()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VAGEN_CACHE", str(tmp_path / "file"))
    assert len(reference_of("vagen/FrozenLake-v0", OWN, size=11).reset) == 11


def test_a_file_with_too_few_turns_is_drawn_again_and_one_with_more_gives_its_first(tmp_path, monkeypatch):
    monkeypatch.setenv("VAGEN_CACHE", str(tmp_path))
    few = reference_of("vagen/FrozenLake-v0", OWN, size=12)
    more = reference_of("vagen/FrozenLake-v0", OWN, size=20)
    assert more.reset[:12] == few.reset
    assert more.play[:12] == few.play
    monkeypatch.setattr("vagen_rewards.worth.reference.draw", lambda *_: pytest.fail("its file has enough"))
    assert reference_of("vagen/FrozenLake-v0", OWN, size=7).reset == few.reset[:7]


@pytest.mark.parametrize(
    "env_id", [pytest.param(each, marks=[pytest.mark.sim] if "Primitive" in each else []) for each in SHIPPED_IDS]
)
def test_a_default_configuration_comes_with_a_reference_that_is_still_drawn_so(env_id):
    with gym.make(env_id, observation="text", strategy="no_think") as env:
        configuration = configuration_of(env)
    path = SHIPPED / name_of(*configuration)
    assert path.exists(), f"{env_id} isn't configured as it was: run scripts/draw_references.py"
    assert path.stat().st_size < 200_000
    shipped = reference_for(configuration)
    assert len(shipped.reset) == SIZE
    assert len(shipped.play) == SIZE
    few = draw(configuration[0], json.loads(configuration[1]), 2)
    assert few.reset == shipped.reset[:2], f"{env_id} isn't played as it was: run scripts/draw_references.py --all"
    assert few.play == shipped.play[:2]


def test_a_configuration_has_a_reference_of_its_own():
    def name(**options):
        with gym.make("vagen/FrozenLake-v0", **options) as env:
            return name_of(*configuration_of(env))

    assert name() != name(size=8)
    assert name() == name(observation="text")  # the states are the same


def test_what_the_prompt_tells_is_worth_nothing():
    with gym.make("vagen/FrozenLake-v0", observation="text", strategy="no_think") as env:
        env_id, options = configuration_of(env)
    reference = draw(env_id, json.loads(options), LEVELS)
    here = reference.reset[0].before
    text = here.describe("natural_language")
    untold = Worth(reference).observation(claims_of(here, text), here, "reset")
    assert untold.gained > 1
    kept = _UNSEEN["frozen_lake"]
    try:
        register_told("frozen_lake", lambda state: state, lambda state, here: here)  # a prompt that gives all away
        told = Worth(reference).observation(claims_of(here, text), here, "reset")
    finally:
        _UNSEEN["frozen_lake"] = kept
    assert told.gained < 0.2


def test_what_ones_own_actions_do_for_sure_is_no_foresight():
    done = [number % 4 for number in range(400)]
    shares = Shares([Transition(number, number % 2, turn) for number, turn in enumerate(done)])
    odd = among(1)  # so after every second turn, and after all in which 1 or 3 was done
    assert shares.bets([(odd, False, True)]).gained > 0.6
    assert shares.bets([(odd, False, True)], without=shares.known("world_modeling", Transition(0, 0, 1))).gained < 0.02
    assert shares.bets([(odd, False, False)], without=shares.known("world_modeling", Transition(0, 0, 1))).lost > 0.9
    assert (
        shares.bets([(odd, False, True)], without=shares.known("world_modeling", Transition(0, 0, 7))).gained > 0.6
    )  # never done there: nothing is known


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        (["rotateright"], "The target object is to the left."),
        (["rotateleft"], "The target object is to the right."),
        (["rotateright", "rotateright"], "The target object is behind me."),
        (["rotateright", "moveahead"], "The target object is to the left."),
    ],
)
def test_to_turn_always_alike_and_to_foretell_it_earns_nothing(actions, said):
    """Navigation's first turns begin with the target ahead."""
    worth, earned = _worth("vagen/Navigation-v0"), []
    claims = [claim.key for claim in read("navigation", said, "world_modeling").claims]
    done = done_in(_Did("navigation", actions))
    for before, after, turned in worth.reference.reset:
        if turned == done:
            earned.append(worth.prediction(claims, [], before, after, "reset", done).value)
    assert len(earned) >= 8
    assert math.fsum(earned) / len(earned) < 0.10


def test_a_description_of_ones_own_drawing_is_no_foresight():
    worth = Worth(_shipped("vagen/SVGReconstruction-v0"))
    circle = Element("circle", "filled", "#ff0000", 50, 50, 80, 80)
    claims = [claim.key for claim in read("svg", "The drawing has a red circle at (50, 50).", "world_modeling").claims]
    for before, *_ in worth.reference.reset[:20]:
        after = SvgState(before.target, (circle,))
        assert [claim.holds(after) for claim in claims] == [True]
        assert worth.prediction(claims, [], before, after, "reset").gained == 0


@pytest.mark.parametrize("always", ["Left", "Left,Left"])
def test_a_search_may_take_the_same_actions_in_every_turn(always):
    with gym.make("vagen/FrozenLake-v0", observation="text", strategy="no_think") as env:
        env_id, options = configuration_of(env)
    drawn = draw(env_id, json.loads(options), 8, always=always)
    left = done_in(_Did("frozen_lake", ["Left"]))
    assert {each.done for each in (*drawn.reset, *drawn.play)} == {left}


def test_who_always_goes_to_an_edge_knows_what_is_on_the_other_side():
    with gym.make("vagen/FrozenLake-v0", observation="text", strategy="no_think") as env:
        env_id, options = configuration_of(env)
    worth = Worth(_shipped(env_id))
    played = draw(env_id, json.loads(options), 200, first_seed=2_000_000, always="Left,Left,Left").play
    text = "The target is to the right of the player."
    claims = [claim.key for claim in read("frozen_lake", text, "grounding").claims]
    earned = [worth.observation(claims, each.before, "play").value for each in played]
    assert math.fsum(earned) / len(earned) < 0.10


@pytest.mark.parametrize("always", ["Left", "Left,Left,Left", "Down,Down", "Right,Down,Right"])
def test_where_an_agent_comes_to_rest_that_doesnt_look_is_no_news(always):
    """It came there without falling into a hole, so that the holes are on the other side: that earned 0.06 to 0.19."""
    with gym.make("vagen/FrozenLake-v0", observation="text", strategy="no_think") as env:
        env_id, options = configuration_of(env)
    worth = Worth(_shipped(env_id))
    played = draw(env_id, json.loads(options), 400, first_seed=3_000_000, always=always).play
    for said in (
        "A hole is at the same row and to the right of the player.",
        "A hole is above the player.",
        "The target is to the right of the player.",
        "The target is not to the left of the player. A hole is to the left of the player.",
    ):
        claims = [claim.key for claim in read("frozen_lake", said, "grounding").claims]
        earned = [worth.observation(claims, each.before, "play", each.done).value for each in played]
        assert math.fsum(earned) / len(earned) < 0.10, said


def test_blind_play_counts_where_as_much_was_done():
    looking = [Transition(number, number, 1) for number in range(100)]
    shares = Shares(looking, [Transition(200 + number, 200 + number, 1) for number in range(50)])
    claim = among(0, 1, *range(200, 245))
    gained, known = {}, {}
    for done in (1, 2, None):
        known[done] = shares.known("grounding", Transition(0, 0, done))
        gained[done] = shares.bets([(claim, None, True)], without=known[done]).gained
    assert gained[1] == pytest.approx(
        -math.log(45.5 / 51), rel=0.1
    )  # of the 50 that didn't look and did as much it holds of 45
    assert gained[2] == gained[None] == pytest.approx(-math.log(2.5 / 101), rel=0.1)
    assert (
        shares.bets([(claim, None, False)], without=known[1]).lost > 8 * gained[1]
    )  # 9 to 1, at what it would have brought


def test_a_reference_knows_play_that_doesnt_look_where_it_matters_what_is_done():
    for env_id in SHIPPED_IDS:
        shipped = _shipped(env_id)
        assert len(shipped.blind) == (BLIND * SIZE if knows_done(shipped.reset[0].before.kind) else 0)


@pytest.mark.parametrize("turns", [["rotateright"], ["rotateleft", "rotateleft"], ["rotateright", "moveback"]])
def test_who_counts_its_own_turns_sees_nothing_by_that(turns):
    """Navigation's first turns begin with the target ahead, so that a quarter to the right puts it on the left."""
    worth, earned = _worth("vagen/Navigation-v0"), []
    place = dict(enumerate(("ahead", "to the left", "behind me", "to the right")))
    at = (turns.count("rotateright") - turns.count("rotateleft")) % 4
    claims = [claim.key for claim in read("navigation", f"The target object is {place[at]}.", "grounding").claims]
    for before, _, done in worth.reference.play:
        if before.turned == at:
            earned.append(worth.observation(claims, before, "play", done).value)
    assert len(earned) >= 30
    assert math.fsum(earned) / len(earned) < 0.10


def test_what_the_prompt_names_is_searched_under_a_name_for_all():
    state = NavigationState("DeskLamp", 1.71, "right", (("Chair", "ahead", 1.08), ("DeskLamp", "right", 1.71)))
    said = unnamed(state, state.natural_language())
    assert "desk lamp" not in said.lower()
    assert "target object" in said
    assert "chair" in said


class _Did:
    """As much of a turn as `done_in` looks at."""

    def __init__(self, kind, actions):
        self.before, self.executed = type("State", (), {"kind": kind}), [_Done(each) for each in actions]


class _Done(NamedTuple):
    text: str


def test_where_nothing_can_be_played_nothing_is_known(monkeypatch):
    from vagen_rewards.worth import reference

    monkeypatch.setattr(reference, "episode", lambda env, seed, always=(): iter(()))
    with pytest.raises(JudgeConfigError, match="no episode of vagen/FrozenLake-v0 could be played"):
        draw("vagen/FrozenLake-v0", {}, 1)


@pytest.mark.parametrize("env_id", SHIPPED_IDS)
def test_the_truths_own_words_are_worth_something_everywhere(env_id):
    reference = reference_of(env_id, size=32) if "Primitive" not in env_id else _shipped(env_id)
    worth = Worth(replace(reference, options={**reference.options, "positions_in_text": False}))
    here = reference.reset[0]
    assert worth.truth("grounding", "reset", here).value > 0.5


@pytest.mark.parametrize("task", ["Place", "Stack", "Drawer"])
def test_who_copies_the_list_of_positions_sees_nothing_by_that(task):
    """In the drawer's task there is one thing of each sort, so that the list says it all."""
    reference = _shipped(f"vagen/PrimitiveSkill{task}-v0")
    assert reference.options["positions_in_text"]
    worth, dice, earned, own = Worth(reference), HashStream("copy", 0), [], []
    for each in reference.play[:60]:
        state = each.before
        cubes = [name for name in state.positions if name.endswith("cube")]
        others = dict(zip(cubes, dice.sample(cubes, len(cubes)), strict=True))
        said = " ".join(
            f"The {name.replace('_', ' ')} is at {state.positions[others.get(name, name)]}." for name in state.positions
        )
        earned.append(worth.observation(claims_of(state, said), state, "play").value)
        own.append(worth.truth("grounding", "play", each).value)
    assert math.fsum(earned) / len(earned) < 0.10
    assert math.fsum(own) / len(own) == pytest.approx(0 if task == "Drawer" else 1)
    untold = Worth(replace(reference, options={**reference.options, "positions_in_text": False}))
    state = reference.play[0].before
    assert untold.observation(claims_of(state), state, "play").value == pytest.approx(1)


def test_what_is_told_costs_where_it_is_false_and_brings_nothing_where_it_is_true():
    shares = Shares(
        [Transition(number, number) for number in range(100)], guess=lambda claim: 0.5 if 1 in claim.numbers else 1
    )
    which, told = among(1), among(2)
    assert shares.bets([(which, None, True)]).gained == pytest.approx(math.log(2))
    assert shares.bets([(which, None, False)]).lost == pytest.approx(math.log(2))
    assert shares.bets([(told, None, True)]).gained == 0
    assert shares.bets([(told, None, False)]).lost == 1


@functools.cache
def _worth(env_id):
    return Worth(_shipped(env_id))


def _shipped(env_id):
    """Found by its id: no simulator is started."""
    every = [json.loads(gzip.decompress(path.read_bytes())) for path in SHIPPED.glob("*.json.gz")]
    return Reference.from_json(next(each for each in every if each["env_id"] == env_id))


def test_a_reference_of_ones_own_environment_is_drawn_anew_when_its_code_changed(tmp_path, monkeypatch):
    from vagen_rewards.worth.reference import name_of

    file = tmp_path / "my_lake.py"
    text = "import gymnasium as gym\nfrom vagen_envs.frozen_lake.env import FrozenLakeEnv\nclass MyEnv(FrozenLakeEnv):\n    id = 'my/Lake-v0'\ngym.register('my/Lake-v0', 'my_lake:MyEnv')\n"
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []
    for comment in ("", "# harder\n"):
        file.write_text(text + comment)
        sys.modules.pop("my_lake", None)
        gym.registry.pop("my/Lake-v0", None)
        linecache.clearcache()
        importlib.invalidate_caches()
        importlib.import_module("my_lake")
        names.append(name_of("my/Lake-v0", "{}"))
    assert names[0] != names[1]
    gym.registry.pop("my/Lake-v0", None)


@pytest.mark.parametrize(
    "content", ["[]", "null", '{"size": "8"}', '{"size": 99999, "env_id": "vagen/Sokoban-v0", "states": []}']
)
def test_a_kept_reference_that_is_something_else_is_drawn_anew(content, tmp_path, monkeypatch):
    from vagen_rewards.worth.reference import name_of, reference_for

    monkeypatch.setenv("VAGEN_CACHE", str(tmp_path))
    with contextlib.closing(gym.make("vagen/FrozenLake-v0", size=5)) as env:
        configuration = configuration_of(env)
    (tmp_path / name_of(*configuration)).write_bytes(gzip.compress(content.encode()))
    assert len(reference_for(configuration, 8 + len(content)).reset) == 8 + len(content)
