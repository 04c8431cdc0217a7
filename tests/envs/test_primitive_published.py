"""The published drawer scene, from small files of our own in the layout of ManiSkill's downloads."""

from __future__ import annotations

import importlib.util
import json

import gymnasium as gym
import numpy as np
import pytest
from oracle import finish

import vagen_envs  # noqa: F401
from vagen_envs.errors import ConfigError, SimulatorError

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(
        importlib.util.find_spec("mani_skill") is None, reason="needs the extra primitive-skill"
    ),
]

DRAWER = "vagen/PrimitiveSkillDrawer-v0"
SCALE = 0.6262132882459766
"""Of cabinet 1016, in a file that comes with ManiSkill: the meshes of a downloaded cabinet are larger by so much."""
COLOURS = {
    "wood": (0.36, 0.22, 0.12),
    "front": (0.6, 0.4, 0.2),
    "metal": (0.7, 0.7, 0.75),
    "red": (0.7, 0.05, 0.05),
}
RADIUS = 0.036


def write_obj(mesh, path, colour):
    """An OBJ with its material in a file beside it, as both data sets have them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"mtllib {path.stem}.mtl", "usemtl paint"]
    lines += ["v {:.6f} {:.6f} {:.6f}".format(*vertex) for vertex in mesh.vertices]
    lines += ["f {} {} {}".format(*(face + 1)) for face in mesh.faces]
    path.write_text("\n".join(lines) + "\n")
    red, green, blue = COLOURS[colour]
    path.with_suffix(".mtl").write_text(
        f"newmtl paint\nKd {red} {green} {blue}\nKs 0.1 0.1 0.1\nd 1\n"
    )


def write_apple(data):
    import trimesh

    ycb = data / "assets" / "mani_skill2_ycb"
    model = ycb / "models" / "013_apple"
    apple = trimesh.creation.icosphere(subdivisions=2, radius=RADIUS)
    write_obj(apple, model / "textured.obj", "red")
    apple.export(model / "collision.ply")
    box = {"min": [-RADIUS] * 3, "max": [RADIUS] * 3}
    info = {"013_apple": {"bbox": box, "scales": [1.0], "density": 600}, "024_bowl": {"bbox": box}}
    (ycb / "info_pick_v0.json").write_text(json.dumps(info))


def walls(half, board):
    """A box that is open above, as middles and sizes of its boards: floor, right, left, front, back. z is front."""
    x, y, z = half
    return [
        ((0, -y, 0), (2 * x, board, 2 * z)),
        ((x, 0, 0), (board, 2 * y, 2 * z)),
        ((-x, 0, 0), (board, 2 * y, 2 * z)),
        ((0, 0, z), (2 * x, 2 * y, board)),
        ((0, 0, -z), (2 * x, 2 * y, board)),
    ]


def write_cabinet(data, urdf_name="mobility_cvx.urdf"):
    """A metre high, three drawers. PartNet's meshes have y up and z to the front; a joint of the URDF turns them."""
    import trimesh

    model = data / "partnet_mobility" / "dataset" / "1016"
    count = 0

    def shapes(boards, colour, at=(0, 0, 0), name="board", origin=(0, 0, 0)):
        nonlocal count
        made = ""
        for middle, size in boards:
            count += 1
            mesh = trimesh.creation.box(np.array(size) / SCALE)
            mesh.apply_translation((np.array(middle) + at) / SCALE)
            write_obj(mesh, model / "textured_objs" / f"original-{count}.obj", colour)
            xyz = "{} {} {}".format(*(-np.array(origin) / SCALE))
            shape = f'<origin xyz="{xyz}"/><geometry><mesh filename="textured_objs/original-{count}.obj"/></geometry>'
            made += f'<visual name="{name}-{count}">{shape}</visual><collision>{shape}</collision>'
        return made

    shell = [
        ((0, 0, -0.3), (0.6, 1.0, 0.02)),
        ((0.29, 0, 0.015), (0.02, 1.0, 0.61)),
        ((-0.29, 0, 0.015), (0.02, 1.0, 0.61)),
        ((0, 0.49, 0.015), (0.56, 0.02, 0.61)),
        ((0, -0.49, 0.015), (0.56, 0.02, 0.61)),
    ]
    links = f'<link name="base"/><link name="link_0">{shapes(shell, "wood")}</link>'
    joints = (
        '<joint name="joint_0" type="fixed"><origin rpy="1.570796326794897 0 -1.570796326794897" xyz="0 0 0"/>'
        '<parent link="base"/><child link="link_0"/></joint>'
    )
    for i, height in enumerate((0.32, 0.02, -0.3), 1):
        origin = (0, height, 0.1)  # the joint's, which the meshes make good again, as theirs do
        parts = shapes(walls((0.25, 0.07, 0.25), 0.02), "front", (0, height, 0.08), origin=origin)
        parts += shapes(
            [((0, 0, 0.36), (0.12, 0.02, 0.04))], "metal", (0, height, 0), "handle", origin
        )
        links += f'<link name="link_{i}">{parts}</link>'
        xyz = "{} {} {}".format(*(np.array(origin) / SCALE))
        joints += (
            f'<joint name="joint_{i}" type="prismatic"><origin xyz="{xyz}"/><axis xyz="0 0 1"/>'
            f'<limit lower="0" upper="{0.4 / SCALE}" effort="1" velocity="1"/>'
            f'<parent link="link_0"/><child link="link_{i}"/></joint>'
        )
    (model / urdf_name).write_text(
        f'<?xml version="1.0" ?><robot name="partnet_1016">{links}{joints}</robot>'
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_apple(folder)
    write_cabinet(folder)
    return folder


def test_the_lowest_drawer_is_measured(data):
    from vagen_envs.primitive_skill.cabinets import read_published

    cabinet = read_published(str(data))
    assert cabinet.joint == "joint_3"
    assert cabinet.closed == (-500, -640, 200)
    assert cabinet.opened == 240
    assert (cabinet.bottom, cabinet.top) == (120, 270)
    assert cabinet.apple_height == 36


def test_it_plays(data):
    env = gym.make(
        DRAWER, assets=str(data), workers=0, picture_size=128, representation="structured"
    ).unwrapped
    shown, _ = env.reset(seed=0)
    assert np.ptp(shown["image"]) > 100
    state = env.true_state
    assert -150 <= state.positions["apple"][0] <= -100
    assert abs(state.drawer_open_value - 240) <= 1
    x, y, z = state.positions["handle"]
    assert (x, z) == (-500, 200)
    assert abs(y + 400) <= 1
    expected = env.imagine(list(env.plan())[:2])
    turns = finish(env)
    assert turns[0].after == expected
    assert not any("in the way" in turn.result.text for turn in turns)
    paid = [(term.name, term.value) for turn in turns for term in turn.rewards]
    assert sum(value for name, value in paid if name == "stage") == 6.0
    assert ("success", 10.0) in paid
    assert turns[-1].after.drawer_open_value <= 100
    env.close()


def test_levels_do_not_depend_on_where_the_files_are(data, tmp_path):
    write_apple(tmp_path)
    write_cabinet(tmp_path, "mobility_fixed.urdf")
    seen = []
    for folder in (data, tmp_path):
        env = gym.make(DRAWER, assets=str(folder), observation="text").unwrapped
        texts = [env.reset(seed=seed)[0]["text"] for seed in (3, 4)]
        seen.append((texts, env.level["content"]))
        env.close()
    assert seen[0] == seen[1]
    simple = gym.make(DRAWER, observation="text").unwrapped
    assert simple.reset(seed=4)[1]["level"]["content"] != seen[0][1]
    simple.close()


@pytest.mark.parametrize(
    "missing",
    [
        "assets/mani_skill2_ycb/info_pick_v0.json",
        "assets/mani_skill2_ycb/models/013_apple/collision.ply",
        "assets/mani_skill2_ycb/models/013_apple/textured.obj",
        "partnet_mobility/dataset/1016/mobility_cvx.urdf",
        "partnet_mobility/dataset/1016/textured_objs/original-7.obj",
    ],
)
def test_what_is_absent_is_named_with_the_command_that_fixes_it(tmp_path, missing):
    write_apple(tmp_path)
    write_cabinet(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(ConfigError, match="download_asset ycb") as error:
        gym.make(DRAWER, assets=str(tmp_path))
    named = missing.replace(
        "mobility_cvx", "mobility_fixed"
    )  # either would do; the last one looked for is named
    assert str(tmp_path / named) in str(error.value)
    assert 'assets=""' in str(error.value)


def test_files_that_are_something_else_are_refused(tmp_path):
    write_apple(tmp_path)
    write_cabinet(tmp_path)
    (tmp_path / "assets/mani_skill2_ycb/models/013_apple/collision.ply").write_text("not a mesh")
    env = gym.make(DRAWER, assets=str(tmp_path), observation="text", workers=0)
    with pytest.raises((ConfigError, SimulatorError), match="collision"):
        env.reset(seed=0)
    env.close()
    (tmp_path / "partnet_mobility/dataset/1016/mobility_cvx.urdf").write_text("<html>404</html>")
    with pytest.raises(ConfigError, match="can't be read"):
        gym.make(DRAWER, assets=str(tmp_path))


def test_other_tasks_have_no_published_scene(data):
    with pytest.raises(ConfigError, match="empty unless task='drawer'"):
        gym.make("vagen/PrimitiveSkillPlace-v0", assets=str(data))
