"""States that an environment is in: what a claim's worth is measured on.

A reference is drawn from levels of the train split, played by the oracle, at random, and by a mixture of both, a third
of the episodes each; where it matters what was done (`register_done`) also from play that doesn't look, the same reply
in every turn of an episode. It is a pure function of the environment's configuration, and stands in a file named by the
configuration's hash. Those of the default configurations come with the package (`scripts/draw_references.py` draws
them). Any other is played at its first use, which takes seconds on boards and minutes in simulators, and is kept in
`$VAGEN_CACHE`, by default `~/.cache/vagen-envs`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import inspect
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import gymnasium as gym

from vagen_envs.config import EnvConfig
from vagen_envs.core import State, VagenEnv
from vagen_envs.registration import declared
from vagen_envs.seeding import content_hash
from vagen_rewards.errors import JudgeConfigError
from vagen_rewards.worth.playing import BLIND, Transition, blind_turns, episode
from vagen_rewards.worth.told import knows_done, told_of

Stage = Literal["reset", "play"]
STAGES: tuple[Stage, ...] = ("reset", "play")
"""The first turn of an episode, and those after it: what is common differs between them."""

SIZE = 512
"""Transitions of each stage. The rarest share that can be told is one in twice as many, 6.9 nats."""

VERSION = 2
"""Of the way that references are drawn."""

SHIPPED = Path(__file__).parent / "references"
"""Files that come with the package."""

SHIPPED_IDS = (
    "vagen/Sokoban-v0",
    "vagen/FrozenLake-v0",
    "vagen/Navigation-v0",
    "vagen/SVGReconstruction-v0",
    *(f"vagen/PrimitiveSkill{task}-v0" for task in ("Place", "Stack", "Drawer", "Align")),
)
"""Environments whose default configurations have one."""

_NEUTRAL = {"observation": "text", "strategy": "no_think"}
"""No picture is drawn, and nothing is said."""

_SAID = {"positions_in_text": True}
"""Options on which only what is said depends, and the value under which states are kept."""

_COUNTS = ("max_actions_per_turn", "max_turns", "max_steps")
"""Of the options that all environments share, those on which states depend."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """What an environment's states are like.

    Attributes:
        env_id: as the environment is made.
        options: all of its configuration.
        reset, play: transitions of first turns, and of later ones.
        blind: of later turns of play that doesn't look.
    """

    env_id: str
    options: Mapping[str, Any]
    reset: tuple[Transition, ...]
    play: tuple[Transition, ...]
    blind: tuple[Transition, ...] = ()

    def told(
        self, stage: Stage | Literal["blind"], here: State
    ) -> tuple[Hashable, Callable[[], tuple[Transition, ...]]]:
        """What was told of a state as a key, and the stage's transitions as they are where the same was told."""
        told = told_of(here.kind)
        every: tuple[Transition, ...] = getattr(self, stage)
        if told is None:
            return None, lambda: every
        fit = told.fit

        def fitted() -> tuple[Transition, ...]:
            fits = [(fit(each.before, here), fit(each.after, here), each.done) for each in every]
            return tuple([Transition(before, after, done) for before, after, done in fits if before and after])

        return told.key(here), fitted

    def to_json(self) -> dict[str, Any]:
        """Each state once; transitions by their numbers."""
        numbers: dict[str, int] = {}

        def number(state: State) -> int:
            return numbers.setdefault(json.dumps(state.to_json(), sort_keys=True), len(numbers))

        stages: dict[str, Any] = {
            stage: [
                [number(before), number(after)] if done is None else [number(before), number(after), done]
                for before, after, done in getattr(self, stage)
            ]
            for stage in (*STAGES, "blind")
        }
        states = [json.loads(text) for text in numbers]
        return {"version": VERSION, "env_id": self.env_id, "options": dict(self.options), "states": states, **stages}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reference:
        """Read back what `to_json` gave."""
        states = [State.from_json(each) for each in data["states"]]
        stages = [
            tuple([Transition(states[before], states[after], *done) for before, after, *done in data.get(stage, ())])
            for stage in (*STAGES, "blind")
        ]
        return cls(data["env_id"], data["options"], *stages)


def reference_of(env_id: str, options: Mapping[str, Any] | None = None, size: int = SIZE) -> Reference:
    """The reference of an environment's configuration, from its file if there is one.

    Args:
        env_id: of the environment.
        options: for `gym.make`.
        size: transitions of each stage at most.

    Raises:
        JudgeConfigError: no episode could be played.
    """
    made = gym.make(env_id, **{**(options or {}), **_NEUTRAL})
    try:
        return reference_for(configuration_of(made), size)
    finally:
        made.close()


def representation_of(env_id: str, options: Mapping[str, Any]) -> str:
    """The form of the truth's own words in an environment of these options."""
    if "representation" in options:
        return str(options["representation"])
    made = gym.make(env_id, **{**options, **_NEUTRAL})
    try:
        return str(cast(VagenEnv, made.unwrapped).config.representation)
    finally:
        made.close()


def configuration_of(env: gym.Env[Any, Any]) -> tuple[str, str]:
    """The id of an environment and, as JSON, the options on which its states depend."""
    core = cast(VagenEnv, env.unwrapped)
    shared = {field.name for field in dataclasses.fields(EnvConfig)} - {*_COUNTS}
    options = {name: value for name, value in dataclasses.asdict(core.config).items() if name not in shared}
    counts = {name: getattr(core.config, name) for name in _COUNTS}
    text = json.dumps({**options, **counts, **_NEUTRAL}, sort_keys=True)
    return env.spec.id if env.spec is not None else core.id, text


