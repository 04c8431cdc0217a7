"""Rooms, moves, sight and search of the embedded simulator, each against a judge of its own."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import json
import math
import re
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import get_args

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vagen_envs  # noqa: F401
from vagen_envs.errors import SimulatorError
from vagen_envs.navigation.config import NavigationConfig
from vagen_envs.navigation.decor import PAINTINGS, STYLES, painting_of, style_of
from vagen_envs.navigation.floor_plan import overlap
from vagen_envs.navigation.furnishing import draw_house
from vagen_envs.navigation.house import ROOM_KINDS
from vagen_envs.navigation.instructions import BOOK, EvalSet, candidates
from vagen_envs.navigation.mjcf import AGENT_RADIUS, scene
from vagen_envs.navigation.objects import COLORS, FURNITURE, TARGETS, geoms
from vagen_envs.navigation.scene import MOVES, Pose, bearing, direction, distance
from vagen_envs.navigation.search import shortest_path, turned_path, turns_towards
from vagen_envs.seeding import HashStream

mujoco = pytest.importorskip("mujoco")
pytestmark = pytest.mark.sim

from segmentation import segmented  # noqa: E402

from vagen_envs.navigation.levels import HouseLevels  # noqa: E402
from vagen_envs.navigation.simulator import HouseSimulator, free_pose  # noqa: E402

seeds = st.integers(0, 10**6)
WORDS = json.loads(
    Path(__file__).with_name("data").joinpath("words.json").read_text(encoding="utf-8")
)
EB_NAV_TYPES = set(WORDS["eb_nav_types"])


def house_of(seed, kind=None):
    return draw_house(HashStream("house test", seed), kind)


@given(seeds)
def test_nothing_overlaps_and_all_is_inside(seed):
    house = house_of(seed)
    standing = [t for t in house.objects if t.z == 0]
    for i, thing in enumerate(standing):
        x0, y0, x1, y1 = thing.rect
        assert x0 >= 0, thing
        assert y0 >= 0, thing
        assert x1 <= house.width, thing
        assert y1 <= house.depth, thing
        assert not (house.notch and overlap(thing.rect, house.notch)), thing
        for other in standing[i + 1 :]:
            tucked_in = {thing.kind, other.kind} in ({"Chair", "DiningTable"}, {"Chair", "Desk"})
            assert tucked_in or not overlap(thing.rect, other.rect), (thing, other)


@given(seeds)
def test_small_things_stand_on_something_apart_from_each_other(seed):
    house = house_of(seed)
    targets = house.targets
    assert len({t.kind for t in targets}) == len(targets) >= 8
    for i, thing in enumerate(targets):
        if thing.z > 0:
            x, y = thing.x, thing.y
            holders = [
                h
                for h in house.objects
                if h.kind in FURNITURE
                and h.rect[0] <= x <= h.rect[2]
                and h.rect[1] <= y <= h.rect[3]
                and any(s.z + h.z == thing.z for s in FURNITURE[h.kind].surfaces)
            ]
            assert holders, thing
        for other in targets[i + 1 :]:
            assert thing.z != other.z or not overlap(thing.rect, other.rect), (thing, other)


def test_rooms_vary():
    houses = [house_of(seed) for seed in range(150)]
    assert {h.kind for h in houses} == set(ROOM_KINDS)
    assert len({(h.width, h.depth) for h in houses}) > 40
    assert 25 < sum(h.notch is not None for h in houses) < 80
    assert {t.kind for h in houses for t in h.targets} == EB_NAV_TYPES == set(TARGETS)
    assert len({h.content() for h in houses}) == 150


def test_rooms_are_golden():
    digest = hashlib.sha256()
    for seed in range(30):
        house = house_of(seed)
        digest.update(house.content() + repr((house.wall, house.floor, house.rug)).encode())
        digest.update(repr([(t.color, t.main) for t in house.objects]).encode())
    assert digest.hexdigest()[:16] == "0c61bdceb5d8ff9d"


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_objects_keep_to_their_size(kind):
    """Every part of an object is centred within the space that levels give it, but for a little."""
    size = TARGETS[kind].size
    main, second = COLORS["red"], COLORS["blue"]
    defaults = '<default><default class="a"/></default><asset>{}</asset>'.format(
        "".join(f'<material name="{name}"/>' for name in ("matt", "shiny", "lit"))
    )
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco>{defaults}<worldbody>{geoms(kind, main, second)}</worldbody></mujoco>"
    )
    wide, deep, high = (side / 100 for side in size)
    assert (np.abs(model.geom_pos[:, :2]) <= np.array([wide, deep]) / 2 + 0.03).all()
    assert (model.geom_pos[:, 2] >= -0.02).all()
    assert (model.geom_pos[:, 2] <= high + 0.02).all()


def test_rooms_are_of_three_styles_and_paintings_differ():
    houses = [house_of(seed) for seed in range(60)]
    assert {style_of(house) for house in houses} == set(STYLES)
    hung = [thing for house in houses for thing in house.objects if thing.kind == "Painting"]
    assert len({painting_of(thing) for thing in hung}) == PAINTINGS
    xml, files = scene(houses[0], 0.25, 100)
    assert all(f'"{name}"' in xml for name in files)


def test_no_picture_is_blown_out():
    """Of a room's pictures at most a tenth is white, which the ceilings once were."""
    for seed in range(4):
        house = house_of(seed)
        simulator = HouseSimulator(house, Pose(1, 1, 0), NavigationConfig(resolution=64))
        for pose in poses(house, 6, seed):
            simulator.teleport(Pose(pose.x, pose.z, pose.rotation, -30))
            assert np.mean(simulator.frame().min(axis=2) >= 254) < 0.1


