"""What a turn is: the one record that rewards, trainers, the runner and the viewer read."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from vagen_envs.errors import ConfigError, RecordError
from vagen_envs.pictures import Picture
from vagen_envs.registration import FOLDERS
from vagen_envs.replies import ParsedTurn

SCHEMA_VERSION = 1
"""Version of the JSON form of `Turn`."""

IMAGE_PLACEHOLDER = "<image>"
"""Stands in an observation's text where its picture belongs."""


@dataclass(frozen=True, slots=True)
class State:
    """The true state of an environment. Subclasses are frozen dataclasses of numbers, strings,
    tuples and dicts.

    Set `kind` (unique, short), else the definition raises ConfigError; built-in states live in
    `vagen_envs.<kind>.state`.

    A state whose prompt's text says more than the task has a method `alike(others, options)`. It
    gets states of other levels and the environment's options, and returns the states that look the
    same without the picture.
    """

    kind: ClassVar[str] = ""
    _kinds: ClassVar[dict[str, type[State]]] = {}

    def __init_subclass__(cls) -> None:
        # An inherited one would read records back as the other class.
        if not cls.__dict__.get("kind"):
            raise ConfigError(
                f"{cls.__qualname__} has no kind of its own; set `kind: ClassVar[str]` in the class"
            )
        State._kinds[cls.kind] = cls

    def sentences(self) -> tuple[str, ...]:
        """The facts as the paper's judge is given them (VAGEN, appendix D.1), one a sentence."""
        raise NotImplementedError(f"{type(self).__name__} has no sentences")

    def natural_language(self) -> str:
        """What a truthful agent would write in plain words."""
        return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in self.sentences())

    def structured(self) -> str:
        """The facts as a dictionary (VAGEN, appendix C.2)."""
        raise NotImplementedError(f"{type(self).__name__} has no structured form")

    def symbolic(self) -> str:
        """The facts as a grid of symbols (VAGEN, appendix C.1), where there is one."""
        raise NotImplementedError(f"{type(self).__name__} has no symbolic form")

    def describe(self, representation: str) -> str:
        """What a truthful agent would write in this representation."""
        return str(getattr(self, representation)())

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary from which `State.from_json` makes an equal state."""
        return {"kind": self.kind, **_fields_of(self)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> State:
        """Read a state back. Raises RecordError for an unknown kind or other fields than the kind
        has.
        """
        kind = data.get("kind", "")
        if kind not in State._kinds and kind in FOLDERS:  # by permission: records come from outside
            importlib.import_module(f"vagen_envs.{kind}.state")
        cls = State._kinds.get(kind)
        if cls is None:
            raise RecordError(
                f"unknown kind of state {kind!r}; import the package that defines it first "
                "(commands: --trust)"
            )
        try:
            return cls(**{name: _frozen(value) for name, value in data.items() if name != "kind"})
        except TypeError as error:
            raise RecordError(
                f"this is not a state of kind {kind!r} ({error}); read it with the version that "
                "wrote it"
            ) from error


def _frozen(value: Any) -> Any:
    """JSON's lists back to the tuples they were."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return {key: _frozen(each) for key, each in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class RewardTerm:
    """One named part of a reward. Terms of one name within a turn are added up."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Executed:
    """One action that the simulator carried out.

    Attributes:
        text: the action in canonical form.
        effective: whether it changed the state.
        rewards: the task's reward terms for this action.
        feedback: what the agent is told about it, may be empty.
    """

    text: str
    effective: bool
    rewards: tuple[RewardTerm, ...] = ()
    feedback: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the agent is shown. `text` holds `<image>` where the picture belongs, if there is
    one.
    """

    text: str
    picture: Picture | None

    def to_json(self) -> dict[str, Any]:
        """The text, and the picture by its content hash and shape."""
        picture = self.picture and {
            "sha256": self.picture.sha256,
            "shape": list(self.picture.shape),
        }
        return {"text": self.text, "picture": picture}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], pictures: Mapping[str, Picture]) -> Self:
        """Read an observation back, with its picture if `pictures` (by SHA-256) has it."""
        known = data["picture"]
        if known is None:
            return cls(data["text"], None)
        name = known["sha256"]
        return cls(
            data["text"], pictures.get(name) or Picture.known_by(name, tuple(known["shape"]))
        )


