"""From what turns lost to shares of causes, with intervals over levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vagen_benchmarks.agents.base import Agent
from vagen_benchmarks.diagnosis.playing import CONDITIONS, Condition, Played, Subject
from vagen_benchmarks.results.stats import rate

CAUSES = ("sight", "prediction", "planning", "format")
DRAWS = 1000
"""Of the bootstrap over levels."""


@dataclass(frozen=True)
class Share:
    """A figure with its 95 % interval over levels.

    Causes and losses: the 2.5 % and 97.5 % points of a bootstrap (Efron 1979). Rates: as in `vagen bench`'s tables.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Diagnosis:
    """What an agent loses, and why.

    Attributes:
        causes: of what is lost with the picture, the share of each cause; all 0 where nothing is lost.
        lost: by condition, actions lost a turn in which something could be lost.
        success: by condition.
        saw: the share of true statements about the picture.
        foresaw: the same of predictions of its own actions, with the true symbols.
        answered: the same of answers to one-step questions.
        unjudged: the share of statements that could not be judged.
        levels: how many were played.
    """

    agent: str
    env_id: str
    causes: Mapping[str, Share]
    lost: Mapping[Condition, Share]
    success: Mapping[Condition, Share]
    saw: Share
    foresaw: Share
    answered: Share
    unjudged: float
    levels: int

    @property
    def main_cause(self) -> str | None:
        """The cause with the largest share; `None` where nothing is lost."""
        cause = max(CAUSES, key=lambda name: self.causes[name].value)
        return cause if self.causes[cause].value > 0 else None

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary."""
        return {**asdict(self), "main_cause": self.main_cause}


def diagnose(
    agent: Agent,
    env_id: str,
    options: Mapping[str, Any] | None = None,
    *,
    levels: int = 64,
    split: str = "test",
    first_seed: int = 0,
    at_once: int = 1,
    told: Callable[[], None] = lambda: None,
) -> Diagnosis:
    """Play the levels under each condition and say what was lost by what.

    With the picture, a turn loses on average R. With the true symbols it loses R'; R - R' is sight's (0 if it is
    negative). Of the rest, prediction has the share that was lost in those turns with the true symbols in which the
    outcome was foretold wrongly, and planning what remains. What was lost because no action could be read is format's.

    Args:
        agent: any agent of `vagen bench`.
        env_id: an environment with a plan.
        options: of the environment.
        levels: how many.
        split: of the levels.
        first_seed: the seed of the first.
        at_once: levels that are played at the same time, for models behind a network.
        told: is called after each level and condition.

    Raises:
        BenchError: the environment can't be diagnosed on.
        EndpointError: a model gave no reply.
    """
    jobs = [(first_seed + i, condition) for i in range(levels) for condition in CONDITIONS]

    def play(some: Sequence[tuple[int, Condition]]) -> list[tuple[list[Played], bool]]:
        subject = Subject(agent, env_id, options or {}, split)
        try:
            done = []
            for seed, condition in some:
                done.append(subject.play(seed, condition))
                told()
            return done
        finally:
            subject.close()

    parts = [jobs[i::at_once] for i in range(min(at_once, len(jobs)))]
    with ThreadPoolExecutor(len(parts)) as threads:
        done = list(threads.map(play, parts))
    found = {
        job: turns for part, played in zip(parts, done, strict=True) for job, turns in zip(part, played, strict=True)
    }
    return attribute(agent.name, env_id, [{c: found[first_seed + i, c] for c in CONDITIONS} for i in range(levels)])


def attribute(
    agent: str, env_id: str, levels: Sequence[Mapping[Condition, tuple[Sequence[Played], bool]]]
) -> Diagnosis:
    """The shares of what these levels' turns lost."""
    sums = np.array([_sums(level) for level in levels], float)
    draws = np.random.Generator(np.random.PCG64(0)).integers(len(levels), size=(DRAWS, len(levels)))
    resampled = sums[draws].sum(axis=1)
    whole = sums.sum(axis=0)
    figures = _figures(whole[None])[0]
    low, high = np.percentile(_figures(resampled), (2.5, 97.5), axis=0)
    shares = [Share(*map(float, each)) for each in zip(figures, low, high, strict=True)]
    solved = [_rate(sums, f"solved {condition}", "levels") for condition in CONDITIONS]
    saw, foresaw, answered = (
        _rate(sums, *names) for names in (("saw", "seen"), ("foresaw", "foretold"), ("answered", "asked"))
    )
    told, judged = (float(whole[_COLUMNS.index(name)]) for name in ("statements", "judged"))
    return Diagnosis(
        agent,
        env_id,
        dict(zip(CAUSES, shares[:4], strict=True)),
        dict(zip(CONDITIONS, shares[4:7], strict=True)),
        dict(zip(CONDITIONS, solved, strict=True)),
        saw,
        foresaw,
        answered,
        unjudged=1 - judged / told if told else 0.0,
        levels=len(levels),
    )


def _rate(sums: NDArray[np.float64], above: str, below: str) -> Share:
    """Successes over trials; nothing and all of it where there were none."""
    counts = sums[:, [_COLUMNS.index(above), _COLUMNS.index(below)]]
    levels = [(float(of), int(trials)) for of, trials in counts if trials]
    if not levels:
        return Share(math.nan, 0.0, 1.0)
    found = rate(levels)
    return Share(found.value, found.low, found.high)


_COLUMNS = (
    *(f"{name} {condition}" for condition in CONDITIONS for name in ("lost", "unread", "turns", "solved")),
    "levels", "lost unforeseen", "lost foretold", "saw", "seen", "foresaw", "foretold", "answered", "asked",
    "statements", "judged",
)  # fmt: skip


def _sums(level: Mapping[Condition, tuple[Sequence[Played], bool]]) -> list[float]:
    """What a level adds to each column."""
    found: list[float] = []
    for condition in CONDITIONS:
        turns, solved = level[condition]
        found += [sum(t.lost for t in turns), sum(t.unread for t in turns), len(turns), solved]
    pictures, truths = level["picture"][0], level["truth"][0]
    said = [t.saw for t in pictures] + [t.foresaw for t in truths]
    found += [
        1,
        sum(t.lost for t in truths if t.foresaw is False),
        sum(t.lost for t in truths if t.foresaw is not None),
        sum(t.saw is True for t in pictures),
        sum(t.saw is not None for t in pictures),
        sum(t.foresaw is True for t in truths),
        sum(t.foresaw is not None for t in truths),
        sum(t.answered is True for t in truths),
        sum(t.answered is not None for t in truths),
        len(said),
        sum(each is not None for each in said),
    ]
    return found


def _figures(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each row of sums the four causes, and the losses by condition."""
    column = dict(zip(_COLUMNS, sums.T, strict=True))

    def over(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

    lost = {name: over(column[f"lost {name}"], column[f"turns {name}"]) for name in CONDITIONS}
    unread = over(column["unread picture"], column["turns picture"])
    sight = np.maximum(0, lost["picture"] - lost["truth"])
    rest = lost["picture"] - sight
    unforeseen = over(column["lost unforeseen"], column["lost foretold"])
    causes = [sight, rest * unforeseen, rest * (1 - unforeseen), unread]
    total = sum(causes, np.zeros_like(sight))
    return np.stack(
        [
            *(over(each, total) for each in causes),
            *lost.values(),
        ],
        axis=1,
    )
