"""Environments that can be forked: a moment as bytes, copies, pickles."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
from gymnasium.utils.seeding import np_random

from vagen_envs.config import EnvConfig
from vagen_envs.errors import ConfigError, SnapshotError
from vagen_envs.pictures import Picture
from vagen_envs.prompting import Prompts
from vagen_envs.seeding import SPLITS
from vagen_envs.snapshots import UNREADABLE, heading, pack, unpack
from vagen_envs.spaces import MAX_TEXT_LENGTH
from vagen_envs.turn import Observation, State


class Forkable(gym.Env[dict[str, Any], str]):
    """What `VagenEnv` has for `snapshot`, `restore`, copying and pickling, and the generator behind `np_random`."""

    id: ClassVar[str]
    config: EnvConfig
    prompts: Prompts
    level: dict[str, Any]
    _observed: Observation
    _state: State
    _turns: int
    _steps: int
    _played: list[str]
    _running: bool
    _looks: bool
    _guarded: Callable[..., Any]
    _extract: Callable[[], State]
    _look: Callable[[], Picture]
    _generator: np.random.Generator | None = None
    _generator_state: dict[str, Any] | None = None
    looks_when_restored: ClassVar[bool] = False
    """Whether a restored state and picture are read off the simulator, which is right where that takes
    microseconds. Otherwise a snapshot carries them."""

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Remember how it was made: a copy is made the same way and then restored."""
        env = super().__new__(cls)
        env._made_with = args, options
        return env

    def snapshot(self) -> bytes:
        """This moment: the episode, its pictures and random numbers, the stream of next seeds.

        An environment of the same id and options takes it over with `restore`, in any process. Wrappers
        and the random numbers of spaces aren't part of it; copying and pickling, which rest on it, carry the latter.

        Raises:
            SnapshotError: `np_random` was replaced by a generator of another kind than Gymnasium's.
        """
        generator = self._generator if self._np_random_seed is not None else self.np_random
        state = self._generator_state if generator is None else generator.bit_generator.state
        episode: list[Any] | None = None
        carried = b""
        if hasattr(self, "_observed"):
            level, seen = self.level, self._observed
            carried = seen.text.encode("utf-8", "surrogatepass")
            # By place, not by name: a restore reads it in a third of the time.
            episode = [
                level["split"],
                level["seed"],
                level["content"],
                self._turns,
                self._steps,
                self._running,
                len(carried),
                self._guarded(self._snapshot),
                None,
            ]
            if not self.looks_when_restored:
                episode[-1] = self._state.to_json()
                if seen.picture is not None:
                    carried += seen.picture.pixels.tobytes()
        body = [self._np_random_seed, state, episode]
        return pack(self._heading, body, carried)

    def restore(self, snapshot: bytes) -> None:
        """Go on from the moment that `snapshot()` wrote down here or elsewhere; `observed` is what was seen then.

        Raises:
            SnapshotError: the bytes aren't a snapshot of this id and these options, or they are damaged. Where
                only the inside is wrong there is no running episode any more.
            SimulatorError: the simulator broke.
        """
        body, carried = unpack(self._heading, snapshot)
        try:
            seed, generator, episode = body
            _check_generator(seed, generator)
            if episode is None:
                for name in ("_observed", "_state", "level"):
                    self.__dict__.pop(name, None)
                self._running = False
            else:
                self._restore_episode(episode, carried)
        except UNREADABLE as error:
            self._running = False
            raise SnapshotError(
                f"{self.id}: the snapshot's inside is wrong ({type(error).__name__}: {str(error)[:200]}); "
                "restore one that this version's snapshot() gave"
            ) from error
        self._np_random_seed, self._generator, self._generator_state = seed, None, generator

    def _restore_episode(self, episode: list[Any], carried: bytes) -> None:
        split, seed, content, turns, steps, running, length, world, state = episode
        if split not in SPLITS or type(content) is not str or type(running) is not bool:
            raise ValueError("a level is malformed")
        for number in (seed, turns, steps, length):
            if type(number) is not int or number < 0:
                raise ValueError(f"{number!r:.40} is no number of levels, turns, steps or letters")
        text, pixels = carried[:length].decode("utf-8", "surrogatepass"), carried[length:]
        if len(text) > MAX_TEXT_LENGTH or len(pixels) != self._carried_pixels or length > len(carried):
            raise ValueError("the text or the picture has another length")
        config = self.config
        if running and (turns >= config.max_turns or steps >= config.max_steps):
            raise ValueError("the budget is spent, but the episode goes on")
        self.level = {"split": split, "seed": seed, "content": content}
        self._turns, self._steps, self._played = turns, steps, []
        if self.looks_when_restored:
            self._restore(world)
            self._state = self._guarded(self._extract)
            self._observed = Observation(text, self._look() if self._looks else None)
        else:
            shown: Any = self.observation_space
            drawn = np.frombuffer(pixels, np.uint8)
            self._state = State.from_json(state)
            self._state.structured(), self._state.sentences()  # raise for what is no state
            self._observed = Observation(text, Picture(drawn.reshape(shown["image"].shape)) if self._looks else None)
            self._restore(world)
        self._running = running

    @functools.cached_property
    def _carried_pixels(self) -> int:
        """How many bytes of pixels a snapshot has."""
        shown: Any = self.observation_space
        return math.prod(shown["image"].shape) if self._looks and not self.looks_when_restored else 0

    @functools.cached_property
    def _heading(self) -> bytes:
        """What a snapshot begins with: a digest of all options that could change what follows."""
        config = self.config
        apart = {*config.level_fields, *config.machine_fields, "prompt_pack"}  # paths differ between machines
        options = {
            field.name: getattr(config, field.name) for field in dataclasses.fields(config) if field.name not in apart
        }
        said = json.dumps([options, config.level_key(), self.prompts.pack.sha256()], sort_keys=True)
        return heading(self.id, hashlib.blake2b(said.encode(), digest_size=16).hexdigest())

    def __reduce__(self) -> tuple[Any, ...]:
        # Copied here: `copy.copy` would share them, and a draw from one copy's space would change the other's.
        drawn = {name: copy.deepcopy(space) for name in _SPACES if _is_seeded(space := self.__dict__.get(name))}
        return _made_again, (type(self), *self._made_with, self.spec, self.snapshot(), drawn)

    # Gymnasium makes a NumPy generator at each seeded reset, which would take a fifth of the time of a
    # reset here. Levels don't need it: it is made when somebody looks.
    @property
    def _np_random(self) -> np.random.Generator | None:
        if self._generator is None and self._np_random_seed is not None:
            if self._generator_state is None:
                self._generator, _ = np_random(self._np_random_seed)
            else:
                self._generator = np.random.Generator(np.random.PCG64(0))
                self._generator.bit_generator.state = self._generator_state
        return self._generator

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator | None) -> None:
        self._generator = generator

    def _seed_lazily(self, seed: int) -> int:
        """Note the seed for `np_random`, and give it as Python's integer, whatever integer it came as."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ConfigError(f"{self.id}: seed={seed!r} is not valid: it must be an integer of at least 0")
        self._np_random_seed = int(seed)
        self._generator = self._generator_state = None
        return self._np_random_seed

    @abstractmethod
    def _snapshot(self) -> Any:
        """What the simulator holds, as JSON."""

    @abstractmethod
    def _restore(self, world: Any) -> None:
        """Put the simulator where `_snapshot` was."""


def _check_generator(seed: Any, state: Any) -> None:
    """Whether seed and state of `np_random` can be. Raises ValueError, KeyError or TypeError if not."""
    if type(seed) is not int or seed < (0 if state is None else -1):
        raise ValueError(f"seed {seed!r:.40}")
    if state is None:
        return
    inner = state["state"]
    # PCG64's state and increment have 128 bits; `uinteger` is the half of a 64-bit draw that is still to be handed out.
    inside = (
        0 <= inner["state"] < 2**128
        and 0 <= inner["inc"] < 2**128
        and 0 <= state["has_uint32"] < 2
        and 0 <= state["uinteger"] < 2**32
    )
    numbers = (inner["state"], inner["inc"], state["has_uint32"], state["uinteger"])
    if not inside or {*map(type, numbers)} != {int} or state["bit_generator"] != "PCG64":
        raise ValueError("a generator that isn't NumPy's PCG64")


_SPACES = "action_space", "observation_space"


def _is_seeded(space: Any) -> bool:
    """Whether a space, or one that it is made of, has random numbers to go on with. `None` hasn't."""
    parts = space.values() if isinstance(space, gym.spaces.Dict) else ()
    return getattr(space, "_np_random", None) is not None or any(map(_is_seeded, parts))


def _made_again(
    cls: type[Forkable], args: Any, options: Any, spec: Any, snapshot: bytes, drawn: dict[str, Any]
) -> Forkable:
    """A copy of an environment, as copying and pickling call it, with the spaces whose numbers have begun."""
    env = cls(*args, **options)
    env.spec = spec
    env.restore(snapshot)
    env.__dict__.update(drawn)
    return env