@dataclass(frozen=True, slots=True)
class Turn:
    """The one record of a turn.

    Attributes:
        env_id: the id with its version, as the environment was made.
        level: split, seed and content hash of the level.
        index: 0 for the first turn of the episode.
        observed: what the agent saw before it wrote.
        reply: what it wrote; of a reply longer than the space allows, the end.
        parsed: what the reply says.
        executed: the actions carried out, in order.
        before, after: the truth before the first and after the last action.
        rewards: the turn's reward terms; `reward` is their sum.
        metrics: `action_is_valid` (at least one action, none refused), `answer_is_unclear` (an
            answer that says more than actions executed nothing), `action_is_effective` (the state
            changed), `success` (the task is solved), and the environment's own.
        terminated: solved, or lost for good.
        truncated: not terminated, but the budget of turns or actions is spent.
        result: what the agent sees next; shown to it even after the last turn.
    """

    env_id: str
    level: Mapping[str, Any]
    index: int
    observed: Observation
    reply: str
    parsed: ParsedTurn
    executed: tuple[Executed, ...]
    before: State
    after: State
    rewards: tuple[RewardTerm, ...]
    metrics: Mapping[str, bool | float | str]
    terminated: bool
    truncated: bool
    result: Observation

    @property
    def reward(self) -> float:
        """The sum of the reward terms."""
        return math.fsum(term.value for term in self.rewards)

    @property
    def success(self) -> bool:
        """Whether the task is solved after this turn."""
        return bool(self.metrics["success"])

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures that the JSON form names by hash."""
        return tuple(
            each.picture for each in (self.observed, self.result) if each.picture is not None
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with a schema version. Pictures stand in it by content hash."""
        return {
            "schema": SCHEMA_VERSION,
            **_fields_of(self),
            "level": dict(self.level),
            "observed": self.observed.to_json(),
            "parsed": self.parsed.to_json(),
            "executed": [
                {**_fields_of(each), "rewards": list(map(_fields_of, each.rewards))}
                for each in self.executed
            ],
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "rewards": list(map(_fields_of, self.rewards)),
            "metrics": dict(self.metrics),
            "result": self.result.to_json(),
        }

    @classmethod
    def from_json(
        cls, data: Mapping[str, Any], pictures: Mapping[str, Picture] | None = None
    ) -> Self:
        """Read a turn back.

        Args:
            data: what `to_json` gave.
            pictures: by SHA-256. Pictures that aren't in it are known by name only.

        Raises:
            RecordError: the schema is another one, or the record is damaged.
        """
        if data.get("schema") != SCHEMA_VERSION:
            raise RecordError(
                f"turn of schema {data.get('schema')!r}; this version reads {SCHEMA_VERSION}. "
                "Read it with the version of vagen-envs that wrote it"
            )
        try:
            read: dict[str, Any] = {
                "observed": Observation.from_json(data["observed"], pictures or {}),
                "parsed": ParsedTurn.from_json(data["parsed"]),
                "executed": tuple(
                    Executed(**{**each, "rewards": _terms(each["rewards"])})
                    for each in data["executed"]
                ),
                "before": State.from_json(data["before"]),
                "after": State.from_json(data["after"]),
                "rewards": _terms(data["rewards"]),
                "result": Observation.from_json(data["result"], pictures or {}),
            }
            return cls(
                **{**{name: value for name, value in data.items() if name != "schema"}, **read}
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(
                f"damaged turn ({type(error).__name__}: {error}); its line must be left out"
            ) from error


def _fields_of(value: Any) -> dict[str, Any]:
    names = _names_of(type(value))  # type: ignore[arg-type]  # mypy takes no class for hashable
    return {name: getattr(value, name) for name in names}


@functools.cache
def _names_of(kind: type) -> tuple[str, ...]:
    # `dataclasses.fields` builds its tuple anew, a third of the time of `Turn.to_json`
    return tuple(field.name for field in dataclasses.fields(kind))


def _terms(data: Sequence[Mapping[str, Any]]) -> tuple[RewardTerm, ...]:
    return tuple(RewardTerm(**each) for each in data)
