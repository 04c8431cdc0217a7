"""`vagen/PrimitiveSkill-v0` and its four tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from vagen_envs.core import Executed, RewardTerm, VagenEnv
from vagen_envs.extras import need
from vagen_envs.pictures import Picture
from vagen_envs.primitive_skill import ENV_ID, payment, tasks
from vagen_envs.primitive_skill.cabinets import PublishedCabinet, read_published
from vagen_envs.primitive_skill.config import PrimitiveSkillConfig
from vagen_envs.primitive_skill.levels import (
    APPLE_RADIUS,
    CUBE,
    TARGETS,
    ManipulationLevel,
    draw_level,
)
from vagen_envs.primitive_skill.sessions import make_session
from vagen_envs.primitive_skill.skills import ARITY, SkillCall, SkillCalls
from vagen_envs.primitive_skill.state import PrimitiveSkillState
from vagen_envs.primitive_skill.text_only import text_only_reply
from vagen_envs.primitive_skill.view import view_of
from vagen_envs.replies import Action, ActionGrammar, ParsedTurn, Refused, call_text
from vagen_envs.seeding import HashStream, Split, content_hash

_TOLD = (
    "You are told the positions of all things in no particular order. Which position belongs to "
    "which thing is for you to see in the picture."
)
_NOT_TOLD = "You aren't told where things are: read it off the picture."
_DRAWER = " The drawer is closed by pushing its handle."
_OPENED = " drawer_open_value says by how many millimetres it is open."
_IN_SIGHT = ((-300, -300, 0), (-300, 0, 0))
"""Points of the table that the camera of the drawer's scenes sees."""


