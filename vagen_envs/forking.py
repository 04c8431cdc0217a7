"""Snapshots, copies and pickles of environments.

A snapshot is a header line, which names the environment and its configuration, and JSON. It holds
no pickle: bytes from outside are read as data, and refused with one clear error.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import inspect
import json
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from vagen_envs.errors import SimulatorError, SnapshotError, VagenError, place_of
from vagen_envs.hooks import EnvironmentHooks
from vagen_envs.level_choice import LevelChoice
from vagen_envs.pictures import Picture
from vagen_envs.replies import Action
from vagen_envs.seeding import SPLITS, HashStream, Split, content_hash
from vagen_envs.snapshots import MAGIC, VERSION, generator_at, packed, unpacked
from vagen_envs.spaces import MAX_TEXT_LENGTH
from vagen_envs.turn import Executed, Observation, State

_UNREADABLE = (
    KeyError,
    TypeError,
    ValueError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""Errors of reading data of an unexpected shape."""
RETURNED: dict[str, type] = {"_execute": Executed, "_extract": State, "_picture": Picture}
"""Types that an environment's hooks must return."""


class Forkable(EnvironmentHooks):
    """The part of `VagenEnv` for `snapshot`, `restore`, copying and pickling."""

    _looks: bool
    _shape: tuple[int, ...]
    _loaded: tuple[Split, int] | None = None
    """Split and seed of the level that is loaded."""
    _choice: LevelChoice
    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Remember how it was made: a copy is made the same way and then restored."""
        env = super().__new__(cls)
        env._made_with = args, options
        return env

    def snapshot(self) -> bytes:
        """This moment: the episode, its pictures and random numbers, the stream of next seeds and
        their split.

        An environment of the same id and options takes it over with `restore`, in any process.
        Wrappers and the random numbers of spaces aren't part of it.

        Raises:
            SnapshotError: `np_random` was replaced by a generator of another kind than Gymnasium's.
        """
        episode: list[Any] | None = None
        if hasattr(self, "_observed"):
            world = self._guarded(self._snapshot)
            state = None
            pixels = None
            if not self.looks_when_restored:
                state = self._state.to_json()
                picture = self._observed.picture
                pixels = picture and base64.b64encode(picture.pixels.tobytes()).decode()
            level = [self.level[name] for name in ("split", "seed", "content")]
            counts = [self._turns, self._steps, self._running]
            episode = [*level, *counts, self._observed.text, world, state, pixels]
        generator = self.np_random.bit_generator.state
        body = [self.np_random_seed, generator, episode, self._choice.to_json()]
        return packed(self._heading, body)

    def restore(self, snapshot: bytes) -> None:
        """Go on from the moment that `snapshot()` wrote down here or elsewhere; `observed` is what
        was seen then.

        Raises:
            SnapshotError: the bytes aren't a snapshot of this id and these options, or they are
                damaged. Where only the inside is wrong there is no running episode any more.
            SimulatorError: the simulator broke.
            EnvClosedError: the environment was closed.
        """
        self._require_open()
        body = unpacked(self._heading, snapshot)
        try:
            seed, state, episode, named = body
            generator = generator_at(seed, state)
            choice = LevelChoice.from_json(named)
            if episode is None:
                for name in ("_observed", "_state", "level"):
                    self.__dict__.pop(name, None)
                self._running = False
            else:
                self._restore_episode(episode)
        except _UNREADABLE as error:
            self._running = False
            raise SnapshotError(
                f"{self.id}: the snapshot's inside is wrong ({type(error).__name__}: "
                f"{str(error)[:200]}); restore one that this version's snapshot() gave"
            ) from error
        self._np_random_seed = seed
        self._np_random = generator
        self._choice = choice

    def _restore_episode(self, episode: list[Any]) -> None:
        split, seed, content, turns, steps, running, text, world, state, pixels = episode
        if split not in SPLITS or type(content) is not str or type(running) is not bool:
            raise ValueError("a level is malformed")
        for number in (seed, turns, steps):
            if type(number) is not int or number < 0:
                raise ValueError(f"{number!r:.40} is no number of levels, turns or steps")
        if type(text) is not str or len(text) > MAX_TEXT_LENGTH:
            raise ValueError("what was shown is no text, or too long")
        config = self.config
        if running and (turns >= config.max_turns or steps >= config.max_steps):
            raise ValueError("the budget is spent, but the episode goes on")
        self.level = {"split": split, "seed": seed, "content": content}
        self._turns = turns
        self._steps = steps
        self._played = []
        if self.looks_when_restored:
            self._restore(world)
            self._state = self._guarded(self._extract)
            self._observed = Observation(text, self._look() if self._looks else None)
        else:
            self._state = State.from_json(state)
            self._state.structured()  # raises for what is no state
            self._state.sentences()  # the same
            drawn = np.frombuffer(base64.b64decode(pixels or ""), np.uint8)
            picture = Picture(drawn.reshape(self._shape)) if self._looks else None
            self._observed = Observation(text, picture)
            self._restore(world)
        self._running = running

    @functools.cached_property
    def _heading(self) -> bytes:
        """What a snapshot begins with. It ends with a digest of all options that could change what
        follows.

        Environments of equal headings may take over each other's snapshots.
        """
        config = self.config
        # Paths differ between machines.
        apart = {*config.level_fields, *config.machine_fields, "prompt_pack"}
        options = {
            field.name: getattr(config, field.name)
            for field in dataclasses.fields(config)
            if field.name not in apart
        }
        described = json.dumps(
            [options, config.level_key(), self.prompts.pack.sha256()], sort_keys=True
        )
        return f"{MAGIC} {VERSION} {self.id} {content_hash(described.encode())} ".encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (type(self), *self._made_with, self.spec, self.snapshot())

    def _snapshot(self) -> Any:
        """What the simulator holds, as JSON, after a level was loaded. By default the actions that
        were played.

        An environment with a shorter way overrides this and `_restore` together.
        """
        return self._played

    def _restore(self, world: Any) -> None:
        """Put the simulator where `_snapshot` was. By default `self.level` is played again.

        `world` is untrusted: raise KeyError, TypeError or ValueError to reject it. State and
        observation are restored already, unless `looks_when_restored`.
        """
        actions = self._actions_of(world)
        self._rewind()
        for action in actions:
            self._guarded(self._execute, action)
            self._played.append(action.text)

    def _rewind(self) -> None:
        """Put `self.level` to its start. It is loaded anew; an override can reset what
        `_load_again` leaves loaded.
        """
        self._loaded = None
        self._load_again()

    def _load_again(self, load: Callable[[HashStream, Split], None] | None = None) -> None:
        """Load `self.level`, by `load` if given, unless it is `_loaded`. ValueError if its content
        is another now.
        """
        split = self.level["split"]
        seed = self.level["seed"]
        if self._loaded != (split, seed):
            self._load_level(split, seed, load or self._load)
        if self._content() != self.level["content"]:
            raise ValueError("the level's content is another one; it was drawn by another version")

    def _load_level(
        self, split: Split, seed: int, load: Callable[[HashStream, Split], None]
    ) -> None:
        self._level_seed = seed
        self._loaded = None
        self._guarded(load, HashStream(self.id, self.config.level_key(), split).child(seed), split)
        self._loaded = (split, seed)

    def _actions_of(self, texts: Any) -> list[Action]:
        """The actions that a snapshot's texts say. Raises TypeError or ValueError if that can't
        be.
        """
        read = [self.grammar.actions.read(text, 0, len(text)) for text in texts]
        actions = [action for action in read if isinstance(action, Action)]
        if len(actions) < len(read) or len(actions) != self._steps:
            raise ValueError(
                "an action can't be read, or there are more or fewer than were counted"
            )
        return actions

    def _look(self) -> Picture:
        picture: Picture = self._guarded(self._picture)
        return picture

    def _guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        """A simulator's failure is never the agent's: name the environment and the cause."""
        try:
            made = call(*args)
            kind = RETURNED.get(getattr(call, "__name__", ""), object)
            if not isinstance(made, kind):
                code = inspect.unwrap(call).__code__
                raise TypeError(
                    f"{call.__qualname__}() returned a {type(made).__name__}; it must return a "
                    f"{kind.__name__} ({code.co_filename}, line {code.co_firstlineno})"
                )
        except VagenError:
            self._running = False
            raise
        except Exception as error:
            self._running = False
            raise SimulatorError(
                self.id, f"{type(error).__name__}: {error}{place_of(error)}"
            ) from error
        return made


def _made_again(
    cls: type[Forkable], args: Any, options: Any, spec: Any, snapshot: bytes
) -> Forkable:
    """A copy of an environment, as copying and pickling call it."""
    env = cls(*args, **options)
    env.spec = spec
    env.restore(snapshot)
    return env
