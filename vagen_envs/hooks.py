"""What an environment of this package supplies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import gymnasium as gym

from vagen_envs.config import EnvConfig
from vagen_envs.errors import EnvClosedError, LevelError
from vagen_envs.pictures import Picture
from vagen_envs.prompting import Prompts
from vagen_envs.replies import Action, ActionGrammar, Grammar, ParsedTurn
from vagen_envs.seeding import HashStream, Split
from vagen_envs.turn import Executed, Observation, State

L = TypeVar("L")


class EnvironmentHooks(gym.Env[dict[str, Any], str]):
    """The class attributes and methods that an environment sets or overrides; those without a
    default are abstract.
    """

    id: ClassVar[str]
    """The id with its version, as in `gym.make`."""
    config_class: ClassVar[type[EnvConfig]] = EnvConfig
    prompt_folder: ClassVar[str]
    """The environment's folder in a prompt pack."""
    field_names: ClassVar[tuple[str, ...]] = ()
    """The placeholders that `_fields` fills in at each observation."""
    quick: ClassVar[bool] = False
    """Whether a turn takes less than a millisecond or so, in any thread, so that an event loop may
    play it itself.
    """
    looks_when_restored: ClassVar[bool] = False
    """Whether a restored state and picture are read off the simulator, which is right where that
    takes microseconds. Otherwise a snapshot carries them."""
    test_episodes: ClassVar[int] = 128
    """How many test episodes a benchmark plays by default: 128 in the released code, fewer where it
    has fewer.
    """
    blind_search: ClassVar[tuple[int, int]] = (24, 8)
    """Candidates and levels in the search for the best fixed replies, by what a turn costs."""
    comparison_levels: ClassVar[int] = 48
    """How many levels of the train split a reward compares a turn's state with, by what a level
    costs.
    """
    replays_comparisons: ClassVar[bool] = True
    """Whether the turn's earlier actions are played in these levels. Not where a turn costs half a
    second, or what actions do is known without looking."""
    baselines: ClassVar[Mapping[str, Callable[[Any], str]]] = {}
    """Further agents that need no model and don't look behind the curtain, by name: each writes a
    reply.
    """

    config: EnvConfig
    grammar: Grammar
    prompts: Prompts
    level: dict[str, Any]
    """Split, seed and content hash of the level."""
    _level_seed: int
    _state: State
    _observed: Observation
    _running: bool
    _turns: int
    _steps: int
    _played: list[str]
    _is_closed: bool = False

    def close(self) -> None:
        """End the environment for good; may be called twice. An override calls
        `super().close()`.
        """
        self._running = False
        self._is_closed = True

    def _require_open(self) -> None:
        """Raise EnvClosedError after `close`.

        A server may close an environment whose client still sends: playing on would need a place
        that was given away.
        """
        if self._is_closed:
            raise EnvClosedError(f"{self.id} was closed; make another environment")

    @abstractmethod
    def _actions(self) -> ActionGrammar:
        """What an answer may say. Called once, before `_load`."""

    @abstractmethod
    def _picture_shape(self) -> tuple[int, int, int]:
        """Height and width in pixels, and 3. Called once, before `_load`, whether or not anybody
        looks.
        """

    @abstractmethod
    def _load(self, stream: HashStream, split: Split) -> None:
        """Set up the level that `stream` says, drawing again until it belongs to `split`."""

    def _level_count(self, split: Split) -> int | None:
        """How many levels of published data the split has; `None` where levels are generated."""
        return None

    def _published(self, levels: Sequence[L]) -> L:
        """The published level that this seed plays; for `_load`. Raises LevelError if the split has
        none.
        """
        if not levels:
            raise LevelError(
                f'{self.id}: this split has no level; use another split, or split_by="all", '
                "which puts all data into every split"
            )
        return levels[self._level_seed % len(levels)]

    @abstractmethod
    def _content(self) -> str:
        """The content hash of the level: equal for levels that are the same up to symmetry."""

    @abstractmethod
    def _extract(self) -> State:
        """The truth now."""

    @abstractmethod
    def _picture(self) -> Picture:
        """The current picture. The pixels must not be written to afterwards."""

    @abstractmethod
    def _execute(self, action: Action) -> Executed:
        """Carry one action out."""

    @abstractmethod
    def _solved(self) -> bool:
        """Whether the task is done."""

    def _lost(self) -> bool:
        """Whether the task can't be done any more and the rules end it, as in a hole of the
        lake.
        """
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

    def _as_played(self, parsed: ParsedTurn) -> ParsedTurn:
        """What was read of a reply whose actions ended the episode."""
        return parsed

    def _is_effective(self, before: Any, after: Any, executed: Sequence[Executed]) -> bool:
        """Whether a turn changed the state: the metric `action_is_effective`."""
        return any(each.effective for each in executed)

    def _metrics(self) -> dict[str, bool | float | str]:
        """The environment's own metrics of a turn."""
        return {}

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
        """Return options that can't be used on this machine: the option, what is missing, and the
        fix.
        """
        return ()

    def _reason(self, actions: Sequence[str]) -> str:
        """The oracle's words for why it does this."""
        return f"The next step of the shortest way is {', '.join(actions)}."