def poses(house, count, seed=0):
    stream = HashStream("poses", seed, house.width, house.depth)
    for _ in range(count):
        x, z = (
            stream.uniform(0.25, house.width / 100 - 0.25),
            stream.uniform(0.25, house.depth / 100 - 0.25),
        )
        yield Pose(
            round(x, 2),
            round(z, 2),
            stream.choice((0, 90, 180, 270)),
            stream.choice((-30, 0, 30, 60)),
        )


@pytest.mark.parametrize("seed", range(4))
def test_the_move_test_agrees_with_a_cylinder_pushed_along(seed):
    """The judge is a plain cylinder put at 51 places of the way, in a model of its own."""
    house = house_of(seed)
    simulator = HouseSimulator(house, Pose(1, 1, 0), NavigationConfig())
    xml, files = scene(house, 0.25, 100)

    def world(radius):
        cylinder = f'<geom type="cylinder" size="{radius} 0.88" pos="0 0 0.92" contype="1" conaffinity="0" mass="1"/>'
        model = mujoco.MjModel.from_xml_string(
            re.sub(r'<geom type="mesh"[^>]*/>', cylinder, xml), files
        )
        return model, mujoco.MjData(model)

    def touches(world, pose, action):
        model, data = world
        angle = math.radians(pose.rotation + MOVES[action])
        for i in range(51):
            data.qpos[:] = (
                pose.x + 0.005 * i * math.sin(angle),
                pose.z + 0.005 * i * math.cos(angle),
                0,
            )
            mujoco.mj_kinematics(model, data)
            mujoco.mj_collision(model, data)
            if data.ncon:
                return True
        return False

    slim, wide = world(AGENT_RADIUS), world(AGENT_RADIUS * 1.03)
    answers = []
    for pose in poses(house, 60, seed):
        for action in MOVES:
            blocked = simulator.blocked(pose, action)
            answers.append(blocked)
            if touches(slim, pose, action):
                assert blocked, (pose, action)
            elif not touches(wide, pose, action):
                assert not blocked, (pose, action)
    assert 0.1 < np.mean(answers) < 0.95


