"""`vagen/Navigation-v0`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PIL import Image

from vagen_envs.core import Executed, RewardTerm, VagenEnv
from vagen_envs.errors import LevelError
from vagen_envs.extras import need
from vagen_envs.navigation import ENV_ID
from vagen_envs.navigation.config import NavigationConfig
from vagen_envs.navigation.scene import (
    ACTIONS,
    EYE_Y,
    NavigationEpisode,
    Pose,
    distance,
    extract,
    target_among,
)
from vagen_envs.navigation.search import shortest_path, way_that_looks
from vagen_envs.navigation.state import NavigationState, words
from vagen_envs.pictures import Picture, Pixels
from vagen_envs.replies import Action, ActionGrammar, Names, ParsedTurn, Problem
from vagen_envs.seeding import HashStream, Split, content_hash

if TYPE_CHECKING:
    from vagen_envs.navigation.simulator import HouseSimulator
    from vagen_envs.navigation.thor import ThorSimulator


_ABOVE = " The right half of the picture shows the room from above."
_IN_SIGHT = " and nothing hides it from your camera, whichever way it looks"
"""What else the prompt says of when the task is done."""
_WHERE = {
    "ahead": "in front of me",
    "back": "behind me",
    "left": "on my left",
    "right": "on my right",
}
"""The oracle's words for the direction of its target."""


def _state_of(simulator: Any, episode: NavigationEpisode, target: str) -> NavigationState:
    pose = simulator.pose
    seen = simulator.seen()
    shown = any(each.name == target for each in seen)
    in_sight = shown or simulator.in_sight(pose, target)
    return extract(pose, seen, episode, target, in_sight)


def _feedback(action: str, done: bool) -> str:
    return "" if done else f"{action} was not possible."


