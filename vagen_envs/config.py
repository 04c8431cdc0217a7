"""The options that every environment has, and how options are checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from vagen_envs.bounds import (
    COUNTED,
    REWARD,
    Number,
    OneOf,
    Open,
    OrNone,
    Several,
    Whole,
    Words,
    bounds_of,
)
from vagen_envs.errors import ConfigError, did_you_mean, shown
from vagen_envs.replies import (
    TAGS,
    Layout,
    NativeThinking,
    Parsing,
    Reasoning,
    Strategy,
    TagNames,
    check_tags,
)
from vagen_envs.seeding import Split

Representation = Literal["natural_language", "symbolic", "structured"]
ObservationMode = Literal["image", "text", "both"]
RUNGS = (0, 1, 2, 3, 4, 5)
"""The rungs of an environment's ladder, easiest first."""

MOST = 10**9
"""Turns or primitive actions of an episode."""


def plain_integer(value: Any) -> Any:
    """NumPy's integers as Python's own; anything else as it is."""
    return int(value) if isinstance(value, np.integer) else value


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Options of `gym.make` that all environments share. Subclasses add theirs and set the paper's
    defaults.
    """

    level_fields: ClassVar[tuple[str, ...]] = ()
    """Options that a level depends on. Others (prompts, rewards, budgets) never change a seed's
    level.
    """

    machine_fields: ClassVar[tuple[str, ...]] = ()
    """Options that say where and how something runs and change nothing that is to be seen:
    snapshots pass between environments that differ in them."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "vagen-main": {
            "layout": "flat",
            "strategy": "free_think",
            "prompt_pack": "vagen_main",
            "format_per_turn": True,
        },
    }
    """Named sets of options: `gym.make(id, preset="released")`. A subclass adds its own, and adds
    to these. `vagen-main` has the format of VAGEN's branch `main` of 2026, for checkpoints that
    were trained there; levels and rewards stay the paper's."""

    rungs: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    """The ladder: what `difficulty=0…5` stands for, options a rung, easiest first. Options that are
    given as well win. Frozen: a change of a rung is a new version of the environment."""

    representations: ClassVar[tuple[Representation, ...]] = ("natural_language", "structured")
    """The state representations this environment has (VAGEN, table 23)."""

    strategy: Annotated[Strategy, Open()] = "grounding_world_modeling"
    """Which reasoning fields a reply has (VAGEN, section 2.2 and table 5)."""
    representation: Annotated[Representation, Open()] = "natural_language"
    """How `<observation>` and `<prediction>` are written (VAGEN, section 4 and appendix C)."""
    observation: Annotated[ObservationMode, Open()] = "image"
    """What a turn shows: the picture, the state as text, or both. `"text"` renders no picture at
    all.
    """
    layout: Annotated[Layout, Open()] = "nested"
    """Order of the tags: the paper's nested one, the flat one of VAGEN's 2026 code, or untagged
    thoughts.
    """
    tags: Annotated[TagNames, Open(Several(Words(32), 5, 5))] = TAGS
    """What the tags are called: for think, observation, reasoning, prediction and answer, in this
    order.
    """
    reasoning: Annotated[Reasoning, Open()] = "optional"
    """Whether `<reasoning>` may be left out. The paper's table 5 has it, its section 2.2
    doesn't.
    """
    parsing: Annotated[Parsing, Open()] = "lenient"
    """Whether a malformed reply's answer is still executed; it never earns the format reward.
    `"released"` executes and pays what VAGEN's released parsers do."""
    native_thinking: Annotated[NativeThinking, Open()] = "reject"
    """Whether a thinking model's own text before its reply breaks the format; it is set aside
    either way.
    """
    separator: Annotated[str, Open(Words(8))] = ","
    """Stands between the actions of an answer."""
    action_names: Annotated[tuple[str, ...], Open(Several(Words(32), 32, 0))] = ()
    """What replies call the actions, in the order of the environment's own names; empty for those.
    Only where actions are names."""
    default_action: Annotated[str, Open(Words(32))] = ""
    """Executed in place of the actions of a reply that has no valid one (Verlog), which earns no
    format reward; empty for none. Only where actions are names."""
    # A reply has no room for more actions than characters.
    max_actions_per_turn: Annotated[int, Whole(1, 16_384), Open(Whole(1, 100))] = 3
    """Actions beyond this many are dropped and marked. The paper's `max_actions_per_step`."""
    max_turns: Annotated[int, Whole(1, MOST), Open(COUNTED)] = 3
    """Turns in an episode; it is truncated after the last."""
    max_steps: Annotated[int, Whole(1, MOST), Open(COUNTED)] = 100
    """Primitive actions in an episode; it is truncated after the last."""
    format_reward: Annotated[float, Open(REWARD)] = 0.5
    """Reward for a turn whose reply is well formed and whose actions are all valid (VAGEN, tables
    16-20).
    """
    format_needs_actions: Annotated[bool, Open()] = True
    """Whether the format reward also asks for valid actions, as VAGEN's released code does. The
    paper rewards the structure of a reply alone (section 5.3)."""
    format_per_turn: Annotated[bool, Open()] = False
    """Pay each well-formed turn `format_reward`, as the paper does. By default a budget of more
    turns than the environment's own pays no more in all, and a solved episode earns the turns that
    are left: else an agent would earn by solving late, or not at all."""
    prompt_pack: str = "default"
    """A prompt pack of this package, or the path of a folder that overrides some of its files."""
    split: Annotated[Split, Open()] = "train"
    """The split that levels are drawn from. Splits share no level, whatever the seeds."""
    level: Annotated[int | None, OrNone(Whole(0, 2**63 - 1)), Open()] = None
    """Every episode plays this level of the split, counted from 0 (see `VagenEnv`); `None` lets
    seeds choose.
    """
    num_levels: Annotated[int | None, OrNone(Whole(1, 2**31)), Open()] = None
    """Episodes play the first so many levels of the split only: a seed stands for its remainder. A
    small policy learns few levels long before it learns to play ever new ones (Cobbe et al. 2020,
    Procgen)."""
    difficulty: Annotated[Literal[0, 1, 2, 3, 4, 5] | None, Open()] = None
    """A rung of the environment's ladder, 0 the easiest: it sets the options that are listed there,
    but for those that are given as well. `None` leaves everything at its default."""

    def __init_subclass__(cls) -> None:
        inherited = cls.__mro__[1].presets  # type: ignore[attr-defined]
        own = cls.__dict__.get("presets", {})
        cls.presets = {
            name: {**inherited.get(name, {}), **own.get(name, {})} for name in {**inherited, **own}
        }

    @property
    def bonus_share(self) -> float:
        """The share of its size that a bonus of each turn has: min(1, d / `max_turns`), d the
        environment's own number of turns, which is the paper's where the paper has the
        environment.
        """
        return min(1.0, type(self).max_turns / self.max_turns)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, self._read(field.name, getattr(self, field.name)))
        separates = 1 <= len(self.separator) <= 100 and "<" not in self.separator
        self.require(separates, "separator", "1 to 100 characters without '<'")
        try:
            check_tags(self.tags)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        readable = all(
            name.strip() == name != "" and self.separator not in name for name in self.action_names
        )
        self.require(
            readable, "action_names", "names without the separator and without blanks around"
        )
        tagged = self.layout != "untagged"
        self.require(
            tagged or self.parsing != "released",
            "layout",
            "nested or flat where parsing is released",
        )
        known = self.representations
        self.require(
            self.representation in known,
            "representation",
            f"one of {', '.join(known)} in this environment",
        )

    def require(self, condition: bool, field: str, must_be: str) -> None:
        """Raise a ConfigError that names the field, its value and what it must be, unless
        `condition`.
        """
        if not condition:
            raise ConfigError(
                f"{field}={shown(getattr(self, field))} is not valid: it must be {must_be}"
            )

    @classmethod
    def create(cls, preset: str = "paper", **options: Any) -> Self:
        """The options of a preset, with `options` over them. Raises ConfigError with a hint."""
        if not isinstance(preset, str) or preset not in cls.presets:
            raise ConfigError(
                f"unknown preset {shown(preset)}.{did_you_mean(str(preset), cls.presets)}"
            )
        known = {field.name for field in dataclasses.fields(cls)}
        for name in options:
            if name not in known:
                raise ConfigError(f"unknown option {shown(name)}.{did_you_mean(name, known)}")
        options = {name: cls._read(name, value) for name, value in options.items()}
        rung = options.get("difficulty")
        if rung is not None and not cls.rungs:
            raise ConfigError(
                f"difficulty={shown(rung)} is not valid: it must be None, since there is no "
                "ladder here"
            )
        named = cls._of_preset(preset, options)
        ladder = {} if rung is None else cls._rung(rung, {**named, **options})
        given = {**named, **ladder, **options}
        for name, needed in cls._needed(given).items():
            if name in given and name not in options:  # what nobody asked for gives way
                given[name] = max(given[name], needed)
        return cls(**{**cls._following(given), **given})

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        """The value of an option as the configuration holds it. Raises ConfigError if it is out of
        bounds.
        """
        bound = bounds_of(cls)[name][0]  # type: ignore[arg-type]
        if isinstance(value, list):  # JSON has no tuples
            value = tuple(value)
        if not bound.admits(value):
            choices: list[str] = []
            if isinstance(bound, OneOf):
                choices = [choice for choice in bound.choices if isinstance(choice, str)]
            hint = did_you_mean(value, choices) if choices and isinstance(value, str) else ""
            raise ConfigError(f"{name}={shown(value)} is not valid: it must be {bound}.{hint}")
        return float(value) if isinstance(bound, Number) else value

    @classmethod
    def of_reset(cls, options: Mapping[str, Any] | None, env_id: str) -> dict[str, Any]:
        """The split and the level that the options of a reset name, without those that are None.
        Raises ConfigError.
        """
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"{env_id}: reset options are a dictionary, not {shown(options)}")
        known = ("split", "level")
        for name in options or {}:
            if name not in known:
                raise ConfigError(
                    f"{env_id}: unknown reset option {shown(name)}.{did_you_mean(str(name), known)}"
                )
        try:
            return {
                name: cls._read(name, plain_integer(value))
                for name, value in (options or {}).items()
                if value is not None
            }
        except ConfigError as error:
            raise ConfigError(f"{env_id}: {error}") from None

    @classmethod
    def _of_preset(cls, preset: str, options: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG003  (a hook)
        """What a preset stands for beside options, which win."""
        return cls.presets[preset]

    @classmethod
    def _rung(cls, rung: int, beside: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG003  (a hook)
        """What a rung stands for beside a preset and options, which win. Raises ConfigError where
        they don't fit.
        """
        return cls.rungs[rung]

    @classmethod
    def _needed(cls, given: Mapping[str, Any]) -> dict[str, int]:  # noqa: ARG003  (a hook)
        """The turns and steps that the longest level takes with the given options."""
        return {}

    @classmethod
    def _following(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Options that follow from the given ones, where they aren't given themselves."""
        return {
            name: max(getattr(cls, name), needed) for name, needed in cls._needed(given).items()
        }

    def level_key(self) -> dict[str, Any]:
        """The options that levels depend on, as JSON."""
        return {name: getattr(self, name) for name in self.level_fields}
