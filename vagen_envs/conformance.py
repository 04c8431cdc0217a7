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
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env

from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import ConfigError, ConformanceError, EnvClosedError
from vagen_envs.registration import spec_of
from vagen_envs.seeding import SPLITS, HashStream
from vagen_envs.spaces import MAX_TEXT_LENGTH, UnicodeText

Factory = Callable[[], gym.Env[Any, Any]]

HOSTILE_REPLIES: tuple[str, ...] = (
    "",
    " \n\t ",
    "\0",
    "\ud800 lone surrogate \udfff",
    "no tags at all",
    "<answer>",
    "</answer><answer>",
    "<think>" * 2_000,
    "<answer></answer>" * 500,
    "<answer>" + "Nonsense," * 1_500 + "</answer>",
    "<think></think><answer><image></answer>",
    "<answer>\U0001f600\u202e\u0000</answer>",
    "x" * (MAX_TEXT_LENGTH + 1),
    "<answer>" + "x" * 1_000_000,
    "%s {0} ${view} $(reboot) \\1 <!ENTITY a 'b'>",
)
"""Replies that no agent should write and every environment must survive."""


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
    factory: Factory = (
        (lambda: gym.make(spec_of(make), **options)) if isinstance(make, str) else make
    )
    for run in CHECKS:
        try:
            run(factory, seeds)
        except Exception as error:
            cause = (
                error if isinstance(error, ConformanceError) else f"{type(error).__name__}: {error}"
            )
            raise ConformanceError(f"{run.__name__}: {cause}") from error


def is_a_vagen_environment(factory: Factory, seeds: Sequence[int]) -> None:
    """The class, the action space, the system prompt, and an example that its own strict parser
    accepts.
    """
    with _made(factory) as env:
        _require(isinstance(env, VagenEnv), f"{type(env).__name__} is not a VagenEnv")
        _require(
            isinstance(env.action_space, UnicodeText), f"the action space is {env.action_space}"
        )
        _require(bool(env.system_prompt.strip()), "the system prompt is empty")
        parsed = env.grammar.parse(env.prompts.example)
        _require(parsed.format_correct, f"the prompt's example has problems: {parsed.problems}")


def passes_gymnasiums_check(factory: Factory, seeds: Sequence[int]) -> None:
    """`gymnasium.utils.env_checker.check_env`."""
    with _made(factory) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env, skip_render_check=True)


def levels_follow_from_seeds(factory: Factory, seeds: Sequence[int]) -> None:
    """The same seed and replies give the same turns in another instance and after other
    episodes.
    """
    with _made(factory) as one, _made(factory) as other:
        first = {seed: _episode(one, seed) for seed in seeds[:3]}
        for seed in reversed(seeds[:3]):
            _require(
                _episode(other, seed) == first[seed],
                f"seed {seed} plays differently in another instance",
            )
        again = seeds[0]
        _require(
            _episode(one, again) == first[again],
            f"seed {again} plays differently after other episodes",
        )
        same = len(first) > 1 and len({json.dumps(record[0]) for record in first.values()}) == 1
        _require(not same, "all seeds give the same level")


def global_generators_are_left_alone(factory: Factory, seeds: Sequence[int]) -> None:
    """Neither `random` nor `numpy.random` is drawn from or seeded."""
    # Moved from wherever an earlier check left them: seeding with the same seed again would change
    # nothing.
    random.random(), np.random.random()  # noqa: NPY002, S311
    before = random.getstate(), pickle.dumps(np.random.get_state())  # noqa: NPY002
    with _made(factory) as env:
        _episode(env, seeds[0])
    _require(before[0] == random.getstate(), "the global generator of `random` was used or seeded")
    same = before[1] == pickle.dumps(np.random.get_state())  # noqa: NPY002
    _require(same, "the global generator of `numpy.random` was used or seeded")


def only_changes_are_effective(factory: Factory, seeds: Sequence[int]) -> None:
    """An action that leaves the state as it was isn't reported as effective."""
    with _made(factory) as env:
        for seed in seeds:
            env.reset(seed=seed)
            stream = HashStream("conformance", seed)
            while env._running:
                actions = list(env.random_actions(stream, 1))
                words = dict.fromkeys(("observation", "reasoning", "prediction", "think"), "I act.")
                turn = _step(env, env.grammar.render(actions, **words))
                effective = [executed.text for executed in turn.executed if executed.effective]
                same = len(turn.executed) == 1 and turn.before == turn.after
                _require(
                    not (same and effective),
                    f"seed {seed}: {effective} changed nothing and is called effective",
                )


def the_oracle_succeeds(factory: Factory, seeds: Sequence[int]) -> None:
    """The oracle's replies are well formed, its predictions come true, and it solves each level."""
    with _made(factory) as env:
        for seed in seeds:
            env.reset(seed=seed)
            while env._running:
                actions = list(env.plan())[: env.config.max_actions_per_turn]
                expected = env.imagine(actions)
                turn = _step(env, env.oracle_reply())
                _require(
                    turn.parsed.format_correct,
                    f"seed {seed}: the oracle's reply has {turn.parsed.problems}",
                )
                _require(
                    turn.after == expected,
                    f"seed {seed}: imagined {expected}, but then it was {turn.after}",
                )
            _require(
                turn.success,
                f"seed {seed}: the oracle did not solve the level in {turn.index + 1} turns",
            )
            _require(turn.terminated, f"seed {seed}: solved, but not terminated")


