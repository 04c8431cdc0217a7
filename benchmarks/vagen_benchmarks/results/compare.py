"""Two agents on the same levels, pair by pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.results.stats import Estimate, average, by_level, difference, sign_flip
from vagen_benchmarks.runs.protocol import differences
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_envs.errors import did_you_mean

WHO = ("name", "id", "price")
"""Entries of an agent's description that don't say how its model was asked."""
Play = tuple[str, int, int]
"""Task, seed and repeat."""


@dataclass(frozen=True)
class Side:
    """One of the two: an agent's scored episodes of a run.

    Attributes:
        folder: of the run.
        sampling: how its model was asked, context policy included; it belongs to the agent, not to
            the conditions.
        episodes: level's content, success and return of each.
        planned: what its protocol names.
    """

    folder: RunFolder
    name: str
    conditions: Mapping[str, Any]
    sampling: Mapping[str, Any]
    episodes: Mapping[Play, tuple[str, bool, float]]
    planned: frozenset[Play]


@dataclass(frozen=True)
class Pairs:
    """What came of the plays that both have a score for.

    Attributes:
        both, one, other, neither: how many were solved by whom.
        lost: plays that the protocol names and that one of the two lacks, since they failed or were
            never begun.
        levels: the distinct levels that the pairs rest on.
        p_value: of the paired permutation test on levels (`stats.sign_flip`), two-sided.
        solved: difference in success, other minus one, with its 95 % interval, lost pairs counted
            as won by the one for its one end and by the other for its other end.
        gain: mean difference of the returns, likewise, of the pairs alone.
    """

    task: str
    both: int
    one: int
    other: int
    neither: int
    lost: int
    levels: int
    p_value: float
    solved: Estimate
    gain: Estimate

    @property
    def count(self) -> int:
        return self.both + self.one + self.other + self.neither


def read_side(place: str) -> Side:
    """Read `RUN` or `RUN@AGENT`. Raises ProtocolError if the agent isn't clear."""
    path, _, agent = place.partition("@")
    folder = RunFolder(Path(path))
    agents = [str(each["name"]) for each in folder.protocol.agents]
    if not agent:
        if len(agents) > 1:
            raise ProtocolError(
                f"{path} has {len(agents)} agents; say which: "
                + ", ".join(f"{path}@{a}" for a in agents)
            )
        agent = agents[0]
    if agent not in agents:
        raise ProtocolError(f"{path} has no agent {agent!r}.{did_you_mean(agent, agents)}")
    conditions = read_conditions(folder)
    entry = next(each for each in folder.protocol.agents if each["name"] == agent)
    played = {}
    scorers: set[str] = set()
    for each in folder.episodes():
        if each.agent == agent and each.failure is None:
            played[each.task, each.seed, each.repeat] = (
                each.content or f"seed {each.seed}",
                each.success,
                each.score,
            )
            scorers.update(
                f"{each.task}: {turn['metrics'].get('scorer', '')}" for turn in each.turns
            )
    conditions["scorers"] = sorted(scorers)  # an environment may choose one by what is installed
    planned = frozenset(
        (task.label, seed, repeat) for _, task, seed, repeat in folder.protocol.keys(agent)
    )
    return Side(
        folder,
        f"{agent} ({path})",
        conditions,
        {name: each for name, each in entry.items() if name not in WHO}
        if "sampling" in entry
        else {},
        played,
        planned,
    )


def read_conditions(folder: RunFolder) -> dict[str, Any]:
    """What a run was played under, whoever played."""
    protocol = {
        name: value
        for name, value in folder.protocol.to_json().items()
        if name not in ("agents", "scoring")
    }
    return {**protocol, "judged by": folder.judged_by() or {}}


def refuse_differing(
    one: str, first: Mapping[str, Any], other: str, second: Mapping[str, Any]
) -> None:
    """Raise ProtocolError, saying in what they differ, unless both conditions are the same."""
    if differing := differences(first, second):
        listed = "\n  ".join(differing[:8])
        is_judge = all(each.startswith("judged by") for each in differing)
        fix = (
            "score both with one judge: vagen judge rescore RUN"
            if is_judge
            else "play both with the same options"
        )
        raise ProtocolError(
            f"these runs can't be compared, their protocols differ ({one} / {other}):\n  "
            f"{listed}\n{fix}"
        )


def compare(one: Side, other: Side) -> list[Pairs]:
    """A line for each task, and one for all.

    Raises:
        ProtocolError: the two were played under different protocols, or share no level.
    """
    refuse_differing(one.name, one.conditions, other.name, other.conditions)
    shared = [play for play in one.episodes if play in other.episodes]
    if not shared:
        raise ProtocolError(
            f"{one.name} and {other.name} have no level in common that both played to the end"
        )
    lost = sorted((one.planned & other.planned) - {*shared})

    def of(task: str, plays: list[Play]) -> list[Play]:
        return [play for play in plays if play[0] == task]

    tasks = dict.fromkeys(task for task, _, _ in shared)
    lines = [_pairs(task, of(task, shared), of(task, lost), one, other) for task in tasks]
    return lines if len(lines) == 1 else [*lines, _pairs("all", shared, lost, one, other)]


def paired_p_value(gained: Iterable[tuple[str, int]]) -> float:
    """The two-sided p-value of the paired permutation test on levels (`stats.sign_flip`).

    Args:
        gained: level and difference in success of each pair of plays.
    """
    return sign_flip([round(each) for each, _ in by_level(gained)])


def sampling_differences(one: Side, other: Side) -> list[str]:
    """In what the two were sampled differently, a line each. Nothing if either is no model."""
    return differences(one.sampling, other.sampling) if one.sampling and other.sampling else []


def _pairs(task: str, plays: list[Play], lost: list[Play], one: Side, other: Side) -> Pairs:
    levels: list[str] = []
    solved: list[tuple[bool, bool]] = []
    gains: list[float] = []
    names: dict[tuple[str, int], str] = {}
    for play in plays:
        first = one.episodes[play]
        second = other.episodes[play]
        level = f"{play[0]} {first[0]}"
        levels.append(level)
        solved.append((first[1], second[1]))
        gains.append(second[2] - first[2])
        names[play[:2]] = level
    gone = [names.get(play[:2], f"{play[0]} seed {play[1]}") for play in lost]
    gained = [
        (level, second - first) for level, (first, second) in zip(levels, solved, strict=True)
    ]

    def difference_if(*wins: bool | None) -> Estimate:
        """With the lost plays as won by one of the two, or left out; what a side has a score for
        stays what it is.
        """
        sides = []
        for side, mine, wins_lost in zip(
            (one, other), zip(*solved, strict=True), wins, strict=True
        ):
            told = [(level, float(won)) for level, won in zip(levels, mine, strict=True)]
            if wins_lost is not None:
                for level, play in zip(gone, lost, strict=True):
                    has_score = play in side.episodes
                    won = side.episodes[play][1] if has_score else wins_lost
                    told.append((level, float(won)))
            sides.append(by_level(told))
        return difference(*sides)

    among = difference_if(None, None)
    worst = difference_if(True, False)
    best = difference_if(False, True)
    return Pairs(
        task,
        both=solved.count((True, True)),
        one=solved.count((True, False)),
        other=solved.count((False, True)),
        neither=solved.count((False, False)),
        lost=len(lost),
        levels=len({*levels}),
        p_value=paired_p_value(gained),
        solved=replace(among, low=worst.low, high=best.high),
        gain=average(by_level(zip(levels, gains, strict=True))),
    )
