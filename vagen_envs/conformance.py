"""A test suite for environments of this contract, ours or yours.

>>> from vagen_envs.conformance import check
>>> check("vagen/Sokoban-v0")

It raises `ConformanceError` and never uses `assert`, so it means the same under `python -O`.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import os
import pickle
import random
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env

from vagen_envs.core import Turn, VagenEnv
from vagen_envs.errors import ConfigError, ConformanceError, EpisodeOverError, RecordError, SnapshotError
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
    factory: Factory = (lambda: gym.make(make, **options)) if isinstance(make, str) else make
    for run in CHECKS:
        try:
            run(factory, seeds)
        except ConformanceError as error:
            raise ConformanceError(f"{run.__name__}: {error}") from error
        except Exception as error:
            raise ConformanceError(f"{run.__name__}: {type(error).__name__}: {error}") from error


def is_a_vagen_environment(factory: Factory, seeds: Sequence[int]) -> None:
    """The class, the action space, the system prompt, and an example that its own strict parser accepts."""
    with _made(factory) as env:
        _require(isinstance(env, VagenEnv), f"{type(env).__name__} is not a VagenEnv")
        _require(isinstance(env.action_space, UnicodeText), f"the action space is {env.action_space}")
        _require(bool(env.system_prompt.strip()), "the system prompt is empty")
        parsed = env.grammar.parse(env.prompts.example)
        _require(parsed.format_correct, f"the prompt's example has problems: {parsed.problems}")


def passes_gymnasiums_check(factory: Factory, seeds: Sequence[int]) -> None:
    """`gymnasium.utils.env_checker.check_env`."""
    with _made(factory) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env, skip_render_check=True)


def observations_stay_in_their_space(factory: Factory, seeds: Sequence[int]) -> None:
    """Each observation is in the space, and is never changed afterwards."""
    with _made(factory) as env:
        for seed in seeds[:2]:
            kept: list[tuple[Any, Any]] = []
            for observation, _ in _play(env, seed, _oracle):
                _require(observation in env.observation_space, f"seed {seed}: observation outside the space")
                kept.append((observation, {k: np.copy(v) for k, v in observation.items()}))
            for observation, copied in kept:
                same = all(np.array_equal(observation[key], copied[key]) for key in copied)
                _require(same, f"seed {seed}: an observation changed after it was handed out")


def levels_follow_from_seeds(factory: Factory, seeds: Sequence[int]) -> None:
    """The same seed and replies give the same turns in another instance and after other episodes."""
    with _made(factory) as one, _made(factory) as other:
        first = {seed: _record(one, seed) for seed in seeds[:3]}
        for seed in reversed(seeds[:3]):
            _require(_record(other, seed) == first[seed], f"seed {seed} plays differently in another instance")
        again = seeds[0]
        _require(_record(one, again) == first[again], f"seed {again} plays differently after other episodes")
        same = len(first) > 1 and len({json.dumps(record[0]) for record in first.values()}) == 1
        _require(not same, "all seeds give the same level")


def unseeded_resets_continue_the_stream(factory: Factory, seeds: Sequence[int]) -> None:
    """`reset()` gives a new level, the same ones after the same first seed."""

    def stream(env: VagenEnv) -> list[Any]:
        env.reset(seed=seeds[0])
        return [env.reset()[1]["level"] for _ in range(3)]

    with _made(factory) as one, _made(factory) as other:
        levels = stream(one)
        _require(levels == stream(other), "reset() without a seed does not follow from the seed before")
        _require(len({level["seed"] for level in levels}) > 1, "reset() without a seed repeats one level")


def global_generators_are_left_alone(factory: Factory, seeds: Sequence[int]) -> None:
    """Neither `random` nor `numpy.random` is drawn from or seeded."""
    with np.printoptions(threshold=10_000):
        # Moved from wherever an earlier check left them: seeding with the same seed again would change nothing.
        random.random(), np.random.random()  # noqa: NPY002, S311
        before = random.getstate(), repr(np.random.get_state(legacy=False))  # noqa: NPY002
        with _made(factory) as env:
            for _ in _play(env, seeds[0], _oracle):
                pass
        after = random.getstate(), repr(np.random.get_state(legacy=False))  # noqa: NPY002
    _require(before[0] == after[0], "the global generator of `random` was used or seeded")
    _require(before[1] == after[1], "the global generator of `numpy.random` was used or seeded")


def only_changes_are_effective(factory: Factory, seeds: Sequence[int]) -> None:
    """An action that leaves the state as it was isn't reported as effective."""
    with _made(factory) as env:
        for seed in seeds:
            env.reset(seed=seed)
            stream = HashStream("conformance", seed)
            for _ in range(env.config.max_turns):
                actions = list(env.random_actions(stream, 1))
                words = dict.fromkeys(("observation", "reasoning", "prediction", "think"), "I act.")
                turn = _step(env, env.grammar.render(actions, **words))
                effective = [executed.text for executed in turn.executed if executed.effective]
                same = len(turn.executed) == 1 and turn.before == turn.after
                _require(not (same and effective), f"seed {seed}: {effective} changed nothing and is called effective")
                if turn.terminated or turn.truncated:
                    break


