"""The things of a state, held against what the world does and shows."""

import gymnasium as gym
import numpy as np
import pytest

from vagen_envs.navigation.state import NavigationState
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.sample.generated import SHAPES
from vagen_envs.sample.shapes import COLOURS
from vagen_envs.svg.state import Element, SvgState
from vagen_experiments.things import things

MOVES = {"Up": "up", "Down": "down", "Left": "left", "Right": "right"}


def moments(env_id, levels=12, **options):
    """Moments of random play: the environment, and what is shown."""
    env = gym.make(env_id, strategy="no_think", max_actions_per_turn=1, **options).unwrapped
    generator = np.random.default_rng(0)
    for seed in range(levels):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            yield env, observation
            action = list(MOVES)[generator.integers(4)]
            observation, _, terminated, truncated, _ = env.step(env.grammar.render([action]))
            over = terminated or truncated


def tried(env, action):
    """What a move would come to, from here."""
    here = env.snapshot()
    _, _, terminated, _, info = env.step(env.grammar.render([action]))
    env.restore(here)
    return terminated and not info["turn"].success, bool(info["turn"].executed[0].effective)


def of(env, name):
    return [thing for thing in things(env.imagine(())) if thing.name == name]


def test_what_is_beside_the_player_of_a_lake_is_what_its_moves_come_to():
    met = set()
    for env, _ in moments("vagen/FrozenLake-v0"):
        (player,) = of(env, "player")
        for action, side in MOVES.items():
            lost, effective = tried(env, action)
            assert (player.relations[f"hole {side}"], player.relations[f"edge {side}"]) == (
                lost,
                not effective,
            )
            met |= {(lost, effective)}
    assert met == {(False, True), (False, False), (True, True)}


@pytest.mark.parametrize("boxes", [1, 2])
def test_what_is_beside_the_player_in_sokoban_is_what_stops_it(boxes):
    for env, _ in moments("vagen/Sokoban-v0", num_boxes=boxes):
        (player,) = of(env, "player")
        assert len(of(env, "box")) == len(of(env, "target")) == boxes
        for action, side in MOVES.items():
            if player.relations[f"wall {side}"]:
                assert not tried(env, action)[1]
            elif not player.relations[f"box {side}"]:
                assert tried(env, action)[1]


def test_the_way_to_what_matters_leads_there():
    for env, _ in moments("vagen/FrozenLake-v0", levels=4):
        (player,), (target,) = of(env, "player"), of(env, "target")
        rows, columns = player.relations["rows to target"], player.relations["columns to target"]
        assert (player.at[0] + columns / 4, player.at[1] + rows / 4) == pytest.approx(target.at)
        assert (target.relations["rows to player"], target.relations["columns to player"]) == (
            -rows,
            -columns,
        )


@pytest.mark.parametrize("env_id", ["vagen/FrozenLake-v0", "vagen/Sokoban-v0"])
def test_a_thing_is_where_it_is_shown(env_id):
    """Where the player was and isn't any more, the picture has changed; far from it, it hasn't."""
    before = None
    for env, observation in moments(env_id, levels=3):
        (player,) = of(env, "player")
        height, width, _ = observation["image"].shape
        x, y = int(player.at[0] * width), int(player.at[1] * height)
        here = observation["image"][y - 8 : y + 8, x - 8 : x + 8]
        if before is not None and env._turns > 0 and before[1:] != (x, y):
            then = before[0][y - 8 : y + 8, x - 8 : x + 8]
            assert not np.array_equal(here, then)
        before = observation["image"], x, y


def test_things_without_a_place_in_the_picture_have_one_name_each():
    skill = PrimitiveSkillState(
        "drawer", {"red_cube": (-6, 68, 20), "handle": (80, -100, 0)}, "red_cube", 35
    )
    cube, handle, opening = things(skill)
    assert cube == ("red cube", None, {"x": -6, "y": 68, "z": 20, "held": 1})
    assert handle.relations["held"] == 0
    assert opening.relations == {"open": 35}
    seen = (("Mug", "ahead", 1.5), ("DeskLamp", "ahead", 2.0), ("Mug", "right", 3.0))
    mug, lamp = things(NavigationState("Mug", 2.0, "back", seen, bearings=(-30, 0, 48)))
    assert (mug.name, lamp.name) == ("mug", "desk lamp")
    assert mug.relations == pytest.approx(
        {"distance": 1.5, "ahead": 1.5 * 0.75**0.5, "to the right": -0.75}
    )
    assert lamp.relations == {"distance": 2.0, "ahead": 2.0, "to the right": 0.0}


def test_elements_stand_in_their_half_of_the_picture():
    square = Element("rectangle", "filled", "#ff0080", 50, 25, 40, 10)
    target, drawn = things(SvgState((square,), (square,)))
    assert (target.at, drawn.at) == ((0.25, 0.25), (0.75, 0.25))
    assert target.relations == {
        "width": 40,
        "height": 10,
        "filled": 1,
        "red": 1,
        "green": 0,
        "blue": 128 / 255,
    }


def test_the_shapes_of_a_sample_are_where_and_what_its_picture_shows():
    env = gym.make("vagen/Sample-v0", sources=("vagen/grounding",)).unwrapped
    for seed in range(12):
        image = env.reset(seed=seed)[0]["image"].astype(int)
        shapes = things(env.true_state)
        assert len(shapes) >= 4
        shown = (abs(image - image[0, 0]).sum(-1) > 30).astype(int)  # the corner is ground
        for shape in shapes:
            relations = shape.relations
            edges = [relations[edge] for edge in ("left", "top", "right", "bottom")]
            left, top, right, bottom = (round(edge * image.shape[0] / 1000) for edge in edges)
            rows, columns = (
                shown[top:bottom, left:right].any(1),
                shown[top:bottom, left:right].any(0),
            )
            assert rows.mean() > 0.9  # a box is as large as its shape, but for smooth edges
            assert columns.mean() > 0.9
            x, y = (round(share * image.shape[0]) for share in shape.at)
            (colour,) = (name for name in COLOURS if relations[name])
            assert image[y, x] == pytest.approx(COLOURS[colour], abs=2)
            assert sum(relations[kind] for kind in SHAPES) == 1
