"""PrimitiveSkill with its real simulator: physics, pictures, words, rewards."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from oracle import finish, reply_of
from PIL import Image

import vagen_envs  # noqa: F401
from vagen_envs.conformance import check
from vagen_envs.errors import ConfigError, SimulatorError
from vagen_envs.primitive_skill.view import view_of

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(
        importlib.util.find_spec("mani_skill") is None, reason="needs the extra primitive-skill"
    ),
]

GOLDEN = Path(__file__).parent.parent / "golden"
TASKS = ("place", "stack", "drawer", "align")
IDS = {task: f"vagen/PrimitiveSkill{task.title()}-v0" for task in TASKS}


def play(env, seed, *answers):
    """The turns of the oracle's episode, or of these answers."""
    env.reset(seed=seed)
    if not answers:
        return finish(env)
    return [env.step(f"<think>x</think><answer>{answer}</answer>")[4]["turn"] for answer in answers]


@pytest.fixture(scope="module")
def seeing():
    """Environments with pictures, one a task, whose pictures come through a worker."""
    envs = {task: gym.make(IDS[task], workers=1).unwrapped for task in TASKS}
    yield envs
    for env in envs.values():
        env.close()


@pytest.fixture(scope="module")
def blind():
    """Environments that show no pictures, simulated in this process."""
    options = {"observation": "text", "strategy": "free_think", "workers": 0}
    envs = {task: gym.make(IDS[task], **options).unwrapped for task in TASKS}
    yield envs
    for env in envs.values():
        env.close()


# -- the contract ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("env_id", [*IDS.values(), "vagen/PrimitiveSkill-v0"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"observation": "both", "representation": "natural_language"},
        {"observation": "text", "strategy": "no_think", "out_of_workspace": "refuse"},
        {"preset": "plus_one", "layout": "flat", "workers": 0},
    ],
    ids=str,
)
def test_each_id_conforms(env_id, options):
    check(env_id, **options)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("task", TASKS)
def test_the_oracle_solves_the_test_split(task):
    env = gym.make(IDS[task], observation="text", split="test").unwrapped
    solved = 0
    for seed in range(200):
        env.reset(seed=seed)
        solved += finish(env)[-1].success
    assert solved >= 198


@pytest.mark.parametrize("task", TASKS)
def test_the_oracle_foresees_it_earns_everything_and_its_states_are_the_golden_ones(blind, task):
    """If the states fail on purpose, the environment needs a new version: its scores can't be compared any more."""
    env, golden = blind[task], json.loads((GOLDEN / "primitive_skill_states.json").read_text())
    states = []
    for seed in (0, 1):
        env.reset(seed=seed)
        earned, turns, over = Counter(), [], False
        while not over:
            expected = env.imagine(list(env.plan())[:2])
            if seed == 0:
                env._session._level = None  # so that the turn is played again, and not remembered
            *_, over, truncated, info = env.step(env.oracle_reply())
            turns.append(info["turn"])
            assert turns[-1].after == expected
            assert not truncated
            for term in turns[-1].rewards:
                earned[term.name] += term.value
        left = env.config.max_turns - len(turns)
        assert earned.pop("remaining_format", 0.0) == pytest.approx(0.5 * left)
        untold = ("hand", "fingers", "turns")
        told = [dict(turn.after.to_json()) for turn in turns]
        states.append([{k: v for k, v in state.items() if k not in untold} for state in told])
        stages, steps = (6.0, -0.2) if task == "drawer" else (12.0, -0.3)
        assert earned == pytest.approx(
            {"stage": stages, "success": 10.0, "step": steps, "format": 0.5 * len(turns)}
        )
    assert hashlib.sha256(json.dumps(states).encode()).hexdigest() == golden[task]


# -- the same, everywhere --------------------------------------------------------------------------


def test_states_are_exact_after_other_episodes(blind):
    """ManiSkill's issue 892: a reset with a seed doesn't repeat an episode."""

    def measured(env, seed):
        play(env, seed)
        scene = env._session._scene
        poses = [body.pose.raw_pose.numpy().tobytes() for body in scene.bodies.values()]
        return [*poses, scene.agent.robot.get_qpos().numpy().tobytes()]

    env = blind["stack"]
    first = measured(env, 5)
    play(env, 6, "pick(0,0,20)|push(-100,-200,10,150,200,10)")
    assert measured(env, 5) == first


# -- pictures --------------------------------------------------------------------------------------

FARTHEST = 12.0
"""Pictures are compared by the means of blocks of 10 x 10 pixels; Mesa versions differ by less than 1 of 255."""