def rewards_are_numbers(factory: Factory, seeds: Sequence[int]) -> None:
    """Every term of a reward is finite."""
    with _made(factory) as env:
        env.reset(seed=seeds[0])
        turn = env.step(env.oracle_reply())[4]["turn"]
        wrong = {term.name: term.value for term in turn.rewards if not np.isfinite(term.value)}
        _require(not wrong, f"reward terms are not finite numbers: {wrong}")


def the_oracle_succeeds(factory: Factory, seeds: Sequence[int]) -> None:
    """The oracle's replies are well formed, its predictions come true, and it solves each level."""
    with _made(factory) as env:
        for seed in seeds:
            env.reset(seed=seed)
            for _ in range(env.config.max_turns):
                actions = list(env.plan())[: env.config.max_actions_per_turn]
                expected = env.imagine(actions)
                turn = _step(env, env.oracle_reply())
                _require(turn.parsed.format_correct, f"seed {seed}: the oracle's reply has {turn.parsed.problems}")
                _require(turn.after == expected, f"seed {seed}: imagined {expected}, but then it was {turn.after}")
                if turn.terminated or turn.truncated:
                    break
            _require(turn.success, f"seed {seed}: the oracle did not solve the level in {turn.index + 1} turns")
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
            _require("format" not in {term.name for term in turn.rewards}, f"{shown} earned the format reward")
            _round_trip(turn)


def turns_survive_json_and_pickle(factory: Factory, seeds: Sequence[int]) -> None:
    """`Turn.from_json(turn.to_json())` and pickling give the turn back; the reward is the sum of its terms."""
    with _made(factory) as env:
        for _, turn in _play(env, seeds[0], _oracle):
            if turn is not None:
                _round_trip(turn)
                _require(pickle.loads(pickle.dumps(turn)) == turn, "pickling changes the turn")  # noqa: S301
                _require(np.isfinite(turn.reward), f"the reward is {turn.reward}")


def episodes_end_once(factory: Factory, seeds: Sequence[int]) -> None:
    """The turn budget truncates (if of several turns); nothing is both terminated and truncated; no step follows."""
    with _made(factory) as env:
        turns = [turn for _, turn in _play(env, seeds[0], lambda _: "nothing") if turn is not None]
        _require(len(turns) == env.config.max_turns, f"{len(turns)} idle turns, not max_turns={env.config.max_turns}")
        if env.config.max_turns > 1:  # where a reply is all there is, a poor one is lost for good
            _require(turns[-1].truncated and not turns[-1].terminated, "the spent budget did not truncate")
        _require(not any(turn.metrics["action_is_effective"] for turn in turns), "an idle turn was effective")
        asks = env.grammar.template() in turns[-1].result.text
        _require(not asks, "the last observation asks for another reply")
        try:
            env.step("one more")
        except EpisodeOverError:
            return
        raise ConformanceError("step after the end did not raise EpisodeOverError")


