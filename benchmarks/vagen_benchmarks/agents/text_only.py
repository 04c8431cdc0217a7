"""What the texts give away: an agent that reads every word and looks at no picture."""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from vagen_benchmarks.agents import blind_baselines
from vagen_benchmarks.agents.base import Agent, Game, Reply
from vagen_benchmarks.agents.blind_baselines import Moment, Replies
from vagen_benchmarks.agents.scripted import WORDS
from vagen_envs.core import VagenEnv
from vagen_envs.seeding import HashStream

ROOM, TRIES, FEWEST = 192, 48, 12
"""Levels of `val` that are kept in mind, candidates of each further search, and the fewest levels it is worth."""
CANDIDATES = 16
"""Levels of `val` with the most similar question, whose answers are tried on each other."""

_POINT = re.compile(r"\((-?\d+), (-?\d+), (-?\d+)\)")
_OPEN = re.compile(r"'drawer_open_value': (\d+)")
Point = tuple[int, int, int]


class TextOnly(Agent):
    """Reads the prompt and the feedback, never the picture; knows the levels of `val` as a trained agent may.

    - PrimitiveSkill: takes the positions that the text lists, and guesses which is which.
    - Navigation: walks ahead, and turns where it is told that something stopped it.
    - Sample: the answer that does best on the most similar questions.
    - elsewhere: the replies that do best on those levels of `val` that would have said the same so far.
    """

    name = "text-only"

    def __init__(self) -> None:
        self._known: dict[str, Beliefs] = {}
        self._blind = blind_baselines.Blind()
        self._lock = threading.Lock()

    def reply(self, game: Game) -> Reply:
        env = game.env
        texts = [*(turn.observed.text for turn in game.turns), game.now.text]
        actions: Sequence[str] = READERS[env.prompt_folder](env, texts) if env.prompt_folder in READERS else []
        if not actions and (env.quick or env.prompt_folder == "sample"):
            with self._lock:
                known = self._known.setdefault(blind_baselines.options_of(env), Beliefs(env))
                actions = known.answer(texts[0]) if env.config.max_turns == 1 else known.actions(texts)
        if not actions:  # these texts give nothing away
            return self._blind.reply(game)
        return Reply(env.grammar.render(actions[: env.config.max_actions_per_turn], **WORDS))


class Beliefs:
    """The levels of `val`, and for everything that may be read which of them say the same."""

    def __init__(self, like: VagenEnv) -> None:
        self._like = like
        self._stream = HashStream("text-only replies", like.id)
        self._nodes: dict[tuple[str, ...], tuple[Replies, list[Moment]]] = {}
        self._answers: dict[str, Sequence[str]] = {}
        self._room: list[Moment] = []
        self._plans: dict[bytes, tuple[str, ...]] = {}
        self._scores: dict[tuple[tuple[str, ...], bytes], float] = {}

    def actions(self, texts: Sequence[str]) -> Sequence[str]:
        """What does best on the levels that have said this so far, or by what was thought before if there are few."""
        if (known := self._nodes.get(tuple(texts))) is not None:  # no environment is made for what is known
            return known[0][0]
        with blind_baselines.rehearsal(self._like) as env:
            replies, moments = self._node((texts[0],), env)
            for at in range(1, len(texts)):
                path = tuple(texts[: at + 1])
                if path not in self._nodes:
                    said = [blind_baselines.after(env, moment, replies[0]) for moment in moments]
                    alike = [moment for moment in said if moment.running and moment.text == texts[at]]
                    self._nodes[path] = self._thought(env, replies[1:], alike)
                replies, moments = self._nodes[path]
        return replies[0]

    def _node(self, path: tuple[str, ...], env: VagenEnv) -> tuple[Replies, list[Moment]]:
        if path not in self._nodes:
            room = [moment for moment in self._levels(env) if moment.text == path[0]]
            _, count = blind_baselines.SIZES.get(env.prompt_folder, blind_baselines.OTHERS)
            first = blind_baselines.search(env) if len(room) < FEWEST else self._search(env, room[:count])
            self._nodes[path] = first, room
        return self._nodes[path]

    def _thought(self, env: VagenEnv, rest: Replies, alike: list[Moment]) -> tuple[Replies, list[Moment]]:
        return (rest if len(alike) < FEWEST else self._search(env, alike)), alike

    def _search(self, env: VagenEnv, moments: Sequence[Moment]) -> Replies:
        return blind_baselines.best_replies(env, moments, TRIES, self._stream)

    def _levels(self, env: VagenEnv) -> list[Moment]:
        if not self._room:
            self._room = blind_baselines.beginnings(env, ROOM)
        return self._room

    def answer(self, question: str) -> Sequence[str]:
        """Of the answers that are right on the questions of `val` most similar, the one that does best on them."""
        if question not in self._answers:
            with blind_baselines.rehearsal(self._like) as env:
                worth = _worth([moment.text for moment in self._levels(env)])
                room = sorted(self._levels(env), key=lambda moment: -_alike(moment.text, question, worth))[:CANDIDATES]
                paid = {
                    plan: math.fsum(self._paid(env, plan, moment) for moment in room)
                    for plan in dict.fromkeys(self._plan(env, moment) for moment in room)
                }
            best: tuple[str, ...] = max(paid, key=paid.__getitem__)
            self._answers[question] = best
        return self._answers[question]

    def _plan(self, env: VagenEnv, moment: Moment) -> tuple[str, ...]:
        if moment.snapshot not in self._plans:
            env.restore(moment.snapshot)
            self._plans[moment.snapshot] = tuple(env.plan())
        return self._plans[moment.snapshot]

    def _paid(self, env: VagenEnv, plan: tuple[str, ...], moment: Moment) -> float:
        if (plan, moment.snapshot) not in self._scores:
            end = blind_baselines.after(env, moment, plan)
            self._scores[plan, moment.snapshot] = end.solved + end.gained
        return self._scores[plan, moment.snapshot]


