"""A test suite for environments of this contract, ours or yours.

>>> from vagen_envs.conformance import check
>>> check("vagen/Sokoban-v0")

It raises `ConformanceError` and never uses `assert`, so its own checks mean the same under `python
-O`.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import pickle
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env

from vagen_envs.conformance_turns import (
    HOSTILE_REPLIES,
    Factory,
    checked_step,
    made,
    oracle_episode,
    require,
    what_follows,
)
from vagen_envs.core import VagenEnv
from vagen_envs.errors import ConfigError, ConformanceError, EnvClosedError
from vagen_envs.registration import spec_of
from vagen_envs.seeding import SPLITS, HashStream
from vagen_envs.spaces import UnicodeText


def check(make: str | Factory, *, seeds: Sequence[int] = tuple(range(6)), **options: Any) -> None:
    """Run every check on an environment.

    Args:
        make: an id registered with Gymnasium, or a function that makes a fresh environment.
        seeds: the seeds that are played; more find more, and take longer.
        options: for `gym.make`, if `make` is an id.

    Raises:
        ConformanceError: naming the check that failed and what was seen.
        ConfigError: there are no seeds.
    """
    if not seeds:
        raise ConfigError(f"seeds={seeds!r} is not valid: it must have at least one")
    factory = _maker(make, options) if isinstance(make, str) else make
    for run in CHECKS:
        try:
            run(factory, seeds)
        except Exception as error:
            is_named = isinstance(error, ConformanceError)
            cause = str(error) if is_named else f"{type(error).__name__}: {error}"
            raise ConformanceError(f"{run.__name__}: {cause}") from error


def _maker(env_id: str, options: Mapping[str, Any]) -> Factory:
    """Makes an environment of this id; an unknown one is refused when it is made."""

    def make() -> gym.Env[Any, Any]:
        return gym.make(spec_of(env_id), **options)

    return make


def is_a_vagen_environment(factory: Factory, seeds: Sequence[int]) -> None:
    """The class, the action space, the system prompt, and an example that its own strict parser
    accepts.
    """
    with made(factory) as env:
        require(isinstance(env, VagenEnv), f"{type(env).__name__} is not a VagenEnv")
        require(
            isinstance(env.action_space, UnicodeText), f"the action space is {env.action_space}"
        )
        require(bool(env.system_prompt.strip()), "the system prompt is empty")
        parsed = env.grammar.parse(env.prompts.example)
        require(parsed.format_correct, f"the prompt's example has problems: {parsed.problems}")


def passes_gymnasiums_check(factory: Factory, seeds: Sequence[int]) -> None:
    """`gymnasium.utils.env_checker.check_env`."""
    with made(factory) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env, skip_render_check=True)


def levels_follow_from_seeds(factory: Factory, seeds: Sequence[int]) -> None:
    """The same seed and replies give the same turns in another instance and after other
    episodes.
    """
    with made(factory) as one, made(factory) as other:
        first = {seed: oracle_episode(one, seed) for seed in seeds[:3]}
        for seed in reversed(seeds[:3]):
            require(
                oracle_episode(other, seed) == first[seed],
                f"seed {seed} plays differently in another instance",
            )
        again = seeds[0]
        require(
            oracle_episode(one, again) == first[again],
            f"seed {again} plays differently after other episodes",
        )
        same = len(first) > 1 and len({json.dumps(record[0]) for record in first.values()}) == 1
        require(not same, "all seeds give the same level")


def global_generators_are_left_alone(factory: Factory, seeds: Sequence[int]) -> None:
    """Neither `random` nor `numpy.random` is drawn from or seeded.

    Another thread of the process may draw meanwhile, as a web client does that waits before it
    tries again. An environment that draws does so in each play of the same level, so one of three
    plays that leaves the generators alone clears it.
    """
    for _ in range(3):
        drawn_from = _generators_drawn_from(factory, seeds[0])
        if not drawn_from:
            return
    require(False, f"the global generator of `{drawn_from[0]}` was used or seeded")


def _generators_drawn_from(factory: Factory, seed: int) -> list[str]:
    """The modules whose global generator is another after an episode than before it."""
    # Moved from wherever an earlier check left them: seeding with the same seed again would change
    # nothing.
    random.random()  # noqa: S311
    np.random.random()  # noqa: NPY002
    before = _global_generators()
    with made(factory) as env:
        oracle_episode(env, seed)
    after = _global_generators()
    return [module for module in before if before[module] != after[module]]


def _global_generators() -> dict[str, bytes]:
    return {
        "random": pickle.dumps(random.getstate()),
        "numpy.random": pickle.dumps(np.random.get_state()),  # noqa: NPY002
    }


def only_changes_are_effective(factory: Factory, seeds: Sequence[int]) -> None:
    """An action that leaves the state as it was isn't reported as effective."""
    with made(factory) as env:
        for seed in seeds:
            env.reset(seed=seed)
            stream = HashStream("conformance", seed)
            while env._running:
                actions = list(env.random_actions(stream, 1))
                words = dict.fromkeys(("observation", "reasoning", "prediction", "think"), "I act.")
                turn = checked_step(env, env.grammar.render(actions, **words))
                effective = [executed.text for executed in turn.executed if executed.effective]
                same = len(turn.executed) == 1 and turn.before == turn.after
                require(
                    not (same and effective),
                    f"seed {seed}: {effective} changed nothing and is called effective",
                )


