"""The contract of an environment of this package. What a turn is stands in `vagen_envs.turn`.

A subclass of `VagenEnv` supplies the hooks of `vagen_envs.hooks` and nothing else; `reset` and
`step` are written once, here.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from vagen_envs.action_names import default_actions, renamed
from vagen_envs.bounds import SEED
from vagen_envs.config import plain_integer
from vagen_envs.errors import ConfigError, EpisodeOverError, ReplyTypeError, did_you_mean, shown
from vagen_envs.level_choice import LevelChoice
from vagen_envs.prompting import PromptPack, Prompts
from vagen_envs.replies import ActionGrammar, grammar_of
from vagen_envs.seeding import Split
from vagen_envs.spaces import UnicodeText
from vagen_envs.turn import Executed, Observation, RewardTerm, State, Turn
from vagen_envs.turn_steps import TurnSteps

__all__ = [
    "Executed",
    "Observation",
    "RewardTerm",
    "State",
    "Turn",
    "VagenEnv",
]


class VagenEnv(TurnSteps):
    """A vision environment played by writing text.

    Action: any string. Observation: `{"image": uint8 (height, width, 3), "text": str}`; without
    `"image"` under `observation="text"`. `info` holds after `reset` `state` and `level`, after
    `step` also `turn`, the whole `Turn`. The system prompt is `system_prompt`.

    A seed names a level of a split. Where levels are generated, `level_count` is `None` and any
    seed gives one. Where they are published data, `level_count` is their number in the split, and
    the seeds 0, 1, 2, … play them in the data's order, then again from the first. `level=i`, as an
    option of `gym.make` or in `reset(options={"level": i})`, plays level `i`, which is that of seed
    `i`, and refuses one that isn't there. An environment with published data implements
    `_level_count` and takes its level from `_published` in `_load`; a level that can't be played
    raises LevelError there.

    Args:
        render_mode: `None`, `"rgb_array"` or `"ansi"`. `gym.make` also takes `"human"`, for which
            Gymnasium shows a window (needs the extra `human`).
        preset: a named set of options, the paper's by default.
        options: fields of the environment's configuration class.

    Raises:
        ConfigError: an option is unknown or out of range.
        MissingExtraError: the environment's extra is not installed.
    """

    _spec: EnvSpec | None = None
    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 2}  # noqa: RUF012

    def __init__(
        self, render_mode: str | None = None, preset: str = "paper", **options: Any
    ) -> None:
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise ConfigError(
                f"unknown render_mode {shown(render_mode)}.{did_you_mean(str(render_mode), modes)}"
            )
        try:
            self.config = self.config_class.create(preset, **options)
        except ConfigError as error:
            raise ConfigError(f"{self.id}: {error}") from None
        config = self.config
        self.render_mode = render_mode
        self.grammar = grammar_of(
            self._action_grammar(),
            strategy=config.strategy,
            separator=config.separator,
            max_actions=config.max_actions_per_turn,
            layout=config.layout,
            tags=config.tags,
            reasoning=config.reasoning,
            parsing=config.parsing,
            native_thinking=config.native_thinking,
        )
        self._default = default_actions(self.grammar.actions, config, self.id)
        self.prompts = Prompts(
            PromptPack(config.prompt_pack),
            self.prompt_folder,
            self.grammar,
            config.representation,
            {"actions": self.grammar.actions.summary(), **self._constants()},
            self.field_names,
        )
        self._looks = config.observation != "text"
        self.action_space = UnicodeText()
        self._shape = self._picture_shape()
        self._running = False
        self._choice = LevelChoice.of(config)

    @property
    def spec(self) -> EnvSpec | None:
        """What Gymnasium knows of this environment, with its turns as `max_episode_steps`.

        `TimeAwareObservation` and others ask for them. `gym.make` adds no `TimeLimit`: it reads the
        registered spec, which can't know the turns.
        """
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None and spec.max_episode_steps is None:
            spec = copy.copy(spec)
            spec.max_episode_steps = self.config.max_turns
        self._spec = spec

    @functools.cached_property
    def observation_space(self) -> spaces.Dict:  # type: ignore[override]
        """What observations are. Made when it is asked for: it holds five arrays as large as a
        picture.
        """
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
        """How many levels of the configured split are played; `None` where they are generated and
        `num_levels` doesn't say.
        """
        return self._count(self.config.split)

    @property
    def observed(self) -> Observation:
        """What the agent sees now. Raises EpisodeOverError before the first reset."""
        if not hasattr(self, "_observed"):
            raise EpisodeOverError(f"{self.id} has nothing to show yet; call reset() first")
        return self._observed

    @property
    def true_state(self) -> State:
        """The true state, whatever the observation shows. Raises EpisodeOverError before the first
        reset.
        """
        if not hasattr(self, "_state"):
            raise EpisodeOverError(f"{self.id} has no state yet; call reset() first")
        return self._state

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: the level's seed. Without one, the next seed of the environment's own stream is
                taken.
            options: `{"split": …}` draws levels from another split than the configured one,
                `{"level": …}` plays that level, whatever the seed. Both hold for later resets, such
                as a vector environment's automatic ones, until another is named; a seed, too, names
                another level. `None` names nothing.

        Raises:
            ConfigError: the seed or an option is not valid, or the split has fewer levels.
            LevelError: the level can't be played.
            EnvClosedError: the environment was closed.
        """
        self._require_open()
        self._running = False  # a reset that raises leaves no episode to step in
        if seed is not None:
            seed = plain_integer(seed)
            if not SEED.admits(seed):
                raise ConfigError(f"{self.id}: seed={shown(seed)} is not valid: it must be {SEED}")
        named = self.config.of_reset(options, self.id)
        choice = self._choice.renamed(named, seed, self.config.level)
        count = self._count(choice.split)
        choice.require(count, self.id)
        self._choice = choice
        gym.Env.reset(self, seed=seed)
        split = choice.split
        drawn = seed if choice.level is None else choice.level
        if drawn is None:
            # 31 bits fit a signed integer of any consumer; of 100,000 episodes some two pairs then
            # share a level.
            drawn = int(self.np_random.integers(2**31))
        if self.config.num_levels is not None and count:
            drawn %= count
        self._load_level(split, drawn, self._load)
        self.level = {"split": split, "seed": drawn, "content": self._content()}
        self._turns = 0
        self._steps = 0
        self._played = []
        self._running = True
        self._state = self._guarded(self._extract)
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
            EnvClosedError: the environment was closed.
        """
        self._require_open()
        if not self._running:
            raise EpisodeOverError(f"{self.id} has no running episode; call reset() first")
        if not isinstance(action, str):
            raise ReplyTypeError(
                f"the reply is {type(action).__name__}, not str; pass the model's text as it is"
            )
        reply, parsed = self._read(action)
        before = self._state
        executed = self._carry_out(parsed.actions or self._default)
        after: State = self._guarded(self._extract)
        solved = self._solved()
        terminated = solved or self._lost()
        if terminated:
            parsed = self._as_played(parsed)
        self._turns += 1
        spent = self._turns >= self.config.max_turns or self._steps >= self.config.max_steps
        truncated = spent and not terminated
        self._state = after
        self._running = not (terminated or truncated)
        result = self._observe(self._feedback_text(parsed, executed))
        rewards = self._reward_terms(parsed, executed)
        metrics = {
            "action_is_valid": bool(parsed.actions) and not parsed.refused,
            "answer_is_unclear": parsed.unclear,
            "action_is_effective": self._is_effective(before, after, executed),
            "success": solved,
            **self._metrics(),
        }
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
            rewards,
            metrics,
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
            gym.logger.warn(
                f"render() of {self.id} without a render mode; "
                f'use gym.make("{self.id}", render_mode=…)'
            )
            return None
        if not hasattr(self, "_state"):
            raise EpisodeOverError(f"{self.id} has nothing to show yet; call reset() first")
        return self._view_text() if self.render_mode == "ansi" else self._look().pixels.copy()

    def oracle_reply(self) -> str:
        """A full reply that brings the episode nearer to its end; observation and prediction are
        true.

        Raises:
            EpisodeOverError: there was no reset yet.
        """
        state = self.true_state
        actions = list(self.plan())[: self.config.max_actions_per_turn]
        representation = self.config.representation
        foreseen = ""
        if "prediction" in self.grammar.fields:  # a simulator plays the actions to foresee them
            foreseen = self.imagine(actions).describe(representation)
        return self.grammar.render(
            actions,
            observation=state.describe(representation),
            reasoning=self._reason(actions),
            prediction=foreseen,
        )

    # -- set-up ------------------------------------------------------------------------------------

    def _action_grammar(self) -> ActionGrammar:
        """The environment's actions under the names that the configuration gives them."""
        actions = self._actions()
        if not hasattr(actions, "summary"):
            raise ConfigError(
                f"{type(self).__name__}._actions() returned a {type(actions).__name__}; it must "
                "return Names(…), Calls(…) or another ActionGrammar"
            )
        return renamed(actions, self.config, self.id)

    def _count(self, split: Split) -> int | None:
        """How many levels of a split are played; None where there is no end of them."""
        published = self._level_count(split)
        most = self.config.num_levels
        if published is None:
            return most
        return published if most is None else min(published, most)