@pytest.mark.parametrize("task", TASKS)
def test_pictures_are_the_golden_ones_and_no_other_scene_passes(seeing, farthest, task):
    env = seeing[task]
    with Image.open(GOLDEN / f"primitive_skill_{task}.png") as image:
        golden = np.asarray(image.convert("RGB")).astype(float)
    shown, _ = env.reset(seed=0)
    assert farthest(shown["image"], golden) < FARTHEST
    others = [env.step(env.oracle_reply())[0]["image"], env.reset(seed=1)[0]["image"]]
    assert all(farthest(other, golden) > 2 * FARTHEST for other in others)


@pytest.mark.parametrize("task", TASKS)
def test_the_hand_and_the_things_are_in_the_picture(seeing, task):
    env, shown = seeing[task], []
    camera = view_of(task, published=False)
    for seed in range(3):
        env.reset(seed=seed)
        states = [env.true_state, env.step(env.oracle_reply())[4]["turn"].after]
        for state in states:
            x, y, z = state.hand
            # The palm is some 10 cm above the fingertips.
            points = [(x, y, z), (x, y, z + 90), *state.positions.values()]
            shown.append(all(0 <= at < 300 for each in points for at in camera.pixel(each, 300)))
    assert np.mean(shown) >= 0.95


def test_a_second_environment_leaves_the_pictures_of_the_first_alone():
    """ManiSkill's issue 86: a second renderer of a process invalidates what the first one drew with."""
    first = gym.make(IDS["place"], workers=0, picture_size=64)
    before = first.reset(seed=0)[0]["image"]
    second = gym.make(IDS["drawer"], workers=0, picture_size=128)
    second.reset(seed=0)
    assert np.array_equal(first.reset(seed=0)[0]["image"], before)
    second.close()
    assert np.array_equal(first.reset(seed=0)[0]["image"], before)
    first.close()


# -- words -----------------------------------------------------------------------------------------


def feedback(env, seed, answer):
    return play(env, seed, answer)[0].result.text.splitlines()[0]


def test_failures_are_told(blind):
    env = blind["place"]
    assert "Nothing was grasped at (-100, 200, 150)." in feedback(env, 0, "pick(-100,200,150)")
    assert "The gripper holds nothing, so place did nothing." in feedback(env, 0, "place(0,0,20)")
    env.reset(seed=0)
    red = env._now.positions["red_cube"]
    said = feedback(env, 0, "pick({},{},{})|pick(0,0,20)".format(*red))
    assert "The gripper already holds an object" in said
    assert "Nothing was grasped" not in said
    said = feedback(env, 0, "push({0},{1},{2},{0},{1},{2})".format(*red))
    assert "do not differ" in said


def test_something_in_the_way_is_told(blind):
    env = blind["drawer"]
    env.reset(seed=0)
    x, y, _ = env._now.positions["drawer"]
    said = feedback(env, 0, f"pick({x},{y - 160},20)")
    assert "Something was in the way: the hand stopped at" in said


def test_coordinates_outside_are_clipped_and_that_is_told(blind):
    turn = play(blind["place"], 0, "pick(5000,-5000,7)")[0]
    assert turn.executed[0].text == "pick(150, -200, 10)"
    assert (
        "pick(5000, -5000, 7) is out of the workspace and became pick(150, -200, 10)."
        in turn.result.text
    )
    assert turn.parsed.problems == ()


def test_or_refused_and_that_is_a_problem():
    env = gym.make(
        IDS["place"],
        observation="text",
        workers=0,
        out_of_workspace="refuse",
        strategy="free_think",
    ).unwrapped
    turn = play(env, 0, "pick(0,0,20)|pick(0,0,201)")[0]
    assert [each.text for each in turn.executed] == ["pick(0, 0, 20)"]
    assert [problem.code for problem in turn.parsed.problems] == ["bad_argument"]
    assert "z=201 is not between 10 and 200" in turn.result.text
    assert not turn.metrics["action_is_valid"]
    env.close()


@pytest.mark.parametrize(
    ("answer", "executed"),
    [
        ("pick(62.5, 0, 20)", "pick(62, 0, 20)"),
        ("pick(-62.75, 1e1, 20.0).", "pick(-63, 10, 20)"),
        ("pick(-99.6,0,19.51) .", "pick(-100, 0, 20)"),
    ],
)
def test_fractions_are_rounded_and_a_full_stop_may_follow(blind, answer, executed):
    turn = play(blind["place"], 0, answer)[0]
    assert [each.text for each in turn.executed] == [executed]
    assert turn.parsed.problems == ()