def name_of(env_id: str, options: str) -> str:
    """The name of a reference's file: a hash of the options on which states depend."""
    every = json.loads(options)
    options = json.dumps({name: _SAID.get(name, value) for name, value in every.items()}, sort_keys=True)
    code = _code_of(env_id)
    return f"{content_hash(json.dumps([VERSION, env_id, options, *([code] if code else [])]).encode())}.json.gz"


def _code_of(env_id: str) -> str:
    """A hash of the modules that an environment of one's own comes from: when they change, so may its states."""
    made: Any = None
    with contextlib.suppress(gym.error.Error, ImportError):
        made = declared(env_id)[1]
    modules = {each.__module__ for each in getattr(made, "__mro__", (made,)) if made is not None}
    texts = []
    for name in sorted(each for each in modules if each.partition(".")[0] not in _NOT_ITS_OWN):
        with contextlib.suppress(OSError, TypeError):  # typed into a console
            texts.append(inspect.getsource(sys.modules[name]))
    return content_hash("".join(texts).encode()) if texts else ""


_NOT_ITS_OWN = {"vagen_envs", "gymnasium", "abc", "typing", "builtins"}


def reference_for(configuration: tuple[str, str], size: int = SIZE) -> Reference:
    """The reference of what `configuration_of` gave."""
    return _reference(*configuration, size)


@functools.lru_cache(maxsize=16)
def _reference(env_id: str, options: str, size: int) -> Reference:
    file = name_of(env_id, options)
    kept = Path(os.environ.get("VAGEN_CACHE") or Path.home() / ".cache" / "vagen-envs") / file
    for path in (SHIPPED / file, kept):
        try:
            data = json.loads(gzip.decompress(path.read_bytes()))
            if data["size"] >= size and data["env_id"] == env_id:
                known = _first(Reference.from_json({**data, "options": json.loads(options)}), size)
                if "blind" in data or not knows_done(known.reset[0].before.kind):
                    return known
        except (OSError, ValueError, KeyError, EOFError, zlib.error, TypeError, AttributeError, IndexError):
            pass  # not there, cut short or something else: drawn anew, as is one from before there was blind play
    reference = draw(env_id, json.loads(options), size)
    write(reference, kept, size)
    return reference


def _first(reference: Reference, size: int) -> Reference:
    """The same with fewer turns: what fewer would have been drawn is what more begins with."""
    return dataclasses.replace(
        reference, reset=reference.reset[:size], play=reference.play[:size], blind=reference.blind[: BLIND * size]
    )


def write(reference: Reference, path: Path, size: int) -> None:
    """Write a reference in one go. A folder that can't be written to costs the file, not the reference.

    Args:
        reference: which.
        path: of the file.
        size: that was asked for; episodes of one turn have no later ones.
    """
    text = json.dumps({**reference.to_json(), "size": size}, separators=(",", ":"))
    data = gzip.compress(text.encode(), mtime=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as half:
            half.write(data)
        Path(half.name).replace(path)
    except OSError:
        return


def draw(
    env_id: str,
    options: Mapping[str, Any],
    size: int,
    first_seed: int = 0,
    always: str = "",
    blind: bool = True,
) -> Reference:
    """Play until both stages have `size` transitions; where episodes have one turn only, until the first has.

    Args:
        env_id: of the environment.
        options: for `gym.make`.
        size: transitions of each stage.
        first_seed: of the levels.
        always: an action for every turn, or several with the environment's separator; else the mixture of references.
        blind: whether play that doesn't look is drawn as well, where it matters.

    Raises:
        JudgeConfigError: no episode could be played.
    """
    made = gym.make(env_id, **_without_a_model(options))
    env = cast(VagenEnv, made.unwrapped)
    found: dict[Stage, list[Transition]] = {"reset": [], "play": []}
    try:
        for seed in range(first_seed, first_seed + 4 * size):
            if len(found["reset"]) >= size and (len(found["play"]) >= size or env.config.max_turns == 1):
                break
            for number, transition in enumerate(episode(env, seed, always)):
                found[STAGES[min(number, 1)]].append(transition)
                if len(found["play"]) >= size:
                    break  # of later turns there are enough: most of a simulator's time went into more of them
        if not found["reset"]:
            raise JudgeConfigError(f"no episode of {env_id} could be played, so nothing is known of its states")
        kind = found["reset"][0].before.kind
        wanted = blind and not always and knows_done(kind)
        unlooking = blind_turns(env, kind, size, first_seed) if wanted else ()
    finally:
        made.close()
    return Reference(env_id, options, tuple(found["reset"][:size]), tuple(found["play"][:size]), unlooking)


def _without_a_model(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """SVG with the scorer that needs no weights: the same turns, wherever they are drawn, in a fortieth of the time.

    An episode ends where two pictures are the same, which every scorer says of the same ones. Where it ends at a score
    of yours, the scorer stays.
    """
    if "scorer" not in options or options.get("success_score") is not None:
        return options
    return {**options, "scorer": "classical", "scorer_weights": "", "scorer_address": ""}
