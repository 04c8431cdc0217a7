"""Measure the rungs of an environment's ladder: success of three agents, and the time of a reset.

    .venv/bin/python benchmarks/experiments/measure_ladder.py vagen/Sokoban-v0 --kept ladder.jsonl
    --resets 256 .venv/bin/python benchmarks/experiments/measure_ladder.py vagen/Navigation-v0
    --kept ladder.jsonl --seconds 280

`noisy` is the oracle with every fifth action drawn at random, `greedy` takes what looks nearest
(see `GREEDY`), `random` doesn't look. None writes anything but actions. Episodes are stored in the
file `--kept` and not played again; with `--seconds`, it stops after about so long, and the table
has what was played. A star is a rate that is lower than on the rung before, by the 95 % interval of
their difference.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

import gymnasium as gym

import vagen_envs  # noqa: F401
from vagen_benchmarks.results.stats import wilson
from vagen_envs.errors import LevelError
from vagen_envs.navigation.scene import ACTIONS
from vagen_envs.navigation.scene import distance as metres_between
from vagen_envs.primitive_skill import tasks
from vagen_envs.seeding import HashStream

NAMES = ("Up", "Down", "Left", "Right")
ElementTree.register_namespace("", "http://www.w3.org/2000/svg")
SHAPES = ("path", "rect", "circle", "ellipse", "line", "polyline", "polygon")
MOVES = ("moveahead", "moveback", "moveleft", "moveright")


# -- what looks nearest ----------------------------------------------------------------------------


def distance(state: Any) -> float:
    """How far from done a state looks: from boxes to targets, and a little from the player to what
    it has to reach.
    """
    if state.kind == "frozen_lake":
        return 1e9 if state.player in state.holes else apart(state.player, state.target)
    rest = [box for box in state.boxes if box not in state.targets]
    return sum(min(apart(box, target) for target in state.targets) for box in rest) + 0.1 * min(
        (apart(state.player, box) for box in rest), default=0
    )


def apart(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Steps between two cells if nothing were in the way."""
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def nearest_move(env: Any, dice: HashStream) -> list[str]:
    """The action after which things look nearest; a fifth of the time another one, which gets it
    out of circles.
    """
    far = (
        walked
        if env.prompt_folder == "navigation"
        else lambda env, name: distance(env.imagine([name]))
    )
    order = list(MOVES if env.prompt_folder == "navigation" else NAMES)
    dice.shuffle(order)
    return [order[0]] if dice.below(5) == 0 else [min(order, key=lambda name: far(env, name))]


def walked(env: Any, name: str) -> float:
    """Metres to the target after a move; what is to be seen from there, which takes longer, isn't
    asked.
    """
    simulator, action = env.simulator, ACTIONS[name]
    pose = simulator.pose
    if not simulator.blocked(pose, action):
        pose = pose.after(action, env.config.step_length)
    return metres_between(pose, *env.episode.target_position)


def nearest_cube(env: Any, _dice: HashStream) -> list[str]:
    """The loose cube that is nearest to a free place goes there, whichever belongs there."""
    at = env.observed_state.positions
    held = env.observed_state.held
    cubes = {name: spot for name, spot in at.items() if name.endswith("cube")}
    discs = [spot for name, spot in at.items() if name.endswith("target")]
    if discs:
        free = [disc for disc in discs if not any(near(cube, disc) for cube in cubes.values())]
        loose = [
            name for name, cube in cubes.items() if not any(near(cube, disc) for disc in discs)
        ]
        places = [(x, y, 25) for x, y, _ in free]
    else:  # a tower: upon the highest
        top = max(cubes.values(), key=lambda cube: (cube[2], -cube[0], cube[1]))
        loose = [name for name, cube in cubes.items() if not near(cube, top)]
        places = [(top[0], top[1], top[2] + 45)]
    if held:
        loose = [held]
        places = [each for each in places if not near(each, cubes[held])] or places
    pairs = [(math.dist(cubes[name], place), name, place) for name in loose for place in places]
    if not pairs:
        return ["pick(0, 0, 20)"]
    _, name, place = min(pairs)
    return [written("place", place)] if held else [written("pick", cubes[name])]