def hostile_replies_are_survived(factory: Factory, seeds: Sequence[int]) -> None:
    """Any string is a turn with its problems recorded."""
    with _made(factory) as env:
        for reply in HOSTILE_REPLIES:
            env.reset(seed=seeds[0])
            turn = _step(env, reply)
            shown = ascii(reply[:30])
            _require(turn.index == 0, f"{shown} was not counted as a turn")
            _require(bool(turn.parsed.problems), f"{shown} has no problem recorded")
            _require(
                "format" not in {term.name for term in turn.rewards},
                f"{shown} earned the format reward",
            )


def a_snapshot_brings_the_moment_back(factory: Factory, seeds: Sequence[int]) -> None:
    """`restore(snapshot())` gives the same turns, pictures and next levels: here, elsewhere, in a
    copy, in a pickle.
    """
    with _made(factory) as env, _made(factory) as other:
        for turns, seed in enumerate(seeds[:2]):
            env.reset(seed=seeds[0])
            env.reset(options={"split": SPLITS[turns]})  # so its stream has moved
            if env.config.max_turns > 1:
                _step(env, "nothing" if turns else env.oracle_reply())
            snapshot = env.snapshot()
            seen = env.observed
            after = _follows(env)
            other.reset(seed=seed + 1)
            for one, where in ((env, "here"), (other, "in another instance")):
                one.restore(snapshot)
                _require(
                    one.observed == seen,
                    f"seed {seed}: restored {where}, another observation is shown",
                )
                _require(
                    one.snapshot() == snapshot,
                    f"seed {seed}: restored {where}, its snapshot is another",
                )
                _require(
                    _follows(one) == after,
                    f"seed {seed}: restored {where}, what follows is different",
                )
        env.restore(snapshot)
        with contextlib.closing(pickle.loads(pickle.dumps(env))) as copied:  # noqa: S301
            _require(_follows(copied) == after, "what follows is different in a pickle")
        with contextlib.closing(copy.deepcopy(env)) as copied:
            _require(copied.snapshot() == snapshot, "a deep copy's snapshot is another")


def splits_share_no_level(factory: Factory, seeds: Sequence[int]) -> None:
    """Levels of different splits have different content, and `reset(options={"split": …})` chooses
    one.
    """
    contents: dict[str, set[str]] = {}
    with _made(factory) as env:
        for split in SPLITS:
            drawn = [env.reset(seed=seed, options={"split": split})[1]["level"] for seed in seeds]
            _require(
                all(level["split"] == split for level in drawn), f"asked for {split}, got {drawn}"
            )
            contents[split] = {level["content"] for level in drawn}
    for split, other in itertools.combinations(SPLITS, 2):
        shared = contents[split] & contents[other]
        _require(not shared, f"{split} and {other} share {sorted(shared)}")


def a_named_split_holds(factory: Factory, seeds: Sequence[int]) -> None:
    """Resets without options, as vector environments make them, draw from the split that was named
    last.
    """
    with _made(factory) as env:
        for split in SPLITS:
            env.reset(seed=seeds[0], options={"split": split})
            for _ in range(2):
                level = env.reset()[1]["level"]
                _require(level["split"] == split, f"{split} was named, and then came {level}")


def nothing_is_played_after_close(factory: Factory, seeds: Sequence[int]) -> None:
    """`reset` and `step` raise EnvClosedError after `close`, which may be called twice."""
    with _made(factory) as env:
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


def _made(factory: Factory) -> contextlib.closing[Any]:
    """A fresh environment without wrappers, closed at the end."""
    return contextlib.closing(factory().unwrapped)


def _require(condition: object, seen: str) -> None:
    if not condition:
        raise ConformanceError(seen)


def _step(env: VagenEnv, reply: str) -> Turn:
    """One turn, with all that must hold of any."""
    observation, reward, terminated, truncated, info = env.step(reply)
    turn: Turn = info["turn"]
    most = env.config.max_turns
    _require(turn.index < most, f"the episode goes on after max_turns={most} turns")
    wrong = {term.name: term.value for term in turn.rewards if not np.isfinite(term.value)}
    _require(not wrong, f"reward terms are not finite numbers: {wrong}")
    _require(
        reward == turn.reward, f"the reward is {reward}, the turn's terms add up to {turn.reward}"
    )
    _require(
        (terminated, truncated) == (turn.terminated, turn.truncated),
        "step and turn disagree about the end",
    )
    _require(not (terminated and truncated), "terminated and truncated at once")
    _require(
        env.observation_space.contains(observation),
        "an observation is outside the observation space",
    )
    _require(pickle.loads(pickle.dumps(turn)) == turn, "pickling changes the turn")  # noqa: S301
    data = json.loads(json.dumps(turn.to_json()))
    back = Turn.from_json(data, {picture.sha256: picture for picture in turn.pictures})
    _require(back == turn, "the turn's JSON gives another turn back")
    return turn


def _episode(env: VagenEnv, seed: int) -> list[Any]:
    """All that is to be seen of the oracle's episode, as JSON."""
    env.reset(seed=seed)
    return [[env.level["content"], env.observed.to_json()], *_rest(env)]


def _rest(env: VagenEnv) -> list[Any]:
    """The oracle's turns to the end of the episode, as JSON."""
    turns = []
    while env._running:
        turns.append(_step(env, env.oracle_reply()).to_json())
    return turns


def _follows(env: VagenEnv) -> list[Any]:
    """All that is to be seen from here: the rest of the episode, and the levels and pictures after
    it.
    """
    seen = _rest(env)
    for _ in range(2):
        env.reset()
        seen.append([env.level, env.observed.to_json()])
    return seen
