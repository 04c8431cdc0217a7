"""The contract of an environment of this package. What a turn is stands in `vagen_envs.turn`.

A subclass of `VagenEnv` supplies the hooks at the end of the class and nothing else; `reset` and
`step` are written once, here.
"""

from __future__ import annotations

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from vagen_envs.config import EnvConfig
from vagen_envs.errors import (
    ConfigError,
    EpisodeOverError,
    LevelError,
    ReplyTypeError,
    SimulatorError,
    VagenError,
    did_you_mean,
    shown,
)
from vagen_envs.forking import Forkable
from vagen_envs.pictures import Picture
from vagen_envs.prompting import prompts_of
from vagen_envs.replies import Action, ActionGrammar, Names, ParsedTurn, Problem, grammar_of
from vagen_envs.seeding import SPLITS, HashStream, Split
from vagen_envs.spaces import MAX_TEXT_LENGTH, UnicodeText
from vagen_envs.turn import IMAGE_PLACEHOLDER, SCHEMA_VERSION, Executed, Observation, RewardTerm, State, Turn

__all__ = [
    "IMAGE_PLACEHOLDER",
    "SCHEMA_VERSION",
    "Executed",
    "Observation",
    "RewardTerm",
    "State",
    "Turn",
    "VagenEnv",
]

L = TypeVar("L")


