"""Cabinets with a drawer: one of boxes, and the published scene's, which is PartNet-Mobility's,
beside YCB's apple.

The data sets may not be shipped and have to be downloaded. A folder is what `MS_ASSET_DIR/data` is
to ManiSkill 3:

    assets/mani_skill2_ycb/info_pick_v0.json
    assets/mani_skill2_ycb/models/013_apple/{collision.ply, textured.obj}
    partnet_mobility/dataset/1016/{mobility_cvx.urdf or mobility_fixed.urdf, and the meshes it
    names}

What the skills and the stages have to know (where the handle is, how high the drawer) is measured
in the meshes. Where the arm, the cabinet and the camera stand and where the apple may lie is as
released.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vagen_envs.errors import ConfigError

Vector = tuple[int, int, int]

ARM_X = -615
"""Where the arm stands, at y = 0; ManiSkill's table-top tasks have it there too."""
TRAVEL = 160
"""How far the simple cabinet's drawer opens, in millimetres."""

APPLE = "013_apple"
CABINET = "1016"
STANDS = (-0.5, -1.0)
TURN = -math.pi / 2
"""Where the cabinet's origin is, in metres, and its turn about z, so that its drawers slide out
along +y.
"""
NEAR = (-500, -630, 200)
"""About here is the closed handle of the drawer that is meant; a cabinet has several."""
OPENED = 0.6
FARTHEST = 250
"""The drawer starts open by this share of its travel, but not so far that the arm can't get before
its handle.
"""
BEHIND = 170
"""The drawer's position is the point this many millimetres behind the handle."""
PALM = 115
"""The hand is as wide as this to either side, and mustn't come down on the drawers above."""
_FIX = (
    "Download ManiSkill's assets, `python -m mani_skill.utils.download_asset ycb` and `… "
    "download_asset "
    f"partnet_mobility/{CABINET}`, and give the folder `data` that they are in (in ~/.maniskill, "
    "or in what "
    'MS_ASSET_DIR says); or leave assets="" for the scene made of simple shapes, which needs no '
    "download"
)


@dataclass(frozen=True, slots=True)
class Cabinet:
    """A cabinet with one drawer, which slides out to the right (+y), made of boxes. Its parts are
    in scene.toml.

    Attributes:
        x: of its middle.
        front: y of its front.
        opened: how far the drawer starts pulled out.
    """

    x: int
    front: int
    opened: int

    arm_x = ARM_X
    room = 100
    """Open by less than this many millimetres it doesn't take the apple and the hand."""
    shut = TRAVEL // 10
    """Closed is open by at most a tenth, as released."""

    @property
    def content(self) -> tuple[int, int, int]:
        """What tells layouts apart."""
        return self.x, self.front, self.opened

    def box_at(self, opened: int) -> Vector:
        """The middle of the drawer's box."""
        return self.x, self.front + opened - 100, 46

    def handle_at(self, opened: int) -> Vector:
        """The handle's centre."""
        return self.x, self.front + opened + 22, 45

    def holds(self, at: Mapping[str, Vector]) -> bool:
        """Whether the apple is in the drawer, by their positions."""
        apple = at["apple"]
        box = at["drawer"]
        return abs(apple[0] - box[0]) < 90 and abs(apple[1] - box[1]) < 90 and 20 < apple[2] < 90

    def drop(self, opened: int) -> Vector:
        """Where the apple is let go."""
        x, y, _ = self.box_at(opened)
        return x, y, 100


@dataclass(frozen=True, slots=True)
class PublishedCabinet:
    """The cabinet as it stands in the scene, in millimetres.

    Attributes:
        lift: metres by which the cabinet's origin is above the floor, so that it stands on it.
        joint: the name of the drawer's joint.
        opened: how far the drawer starts open.
        closed: where the handle is when the drawer is closed.
        bottom, top: lowest and highest z of the drawer.
        apple_files: the apple's collision mesh and its look.
        apple_height: of its centre when it lies.
    """

    urdf: str
    scale: float
    lift: float
    joint: str
    opened: int
    closed: Vector
    bottom: int
    top: int
    apple_files: tuple[str, str]
    apple_scale: float
    apple_density: float
    apple_height: int

    content = ("published",)
    arm_x = -500
    room = 2 * PALM - 60
    shut = 100
    """0.1 m, as released."""

    def box_at(self, opened: int) -> Vector:
        x, y, z = self.closed
        return x, y + opened - BEHIND, z

    def handle_at(self, opened: int) -> Vector:
        x, y, z = self.closed
        return x, y + opened, z

    def holds(self, at: Mapping[str, Vector]) -> bool:
        apple = at["apple"]
        box = at["drawer"]
        # Within 100 mm in x and y, as released.
        near = abs(apple[0] - box[0]) <= 100 and abs(apple[1] - box[1]) <= 100
        return near and self.bottom < apple[2] < self.top + self.apple_height

    def drop(self, opened: int) -> Vector:
        """Where the apple is let go: over the open part of the drawer."""
        x, y, _ = self.box_at(opened)
        return x, max(y, self.closed[1] + PALM), self.top + 24


