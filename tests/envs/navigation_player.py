"""A stand-in for AI2-THOR's Unity player, for tests: it speaks the FIFO protocol on top of our own rooms.

Scene `FloorPlan<n>` is the room of level n of `rooms()`. The first argument is a fault:
`none`, `dies at start`, `hangs at start`, `rubbish at start`, or `<dies|hangs|rubbish|blind|crashes> at <k>` for
the k-th message; `boasts` calls every object visible, and `strands` refuses to be taken anywhere from its third move
on.
"""

from __future__ import annotations

import functools
import json
import os
import re
import struct
import sys
import time
from pathlib import Path

import msgpack
import numpy as np
from segmentation import segmented

from vagen_envs.navigation.config import NavigationConfig
from vagen_envs.navigation.levels import HouseLevels
from vagen_envs.navigation.scene import MOVES, NavigationEpisode, Pose
from vagen_envs.navigation.simulator import HouseSimulator, free_pose
from vagen_envs.seeding import HashStream

METADATA, ACTION, RGB, IDS, THIRD_PARTY, END = 1, 2, 4, 9, 10, 255
SCENES = tuple(f"FloorPlan{n}" for n in range(1, 13))


@functools.cache
def level_of(scene: str) -> tuple[HouseSimulator, NavigationEpisode]:
    """The room that stands for a scene, with an episode in it."""
    number = int(re.findall(r"\d+", scene)[0])
    levels = HouseLevels(NavigationConfig())
    return levels.draw(HashStream("stand-in", number), "train")


def metadata(simulator: HouseSimulator) -> dict:
    """The scene as AI2-THOR describes it."""
    pose, visible = simulator.pose, simulator.visible().tolist()
    return {
        "agent": {
            "position": {"x": pose.x, "y": 0.9, "z": pose.z},
            "rotation": {"x": 0.0, "y": float(pose.rotation), "z": 0.0},
            "cameraHorizon": float(pose.horizon),
        },
        "objects": [
            {
                "objectId": thing.name,
                "objectType": thing.kind,
                "position": {"x": thing.x, "y": simulator.height(thing.name), "z": thing.z},
                "visible": seen,
            }
            for thing, seen in zip(simulator.objects, visible, strict=True)
        ],
    }