def near(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether one of two places is above the other, or about there."""
    return abs(one[0] - other[0]) < 50 and abs(one[1] - other[1]) < 50


def written(skill: str, at: tuple[int, ...]) -> str:
    """A call of a skill."""
    return f"{skill}({', '.join(map(str, at))})"


def first_shapes(env: Any, _dice: HashStream) -> list[str]:
    """The first two shapes of the target, and no other."""
    return [with_shapes(env.plan()[0], lambda number: number < 2)]


def with_shapes(svg: str, kept: Callable[[int], bool]) -> str:
    """An SVG without the shapes that aren't kept."""
    tree = ElementTree.fromstring(svg)  # noqa: S314  (of the package's own icons)
    numbers = itertools.count()
    for parent in list(tree.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in SHAPES and not kept(next(numbers)):
                parent.remove(child)
    return ElementTree.tostring(tree, encoding="unicode")


GREEDY: dict[str, Callable[[Any, HashStream], list[str]]] = {
    "sokoban": nearest_move,
    "frozen_lake": nearest_move,
    "navigation": nearest_move,
    "primitive_skill": nearest_cube,
    "svg": first_shapes,
}


# -- agents ----------------------------------------------------------------------------------------


def greedy(env: Any, dice: HashStream) -> list[str]:
    """What looks nearest."""
    return GREEDY[env.prompt_folder](env, dice)


def drawn(env: Any, dice: HashStream) -> str:
    """An action at random."""
    return dice.choice(NAMES) if env.quick else env.random_actions(dice, 1)[0]


def noisy(env: Any, dice: HashStream) -> list[str]:
    """The oracle's next actions, each replaced by a random one with a chance of a fifth; SVG's
    shapes are left out.
    """
    if env.prompt_folder == "svg":
        return [with_shapes(env.plan()[0], lambda _: dice.below(5) > 0)]
    try:
        plan = list(env.plan())[: env.config.max_actions_per_turn]
    except LevelError:
        return [drawn(env, dice)]
    return [drawn(env, dice) if dice.below(5) == 0 else action for action in plan]


def blind(env: Any, dice: HashStream) -> list[str]:
    """A turn full of random actions."""
    return [drawn(env, dice) for _ in range(env.config.max_actions_per_turn)]


def oracle(env: Any, _dice: HashStream) -> list[str]:
    """The oracle's next actions."""
    return list(env.plan())[: env.config.max_actions_per_turn]


AGENTS = {"oracle": oracle, "noisy": noisy, "greedy": greedy, "random": blind}


# -- playing ---------------------------------------------------------------------------------------


def made(env_id: str, rung: int, agent: str) -> Any:
    """The test levels of a rung. The greedy one decides before each action; it has as many of
    them.
    """
    options: dict[str, Any] = {
        "difficulty": rung,
        "split": "test",
        "observation": "text",
        "strategy": "no_think",
    }
    if "PrimitiveSkill" in env_id:
        options["workers"] = 0
    env: Any = gym.make(env_id, **options, disable_env_checker=True).unwrapped
    if agent == "greedy":
        actions = env.config.max_turns * env.config.max_actions_per_turn
        env = gym.make(env_id, **options, max_actions_per_turn=1, max_turns=actions).unwrapped
    return env


def hopeless(env: Any) -> bool:
    """Whether a tower or the cubes of `place` need more skills, a pick and a place a cube, than are
    left.
    """
    config = env.config
    left = config.max_actions_per_turn * (config.max_turns - env._turns)
    return tasks.skills_left(env._level, env.observed_state) > left


def solves(env: Any, rung: int, agent: str, seed: int) -> bool:
    """Whether an agent solves a level. PrimitiveSkill, which is slow, isn't played on when there is
    no hope left.
    """
    _, info = env.reset(seed=seed)
    dice, over = HashStream(agent, rung, seed), False
    while not over:
        env.observed_state = info["state"]
        _, _, terminated, truncated, info = env.step(env.grammar.render(AGENTS[agent](env, dice)))
        over = terminated or truncated
        if env.prompt_folder == "primitive_skill" and not over:
            env.observed_state = info["state"]
            over = hopeless(env)
    return bool(info["turn"].success)


def success(env_id: str, rung: int, agent: str, levels: int) -> float:
    """Share of the first test levels of a rung that an agent solves."""
    env = made(env_id, rung, agent)
    return sum(solves(env, rung, agent, seed) for seed in range(levels)) / levels


def reset_time(env_id: str, rung: int, levels: int) -> tuple[float, float]:
    """Milliseconds of this process's CPU that a reset on a rung takes: the median and the mean."""
    env = gym.make(env_id, difficulty=rung).unwrapped
    taken = []
    for seed in range(levels):
        began = time.process_time()
        env.reset(seed=seed)
        taken.append(1e3 * (time.process_time() - began))
    env.close()
    return median(taken), sum(taken) / levels


Played = dict[tuple[str, int, str, int], bool]
"""Whether a level of an environment, on a rung, with an agent, by its seed, was solved."""


def read(kept: Path) -> Played:
    """The episodes that are stored in a file."""
    played: Played = {}
    for line in kept.read_text().splitlines() if kept.exists() else ():
        *key, solved = json.loads(line)
        played[tuple(key)] = solved
    return played


def play(
    env_id: str,
    rungs: Iterable[int],
    agents: Iterable[str],
    levels: int,
    kept: Path,
    seconds: float,
) -> None:
    """Play what isn't stored in the file yet, level by level over the rungs, as long as there is
    time.
    """
    played, began, envs = read(kept), time.monotonic(), {}
    todo = itertools.product(range(0, levels, 8), rungs, agents, range(8))
    with kept.open("a", buffering=1) as file:
        for first, rung, agent, nth in todo:
            key = (env_id, rung, agent, first + nth)
            if key in played or first + nth >= levels:
                continue
            if time.monotonic() - began > seconds:
                break
            if (rung, agent) not in envs:
                envs[rung, agent] = made(env_id, rung, agent)
            file.write(
                json.dumps([*key, solves(envs[rung, agent], rung, agent, first + nth)]) + "\n"
            )


def table(env_id: str, played: Played, resets: int) -> str:
    """Success by rung and agent with its interval, a star where it has fallen beyond doubt since
    the rung before.
    """
    times = " CPU of a reset, median and mean |" if resets else ""
    rows = [
        f"| rung | {' | '.join(AGENTS)} |{times}",
        "|---" * (len(AGENTS) + 1 + bool(resets)) + "|",
    ]
    before: dict[str, tuple[int, int]] = {}
    for rung in range(6):
        now = {
            agent: (sum(won), len(won))
            for agent in AGENTS
            for won in [[won for (*key, _), won in played.items() if key == [env_id, rung, agent]]]
        }
        cells = [
            shown(*now[agent], falls(before[agent], now[agent]) if before else False)
            for agent in AGENTS
        ]
        taken = (
            " {:.1f} and {:.1f} ms |".format(*reset_time(env_id, rung, resets)) if resets else ""
        )
        rows.append(f"| {rung} | {' | '.join(cells)} |{taken}")
        before = now
    return "\n".join(rows)


def shown(won: int, count: int, fallen: bool) -> str:
    """A rate, its 95 % interval, and of how many levels."""
    if not count:
        return "–"
    low, high = wilson(won, count)
    return (
        f"{100 * won / count:.0f} % ({100 * low:.0f}–{100 * high:.0f}) of "
        f"{count}{' *' if fallen else ''}"
    )


def falls(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether the second rate is lower: the 95 % interval of their difference is above 0 (Newcombe
    1998, method 10).
    """
    if not one[1] or not other[1]:
        return False
    first, second = one[0] / one[1], other[0] / other[1]
    return first - second > math.hypot(first - wilson(*one)[0], wilson(*other)[1] - second)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=re.split(r"\n\n", __doc__)[0])
    parser.add_argument("env_id")
    parser.add_argument("--levels", type=int, default=256)
    parser.add_argument("--rungs", nargs="*", type=int, default=range(6), choices=range(6))
    parser.add_argument("--agents", nargs="*", default=list(AGENTS), choices=AGENTS)
    parser.add_argument(
        "--kept", type=Path, required=True, help="a file of episodes, made or gone on with"
    )
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--resets", type=int, default=0, help="resets of each rung to be timed")
    arguments = parser.parse_args()
    play(
        arguments.env_id,
        arguments.rungs,
        arguments.agents,
        arguments.levels,
        arguments.kept,
        arguments.seconds,
    )
    print(table(arguments.env_id, read(arguments.kept), arguments.resets))
