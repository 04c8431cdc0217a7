"""Dictionaries and grids as models write them are read whole, in whatever dress."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vagen_envs.frozen_lake.state import FrozenLakeState
from vagen_envs.navigation.state import NavigationState
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.sokoban.state import SokobanState
from vagen_envs.svg.state import Element, SvgState
from vagen_rewards import RuleJudge
from vagen_rewards.reader import read
from vagen_rewards.scores import Statement

LAKE = FrozenLakeState(4, (1, 0), (3, 3), ((1, 2), (2, 1)))
ROOM = NavigationState("Vase", 2.8, "right", (("Laptop", "ahead", 1.6), ("Sofa", "left", 2.5)))
TABLE = PrimitiveSkillState(
    "stack", {"red_cube": (-80, 150, 20), "green_cube": (-5, -154, 20)}, "", None
)
PICTURE = SvgState((Element("circle", "filled", "#0000ff", 50, 50, 40, 40),))

FORMS = [
    (LAKE, '{"player": [1, 0], "goal": [3, 3], "holes": [[1, 2], [2, 1]]}'),
    (LAKE, "{'agent_position': (1,0), 'target_position': (3,3), 'hole_positions': [(1,2),(2,1)]}"),
    (
        LAKE,
        '```json\n{\n "player": {"row": 1, "col": 0},\n "goal": {"row": 3, "column": 3},\n'
        ' "holes": [{"row": 1, "col": 2}, {"row": 2, "col": 1}],\n}\n```',
    ),
    (
        LAKE,
        'I see:\n{"state": {"player": [1,0], "goal": [3,3], "holes": [[1,2],[2,1]]}, "done": false}',
    ),
    (
        LAKE,
        '[{"object": "player", "position": [1,0]}, {"object": "goal", "position": [3,3]},'
        ' {"object": "hole", "position": [1,2]}, {"object": "hole", "position": [2,1]}]',
    ),
    (LAKE, "Row 0: _ _ _ _\nRow 1: P _ H _\nRow 2: _ H _ _\nRow 3: _ _ _ G"),
    (LAKE, '[["_","_","_","_"],["P","_","H","_"],["_","H","_","_"],["_","_","_","G"]]'),
    (LAKE, '{"grid": ["FFFF","AFHF","FHFF","FFFG"]}'),
    (LAKE, "player_position: (1, 0)\ntarget_position: (3, 3)\nhole_positions: [(1, 2), (2, 1)]"),
    (LAKE, '{"player": "(1, 0)", "goal": "(3, 3)", "hole1": "(1,2)", "hole2": "(2,1)"}'),
    (LAKE, 'Das Spielfeld: {"player": [1, 0], "goal": [3, 3], "holes": [[1, 2], [2, 1]]}'),
    (
        LAKE,
        '玩家: {"playerPosition": [1, 0], "goalPosition": [3, 3], "holePositions": [[1, 2], [2, 1]]}',
    ),
    (LAKE, "player = (1, 0), goal = (3, 3), holes = [(1, 2), (2, 1)]"),
    (ROOM, '{"target": "Vase", "direction": "right", "distance": 2.8}'),
    (ROOM, '{"objects": [{"name": "vase", "direction": "right", "distance": "2.8 m"}]}'),
    (ROOM, '{"vase": {"direction": "right"}, "sofa": {"direction": "left"}}'),
    (TABLE, '{"red_cube": {"x": -80, "y": 150, "z": 20}, "green_cube": [-5, -154, 20]}'),
    (TABLE, "red_cube:\n  x: -80\n  y: 150\n  z: 20\ngreen_cube:\n  x: -5\n  y: -154\n  z: 20"),
    (
        TABLE,
        '[{"name": "red cube", "coordinates": [-80, 150, 20]}, {"name": "green_cube", "position": [-5, -154, 20]}]',
    ),
    (
        PICTURE,
        '{"target": [{"shape": "circle", "color": "blue", "center": [50, 50], "size": [40, 40]}]}',
    ),
    (
        PICTURE,
        '{"target": [{"type": "circle", "fill": "#0000ff", "center": "(50, 50)", "r": 20}], "drawing": null}',
    ),
]


@pytest.mark.parametrize(("state", "text"), FORMS)
def test_usual_forms_are_read_whole(state, text):
    assert RuleJudge("direct").score(Statement("grounding", text, state)).value == 1.0


def test_a_value_that_cant_be_read_holds_the_score_back():
    for odd in (
        '{"player": "facing left", "goal": [3, 3]}',
        '{"goal": [3, 3], "note": "the hole is above me"}',
    ):
        assert RuleJudge("direct").score(Statement("grounding", odd, LAKE)).value is None
    wrong = '{"player": [1, 0], "goal": [3, 2]}'
    assert RuleJudge("direct").score(Statement("grounding", wrong, LAKE)).value == 0.0


CELLS = [(i, j) for i in range(6) for j in range(6)]
NAMES = {
    "player": ("player", "agent", "player_position", "Player", "playerPos"),
    "box": ("boxes", "box_positions", "crates", "Box"),
    "target": ("targets", "goal_positions", "target", "goalLocations"),
}


@st.composite
def dressed(draw):
    """A board and a true dictionary about it, in random names, cells, nesting, fences and prose."""
    player, box, target = draw(
        st.lists(st.sampled_from(CELLS), min_size=3, max_size=3, unique=True)
    )
    state = SokobanState(6, 6, (1 << 36) - 1, player, (box,), (target,))
    cell = draw(st.sampled_from([list, lambda at: {"row": at[0], "col": at[1]}, str]))
    entries = {draw(st.sampled_from(NAMES["player"])): cell(player)}
    several = draw(st.booleans())
    for kind, at in (("box", box), ("target", target)):
        name = draw(st.sampled_from(NAMES[kind]))
        entries[name] = [cell(at)] if several else cell(at)
    names = draw(st.permutations(list(entries)))
    data = {name: entries[name] for name in names}
    if draw(st.booleans()):
        data["grid_size"] = [6, 6]
    if draw(st.booleans()):
        data = {draw(st.sampled_from(["state", "observation"])): data}
    text = draw(st.sampled_from([str, json.dumps, lambda x: json.dumps(x, indent=2)]))(data)
    dress = draw(
        st.sampled_from(["{}", "```json\n{}\n```", "## State\n{}", "Voici : {}", "{}\nDone."])
    )
    return state, dress.replace("{}", text)


@given(dressed())
def test_a_true_dictionary_is_read_in_any_dress(case):
    state, text = case
    plain = read("sokoban", state.structured(), "grounding")
    reading = read("sokoban", text, "grounding")
    assert {claim.key for claim in reading.claims} == {claim.key for claim in plain.claims}
    assert reading.matters == ()