class NavigationEnv(VagenEnv):
    """A home robot in first person follows a human instruction to find an object.

    Actions: `moveahead`, `moveback`, `moveright`, `moveleft`, `rotateright`, `rotateleft`,
    `lookup`, `lookdown` (VAGEN, table 10). A move is carried out in full or not at all; turns are
    by 90 degrees, looks by 30 between 30 up and 60 down. The task is done as soon as the target is
    within `success_threshold` and a free line leads from the camera to some part of it, whichever
    way the robot looks. Splits share no room, and no pose of target or start; of houses with
    several rooms they share no floor plan. `difficulty` 0 and 1 are one room, with short and with
    long ways, where the robot first looks in a random direction; 2 to 5 are houses of 2, 4, 6 and 8
    rooms.

    Version history:
        v0: first release.
    """

    id = ENV_ID
    config_class = NavigationConfig
    prompt_folder = "navigation"
    test_episodes = 64
    blind_search = (12, 6)
    comparison_levels = 48
    field_names = ("instruction", "last_action")
    config: NavigationConfig
    simulator: HouseSimulator | ThorSimulator
    episode: NavigationEpisode

    def _actions(self) -> ActionGrammar:
        return Names(*ACTIONS)

    def _constants(self) -> dict[str, str]:
        config = self.config
        has_map = config.multiview and config.observation != "text"
        return {
            "step": f"{config.step_length:g}",
            "threshold": f"{config.success_threshold:g}",
            "sight": _IN_SIGHT if config.success_needs_sight else "",
            "success": f"{config.success_reward:g}",
            "loss": ", and a small loss for each action" if config.step_reward < 0 else "",
            "above": _ABOVE if has_map else "",
        }

    def _picture_shape(self) -> tuple[int, int, int]:
        side = self.config.shown_pixels
        # Here, so that a missing extra is told when the environment is made.
        if self.config.backend == "house":
            need(self.id, "navigation", "mujoco")
            from vagen_envs.navigation.levels import HouseLevels

            self._levels_of: Any = HouseLevels(self.config)
        else:
            need(f'{self.id} with backend="thor"', "thor", "ai2thor")
            from vagen_envs.navigation.thor import ThorLevels

            self._levels_of = ThorLevels(self.config)
        width = 2 * side if self.config.multiview else side
        return side, width, 3

    def _read(self, reply: str) -> tuple[str, ParsedTurn]:
        """The released code of this environment, unlike its parser, executes nothing unless the
        format is right.
        """
        reply, parsed = super()._read(reply)
        if self.config.parsing != "released" or parsed.well_formed or not parsed.actions:
            return reply, parsed
        start = parsed.actions[0].start
        end = parsed.actions[-1].end
        withheld = Problem(
            "withheld", "nothing was executed because the format is broken", start, end
        )
        return reply, dataclasses.replace(parsed, actions=(), problems=(*parsed.problems, withheld))

    def _load(self, stream: HashStream, split: Split) -> None:
        if self.config.backend == "thor":
            record = self._published(self._levels_of.of_split(split))
            self.simulator, self.episode = self._levels_of.load(record)
        else:
            self.simulator, self.episode = self._levels_of.draw(stream, split)
        target = target_among(self.simulator.objects, self.episode)
        if target is None:
            raise LevelError(
                f"the scene has no {self.episode.target_type} to look for; leave this episode out"
            )
        self._target = target
        self._last_success = True

    def _level_count(self, split: Split) -> int | None:
        return len(self._levels_of.of_split(split)) if self.config.backend == "thor" else None

    def _content(self) -> str:
        return content_hash(self.episode.content)

    def _extract(self) -> NavigationState:
        return _state_of(self.simulator, self.episode, self._target)

    def _picture(self) -> Picture:
        shown = self._shrunk(self.simulator.frame())
        if self.config.multiview:
            shown = np.hstack((shown, self._shrunk(self.simulator.map_frame())))
        return Picture(shown)

    def _shrunk(self, pixels: Pixels) -> Pixels:
        side = self.config.shown_pixels
        if pixels.shape[0] == side:
            return pixels
        return np.array(Image.fromarray(pixels).resize((side, side), Image.Resampling.BOX))

    def _execute(self, action: Action) -> Executed:
        self._last_success = self.simulator.step(ACTIONS[action.name])
        solved = self._solved()
        config = self.config
        rewards: tuple[RewardTerm, ...] = ()
        if solved:
            rewards = (RewardTerm("success", config.success_reward),)
        elif config.step_reward:
            rewards = (RewardTerm("step", config.step_reward),)
        feedback = _feedback(action.name, self._last_success)
        return Executed(action.text, self._last_success, rewards, feedback)

    def _solved(self) -> bool:
        return self._solved_in(self.simulator, self.episode, self._target)

    def _solved_in(self, simulator: Any, episode: NavigationEpisode, target: str) -> bool:
        """Whether the target of a level is near enough, and found."""
        pose = simulator.pose
        if distance(pose, *episode.target_position) > self.config.success_threshold:
            return False
        return not self.config.success_needs_sight or simulator.in_sight(pose, target)

    def _ends(self, pose: Pose) -> bool:
        """Whether the target, if it is near enough, is found."""
        return not self.config.success_needs_sight or self.simulator.in_sight(pose, self._target)

    def _fields(self) -> dict[str, str]:
        carried_out = "was carried out" if self._last_success else "was NOT carried out"
        return {
            "instruction": self.episode.instruction,
            "last_action": f"The last action {carried_out}.",
        }

    def _metrics(self) -> dict[str, bool | float | str]:
        return {"last_action_success": self._last_success}

    def _rewind(self) -> None:
        self._load_again()
        self.simulator.teleport(self.episode.start)
        self._last_success = True

    def plan(self) -> Sequence[str]:
        """A shortest way, and the looks after which its end shows the target, where the actions
        left allow them.

        The robot first turns to face the target, too, if it may. It looks before its last move,
        after which the episode is over.
        """
        config = self.config
        pose = self.simulator.pose
        target = self.episode.target_position
        path = shortest_path(
            pose,
            target,
            self.simulator.blocked,
            step=config.step_length,
            threshold=config.success_threshold,
            longest=max(config.max_steps, config.max_solution_length),
            ends=self._ends,
        )
        if path is None:
            raise LevelError("there is no way to the target from here; reset for another level")
        left = min(
            config.max_steps - self._steps,
            (config.max_turns - self._turns) * config.max_actions_per_turn,
        )
        below = EYE_Y - self.simulator.height(self._target)
        way = way_that_looks(
            pose, path, target, below, step=config.step_length, fov=config.fov, left=left
        )
        return [action.lower() for action in way]

    # -- what the same actions do elsewhere

    def moment(self) -> Any:
        """This moment of the level, to `play_on` from; other levels are played meanwhile."""
        return self.simulator, self.episode, self._target, self.simulator.pose

    def play_on(self, moment: Any, action: str) -> tuple[Any, str, bool]:
        """Play an action from a moment: the moment after it, the feedback, and whether the level
        is over.
        """
        simulator, episode, target, pose = moment
        before = simulator.pose
        try:
            simulator.teleport(pose)
            done = simulator.step(ACTIONS[action])
            after = (simulator, episode, target, simulator.pose)
            over = self._solved_in(simulator, episode, target)
        finally:
            simulator.teleport(before)
        return after, _feedback(action, done), over

    def state_at(self, moment: Any) -> NavigationState:
        """The truth at a moment; it costs as much as a turn."""
        simulator, episode, target, pose = moment
        here = simulator.pose
        try:
            simulator.teleport(pose)
            return _state_of(simulator, episode, target)
        finally:
            simulator.teleport(here)

    def imagine(self, actions: Sequence[str]) -> NavigationState:
        simulator = self.simulator
        start = self.simulator.pose
        try:
            for action in actions:
                if self._solved():
                    break
                simulator.step(ACTIONS[action])
            return self._extract()
        finally:
            simulator.teleport(start)

    def _reason(self, actions: Sequence[str]) -> str:
        state: Any = self._state
        what = words(state.target_type)
        plan = ", ".join(actions)
        if not state.target_in_sight:
            return f"I need the {what}, which I can't see from here. I go and look for it: {plan}."
        turns = "".join(actions[:1]).startswith("rotate")
        way = "I turn towards it first" if turns else "I follow the free way to it"
        return f"I need the {what}, which is {_WHERE[state.target_direction]}. {way}: {plan}."

    def text_only_reply(self) -> str:
        """The reply of an agent that reads the feedback and no picture: ahead, or to the right
        where it was stopped.
        """
        ahead = ["moveahead"] * self.config.max_actions_per_turn
        actions = ["rotateright", *ahead[1:]] if "NOT carried out" in self.observed.text else ahead
        words = dict.fromkeys(
            ("observation", "reasoning", "prediction", "think"), "I did not look."
        )
        return self.grammar.render(actions, **words)

    baselines: ClassVar[Mapping[str, Callable[[Any], str]]] = {"text-only": text_only_reply}

    def close(self) -> None:
        super().close()
        if self.config.backend == "thor":
            self._levels_of.close()