@pytest.mark.parametrize(
    ("answer", "executed"), [("pick(1,2,30)!", ["pick(1, 2, 30)"]), ("pick(1,2,30). Done", [])]
)
def test_signs_beside_a_call_cost_the_format_and_words_the_turn(blind, answer, executed):
    turn = play(blind["place"], 0, answer)[0]
    assert [action.text for action in turn.executed] == executed
    assert turn.parsed.problems
    assert "format" not in {term.name for term in turn.rewards}


def test_positions_are_listed_without_names_and_with_limits():
    options = {"observation": "text", "strategy": "free_think", "positions_in_text": True}
    env = gym.make(IDS["drawer"], **options, workers=0).unwrapped
    text = env.reset(seed=0)[0]["text"]
    state = env._now
    env.close()
    listed = text.split("Object positions:\n")[1].splitlines()[0]
    assert sorted(eval(listed)) == sorted(state.positions.values())  # noqa: S307
    assert f"'drawer_open_value': {state.drawer_open_value}" in text
    assert "y_workspace_limit: (-600, 200)" in text
    before_the_reply_format = text.split("Decide your next")[0].split("Object positions")[1]
    assert "apple" not in before_the_reply_format


def test_a_drawers_positions_are_left_to_the_picture_unless_they_are_asked_for():
    with contextlib.closing(gym.make(IDS["drawer"], workers=0)) as env:
        text = env.reset(seed=0)[0]["text"]
        assert "Object positions" not in text
        assert not any(str(place) in text for place in env.unwrapped._now.positions.values())


# -- rewards ---------------------------------------------------------------------------------------


def test_stages_are_paid_once(blind):
    env = blind["place"]
    env.reset(seed=4)
    pick, place, *_ = env.plan()
    back = "place({},{},25)".format(*env._now.positions[next(iter(env._level.goal))][:2])
    turns = play(env, 4, f"{pick}|{back}", f"{pick}|{place}", "place(0,0,20)")
    paid = [
        {term.name: round(term.value, 6) for term in turn.rewards if term.name != "format"}
        for turn in turns
    ]
    assert paid == [{"stage": 2.0, "step": -0.2}, {"stage": 4.0, "step": -0.2}, {"step": -0.1}]
    assert turns[2].truncated
    assert not turns[2].success
    assert turns[0].env_id == IDS["place"]


@pytest.mark.parametrize(
    ("task", "moves", "paid", "success"),
    [
        ("place", None, {"success": 10.0, "step": -0.4}, True),
        ("stack", "place(0,0,20)", {"step": -0.6}, False),
        ("align", "place(0,0,20)", {"stage": 2.0, "step": -1.0}, False),
    ],
)
def test_the_release_pays_stages_in_align_alone_and_all_of_it_at_the_end(
    task, moves, paid, success
):
    """A step for each skill, of which ten are executed at most; the first turn is the oracle's."""
    options = {"max_turns": 9} if task == "align" else {}
    env = gym.make(IDS[task], observation="text", workers=0, preset="released", **options).unwrapped
    env.reset(seed=2)
    first = list(env.plan())[:2]
    turns = [env.step(reply_of(env, *first))[4]["turn"]]
    turns += finish(
        env, lambda env: reply_of(env, *([moves] * 2 if moves else list(env.plan())[:2]))
    )
    *before, last = (
        {term.name: round(term.value, 6) for term in turn.rewards if term.name != "format"}
        for turn in turns
    )
    assert before == [{}] * len(before)
    assert (last, turns[-1].success) == (paid, success)
    env.close()


# -- options and what is missing -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "stak"}, "Did you mean 'stack'"),
        ({"stage_rewards": (1.0,)}, "stage_rewards"),
        ({"task": "stack", "cubes": 4, "max_turns": 2}, "max_turns=2 .*at least 3"),
        ({"max_steps": 3}, "max_steps=3 .*at least 4"),
        ({"cubes": 4}, "cubes"),
        ({"task": "stack", "cubes": 5, "distractors": 2}, "distractors=2"),
        ({"task": "align", "distractors": 1}, "distractors"),
        ({"task": "stack", "covered": True}, "covered=True"),
        ({"distractors": 1, "covered": True}, "covered=True"),
        (
            {"task": "stack", "cubes": 5, "distractors": 1, "covered": True, "max_turns": 4},
            "max_turns=4 .*at least 5",
        ),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        gym.make("vagen/PrimitiveSkill-v0", **options)