def read_published(assets: str) -> PublishedCabinet:
    """Find and measure the assets in a folder. Raises ConfigError if a file is missing or isn't
    what it should be.
    """
    folder = Path(assets).expanduser()
    try:
        apple = _read_apple(folder / "assets" / "mani_skill2_ycb")
        model = folder / "partnet_mobility" / "dataset" / CABINET
        urdf = model / "mobility_cvx.urdf"
        if not urdf.is_file():
            urdf = model / "mobility_fixed.urdf"
            urdf.open("rb").close()
        return PublishedCabinet(urdf=str(urdf), **_measure(urdf), **apple)
    except FileNotFoundError as error:
        raise ConfigError(
            f"assets={assets!r} is not valid: there is no {error.filename}. {_FIX}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"assets={assets!r} is not valid: its files can't be read ({why}). {_FIX}"
        ) from error


def _read_apple(ycb: Path) -> dict[str, Any]:
    info = json.loads((ycb / "info_pick_v0.json").read_text(encoding="utf-8"))[APPLE]
    files = [ycb / "models" / APPLE / name for name in ("collision.ply", "textured.obj")]
    for file in files:
        file.open("rb").close()
    scale = float(info.get("scales", [1.0])[0])
    return {
        "apple_files": tuple(map(str, files)),
        "apple_scale": scale,
        "apple_density": float(info.get("density", 1000)),
        "apple_height": round(-float(info["bbox"]["min"][2]) * scale * 1000),
    }


def _measure(urdf: Path) -> dict[str, Any]:
    """Put the cabinet where it stands, closed, and find the drawer that is meant."""
    from mani_skill import PACKAGE_ASSET_DIR
    from sapien.wrapper.urchin import URDF  # what SAPIEN's own loader reads it with

    about = PACKAGE_ASSET_DIR / "partnet_mobility" / "meta" / "info_cabinet_drawer_train.json"
    scale = float(json.loads(about.read_text())[CABINET]["scale"])
    robot = URDF.load(str(urdf), lazy_load_meshes=True)
    slides = [joint for joint in robot.joints if joint.joint_type == "prismatic"]
    closed = {joint.name: float(joint.limit.lower) for joint in slides}
    frames = robot.link_fk(cfg=closed, use_names=True)
    parts = {link.name: _corners(link, frames[link.name], scale) for link in robot.links}
    # Made so that its lowest point is on the floor, as ManiSkill places these cabinets.
    all_corners = [corners for named in parts.values() for corners in named.values()]
    lift = -np.concatenate(all_corners)[:, 2].min()
    drawers: list[tuple[float, str, Any]] = []
    for joint in slides:
        handles = [corners for name, corners in parts[joint.child].items() if "handle" in name]
        if handles:
            ends = np.concatenate(handles)
            middle = (ends.min(0) + ends.max(0)) / 2 + (0, 0, lift)
            x, y, z = np.rint(middle).astype(int).tolist()
            drawers.append((math.dist((x, y, z), NEAR), joint.name, (x, y, z)))
    if not drawers:
        raise ValueError(f"{urdf} has no sliding part with a visual named handle")
    _, name, handle = min(drawers)
    joint = robot.joint_map[name]
    travel = round((joint.limit.upper - joint.limit.lower) * scale * 1000)
    heights = np.concatenate(list(parts[joint.child].values()))[:, 2] + lift
    return {
        "scale": scale,
        "lift": float(lift) / 1000,
        "joint": name,
        "opened": min(round(OPENED * travel), FARTHEST),
        "closed": handle,
        "bottom": round(heights.min()),
        "top": round(heights.max()),
    }


def _corners(link: Any, frame: NDArray[np.float64], scale: float) -> dict[str, NDArray[np.float64]]:
    """The corners of a link's visual meshes, by their names, in millimetres, the cabinet's origin
    at z = 0.
    """
    from trimesh.transformations import rotation_matrix, scale_matrix, translation_matrix

    stands = (
        translation_matrix((*STANDS, 0))
        @ rotation_matrix(TURN, (0, 0, 1))
        @ scale_matrix(scale)
        @ frame
    )
    named: dict[str, NDArray[np.float64]] = {}
    for i, visual in enumerate(link.visuals):
        mesh = visual.geometry.mesh
        matrix = 1000 * stands @ visual.origin
        corners = np.concatenate([part.vertices for part in mesh.meshes]) * (
            1 if mesh.scale is None else mesh.scale
        )
        named[f"{visual.name} {i}"] = corners @ matrix[:3, :3].T + matrix[:3, 3]
    return named