class PrimitiveSkillEnv(VagenEnv):
    """Tell a Panda arm what to pick, where to place it and what to push, seen by a third-person
    camera.

    Actions: `pick(x, y, z)`, `place(x, y, z)`, `push(x1, y1, z1, x2, y2, z2)` in whole millimetres
    (VAGEN, table 12), separated by `|`. The observation lists where things are, but not which is
    which.

    Tasks: `place` brings two cubes to two targets, `stack` builds a tower of three, `drawer` puts
    an apple into a drawer and closes it, `align` brings two cubes onto a line. Which cube goes
    where, and the words, vary with the seed. Scenes are made of simple shapes, for which nothing
    has to be downloaded; the release's own drawer scene is an option (`assets`). `difficulty` 0 to
    2 are `place` with fewer and fewer turns and more and more other cubes; 3 to 5 `stack` of three,
    four and five cubes, among others, with no turn to spare, and on 5 the lowest cube has to be
    uncovered first. None lists positions.

    Version history:
        v0: first release.
    """

    id = ENV_ID
    config_class = PrimitiveSkillConfig
    prompt_folder = "primitive_skill"
    test_episodes = 8
    blind_search = (3, 2)
    comparison_levels = 12
    replays_comparisons = False
    baselines: ClassVar[Mapping[str, Callable[[Any], str]]] = {"text-only": text_only_reply}
    field_names = ("instruction", "limits", "positions", "other")
    config: PrimitiveSkillConfig
    _cabinet: PublishedCabinet | None = None
    _session: Any = None
    _seen: Picture | None = None

    def __init__(
        self, render_mode: str | None = None, preset: str = "paper", **options: Any
    ) -> None:
        super().__init__(render_mode, preset, **options)
        need(
            f"the task {self.config.task!r} of PrimitiveSkill",
            "primitive-skill",
            "mani_skill",
            "sapien",
            "torch",
        )
        if self.config.assets:
            self._cabinet = read_published(self.config.assets)

    def close(self) -> None:
        VagenEnv.close(self)
        if self._session is not None:
            self._session.close()
            self._session = None

    def _actions(self) -> ActionGrammar:
        refuses = self.config.out_of_workspace == "refuse"
        return SkillCalls(self.config.workspace if refuses else None)

    def _picture_shape(self) -> tuple[int, int, int]:
        return self.config.picture_size, self.config.picture_size, 3

    def _load(self, stream: HashStream, split: Split) -> None:
        self._set_level(stream, split)
        self._calls: list[SkillCall] = []
        self._now = self._simulated().run(self._level, [])[1]
        self._seen = None
        self._stage = tasks.stage(self._level, self._now)

    def _set_level(self, stream: HashStream, split: Split) -> None:
        self._level = self._drawn(stream, split)

    def _drawn(self, stream: HashStream, split: Split) -> ManipulationLevel:
        config = self.config
        return draw_level(
            config.task,
            stream,
            split,
            self._cabinet,
            config.cubes,
            config.distractors,
            config.covered,
        )

    def _content(self) -> str:
        return content_hash(self._level.content())

    def _extract(self) -> PrimitiveSkillState:
        return self._now

    def _picture(self) -> Picture:
        if self._seen is None:
            self._seen = Picture(self._simulated().picture(self._level, self._calls))
        return self._seen

    def _execute(self, action: Action) -> Executed:
        call, text, clipped = self._call(action)
        before = self._now
        failed, self._now = self._simulated().run(self._level, [*self._calls, call])
        self._calls.append(call)
        self._seen = None
        # A hand that is back after it did nothing may be a millimetre off.
        effective = self._now.told != before.told
        return Executed(text, effective, self._task_rewards(), f"{clipped} {failed}".strip())

    def _reward_terms(
        self, parsed: ParsedTurn, executed: tuple[Executed, ...]
    ) -> tuple[RewardTerm, ...]:
        """With what the released code pays for the whole episode, once it is over."""
        terms = VagenEnv._reward_terms(self, parsed, executed)
        if self.config.payment == "each" or self._running:
            return terms
        at_end = payment.of_episode(
            self.config, self._now.positions, self._steps, done=self._solved()
        )
        return (*terms, *at_end)

    def _task_rewards(self) -> tuple[RewardTerm, ...]:
        config = self.config
        done = self._solved()
        stage = len(config.stage_rewards) - 1 if done else tasks.stage(self._level, self._now)
        if config.task == "drawer":
            stage = min(stage, 1)
        before = self._stage
        self._stage = max(before, stage)
        return payment.of_skill(config, before, stage, done=done)

    def _solved(self) -> bool:
        return tasks.solved(self._level, self._now)

    def _metrics(self) -> dict[str, bool | float | str]:
        return {"stage": self._stage}

    def _constants(self) -> dict[str, str]:
        """The rules for this task, and, where positions aren't told, what millimetres are read off
        the picture by.
        """
        config = self.config
        drawer = config.task == "drawer"
        told = config.positions_in_text
        points = _IN_SIGHT if drawer else tuple(TARGETS.values())
        camera = view_of(config.task, bool(config.assets)).words(config.picture_size, points)
        seen = "" if told or config.observation == "text" else f" {camera}"
        # All levels of a configuration have the same things.
        level = self._drawn(HashStream("names"), "train")
        names = [*(body.name for body in level.bodies), *level.targets]
        pushed = ""
        opening = ""
        sizes = f"Cubes are {CUBE} mm wide."
        if drawer:
            names += ["drawer", "handle"]
            pushed = f"{_DRAWER}{_OPENED}" if told else _DRAWER
            opening = "; add drawer_open_value"
            sizes = f"The apple is {2 * APPLE_RADIUS} mm wide."
        return {
            "told": (_TOLD if told else _NOT_TOLD) + seen + pushed,
            "names": ", ".join(names),
            "opening": opening,
            "sizes": sizes,
        }

    def _fields(self) -> dict[str, str]:
        state = self._now
        axes = zip("xyz", self.config.workspace, strict=True)
        limits = [f"{axis}_workspace_limit: {limit}" for axis, limit in axes]
        listed = [state.positions[name] for name in self._level.listing]
        positions = ""
        other = ""
        if self.config.positions_in_text:
            positions = f"\nObject positions:\n{listed}"
            if state.drawer_open_value is not None:
                opened = {"drawer_open_value": state.drawer_open_value}
                other = f"\nOther information:\n{opened}"
        return {
            "instruction": self._level.instruction,
            "limits": "\n".join(limits),
            "positions": positions,
            "other": other,
        }

    def plan(self) -> Sequence[str]:
        """The rest of a solution. Raises LevelError if the drawer would have to be opened again."""
        return tasks.plan(self._level, self._now)

    def imagine(self, actions: Sequence[str]) -> PrimitiveSkillState:
        state = self._now
        calls: list[SkillCall] = []
        for text in actions:
            action = self.grammar.actions.read(text.strip(), 0, len(text))
            if isinstance(action, Refused) or tasks.solved(self._level, state):
                break
            calls.append(self._call(action)[0])
            state = self._simulated().run(self._level, [*self._calls, *calls])[1]
        return state

    def random_actions(self, stream: HashStream, count: int) -> list[str]:
        """Skills with points inside the workspace, for an agent that plays at random."""
        actions = []
        for _ in range(count):
            name = stream.choice(sorted(ARITY))
            ranges = self.config.workspace * (ARITY[name] // 3)
            numbers = [low + stream.below(high - low + 1) for low, high in ranges]
            actions.append(call_text(name, numbers))
        return actions

    def _reason(self, actions: Sequence[str]) -> str:
        if not actions:
            return "Everything is where it belongs."
        return f"{self._level.instruction} Next I do {' and then '.join(actions)}."

    def _call(self, action: Action) -> tuple[SkillCall, str, str]:
        """The skill as it will be carried out, its text, and what the agent is told if it was
        clipped.
        """
        numbers = self.config.workspace.clip(action.args)
        call = (action.name, numbers)
        if numbers == action.args:
            return call, action.text, ""
        text = call_text(action.name, numbers)
        return call, text, f"{action.text} is out of the workspace and became {text}."

    def _snapshot(self) -> Any:
        return [VagenEnv._snapshot(self), self._stage]

    def _restore(self, world: Any) -> None:
        """State and picture are the snapshot's. The scene follows when a skill, a picture or a look
        ahead needs it.
        """
        texts, stage = world
        actions = self._actions_of(texts)
        if type(stage) is not int or not -1 <= stage < len(self.config.stage_rewards):
            raise ValueError("there is no such stage")
        state: Any = self._state
        if type(state) is not PrimitiveSkillState:
            raise ValueError("the state is of another environment")
        self._load_again(self._set_level)
        self._now = state
        self._seen = self._observed.picture
        self._stage = stage
        self._solved()  # a KeyError if things are missing
        self._fields()  # the same
        self._calls = [self._call(action)[0] for action in actions]
        self._played = [action.text for action in actions]

    def _simulated(self) -> Any:
        config = self.config
        if self._session is None:
            is_seen = self._looks or self.render_mode == "rgb_array"
            size = config.picture_size if is_seen else 0
            self._session = make_session(config.workers, size, config.device)
        return self._session