def shown_and_claimed(seed, count):
    """For each thing at many poses of a room: its pixels in MuJoCo's segmentation, and whether it is called visible.

    Pixels of a thing that isn't called visible count off the picture's outermost two rows and columns only.
    """
    house = house_of(seed)
    simulator = HouseSimulator(house, Pose(1, 1, 0), NavigationConfig())
    for pose in poses(house, count, seed):
        if free_pose(simulator, pose):
            simulator.teleport(pose)
            visible, picture = simulator.visible(), segmented(simulator) + 1
            every, inner = (
                np.bincount(part.ravel(), minlength=len(house.objects) + 1)[1:]
                for part in (picture, picture[2:-2, 2:-2])
            )
            yield from zip(np.where(visible, every, inner).tolist(), visible.tolist(), strict=True)


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_what_is_called_visible_is_in_the_picture_and_nothing_plain_is_left_out(count):
    """The judge is MuJoCo's segmentation of a rendered frame, in which 49 pixels are 7 by 7."""
    seen = [pair for seed in range(count) for pair in shown_and_claimed(seed, 25)]
    claims = [pixels for pixels, visible in seen if visible]
    left_out = [pixels for pixels, visible in seen if not visible]
    assert len(claims) > 40 * count
    assert min(claims) >= 2
    assert sorted(claims)[len(claims) // 200] >= 15
    assert max(left_out) < 150
    assert sum(pixels > 75 for pixels in left_out) < 0.001 * len(claims)


@pytest.mark.parametrize("difficulty", [0, 5])
def test_what_is_visible_is_so_by_all_rays(difficulty, monkeypatch):
    """Rays that nothing can be met by aren't cast; with all of them the same things are visible."""
    with gym.make("vagen/Navigation-v0", observation="text", difficulty=difficulty) as env:
        env.reset(seed=5)
        simulator = env.unwrapped.simulator
        corner = (simulator.house.width / 100, simulator.house.depth / 100)
        stream = HashStream("rays", difficulty)
        found = []
        for _ in range(40):
            x, z = (0.3 + stream.below(1000) / 1000 * (side - 0.6) for side in corner)
            turned, tilt = 90 * stream.below(4), 30 * (stream.below(4) - 1)
            simulator.teleport(Pose(x, z, turned, tilt))
            few = simulator.visible()
            monkeypatch.setattr("vagen_envs.navigation.simulator._FIRST", np.ones((51, 51), bool))
            every = simulator.visible()
            monkeypatch.undo()
            assert (few == every).all()
            found.append(every.sum())
        assert sum(found) > 60


def test_actions_are_ai2thors():
    house = house_of(0)
    simulator = HouseSimulator(house, Pose(1, 1, 0), NavigationConfig())
    simulator.teleport(next(pose for pose in poses(house, 99) if free_pose(simulator, pose)))
    start = simulator.pose = Pose(simulator.pose.x, simulator.pose.z, 0, 0)
    assert simulator.step("RotateLeft")
    assert simulator.pose.rotation == 270
    assert simulator.step("RotateRight")
    assert simulator.step("LookUp")
    assert simulator.pose.horizon == -30
    assert not simulator.step("LookUp")
    assert all(simulator.step("LookDown") for _ in range(3))
    assert not simulator.step("LookDown")
    assert simulator.pose == Pose(start.x, start.z, 0, 60)
    for action, (dx, dz) in {
        "MoveAhead": (0, 0.25),
        "MoveRight": (0.25, 0),
        "MoveBack": (0, -0.25),
        "MoveLeft": (-0.25, 0),
    }.items():
        before = simulator.pose
        moved = simulator.step(action)
        assert moved == (simulator.pose != before)
        if moved:
            assert simulator.pose.x - before.x == pytest.approx(dx)
            assert simulator.pose.z - before.z == pytest.approx(dz)
    with pytest.raises(ValueError, match="Fly"):
        simulator.step("Fly")


@given(st.floats(-5, 5), st.floats(-5, 5), st.sampled_from((0, 90, 180, 270)))
def test_directions_are_seen_from_the_agent(x, z, rotation):
    angle = bearing(Pose(0, 0, rotation), x, z)
    assert -180 < angle <= 180
    ahead = x * math.sin(math.radians(rotation)) + z * math.cos(math.radians(rotation))
    right = x * math.cos(math.radians(rotation)) - z * math.sin(math.radians(rotation))
    if abs(abs(ahead) - abs(right)) > 1e-6:
        expected = (
            ("ahead" if ahead > 0 else "back")
            if abs(ahead) > abs(right)
            else "right"
            if right > 0
            else "left"
        )
        assert direction(angle) == expected


def breadth_first(simulator, start, target, threshold):
    frontier, seen = deque([(start, 0)]), {(start.x, start.z)}
    while frontier:
        pose, steps = frontier.popleft()
        if distance(pose, *target) <= threshold:
            return steps
        for action in MOVES:
            simulator.teleport(pose)
            if simulator.step(action) and (simulator.pose.x, simulator.pose.z) not in seen:
                seen.add((simulator.pose.x, simulator.pose.z))
                frontier.append((simulator.pose, steps + 1))
    return None


@settings(max_examples=12)
@given(seeds)
def test_the_search_finds_a_shortest_way_that_step_goes(seed):
    levels = HouseLevels(NavigationConfig())
    simulator, episode = levels.draw(HashStream("search test", seed), "train")
    start, target = episode.start, episode.target_position
    path = shortest_path(start, target, simulator.blocked, step=0.25, threshold=1.0, longest=16)
    assert len(path) == breadth_first(simulator, start, target, 1.0)
    turns = turns_towards(start, target)
    for way in (path, [*turns, *turned_path(path, turns)]):
        simulator.teleport(start)
        assert all(simulator.step(action) for action in way)
        assert distance(simulator.pose, *target) <= 1.0
    assert (
        shortest_path(
            start, target, simulator.blocked, step=0.25, threshold=1.0, longest=len(path) - 1
        )
        is None
    )


def test_instructions_are_known_for_every_type():
    assert set(BOOK) - {"frames"} == EB_NAV_TYPES
    assert set(BOOK["frames"]) == set(get_args(EvalSet))
    known = EB_NAV_TYPES | set(FURNITURE)
    for kind in EB_NAV_TYPES:
        for phrase in BOOK[kind]["needs"] + BOOK[kind]["looks"]:
            assert set(phrase.get("fits", ())) <= known - {kind}
            assert "{name}" not in phrase["text"]
            needle = re.sub(r"(?<!^)(?=[A-Z])", " ", kind).lower()
            assert needle not in phrase["text"].lower(), (
                f"{kind}: an indirect phrase names its type"
            )


@given(seeds, st.sampled_from(get_args(EvalSet)))
@settings(max_examples=40)
def test_instructions_are_true_of_one_type_in_the_room(seed, eval_set):
    levels = HouseLevels(NavigationConfig(eval_set=eval_set))
    simulator, task = levels.draw(HashStream("truth test", seed), "train")
    things = simulator.house.objects
    meant = [t for t in things if t.kind == task.target_type]
    assert len(meant) == 1
    fitting = [
        t.kind
        for t in things
        if t.kind in TARGETS and task.instruction in candidates(eval_set, t, ())
    ]
    assert fitting == [task.target_type]
    if eval_set == "long_horizon":
        assert direction(bearing(task.start, *task.target_position)) == "back"
    else:
        assert direction(bearing(task.start, *task.target_position)) == "ahead"
    assert 2.5 <= distance(task.start, *task.target_position) <= 3.0


@pytest.mark.parametrize("where", ["context", "render"])
@pytest.mark.parametrize("times", [1, 9])
def test_a_driver_that_hangs_is_tried_again_and_then_an_error(monkeypatch, where, times):
    """In the making of a context or of a picture; the environment plays on once the driver answers again."""
    from vagen_envs.navigation import camera

    released, hung, hangs = threading.Event(), threading.Semaphore(0), iter(range(times))

    class Impatient(Future):
        """A wait that ends when the driver hangs and only then: a busy machine may take its time."""

        def result(self, timeout=None):
            while not self.done():
                if hung.acquire(blocking=False):
                    raise TimeoutError
                time.sleep(0.01)
            return super().result()

    def hanging(real):
        def call(*arguments):
            if next(hangs, None) is None:
                return real(*arguments)
            hung.release()
            released.wait()
            raise SimulatorError(
                "test", "released"
            )  # and draws nothing more, for the process may end meanwhile

        return call

    monkeypatch.setattr(camera, "_seats", functools.cache(camera._seats.__wrapped__))
    monkeypatch.setattr(camera, "HUNG_AFTER", 1.5)
    monkeypatch.setattr(camera, "Future", Impatient)
    if where == "render":
        monkeypatch.setattr(mujoco, "mjr_render", hanging(mujoco.mjr_render))
    else:
        for name in ("egl", "osmesa"):
            with contextlib.suppress(Exception):
                module = importlib.import_module(f"mujoco.{name}")
                monkeypatch.setattr(module, "GLContext", hanging(module.GLContext))
    env = gym.make("vagen/Navigation-v0", resolution=32).unwrapped
    try:
        if times > 1:
            with pytest.raises(
                SimulatorError, match=r"no picture within 1\.5 s, twice; restart .* MUJOCO_GL"
            ):
                env.reset(seed=3)
            hangs = iter(())
        assert np.ptp(env.reset(seed=3)[0]["image"]) > 100
    finally:
        released.set()


def test_a_process_that_drew_ends_silently_without_close():
    """MuJoCo's issues 991 and 700: contexts that are freed at exit raise in `__del__`."""
    code = "import gymnasium as gym, vagen_envs\nenv = gym.make('vagen/Navigation-v0', resolution=32)\nenv.reset(seed=3)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_many_processes_draw_at_once():
    """MuJoCo's issue 3444."""
    code = (
        "import gymnasium as gym, vagen_envs, hashlib\n"
        "env = gym.make('vagen/Navigation-v0', resolution=32)\n"
        "print(hashlib.sha256(env.reset(seed=3)[0]['image'].tobytes()).hexdigest())"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    assert len({each.communicate(timeout=200)[0] for each in running}) == 1
    assert all(each.returncode == 0 for each in running)