class VagenEnv(Forkable):
    """A vision environment played by writing text.

    Action: any string. Observation: `{"image": uint8 (height, width, 3), "text": str}`; without
    `"image"` under `observation="text"`. `info` holds after `reset` `state` and `level`, after `step`
    also `turn`, the whole `Turn`. The system prompt is `system_prompt`.

    A seed names a level of a split. Where levels are generated, `level_count` is `None` and any seed gives one.
    Where they are published data, `level_count` is their number in the split, and the seeds 0, 1, 2, … play them
    in the data's order, then again from the first. `level=i`, as an option of `gym.make` or in
    `reset(options={"level": i})`, plays level `i`, which is that of seed `i`, and refuses one that isn't there.
    An environment with published data implements `_level_count` and takes its level from `_published` in `_load`;
    a level that can't be played raises LevelError there.

    Args:
        render_mode: `None`, `"rgb_array"` or `"ansi"`. `gym.make` also takes `"human"`, for which Gymnasium shows a
            window (needs the extra `human`).
        preset: a named set of options, the paper's by default.
        options: fields of the environment's configuration class.

    Raises:
        ConfigError: an option is unknown or out of range.
        MissingExtraError: the environment's extra is not installed.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 2}  # noqa: RUF012

    id: ClassVar[str]
    """The id with its version, as in `gym.make`."""
    config_class: ClassVar[type[EnvConfig]] = EnvConfig
    prompt_folder: ClassVar[str]
    """The environment's folder in a prompt pack."""
    field_names: ClassVar[tuple[str, ...]] = ()
    """The placeholders that `_fields` fills in at each observation."""
    quick: ClassVar[bool] = False
    """Whether a turn takes less than a millisecond or so, in any thread, so that an event loop may play it itself."""
    changes_by_itself: ClassVar[bool] = False
    """Whether the world can change in a turn without an action, as where another player moves."""
    test_episodes: ClassVar[int] = 128
    """How many test episodes a benchmark plays by default: 128 in the released code, fewer where it has fewer."""
    blind_search: ClassVar[tuple[int, int]] = (24, 8)
    """Candidates and levels in the search for the best fixed replies, by what a turn costs."""
    baselines: ClassVar[Mapping[str, Callable[[Any], str]]] = {}
    """Further agents that need no model and don't look behind the curtain, by name: each writes a reply."""
    hands_pixels = True
    """Whether observations have `image`. Set to False if you read images from `Turn`; this skips a copy, a tenth of a
    grid's turn."""
    _level_seed: int
    _loaded: tuple[Split, tuple[str, int]] | None = None
    """Where the level came from that is loaded, of environments that keep it over a restore."""

    def __init__(self, render_mode: str | None = None, preset: str = "paper", **options: Any) -> None:
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise ConfigError(f"unknown render_mode {shown(render_mode)}.{did_you_mean(str(render_mode), modes)}")
        try:
            self.config = self.config_class.create(preset, **options)
        except ConfigError as error:
            raise ConfigError(f"{self.id}: {error}") from None
        config = self.config
        self.render_mode = render_mode
        self.grammar = grammar_of(
            self._named_actions(),
            strategy=config.strategy,
            separator=config.separator,
            max_actions=config.max_actions_per_turn,
            layout=config.layout,
            tags=config.tags,
            reasoning=config.reasoning,
            parsing=config.parsing,
            native_thinking=config.native_thinking,
        )
        self.prompts = prompts_of(
            config.prompt_pack,
            self.prompt_folder,
            self.grammar,
            config.representation,
            {"actions": self.grammar.actions.summary(), **self._constants()},
            self.field_names,
        )
        self._looks = config.observation != "text"
        self.action_space = UnicodeText()
        self._shape = self._picture_shape()
        self._level_streams: dict[Split, HashStream] = {}
        self._running = False

    @functools.cached_property
    def observation_space(self) -> spaces.Dict:  # type: ignore[override]
        """What observations are. Made when it is asked for: it holds five arrays as large as a picture."""
        seen: dict[str, gym.Space[Any]] = {"text": UnicodeText()}
        if self._looks:
            seen["image"] = spaces.Box(0, 255, self._shape, np.uint8)
        return spaces.Dict(seen)

    @property
    def system_prompt(self) -> str:
        """What the model is told before the first observation."""
        return self.prompts.system

    @property
    def level_count(self) -> int | None:
        """How many levels the configured split has; `None` where they are generated."""
        return self._level_count(self.config.split)

    @property
    def observed(self) -> Observation:
        """What the agent sees now. Raises EpisodeOverError before the first reset."""
        if not hasattr(self, "_observed"):
            raise EpisodeOverError(f"{self.id} has nothing to show yet; call reset() first")
        return self._observed

    @property
    def true_state(self) -> State:
        """What is true now, whatever is shown of it. Raises EpisodeOverError before the first reset."""
        if not hasattr(self, "_state"):
            raise EpisodeOverError(f"{self.id} has no state yet; call reset() first")
        return self._state

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: the level's seed. Without one, the next seed of the environment's own stream is taken.
            options: `{"split": …}` draws this level from another split than the configured one, `{"level": …}`
                plays that level, whatever the seed.

        Raises:
            ConfigError: the seed or an option is not valid, or the split has fewer levels.
            LevelError: the level can't be played.
        """
        self._running = False  # a reset that raises leaves no episode to step in
        split, asked = self._asked(options)
        if seed is not None:
            seed = self._seed_lazily(seed)
        # 31 bits fit a signed integer of any consumer; of 100,000 episodes some two pairs then share a level.
        drawn = asked if asked is not None else seed if seed is not None else int(self.np_random.integers(2**31))
        self._level_seed = seed = drawn
        self._guarded(self._load, self._levels(split).child(seed), split)
        self.level: dict[str, Any] = {"split": split, "seed": seed, "content": self._content()}
        self._turns = 0
        self._steps = 0
        self._played: list[str] = []
        self._running = True
        self._state: State = self._guarded(self._extract)
        self._observed = self._observe(None)
        return self._as_dict(self._observed), {"state": self._state, "level": dict(self.level)}

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Play one turn: parse the reply, carry its actions out, and show what came of it.

        Args:
            action: the model's reply. Any string will do; a malformed one is recorded in the turn.

        Raises:
            EpisodeOverError: there is no running episode.
            ReplyTypeError: the reply isn't a string.
            SimulatorError: the simulator broke; reset to go on.
        """
        if not self._running:
            raise EpisodeOverError(f"{self.id} has no running episode; call reset() first")
        if not isinstance(action, str):
            raise ReplyTypeError(f"the reply is {type(action).__name__}, not str; pass the model's text as it is")
        reply, parsed = self._read(action)
        before = self._state
        executed = self._carry_out(parsed.actions)
        after: State = self._guarded(self._extract) if executed or self.changes_by_itself else before
        solved = self._solved()
        terminated = solved or self._lost()
        self._turns += 1
        spent = self._turns >= self.config.max_turns or self._steps >= self.config.max_steps
        truncated = spent and not terminated
        self._state = after
        self._running = not (terminated or truncated)
        result = self._observe(self._feedback_text(parsed, executed))
        turn = Turn(
            self.spec.id if self.spec is not None else self.id,
            self.level,
            self._turns - 1,
            self._observed,
            reply,
            parsed,
            executed,
            before,
            after,
            self._reward_terms(parsed, executed),
            {
                "action_is_valid": bool(parsed.actions) and not parsed.refused,
                "action_is_effective": any(each.effective for each in executed),
                "success": solved,
                **self._metrics(),
            },
            terminated,
            truncated,
            result,
        )
        self._observed = result
        info = {"turn": turn, "state": after, "level": dict(self.level)}
        return self._as_dict(result), turn.reward, terminated, truncated, info

    def render(self) -> Any:
        """The picture (`rgb_array`) or the state as text (`ansi`)."""
        if self.render_mode is None:
            gym.logger.warn(f'render() of {self.id} without a render mode; use gym.make("{self.id}", render_mode=…)')
            return None
        if not hasattr(self, "_state"):
            raise EpisodeOverError(f"{self.id} has nothing to show yet; call reset() first")
        return self._view_text() if self.render_mode == "ansi" else self._look().copied()

    def oracle_reply(self) -> str:
        """A full reply that brings the episode nearer to its end; observation and prediction are true.

        Raises:
            EpisodeOverError: there was no reset yet.
        """
        state = self.true_state
        actions = list(self.plan())[: self.config.max_actions_per_turn]
        representation = self.config.representation
        foreseen = ""
        if "prediction" in self.grammar.fields:  # to foresee is to play on, which takes a simulator as long as to act
            foreseen = self.imagine(actions).describe(representation)
        return self.grammar.render(
            actions,
            observation=state.describe(representation),
            reasoning=self._reason(actions),
            prediction=foreseen,
        )

    # -- the parts of a turn -----------------------------------------------------------------------

    def _named_actions(self) -> ActionGrammar:
        """The environment's actions under the names that the configuration gives them."""
        actions, called = self._actions(), self.config.action_names
        if not called:
            return actions
        if not isinstance(actions, Names):
            raise ConfigError(f"{self.id}: action_names={shown(called)} is not valid: actions here aren't names")
        try:
            return Names(*actions.names, called=called)
        except ValueError as error:
            raise ConfigError(f"{self.id}: {error}") from None

    def _levels(self, split: Split) -> HashStream:
        """The stream from which the levels of a split descend, one child a seed."""
        if split not in self._level_streams:
            self._level_streams[split] = HashStream(self.id, self.config.level_key(), split)
        return self._level_streams[split]

    def _asked(self, options: Mapping[str, Any] | None) -> tuple[Split, int | None]:
        """The split of a reset, and the number of its level if one is asked for. Raises ConfigError."""
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"{self.id}: reset options are a dictionary, not {type(options).__name__}")
        known = ("split", "level")
        for name in options or {}:
            if name not in known:
                raise ConfigError(f"{self.id}: unknown reset option {shown(name)}.{did_you_mean(str(name), known)}")
        split = (options or {}).get("split", self.config.split)
        if split not in SPLITS:
            raise ConfigError(f"{self.id}: unknown split {shown(split)}.{did_you_mean(str(split), SPLITS)}")
        level = (options or {}).get("level", self.config.level)
        if level is None:
            return split, None
        count = self._level_count(split)
        if isinstance(level, bool) or not isinstance(level, int | np.integer) or level < 0:
            raise ConfigError(f"{self.id}: level={shown(level)} is not valid: it must be an integer of at least 0")
        if count is not None and level >= count:
            raise ConfigError(f"{self.id}: there is no level={level}: the split {split!r} has {count}, counted from 0")
        return split, int(level)

    def _read(self, reply: str) -> tuple[str, ParsedTurn]:
        if len(reply) <= MAX_TEXT_LENGTH:
            return reply, self.grammar.parse(reply)
        cut = reply[-MAX_TEXT_LENGTH:]  # the answer stands at the end, after long visible thoughts
        parsed = self.grammar.parse(cut)
        message = f"the reply has {len(reply)} characters; only the last {MAX_TEXT_LENGTH} were read"
        problems = (*parsed.problems, Problem("too_long", message, 0, 0))
        return cut, dataclasses.replace(parsed, well_formed=False, problems=problems)

    def _carry_out(self, actions: Sequence[Action]) -> tuple[Executed, ...]:
        executed: list[Executed] = []
        for action in actions:
            executed.append(self._guarded(self._execute, action))
            self._played.append(action.text)
            self._steps += 1
            if self._solved() or self._lost() or self._steps >= self.config.max_steps:
                break
        return tuple(executed)

    def _guarded(self, call: Any, *args: Any) -> Any:
        """A simulator's failure is never the agent's: name the environment and the cause."""
        try:
            return call(*args)
        except VagenError:
            self._running = False
            raise
        except Exception as error:
            self._running = False
            raise SimulatorError(self.id, f"{type(error).__name__}: {error}") from error

    def _reward_terms(self, parsed: ParsedTurn, executed: tuple[Executed, ...]) -> tuple[RewardTerm, ...]:
        sums: dict[str, float] = {}
        for each in executed:
            for term in each.rewards:
                sums[term.name] = sums.get(term.name, 0.0) + term.value
        if self.config.format_reward and parsed.format_correct:
            sums["format"] = self.config.format_reward
        return tuple([RewardTerm(name, value) for name, value in sums.items()])

    def _feedback_text(self, parsed: ParsedTurn, executed: tuple[Executed, ...]) -> str:
        done = f"Executed: {', '.join([each.text for each in executed])}." if executed else "Nothing was executed."
        said = [each.feedback for each in executed if each.feedback]
        if not said and not parsed.problems:
            return done
        return " ".join([done, *said, *(f"Note: {problem.message}." for problem in parsed.problems)])

    def _observe(self, feedback: str | None) -> Observation:
        picture = self._look() if self._looks else None
        mode = self.config.observation
        view = IMAGE_PLACEHOLDER if mode == "image" else self._view_text()
        if mode == "both":
            view = f"{IMAGE_PLACEHOLDER}\n{view}"
        fields = self._fields()
        fields["view"] = view
        if feedback is not None:
            fields["feedback"] = feedback.replace(
                IMAGE_PLACEHOLDER, ""
            )  # quoted from a reply, it would stand for a picture
        return Observation(self.prompts.observe(fields, over=not self._running)[:MAX_TEXT_LENGTH], picture)

    def _look(self) -> Picture:
        picture: Picture = self._guarded(self._picture)
        return picture

    def _as_dict(self, observation: Observation) -> dict[str, Any]:
        if observation.picture is None or not self.hands_pixels:
            return {"text": observation.text}
        return {"image": observation.picture.copied(), "text": observation.text}

    # -- what an environment supplies --------------------------------------------------------------

    @abstractmethod
    def _actions(self) -> ActionGrammar:
        """What an answer may say. Called once, before `_load`."""

    @abstractmethod
    def _picture_shape(self) -> tuple[int, int, int]:
        """Height and width in pixels, and 3. Called once, before `_load`, whether or not anybody looks."""

    @abstractmethod
    def _load(self, stream: HashStream, split: Split) -> None:
        """Set up the level that `stream` says, drawing again until it belongs to `split`."""

    def _level_count(self, split: Split) -> int | None:
        """How many levels of published data the split has; `None` where levels are generated."""
        return None

    def _published(self, levels: Sequence[L]) -> L:
        """The published level that this seed plays; for `_load`. Raises LevelError if the split has none."""
        if not levels:
            raise LevelError(f"{self.id}: this split has no level; use another split or more data")
        return levels[self._level_seed % len(levels)]

    @abstractmethod
    def _content(self) -> str:
        """The content hash of the level: equal for levels that are the same up to symmetry."""

    @abstractmethod
    def _extract(self) -> State:
        """The truth now."""

    @abstractmethod
    def _picture(self) -> Picture:
        """What is to be seen now. The pixels must not be written to afterwards."""

    @abstractmethod
    def _execute(self, action: Action) -> Executed:
        """Carry one action out."""

    @abstractmethod
    def _solved(self) -> bool:
        """Whether the task is done."""

    def _lost(self) -> bool:
        """Whether the task can't be done any more and the rules end it, as in a hole of the lake."""
        return False

    def _constants(self) -> dict[str, str]:
        """The environment's placeholders that never change. Called once, before `_load`."""
        return {}

    def _fields(self) -> dict[str, str]:
        """The placeholders named in `field_names`, for the observation now. A fresh dictionary."""
        return {}

    def _view_text(self) -> str:
        """The state as a text observation shows it."""
        return self._state.structured()

    def _metrics(self) -> dict[str, bool | float | str]:
        """The environment's own metrics of a turn."""
        return {}

    def _snapshot(self) -> Any:
        """What the simulator holds, as JSON, after a level was loaded. By default the actions that were played.

        An environment with a shorter way overrides this and `_restore` together.
        """
        return self._played

    def _restore(self, world: Any) -> None:
        """Put the simulator where `_snapshot` was. By default `self.level` is loaded and played again.

        `world` is untrusted: raise KeyError, TypeError or ValueError to reject it. State and observation are restored
        already, unless `looks_when_restored`.
        """
        actions = self._actions_of(world)
        self._loaded = None  # what has happened in it is undone by loading it
        self._load_again()
        for action in actions:
            self._guarded(self._execute, action)
            self._played.append(action.text)

    def _load_again(self, load: Callable[[HashStream, Split], None] | None = None) -> None:
        """Load `self.level`, by `load` if given, unless it is `_loaded`. ValueError if its content is another now."""
        split = self.level["split"]
        self._level_seed = self.level["seed"]
        stream = self._levels(split).child(self._level_seed)
        if self._loaded != (split, stream.position()):
            if load is None:
                self._guarded(self._load, stream, split)
            else:
                load(stream, split)
        if self._content() != self.level["content"]:
            raise ValueError("the level's content is another one; it was drawn by another version")

    def _actions_of(self, texts: Any) -> list[Action]:
        """The actions that a snapshot's texts say. Raises TypeError or ValueError if that can't be."""
        read = [self.grammar.actions.read(text, 0, len(text)) for text in texts]
        actions = [action for action in read if isinstance(action, Action)]
        if len(actions) < len(read) or len(actions) > self._steps:
            raise ValueError("an action can't be read, or there are more than were counted")
        return actions

    @abstractmethod
    def plan(self) -> Sequence[str]:
        """The oracle's next actions, any number. Raises LevelError where it sees no way."""

    @abstractmethod
    def imagine(self, actions: Sequence[str]) -> State:
        """The truth after these actions of a turn, without changing anything."""

    def random_actions(self, stream: HashStream, count: int) -> Sequence[str]:
        """At most `count` actions for an agent that plays at random.

        By the grammar alone, unless an environment knows better what is sensible.
        """
        return self.grammar.actions.random(stream, count)

    def options_missing(self) -> Sequence[tuple[str, str, str]]:
        """Return options that can't be used on this machine: the option, what is missing, and the fix."""
        return ()

    def _reason(self, actions: Sequence[str]) -> str:
        """The oracle's words for why it does this."""
        return f"The next step of the shortest way is {', '.join(actions)}."
