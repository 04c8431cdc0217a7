"""Two agents on the same levels, pair by pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vagen_benchmarks.episode import Episode
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.protocol import differences
from vagen_benchmarks.run_folder import RunFolder
from vagen_benchmarks.stats import bootstrap, mcnemar, mean
from vagen_envs.errors import did_you_mean

Level = tuple[str, int, int]
"""Task, seed and repeat."""


@dataclass(frozen=True)
class Side:
    """One of the two: an agent's scored episodes of a run."""

    name: str
    conditions: Mapping[str, Any]
    episodes: Mapping[Level, tuple[bool, float]]


@dataclass(frozen=True)
class Pairs:
    """What came of the levels that both played to the end.

    Attributes:
        both, one, other, neither: how many were solved by whom.
        p_value: McNemar's exact test of the successes, two-sided.
        gain: mean difference of the returns, other minus one; `low` and `high` its 95 % bootstrap interval.
    """

    task: str
    both: int
    one: int
    other: int
    neither: int
    p_value: float
    gain: float
    low: float
    high: float

    @property
    def count(self) -> int:
        """How many pairs there are."""
        return self.both + self.one + self.other + self.neither


def read_side(place: str) -> Side:
    """Read `RUN` or `RUN@AGENT`. Raises ProtocolError if the agent isn't clear."""
    path, _, agent = place.partition("@")
    folder = RunFolder(Path(path))
    agents = [str(each["name"]) for each in folder.protocol.agents]
    if not agent:
        if len(agents) > 1:
            raise ProtocolError(
                f"{path} has {len(agents)} agents; say which: " + ", ".join(f"{path}@{a}" for a in agents)
            )
        agent = agents[0]
    if agent not in agents:
        raise ProtocolError(f"{path} has no agent {agent!r}.{did_you_mean(agent, agents)}")
    conditions = read_conditions(folder)
    conditions["history"] = next((a.get("history") for a in folder.protocol.agents if a["name"] == agent), None)
    played = {}
    scorers: set[str] = set()
    for each in folder.episodes():
        if each.agent == agent and each.failure is None:
            played[_level(each)] = (each.success, each.score)
            scorers.update(f"{each.task}: {turn['metrics'].get('scorer', '')}" for turn in each.turns)
    conditions["scorers"] = sorted(scorers)  # an environment may choose one by what is installed
    return Side(f"{agent} ({path})", conditions, played)


def read_conditions(folder: RunFolder) -> dict[str, Any]:
    """What a run was played under, whoever played."""
    protocol = {name: value for name, value in folder.protocol.to_json().items() if name not in ("agents", "scoring")}
    return {**protocol, "judged by": folder.judged_by()}


def refuse_differing(one: str, first: Mapping[str, Any], other: str, second: Mapping[str, Any]) -> None:
    """Raise ProtocolError, saying in what they differ, unless both conditions are the same."""
    differing = differences(first, second)
    if differing:
        said = "\n  ".join(differing[:8])
        raise ProtocolError(f"these runs can't be compared, their protocols differ ({one} / {other}):\n  {said}")


def _level(episode: Episode) -> Level:
    return episode.task, episode.seed, episode.repeat


def compare(one: Side, other: Side) -> list[Pairs]:
    """A line for each task, and one for all.

    Raises:
        ProtocolError: the two were played under different protocols, or share no level.
    """
    first, second = dict(one.conditions), dict(other.conditions)
    if first["history"] is None or second["history"] is None:  # agents without a prompt have no history
        first["history"] = second["history"] = None
    refuse_differing(one.name, first, other.name, second)
    shared = [level for level in one.episodes if level in other.episodes]
    if not shared:
        raise ProtocolError(f"{one.name} and {other.name} have no level in common that both played to the end")
    tasks = list(dict.fromkeys(task for task, _, _ in shared))
    lines = [_pairs(task, [level for level in shared if level[0] == task], one, other) for task in tasks]
    return lines if len(lines) == 1 else [*lines, _pairs("all", shared, one, other)]


def _pairs(task: str, levels: list[Level], one: Side, other: Side) -> Pairs:
    pairs = [(one.episodes[level], other.episodes[level]) for level in levels]
    solved = [(first[0], second[0]) for first, second in pairs]
    only_one, only_other = solved.count((True, False)), solved.count((False, True))
    gains = [second[1] - first[1] for first, second in pairs]
    low, high = bootstrap(gains)
    both, neither = solved.count((True, True)), solved.count((False, False))
    return Pairs(task, both, only_one, only_other, neither, mcnemar(only_one, only_other), mean(gains), low, high)