def a_snapshot_brings_the_moment_back(factory: Factory, seeds: Sequence[int]) -> None:
    """`restore(snapshot())` gives the same turns, pictures and next levels: here, elsewhere, in a copy, in a pickle."""
    with _made(factory) as env, _made(factory) as other:
        for turns, seed in enumerate(seeds[:2]):
            env.reset(seed=seeds[0])
            env.reset(options={"split": SPLITS[turns]})  # so its stream has moved
            if env.config.max_turns > 1:
                _step(env, "nothing" if turns else env.oracle_reply())
            snapshot, seen = env.snapshot(), env.observed
            after = _follows(env)
            other.reset(seed=seed + 1)
            for one, where in ((env, "here"), (other, "in another instance")):
                one.restore(snapshot)
                _require(one.observed == seen, f"seed {seed}: restored {where}, another observation is shown")
                _require(one.snapshot() == snapshot, f"seed {seed}: restored {where}, its snapshot is another")
                _require(_follows(one) == after, f"seed {seed}: restored {where}, what follows is different")
        env.restore(snapshot)
        with contextlib.closing(pickle.loads(pickle.dumps(env))) as copied:  # noqa: S301
            _require(_follows(copied) == after, "what follows is different in a pickle")
        with contextlib.closing(copy.deepcopy(env)) as copied:
            _require(copied.snapshot() == snapshot, "a deep copy's snapshot is another")