def test_a_missing_driver_names_the_fix(tmp_path):
    """ManiSkill's issue 147, which ended in a segmentation fault."""
    code = """
import gymnasium as gym, vagen_envs
env = gym.make("vagen/PrimitiveSkill-v0", observation="text", workers=0)
env.reset(seed=0)
env = gym.make("vagen/PrimitiveSkill-v0", workers=0)
try:
    env.reset(seed=0)
except vagen_envs.VagenError as error:
    print(type(error).__name__, error)
"""
    nowhere = {
        **os.environ,
        "VK_DRIVER_FILES": str(tmp_path / "none.json"),
        "VK_ICD_FILENAMES": str(tmp_path / "none.json"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=nowhere
    )
    assert done.stdout.startswith("SimulatorError"), done.stderr[-2000:]
    assert "mesa-vulkan-drivers" in done.stdout
    assert 'observation="text"' in done.stdout


@pytest.mark.parametrize("workers", [0, 1])
def test_a_gpu_is_refused_where_there_is_none(workers):
    import sapien

    with contextlib.suppress(RuntimeError):
        sapien.Device("cuda")
        pytest.skip("there is a GPU")
    with pytest.raises(SimulatorError, match="device='gpu' needs an NVIDIA GPU"):
        gym.make(IDS["place"], device="gpu", workers=workers).reset(seed=0)


# -- the ladder ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rung", [2, 4, 5])
def test_the_oracle_solves_a_rung_within_its_turns(rung):
    env = gym.make(
        "vagen/PrimitiveSkill-v0", difficulty=rung, observation="text", workers=0
    ).unwrapped
    turns = play(env, 3)
    assert turns[-1].success
    assert env.config.positions_in_text is False
    cubes = [body.name for body in env._level.bodies]
    assert len(cubes) == {2: 4, 4: 6, 5: 6}[rung]
    assert "white cube" not in env._level.instruction
    assert ("purple cube" in env._level.instruction) == (rung == 5)
    env.close()


@pytest.mark.parametrize("task", ["place", "stack", "align", "drawer"])
def test_without_positions_the_prompt_says_how_to_read_them_off_the_picture(task):
    """The camera that the prompt describes shows each cube where it is, in its colour."""
    from vagen_envs.primitive_skill import view

    env = gym.make("vagen/PrimitiveSkill-v0", task=task, positions_in_text=False).unwrapped
    shown, state = env.reset(seed=1)[0], env.true_state
    picture, listing = shown["image"], shown["text"].partition("Human instruction")[2]
    assert "positions" not in listing
    assert "drawer_open_value" not in listing.partition("Decide")[0]
    assert "aren't told where things are" in env.system_prompt
    assert "no particular order" not in env.system_prompt
    camera = view.DRAWER if task == "drawer" else view.TABLE
    assert f"The camera is at {camera.eye}" in env.system_prompt
    channels = {"red_cube": 0, "green_cube": 1, "apple": 1}
    for name in channels.keys() & state.positions.keys():
        column, row = camera.pixel(state.positions[name], 300)
        assert picture[row, column].argmax() == channels[name]
    names = env.system_prompt.split("The things are called ")[1].split(".")[0].split(", ")
    assert sorted(names) == sorted(state.positions)
    assert ("drawer" in env.system_prompt) == (task == "drawer")
    env.close()


@pytest.mark.parametrize("task", ["place", "stack", "align", "drawer"])
def test_the_state_is_where_sapien_has_the_things(task):
    """Held against the entities of SAPIEN's own scene, whose poses don't go through ManiSkill's batches."""
    env = gym.make("vagen/PrimitiveSkill-v0", task=task, workers=0, observation="text").unwrapped
    env.reset(seed=2)
    for _ in range(2):
        (scene,) = env._session._scene.scene.sub_scenes
        found = {entity.name.split("_", 1)[-1]: entity.pose.p * 1000 for entity in scene.entities}
        positions = env.true_state.positions
        bodies = [name for name in positions if name.endswith("cube") or name == "apple"]
        assert bodies
        for name in bodies:
            at = next(point for entity, point in found.items() if entity.endswith(name))
            assert np.abs(at - positions[name]).max() <= 1
        if task == "drawer":
            (moved,) = (point for entity, point in found.items() if entity.endswith("drawer"))
            (fixed,) = (point for entity, point in found.items() if entity.endswith("cabinet"))
            assert abs((moved - fixed)[1] - env.true_state.drawer_open_value) <= 1
        env.step(env.oracle_reply())
    env.close()