class Stage:
    def __init__(self, width: int, fault: str = "none") -> None:
        self.side, self.fault = width, fault
        self.above = False
        self.moves = 0
        self.simulators = {}
        self.load(SCENES[0])

    def load(self, scene: str) -> None:
        simulator, episode = level_of(scene)
        self.scene, self.above = scene, False
        if scene not in self.simulators:  # a room is made once
            self.simulators[scene] = HouseSimulator(
                simulator.house, episode.start, NavigationConfig()
            )
        self.simulator = self.simulators[scene]
        self.simulator.teleport(episode.start)

    def act(self, order: dict) -> tuple[bool, str, object]:
        """Success, error message and return value."""
        action, simulator = order["action"], self.simulator
        if action == "GetScenesInBuild":
            return True, "", [f"{scene}_physics" for scene in SCENES]
        if action == "Reset":
            self.load(order["sceneName"])
        elif action == "ChangeResolution":
            self.side = order["x"]
        elif action == "Initialize":
            assert order["gridSize"] == 0.1
            assert order["visibilityDistance"] == 10.0
            simulator.field_of_view = order["fieldOfView"]
        elif action == "GetMapViewCameraProperties":
            return True, "", {"position": {"x": 0, "y": 3, "z": 0}, "orthographicSize": 3.0}
        elif action == "AddThirdPartyCamera":
            self.above = True
        elif action == "Teleport":
            pose = Pose(
                order["position"]["x"],
                order["position"]["z"],
                order["rotation"]["y"],
                order["horizon"],
            )
            if self.fault == "strands" and self.moves > 2:
                return False, "no way back", None
            if not free_pose(simulator, pose):
                return False, "the agent doesn't fit there", None
            simulator.teleport(pose)
        elif action in MOVES or action.startswith(("Rotate", "Look")):
            if action in MOVES:
                self.moves += 1
                assert order["moveMagnitude"] == simulator.step_length
            return simulator.step(action), "", None
        else:
            return False, f"no action {action}", None
        return True, "", None

    def instances(self) -> np.ndarray:
        """The picture with each object in its colour: uint8 (side, side, 4)."""
        index = segmented(self.simulator, self.side)
        high, low = np.divmod(np.maximum(index, 0), 256)
        colours = np.stack([index >= 0, high, low, np.full_like(index, 255)], -1)
        return np.where(index[..., None] >= 0, colours, (0, 0, 0, 255)).astype(np.uint8)

    def reply(self, order: dict, result: tuple[bool, str, object]) -> bytes:
        success, error, value = result
        side = self.simulator.resolution = self.side
        cameras = [{"thirdPartyCameraId": 0}] if self.above else []
        described = metadata(self.simulator)
        if self.fault == "boasts":
            for found in described["objects"]:
                found["visible"] = True
        agent = {
            **described,
            "lastAction": order["action"],
            "lastActionSuccess": success,
            "errorMessage": error,
            "errorCode": "",
            "actionReturn": value,
            "screenWidth": side,
            "screenHeight": side,
            "sceneName": self.scene,
            "thirdPartyCameras": cameras,
            "colors": [
                {"name": thing.name, "color": [1, *divmod(index, 256)]}
                for index, thing in enumerate(self.simulator.objects)
            ],
        }
        body = {
            "agents": [agent],
            "thirdPartyCameras": cameras,
            "activeAgentId": 0,
            "sequenceId": order["sequenceId"],
        }
        message = _field(METADATA, msgpack.packb(body))
        if order.get("renderImage", True):
            message += _field(RGB, self.simulator.frame()[::-1].tobytes())
            message += _field(IDS, self.instances()[::-1].tobytes())
        if self.above and order.get("renderImage", True):
            message += _field(THIRD_PARTY, self.simulator.map_frame()[::-1].tobytes())
        return message + _field(END, b"")


def _field(kind: int, body: bytes) -> bytes:
    return struct.pack("!BI", kind, len(body)) + body


def _orders(pipe):
    while True:
        header = pipe.read(5)
        if len(header) < 5:
            return
        kind, length = struct.unpack("!BI", header)
        body = pipe.read(length)
        if kind == ACTION:
            yield json.loads(body)


def main() -> None:
    fault, width = sys.argv[1], int(sys.argv[sys.argv.index("-screen-width") + 1])
    what, _, when = fault.partition(" at ")
    if fault == "dies at start":
        sys.exit(3)
    if fault == "hangs at start":
        time.sleep(600)
    stage = Stage(width, fault)
    with Path(os.environ["AI2THOR_FIFO_SERVER_PIPE_PATH"]).open("wb", buffering=0) as out:
        if fault == "rubbish at start":
            out.write(b"\x07garbage" * 40)
            time.sleep(600)
        out.write(stage.reply({"action": "hello", "sequenceId": 0}, (True, "", None)))
        with Path(os.environ["AI2THOR_FIFO_CLIENT_PIPE_PATH"]).open("rb") as orders:
            for count, order in enumerate(_orders(orders), 1):
                if when.isdigit() and count == int(when):
                    if what == "dies":
                        os._exit(7)
                    if what == "crashes":
                        os.abort()
                    if what == "hangs":
                        time.sleep(600)
                    if what == "rubbish":
                        out.write(b"\x63\xff\xff\xff\xffnonsense")
                        continue
                result = stage.act(order)
                message = stage.reply(order, result)
                if what == "blind" and when.isdigit() and count >= int(when):
                    message = message.replace(b"objects", b"0bjects", 1)
                out.write(message)


if __name__ == "__main__":
    main()