def foreign_snapshots_are_refused(factory: Factory, seeds: Sequence[int]) -> None:
    """Bytes that aren't this environment's raise SnapshotError, and the environment can be reset."""
    with _made(factory) as env:
        env.reset(seed=seeds[0])
        good = env.snapshot()
        head, body = good.split(b"\n", 1)
        foreign = {
            "nothing": b"",
            "a pickle": pickle.dumps({"level": 1}),
            "half a snapshot": good[: len(good) // 2],
            "a changed byte": good[:-20] + bytes([good[-20] ^ 1]) + good[-19:],
            "another environment's": good.replace(env.id.encode(), b"some/Other-v0", 1),
            "another configuration's": good.replace(head.split()[3], b"0" * 32, 1),
            "another form": good.replace(b" 1 ", b" 999 ", 1),
        }
        # A forged snapshot can have a valid checksum.
        words = head.rsplit(b" ", 1)[0]
        for text in (
            b"{}",
            b"[]",
            b"[" * 100_000,
            b"[1,null,[]]",
            b"1" * 10_000,
            body[:-9],
        ):
            foreign[f"the body {text[:20]!a}"] = b"%b %08x\n%b" % (words, zlib.crc32(text), text)
        for what, snapshot in foreign.items():
            try:
                env.restore(snapshot)
            except SnapshotError:
                env.reset(seed=seeds[0])
                continue
            raise ConformanceError(f"{what} was taken for a snapshot")
        _require(env.snapshot() == good, "refused snapshots left something behind")


def splits_share_no_level(factory: Factory, seeds: Sequence[int]) -> None:
    """Levels of different splits have different content, and `reset(options={"split": …})` chooses one."""
    contents: dict[str, set[str]] = {}
    with _made(factory) as env:
        for split in SPLITS:
            drawn = [env.reset(seed=seed, options={"split": split})[1]["level"] for seed in seeds]
            _require(all(level["split"] == split for level in drawn), f"asked for {split}, got {drawn}")
            contents[split] = {level["content"] for level in drawn}
    for i, split in enumerate(SPLITS):
        for other in SPLITS[i + 1 :]:
            shared = contents[split] & contents[other]
            _require(not shared, f"{split} and {other} share {sorted(shared)}")


def closing_ends_nobody_else(factory: Factory, seeds: Sequence[int]) -> None:
    """Pictures, a window and `close()` in any order leave other environments and later ones as they were.

    A window is opened where pygame is installed; without a screen, on SDL's `offscreen` driver, which like a
    real one comes and goes with its own graphics context.
    """
    with _made(factory) as env, _made(factory) as shown:
        before = _first_picture(env, seeds[0])
        shown.reset(seed=seeds[0])
        with _screen(shown):
            if shown.render_mode is not None:
                shown.render()
            shown.close()
            shown.close()
            for other, when in ((env, "made before"), (factory().unwrapped, "made after")):
                with contextlib.closing(other):
                    same = _first_picture(other, seeds[0]) == before
                    _require(same, f"an environment {when} another one was shown and closed draws something else")


CHECKS: tuple[Callable[[Factory, Sequence[int]], None], ...] = (
    is_a_vagen_environment,
    rewards_are_numbers,  # before those that compare rewards, which NaN is never equal to
    passes_gymnasiums_check,
    observations_stay_in_their_space,
    levels_follow_from_seeds,
    unseeded_resets_continue_the_stream,
    global_generators_are_left_alone,
    only_changes_are_effective,
    the_oracle_succeeds,
    hostile_replies_are_survived,
    turns_survive_json_and_pickle,
    episodes_end_once,
    splits_share_no_level,
    a_snapshot_brings_the_moment_back,
    foreign_snapshots_are_refused,
    closing_ends_nobody_else,
)


def _made(factory: Factory) -> contextlib.closing[Any]:
    """A fresh environment without wrappers, closed at the end."""
    return contextlib.closing(factory().unwrapped)


def _require(condition: object, seen: str) -> None:
    if not condition:
        raise ConformanceError(seen)


def _oracle(env: VagenEnv) -> str:
    return env.oracle_reply()


def _step(env: VagenEnv, reply: str) -> Turn:
    _, reward, terminated, truncated, info = env.step(reply)
    turn: Turn = info["turn"]
    _require(reward == turn.reward, f"the reward is {reward}, the turn's terms add up to {turn.reward}")
    _require((terminated, truncated) == (turn.terminated, turn.truncated), "step and turn disagree about the end")
    _require(not (terminated and truncated), "terminated and truncated at once")
    return turn


def _play(env: VagenEnv, seed: int, agent: Callable[[VagenEnv], str]) -> Iterable[tuple[Any, Turn | None]]:
    """The observations of an episode, each with the turn that led to it."""
    observation, _ = env.reset(seed=seed)
    yield observation, None
    for _ in range(env.config.max_turns):
        observation, _, terminated, truncated, info = env.step(agent(env))
        yield observation, info["turn"]
        if terminated or truncated:
            return
    raise ConformanceError(f"seed {seed}: the episode goes on after max_turns={env.config.max_turns} turns")


@contextlib.contextmanager
def _screen(env: Any) -> Iterator[None]:
    """Have the environment show a window, where that can be; one made for text alone may have nothing to draw with."""
    can = "human" in env.metadata.get("render_modes", ()) and importlib.util.find_spec("pygame") is not None
    if not can or "image" not in env.observation_space.spaces:
        yield
        return
    bare = not any(name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"))
    if bare:
        os.environ["SDL_VIDEODRIVER"] = "offscreen"
    env.render_mode = "human"
    try:
        yield
    finally:
        if bare:
            del os.environ["SDL_VIDEODRIVER"]


def _first_picture(env: Any, seed: int) -> str:
    return _bytes(env.reset(seed=seed)[0])


def _follows(env: VagenEnv) -> list[Any]:
    """All that is to be seen from here: the rest of the episode, and the levels and pictures after it."""
    seen: list[Any] = []
    while env._running:
        seen.append(_step(env, env.oracle_reply()).to_json())
    for _ in range(2):
        observation, info = env.reset()
        seen.append([info["level"], observation["text"], _bytes(observation)])
    return seen


def _record(env: VagenEnv, seed: int) -> list[Any]:
    """All that is to be seen of an episode, as JSON."""
    return [
        turn.to_json() if turn else [observation["text"], env.level["content"], _bytes(observation)]
        for observation, turn in _play(env, seed, _oracle)
    ]


def _bytes(observation: Any) -> str:
    image = observation.get("image")
    return "" if image is None else image.tobytes().hex()


def _round_trip(turn: Turn) -> None:
    data = json.loads(json.dumps(turn.to_json()))
    pictures = {picture.sha256: picture for picture in turn.pictures}
    try:
        back = Turn.from_json(data, pictures)
    except RecordError as error:
        raise ConformanceError(f"the turn's JSON can't be read back: {error}") from error
    _require(back == turn, "the turn's JSON gives another turn back")
