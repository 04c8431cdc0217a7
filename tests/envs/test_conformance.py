"""The conformance suite passes what is right and names what is wrong."""

from __future__ import annotations

import itertools
import random
import threading

import gymnasium as gym
import numpy as np
import pytest

from vagen_envs import ENV_IDS
from vagen_envs.conformance import check
from vagen_envs.core import Executed, RewardTerm
from vagen_envs.errors import ConfigError, ConformanceError
from vagen_envs.frozen_lake.env import FrozenLakeEnv
from vagen_envs.pictures import Picture


@pytest.mark.parametrize("env_id", ["vagen/Sokoban-v0", "vagen/FrozenLake-v0"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"observation": "text"},
        {"observation": "both", "representation": "symbolic"},
        {"strategy": "free_think", "representation": "structured"},
        {"strategy": "no_think"},
        {"layout": "flat", "parsing": "strict", "reasoning": "required"},
        {"preset": "released"},
    ],
    ids=str,
)
def test_ours_conform(env_id, options):
    check(env_id, **options)


NEEDS = {"Navigation": "mujoco", "PrimitiveSkill": "mani_skill", "SVG": "resvg", "Sample": "scipy"}
"""The libraries of environments with an extra; the first three are simulators."""


def with_marks(env_id):
    """An id with the library that it needs. Physics takes minutes for a check."""
    part = next((part for part in NEEDS if part in env_id), None)
    marks = [pytest.mark.sim] if part in ("Navigation", "PrimitiveSkill", "SVG") else []
    if part == "PrimitiveSkill":
        marks += [pytest.mark.slow, pytest.mark.timeout(3600)]
    else:
        marks.append(pytest.mark.timeout(900))
    return pytest.param(env_id, NEEDS.get(part), marks=marks)


@pytest.mark.parametrize(("env_id", "library"), [with_marks(each) for each in ENV_IDS])
def test_every_id_conforms_with_its_defaults(env_id, library):
    """As README has it called; SVG without DreamSim, whose weights aren't here."""
    if library:
        pytest.importorskip(library)
    check(env_id, **({"scorer": "classical"} if "SVG" in env_id else {}))


class Unseeded(FrozenLakeEnv):
    def _load(self, stream, split):
        super()._load(type(stream)(random.SystemRandom().random()), split)


class UsesGlobalGenerator(FrozenLakeEnv):
    def _load(self, stream, split):
        np.random.random()  # noqa: NPY002
        super()._load(stream, split)


class SeedsGlobalGenerator(FrozenLakeEnv):
    def _load(self, stream, split):
        random.seed(0)
        super()._load(stream, split)


class OneLevel(FrozenLakeEnv):
    def _load(self, stream, split):
        super()._load(type(stream)("always"), "train")


class LeaksSplits(FrozenLakeEnv):
    def _load(self, stream, split):
        super()._load(stream, "train")

    def _content(self):
        return "the same content"


class ReusesItsBuffer(FrozenLakeEnv):
    def _as_dict(self, observation):
        given = super()._as_dict(observation)
        if not hasattr(self, "_buffer"):
            self._buffer = given["image"]
        self._buffer[:] = given["image"]
        return {**given, "image": self._buffer}


class WrongSpace(FrozenLakeEnv):
    def _picture_shape(self):
        height, width, depth = super()._picture_shape()
        return height + 1, width, depth


class RaisesOnNonsense(FrozenLakeEnv):
    def step(self, action):
        action.encode("utf-8")
        return super().step(action)


class LyingOracle(FrozenLakeEnv):
    def imagine(self, actions):
        return self._state


class LostOracle(FrozenLakeEnv):
    def plan(self):
        return ["Up"]


class NotJson(FrozenLakeEnv):
    def _metrics(self):
        return {"picture": Picture(np.zeros((1, 1, 3), np.uint8))}


class InfiniteReward(FrozenLakeEnv):
    def _execute(self, action):
        done = super()._execute(action)
        return Executed(done.text, done.effective, (RewardTerm("step", float("inf")),))


class AllEffective(FrozenLakeEnv):
    def _execute(self, action):
        done = super()._execute(action)
        return Executed(done.text, True, done.rewards, done.feedback)


class NeverEnds(FrozenLakeEnv):
    def step(self, action):
        *kept, _, info = super().step(action)
        self._running = True
        return (*kept, False, info)


class BeginsAnew(FrozenLakeEnv):
    def _restore(self, world):
        super()._restore(world)
        self.simulator.player = self.simulator.lake.start


class ForgetsItsStream(FrozenLakeEnv):
    def restore(self, snapshot):
        before = self._np_random_seed, self._np_random
        super().restore(snapshot)
        self._np_random_seed, self._np_random = before


class Hidden(gym.Env):
    """Not of this contract at all."""


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (Unseeded, "levels_follow_from_seeds|passes_gymnasiums_check"),
        (
            UsesGlobalGenerator,
            "global_generators_are_left_alone: the global generator of `numpy.random`",
        ),
        (
            SeedsGlobalGenerator,
            "global_generators_are_left_alone: the global generator of `random`",
        ),
        (OneLevel, "levels_follow_from_seeds: all seeds give the same level"),
        (LeaksSplits, "splits_share_no_level: train and val share"),
        (ReusesItsBuffer, "passes_gymnasiums_check|outside the observation space"),
        (WrongSpace, "passes_gymnasiums_check|outside the observation space"),
        (RaisesOnNonsense, "hostile_replies_are_survived: UnicodeEncodeError"),
        (LyingOracle, "the_oracle_succeeds: seed 0: imagined"),
        (LostOracle, "the_oracle_succeeds: seed 0: the oracle did not solve"),
        (NotJson, "Picture is not JSON serializable"),
        (InfiniteReward, "reward terms are not finite numbers: {'step': inf}"),
        (AllEffective, "only_changes_are_effective: seed .* changed nothing"),
        (NeverEnds, "the episode goes on after max_turns|disagree about the end"),
        (
            BeginsAnew,
            "a_snapshot_brings_the_moment_back: seed 0: restored here, another observation is shown",
        ),
        (
            ForgetsItsStream,
            "a_snapshot_brings_the_moment_back: seed 0: restored here, its snapshot is another",
        ),
        (Hidden, "is_a_vagen_environment: Hidden is not a VagenEnv"),
    ],
)
def test_broken_environments_fail_for_their_reason(broken, reason):
    with pytest.raises(ConformanceError, match=reason):
        check(broken)


@pytest.mark.parametrize("turn", [0, 1])
def test_a_draw_by_another_thread_is_not_the_environments(turn):
    """Such as by a web client that waits a random time before it tries again."""
    made = itertools.count(turn)

    def make():
        if next(made) % 2 == 0:
            thread = threading.Thread(target=random.random)
            thread.start()
            thread.join()
        return FrozenLakeEnv()

    check(make, seeds=(0,))


@pytest.mark.parametrize(
    "env_id", ["own/Env-v0", "Nothing", "no_such_module:own/Env-v0", "vagen/Sokobn-v0"]
)
def test_an_unknown_id_is_refused_with_what_to_do(env_id):
    with pytest.raises(ConformanceError, match=f"{env_id}.*MODULE:ID"):
        check(env_id)


def test_one_seed_will_do_and_none_is_refused():
    check("vagen/FrozenLake-v0", seeds=(3,))
    with pytest.raises(ConfigError, match=r"seeds=\(\) is not valid"):
        check("vagen/FrozenLake-v0", seeds=())