def _alike(one: str, other: str, worth: Mapping[str, float]) -> float:
    """What the words that two texts have in common are worth, of what all their words are."""
    words, others = set(one.split()), set(other.split())
    return sum(worth.get(word, 0.0) for word in words & others) / sum(worth.get(word, 1.0) for word in words | others)


def _worth(texts: Sequence[str]) -> dict[str, float]:
    """The rarer a word is, the more it tells; what every text has tells nothing."""
    found = Counter(word for text in texts for word in set(text.split()))
    return {word: math.log(len(texts) / count) + 1e-9 for word, count in found.items()}


# -- readers of one environment's texts --------------------------------------------------------------


def read_skills(env: VagenEnv, texts: Sequence[str]) -> list[str]:
    """Skills for the positions that the text lists; none where it lists none, or where all seems done."""
    _, found, listed = texts[-1].partition("Object positions:\n")
    points: list[Point] = [(int(x), int(y), int(z)) for x, y, z in _POINT.findall(listed.partition("\n")[0])]
    if not found or not points:
        return []
    if opened := _OPEN.search(listed):
        return _shut(points, int(opened[1]))
    return _TASKS[env.config.task](points)  # type: ignore[attr-defined]


def _shut(points: list[Point], opened: int) -> list[str]:
    """Find drawer and handle, which are in line; the remaining position is the apple, whose place is the drawer."""
    pairs = [(one, other) for one in points for other in points if one[1] < other[1] and one[0] == other[0]]
    drawer, handle = pairs[0] if pairs else (points[0], points[1])
    apple = next((each for each in points if each not in (drawer, handle)), drawer)
    x, y, z = handle
    push = f"push({x}, {y}, {z}, {x}, {y - opened}, {z})"
    if abs(apple[0] - drawer[0]) < 50 and abs(apple[1] - drawer[1]) < 60:
        return [push]
    return [_skill("pick", apple), _skill("place", (*drawer[:2], 100)), push]


def _place(points: list[Point]) -> list[str]:
    """Each disc gets a cube, whichever."""
    discs = sorted((each for each in points if each[2] == 0), key=lambda each: each[1])
    cubes = [each for each in points if each[2] > 0]
    free = [disc for disc in discs if not any(_near(cube, disc) for cube in cubes)]
    loose = [cube for cube in cubes if not any(_near(cube, disc) for disc in discs)]
    return _carried(loose, free)


def _stack(points: list[Point]) -> list[str]:
    """The others onto the first, as they are listed."""
    top = max(points, key=lambda each: each[2])
    # Cubes are of 40 mm: one on the table has its middle at 20, one on another at 60.
    if top[2] < 40:
        top = points[0]
    loose = [each for each in points if not _near(each, top)]
    return _carried(loose, [(top[0], top[1], top[2] + 20 + 40 * level) for level in range(len(loose))])


def _align(points: list[Point]) -> list[str]:
    """Those that are off the line straight onto it."""
    loose = [each for each in points if abs(each[0]) > 10]
    return _carried(loose, [(0, y, 0) for _, y, _ in loose])


def _carried(things: list[Point], places: list[Point]) -> list[str]:
    pairs = zip(things, places, strict=False)
    # Half a cube and 5 mm of air: the hand lets go above what it stands on.
    return [text for one, (x, y, z) in pairs for text in (_skill("pick", one), _skill("place", (x, y, z + 25)))]


def _skill(name: str, at: Point) -> str:
    return f"{name}({at[0]}, {at[1]}, {at[2]})"


def _near(one: Point, other: Point) -> bool:
    # Cubes of 40 mm that stand beside each other are farther apart: the gripper needs 70 between them (`levels.apart`).
    return abs(one[0] - other[0]) < 50 and abs(one[1] - other[1]) < 50


_TASKS: dict[str, Callable[[list[Point]], list[str]]] = {"place": _place, "stack": _stack, "align": _align}


def wander(env: VagenEnv, texts: Sequence[str]) -> list[str]:
    """Ahead as long as nothing is in the way, else to the right."""
    ahead = ["moveahead"] * env.config.max_actions_per_turn
    stopped = "NOT carried out" in texts[-1]
    return ["rotateright", *ahead] if stopped else ahead


READERS: dict[str, Callable[[VagenEnv, Sequence[str]], list[str]]] = {
    "primitive_skill": read_skills,
    "navigation": wander,
}
"""Environments whose texts are read in a way of their own, by the name of their prompts."""
