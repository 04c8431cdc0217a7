"""Playing while workers are killed at random; every turn that comes back is held against the one played here."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter

import gymnasium as gym
from service_fixtures import LAKE, SOKOBAN, kill, random_reply

from vagen_adapters.service.remote_vector import RemoteVectorEnv


def play(backend, turns, envs, number, counts, failures):
    """Play at least so many turns in a vector of environments, each against one here that got the same replies."""
    try:
        env_id = (SOKOBAN, LAKE)[number % 2]
        remote = RemoteVectorEnv(backend, env_id, envs, max_turns=6)
        locals_ = [gym.make(env_id, max_turns=6).unwrapped for _ in range(envs)]
        draw = random.Random(number)
        shown, _ = remote.reset(seed=1000 * number)
        expected = [env.reset(seed=1000 * number + i)[0] for i, env in enumerate(locals_)]
        over = [False] * envs
        while counts["turns"] < turns:
            replies = [random_reply(draw) for _ in range(envs)]
            shown, rewards, terminated, truncated, info = remote.step(replies)
            assert "simulator_error" not in info, info["simulator_error"]
            for i, env in enumerate(locals_):
                if over[i]:
                    expected[i], over[i] = env.reset()[0], False
                    assert info["turn"][i] is None if "turn" in info else True
                else:
                    expected[i], reward, done, cut, there = env.step(replies[i])
                    assert info["turn"][i] == there["turn"]
                    assert (rewards[i], terminated[i], truncated[i]) == (reward, done, cut)
                    over[i] = done or cut
                    counts["turns"] += 1
                assert shown["text"][i] == expected[i]["text"]
                assert (shown["image"][i] == expected[i]["image"]).all()
        remote.close()
    except BaseException as error:
        failures.append(error)
        counts["turns"] += turns
        raise


def soak(backends, strike, turns, envs, every):
    """Play, with something killed at random after about every so many turns; how many turns and kills there were.

    `backends` has one backend for each player; `strike(draw)` kills and says whether it could.
    """
    counts, failures, kills = Counter(), [], 0
    draw = random.Random(0)
    players = [
        threading.Thread(target=play, args=(backend, turns, envs, number, counts, failures))
        for number, backend in enumerate(backends)
    ]
    for player in players:
        player.start()
    due = every
    while any(player.is_alive() for player in players):
        time.sleep(0.02)
        if counts["turns"] >= due and strike(draw):
            kills += 1
            due = counts["turns"] + every * draw.uniform(0.5, 1.5)
    assert not failures, failures[0]
    assert counts["turns"] >= turns
    return counts["turns"], kills


def strike_at(workers):
    """Kills one of the processes that there are then."""

    def strike(draw):
        alive = workers()
        if alive:
            with contextlib.suppress(ProcessLookupError):
                kill(draw.choice(alive))
        return bool(alive)

    return strike