def the_oracle_succeeds(factory: Factory, seeds: Sequence[int]) -> None:
    """The oracle's replies are well formed, its predictions come true, and it solves each level."""
    with made(factory) as env:
        for seed in seeds:
            env.reset(seed=seed)
            while env._running:
                actions = list(env.plan())[: env.config.max_actions_per_turn]
                expected = env.imagine(actions)
                turn = checked_step(env, env.oracle_reply())
                require(
                    turn.parsed.format_correct,
                    f"seed {seed}: the oracle's reply has {turn.parsed.problems}",
                )
                require(
                    turn.after == expected,
                    f"seed {seed}: imagined {expected}, but then it was {turn.after}",
                )
            require(
                turn.success,
                f"seed {seed}: the oracle did not solve the level in {turn.index + 1} turns",
            )
            require(turn.terminated, f"seed {seed}: solved, but not terminated")


def hostile_replies_are_survived(factory: Factory, seeds: Sequence[int]) -> None:
    """Any string is a turn with its problems recorded."""
    with made(factory) as env:
        for reply in HOSTILE_REPLIES:
            env.reset(seed=seeds[0])
            turn = checked_step(env, reply)
            shown = ascii(reply[:30])
            require(turn.index == 0, f"{shown} was not counted as a turn")
            require(bool(turn.parsed.problems), f"{shown} has no problem recorded")
            require(
                "format" not in {term.name for term in turn.rewards},
                f"{shown} earned the format reward",
            )


def a_snapshot_brings_the_moment_back(factory: Factory, seeds: Sequence[int]) -> None:
    """`restore(snapshot())` gives the same turns, pictures and next levels: here, elsewhere, in a
    copy, in a pickle.
    """
    with made(factory) as env, made(factory) as other:
        for turns, seed in enumerate(seeds[:2]):
            env.reset(seed=seeds[0])
            env.reset(options={"split": SPLITS[turns]})  # so its stream has moved
            if env.config.max_turns > 1:
                checked_step(env, "nothing" if turns else env.oracle_reply())
            snapshot = env.snapshot()
            seen = env.observed
            after = what_follows(env)
            other.reset(seed=seed + 1)
            for one, where in ((env, "here"), (other, "in another instance")):
                one.restore(snapshot)
                require(
                    one.observed == seen,
                    f"seed {seed}: restored {where}, another observation is shown",
                )
                require(
                    one.snapshot() == snapshot,
                    f"seed {seed}: restored {where}, its snapshot is another",
                )
                require(
                    what_follows(one) == after,
                    f"seed {seed}: restored {where}, what follows is different",
                )
        env.restore(snapshot)
        with contextlib.closing(pickle.loads(pickle.dumps(env))) as copied:  # noqa: S301
            require(what_follows(copied) == after, "what follows is different in a pickle")
        with contextlib.closing(copy.deepcopy(env)) as copied:
            require(copied.snapshot() == snapshot, "a deep copy's snapshot is another")


def splits_share_no_level(factory: Factory, seeds: Sequence[int]) -> None:
    """Levels of different splits have different content, and `reset(options={"split": …})` chooses
    one.
    """
    contents: dict[str, set[str]] = {}
    with made(factory) as env:
        for split in SPLITS:
            drawn = [env.reset(seed=seed, options={"split": split})[1]["level"] for seed in seeds]
            require(
                all(level["split"] == split for level in drawn), f"asked for {split}, got {drawn}"
            )
            contents[split] = {level["content"] for level in drawn}
    for split, other in itertools.combinations(SPLITS, 2):
        shared = contents[split] & contents[other]
        require(not shared, f"{split} and {other} share {sorted(shared)}")


def a_named_split_holds(factory: Factory, seeds: Sequence[int]) -> None:
    """Resets without options, as vector environments make them, draw from the split that was named
    last.
    """
    with made(factory) as env:
        for split in SPLITS:
            env.reset(seed=seeds[0], options={"split": split})
            for _ in range(2):
                level = env.reset()[1]["level"]
                require(level["split"] == split, f"{split} was named, and then came {level}")


def nothing_is_played_after_close(factory: Factory, seeds: Sequence[int]) -> None:
    """`reset` and `step` raise EnvClosedError after `close`, which may be called twice."""
    with made(factory) as env:
        env.reset(seed=seeds[0])
        env.close()
        for name, move in (("reset", env.reset), ("step", lambda: env.step(""))):
            try:
                move()
            except EnvClosedError:
                continue
            raise ConformanceError(
                f"{name}() works after close(); a close() of your own calls super().close()"
            )


CHECKS: tuple[Callable[[Factory, Sequence[int]], None], ...] = (
    is_a_vagen_environment,
    passes_gymnasiums_check,
    levels_follow_from_seeds,
    global_generators_are_left_alone,
    only_changes_are_effective,
    the_oracle_succeeds,
    hostile_replies_are_survived,
    splits_share_no_level,
    a_named_split_holds,
    nothing_is_played_after_close,
    a_snapshot_brings_the_moment_back,
)
